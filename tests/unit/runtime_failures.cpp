// Any driver call can fail, at any time: the right exception, nothing leaks, and it works again.
#include <doctest/doctest.h>

#include <atomic>

#include "ir/diagnostic.hpp"
#include "runtime_messages_help.hpp"
#include "runtime_regions_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// Calls that give something back are made on the way out of errors and may not fail here: what
/// they fail to free is the driver's.
bool gives_back(const std::string& name) {
  for (const char* end : {"Free", "FreeHost", "Destroy", "Unload", "Release", "PopCurrent"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

/// Fails call number `at` of those that may fail, once, while armed.
struct Fault {
  int64_t at = -1;
  CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
  int64_t seen = 0;
  std::string failed;

  CUresult operator()(const char* name) {
    if (at < 0 || gives_back(name)) return CUDA_SUCCESS;
    if (seen++ != at) return CUDA_SUCCESS;
    failed = name;
    return code;
  }
};

std::shared_ptr<Driver> faulty(const std::shared_ptr<Simulator>& simulator, Fault& fault) {
  return failing_driver(simulator, [&fault](int64_t, const char* name) { return fault(name); });
}

void use(Store store, const Device& device) {
  // No CHECK around driver calls: it would catch their exceptions.
  const auto in = diamond_inputs(3);
  Executable e(diamond(), store);
  const auto expected = diamond_y(in, store.get("w"));
  const auto first = values(e.run(in).at("y"));
  CHECK(first == expected);
  const auto bytes = floats().bytes();
  const Current current(device.context());
  const OwnedMemory x = allocate(device.context(), bytes, "test");
  e.bind("x", x.get(), bytes);
  e.write("x", in.at("x"));
  const OwnedStream other = make_stream(device.context());
  e.launch(other.get());
  Ticket ticket = e.launch(nullptr, LaunchMode::stream);
  ticket.wait();
  const bool done = ticket.done();
  CHECK(done);
  const auto last = values(e.read("y"));
  CHECK(last == expected);
  e.poison();
  Executable talks(talkative(), store);
  talks.run({{"x", scalar(1)}, {"y", in.at("x")}, {"bad", scalar(0, kOneI32)}});
  const uint64_t lost = talks.dropped_messages();
  CHECK(lost == 0);
  CHECK(talks.take_messages().size() == 2);
}

/// The same with conditional nodes, and with branches and loops of the host's.
void use_regions(Store store) {
  const auto in = with_ints(diamond_inputs(3), {{"n", 2}, {"m", 1}});
  Executable e(loops(), store);
  const auto expected = loops_y(in, store.get("w"));
  const auto y = values(e.run(in).at("y"));
  CHECK(y == expected);
  const HostFunctions functions{{"halve", [](std::span<const HostTensor> from, auto to) {
                                   for (int64_t i = 0; i < kCount; ++i) {
                                     to[0].set(i, from[0].at(i) / 2);
                                   }
                                 }}};
  Executable host(host_regions(), store, functions);
  for (const int which : {0, 1}) {
    const auto given = with_ints(with_ints(diamond_inputs(4), {{"n", 2}}), {{"which", which}}, kB1);
    const auto result = values(host.run(given).at("y"));
    CHECK(result == host_regions_y(given));
  }
}

/// What went wrong in `work`: the message must name the call that failed.
template <class Work>
bool survives(const Fault& fault, const Work& work) {
  try {
    work();
    return true;
  } catch (const CudaError& error) {
    CHECK(contains(error.what(), fault.failed));
    CHECK(contains(error.what(), result_name(fault.code).data()));
    CHECK(error.code() == fault.code);
  } catch (const NoDevice& error) {
    CHECK(contains(error.what(), fault.failed));
  }
  CHECK_FALSE(fault.failed.empty());
  return false;
}

}  // namespace

namespace {

/// Fails one call after the other of `use_it`, from opening the device on. How many there are.
template <class Use>
int64_t fail_everywhere(const Use& use_it) {
  for (int64_t places = 0;; ++places) {
    const auto simulator = make_simulator();
    Fault fault;
    fault.at = places;
    fault.code = places % 2 == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    const auto work = [&](const std::shared_ptr<Driver>& driver) {
      const Device device = Device::on(driver);
      use_it(Store(device), device);
    };
    const bool passed = survives(fault, [&] { work(faulty(simulator, fault)); });
    CAPTURE(places);
    CAPTURE(fault.failed);
    CHECK(simulator->live_objects() == 0);
    work(simulator);
    CHECK(simulator->live_objects() == 0);
    // A fault on the way out goes unseen; past the last call none is made.
    if (passed && fault.failed.empty()) return places;
  }
}

}  // namespace

TEST_CASE("a failing call at every place, from opening the device on") {
  CHECK(fail_everywhere(use) > 80);
}

TEST_CASE("a failing call at every place where branches and loops are built and run") {
  CHECK(fail_everywhere([](Store store, const Device&) { use_regions(store); }) > 120);
}

TEST_CASE("a failing call leaves a store that others use as it was") {
  const auto simulator = make_simulator();
  Fault fault;
  const Device device = Device::on(faulty(simulator, fault));
  Store store(device);
  Program other = empty_program("other");
  add_buffer(other, "mine", Segment::param, floats(11));
  store.declare(other);
  const HostTensor mine = store.get("mine");
  {  // the pool keeps the event of a launch
    Executable warm(empty_program("warm"), store);
    warm.launch().wait();
  }
  const int64_t level = simulator->live_objects();
  const auto in = diamond_inputs(12);
  bool done = false;
  for (int64_t at = 0; !done; ++at) {
    fault = Fault{};
    fault.at = at;
    bool built = false;
    survives(fault, [&] {
      Executable e(diamond(), store);
      built = true;
      e.run(in);
    });
    done = fault.failed.empty();
    fault = Fault{};
    CAPTURE(at);
    // The params of a program that was built stay; those of a failed build do not.
    CHECK(store.names().size() == (built ? 3 : 1));
    CHECK(simulator->live_objects() == level + (built ? 2 : 0));
    if (built) {
      Executable again(diamond(), store);
      const HostTensor w = store.get("w");
      CHECK(values(again.run(in).at("y")) == diamond_y(in, w));
      store = Store(device);
      store.declare(other);
      Executable warm(empty_program("warm"), store);
      warm.launch().wait();
    }
    CHECK(store.get("mine").bytes == mine.bytes);
  }
}

TEST_CASE("a failed bind keeps the old binding") {
  const auto simulator = make_simulator();
  Fault fault;
  const Device device = Device::on(faulty(simulator, fault));
  Store store(device);
  Executable e(diamond(), store);
  const auto in = diamond_inputs(13);
  const auto bytes = floats().bytes();
  const Current current(device.context());
  const OwnedMemory x = allocate(device.context(), bytes, "test");
  const DevicePtr before = e.address("x");
  for (const int64_t at : {1, 2}) {  // after the push: the patches of nodes 0 and 1
    fault = Fault{};
    fault.at = at;
    CHECK_THROWS_WITH_AS(e.bind("x", x.get(), bytes), doctest::Contains("SetParams"), CudaError);
    fault = Fault{};
    CHECK(e.address("x") == before);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
      CHECK(values(e.run(in, mode).at("y")) == diamond_y(in, store.get("w")));
    }
  }
  e.bind("x", x.get(), bytes);
  CHECK(values(e.run(in).at("y")) == diamond_y(in, store.get("w")));
  CHECK(simulator->take_reports().empty());
}
