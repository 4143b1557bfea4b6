// Host functions that graphs call, against the rest: what is destroyed, freed and built meanwhile,
// driver calls that fail, many threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "runtime_mailbox_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;
using ir::HostWay;
using namespace std::chrono_literals;

namespace {

using Now = std::chrono::steady_clock;

/// Two functions in a row: y = g(f(x)).
Program two_calls(HostWay first, HostWay second) {
  Caller c("two calls");
  const uint32_t x = add_buffer(c.p, "x", Segment::input, kFive);
  const uint32_t t = c.temp("t", kFive);
  const uint32_t y = add_buffer(c.p, "y", Segment::output, kFive);
  c.call("g", {t}, {y}, {c.call("f", {x}, {t}, {}, first)}, second);
  return c.p;
}

}  // namespace

TEST_CASE("an executable goes away while its function does not return") {
  for (const HostWay way : {HostWay::handshake, HostWay::node}) {
    const auto simulator = make_simulator();
    Stuck stuck;
    auto alive = std::make_shared<int>(1);
    {
      Bench bench(simulator);
      std::optional<Executable> e;
      e.emplace(one_call(kFive, way), bench.store,
                HostFunctions{{"f", [&stuck, alive](Arguments, Results) { stuck.wait(); }}},
                MessageOptions{}, HostOptions{50ms});
      e->write("x", ints(1).at("x"));
      Ticket ticket = e->launch();
      CHECK(stuck.inside);
      const auto began = Now::now();
      e.reset();
      CHECK(Now::now() - began < 900ms);
      CHECK(stuck.inside);
      // What is left behind is what the function could touch.
      CHECK(error_of([&] { ticket.wait(); }).code == "E0871");
      Executable other(one_call(kFive), bench.store, {{"f", add_one}});
      CHECK(other.run(ints(2)).at("y").int_at(1) == ints(2).at("x").int_at(1) + 1);
    }
    CHECK(alive.use_count() == 2);
    stuck.let_go();
    CHECK(soon([&] { return alive.use_count() == 1; }));
    CHECK(soon([&] { return simulator->live_objects() == 0; }));
  }
}

TEST_CASE("an executable that goes away lets a slow function return") {
  Bench bench;
  std::atomic<bool> slow = false, returned = false;
  {
    Executable e(one_call(kFive), bench.store,
                 {{"f",
                   [&](Arguments, Results) {
                     slow = true;
                     std::this_thread::sleep_for(200ms);
                     returned = true;
                   }}},
                 {}, HostOptions{100ms});
    e.write("x", ints(1).at("x"));
    std::thread launcher([&] { e.launch(); });
    launcher.join();
    CHECK(slow);
    CHECK_FALSE(returned);
  }
  CHECK(returned);
}

TEST_CASE("launches that nobody waits for are made before the executable goes away") {
  Bench bench;
  int calls = 0;
  {
    Executable e(one_call(kFive), bench.store, {{"f", [&](Arguments, Results) { ++calls; }}});
    e.write("x", ints(1).at("x"));
    for (int i = 0; i < 50; ++i) e.launch();
  }
  CHECK(calls == 50);
}

TEST_CASE("a host function may not use the library") {
  const auto simulator = make_simulator();
  {
    Bench bench(simulator);
    Executable other(diamond(), bench.store);
    other.run(diamond_inputs(1));
    Executable inner(one_call(kFive), bench.store, {{"f", add_one}});
    inner.write("x", ints(1).at("x"));
    Ticket before = inner.launch();
    std::vector<std::string> codes;
    Executable* own = nullptr;
    const auto f = [&](Arguments a, Results r) {
      const auto try_it = [&](const std::function<void()>& use) {
        codes.push_back(error_of(use).code);
      };
      try_it([&] { inner.launch(); });
      try_it([&] { own->launch(); });
      try_it([&] { before.wait(); });
      try_it([&] { before.done(); });
      try_it([&] { inner.run(ints(1)); });
      try_it([&] { inner.read("y"); });
      try_it([&] { inner.write("x", ints(1).at("x")); });
      try_it([&] { own->bind("x", 4096, kFive.bytes()); });
      try_it([&] { own->address("x"); });
      try_it([&] { bench.store.get("w"); });
      try_it([&] { bench.store.set("w", ints(1).at("x")); });
      try_it([&] { bench.store.names(); });
      try_it([&] { Executable(diamond(), bench.store); });
      try_it([&] { Store(bench.device); });
      try_it([&] { Device::open("sim"); });
      add_one(a, r);
    };
    Executable e(one_call(kFive), bench.store, {{"f", f}});
    own = &e;
    CHECK(e.run(ints(3)).at("y").int_at(0) == ints(3).at("x").int_at(0) + 1);
    REQUIRE(codes.size() == 15);
    for (const std::string& code : codes) CHECK(code == "E0851");
    // An error that it lets through is that of the launch.
    Executable lets(one_call(kFive), bench.store,
                    {{"f", [&](Arguments, Results) { inner.launch(); }}});
    const Diagnostic d = error_of([&] { lets.run(ints(3)); });
    CHECK(d.code == "E0870");
    CHECK(contains(d.message, "may not use devices, stores and executables"));
  }
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("a host function may let go of anything, its own executable too") {
  const auto simulator = make_simulator();
  std::atomic<int> calls = 0;
  {
    Bench bench(simulator);
    std::optional<Executable> victim(std::in_place, diamond(), bench.store);
    victim->run(diamond_inputs(1));
    std::optional<Executable> same(std::in_place, one_call(kFive), bench.store,
                                   HostFunctions{{"f", add_one}});
    same->run(ints(1));
    std::optional<Store> store(std::in_place, bench.device);
    std::optional<Ticket> ticket(same->launch());
    std::optional<OwnedMemory> memory;
    {
      const Current current(bench.device.context());
      memory = allocate(bench.device.context(), 1000, "test");
    }
    std::optional<Device> device(Device::on(simulator));
    auto own = std::make_unique<std::optional<Executable>>();
    own->emplace(one_call(kFive), bench.store, HostFunctions{{"f", [&](Arguments a, Results r) {
                                                                ++calls;
                                                                memory.reset();
                                                                ticket.reset();
                                                                victim.reset();
                                                                same.reset();
                                                                store.reset();
                                                                device.reset();
                                                                add_one(a, r);
                                                              }}});
    CHECK((*own)->run(ints(3)).at("y").int_at(0) == ints(3).at("x").int_at(0) + 1);
    CHECK(calls == 1);
    std::optional<Executable> itself;
    itself.emplace(one_call(kFive), bench.store, HostFunctions{{"f", [&](Arguments, Results) {
                                                                  ++calls;
                                                                  const Executable gone =
                                                                      std::move(*itself);
                                                                }}});
    itself->write("x", ints(1).at("x"));
    itself->launch();
    CHECK(calls == 2);
    own->reset();
    CHECK(soon([&] { return simulator->live_objects() < 12; }));
  }
  CHECK(soon([&] { return simulator->live_objects() == 0; }));
}

TEST_CASE("what is freed while a kernel waits for the host is freed later") {
  const auto simulator = make_simulator();
  Bench bench(simulator);
  Stuck stuck;
  std::atomic<bool> waits = false;
  Executable e(one_call(kFive), bench.store, {{"f", [&](Arguments, Results) {
                                                 if (waits) stuck.wait();
                                               }}});
  e.write("x", ints(1).at("x"));
  for (int i = 0; i < 2; ++i) e.launch().wait();
  const int64_t before = simulator->live_objects();
  CUdeviceptr address = 0;
  {
    const Current current(bench.device.context());
    REQUIRE(simulator->cuMemAlloc(&address, 1000) == CUDA_SUCCESS);
  }
  waits = true;
  std::thread launcher([&] { e.launch().wait(); });
  CHECK(soon([&] { return stuck.inside.load(); }));
  // The simulator answers nobody while a launch runs, so this may make no driver call.
  Gate& gate = bench.device.context()->gate;
  gate.give_back(*simulator, [address](Driver& d) { d.cuMemFree(address); }, true, 1000);
  CHECK(gate.has_queued());
  CHECK(stuck.inside);
  waits = false;
  stuck.let_go();
  launcher.join();
  CHECK_FALSE(gate.has_queued());
  CHECK(simulator->live_objects() == before);
}

TEST_CASE("the gate: frees wait, builders wait, launches wait for builders") {
  const auto simulator = make_simulator();
  std::atomic<bool> lost = false;
  Gate gate(lost);
  uint32_t done = 0;
  Spins spins;
  spins.done = &done;
  gate.add(spins);
  std::vector<int> freed;
  const auto give_back = [&](int what, bool waits, int64_t bytes = 1) {
    gate.give_back(*simulator, [&, what](Driver&) { freed.push_back(what); }, waits, bytes);
  };
  give_back(0, true);
  CHECK(freed == std::vector{0});
  gate.enter(spins, *simulator, [] {});
  give_back(1, true);
  give_back(2, false);  // the driver does this at once
  CHECK(freed == std::vector{0, 2});
  {
    const InHostCall inside;
    give_back(3, false);
    gate.drain(*simulator);
    CHECK(error_of([&] { const Gate::Quiet quiet(gate, [] {}); }).code == "E0851");
  }
  CHECK(freed == std::vector{0, 2});
  std::atomic_ref(done).store(1);
  gate.drain(*simulator);
  CHECK(freed == std::vector{0, 2, 1, 3});

  gate.enter(spins, *simulator, [] {});
  std::atomic<int> step = 0;
  std::thread builder([&] {
    const Gate::Quiet quiet(gate, [] {});
    step = 1;
    CHECK(soon([&] { return step == 2; }));
    std::this_thread::sleep_for(5ms);
    step = 3;
  });
  std::this_thread::sleep_for(5ms);
  CHECK(step == 0);
  std::thread launcher([&] {
    CHECK(soon([&] { return step >= 1; }));
    step = 2;
    gate.enter(spins, *simulator, [] {});
    CHECK(step == 3);
  });
  std::atomic_ref(done).store(2);
  builder.join();
  launcher.join();
  CHECK(spins.pending());

  // Too much is queued: the next launch waits for those before it.
  give_back(4, true, int64_t{257} << 20);
  std::thread next([&] {
    gate.enter(spins, *simulator, [] {});
    step = 4;
  });
  std::this_thread::sleep_for(5ms);
  CHECK(step == 3);
  std::atomic_ref(done).store(3);
  next.join();
  CHECK(step == 4);
  CHECK(freed.back() == 4);
  // Whoever waits finds out that the context is lost, and nothing waits in a lost one.
  CHECK_THROWS_AS(Gate::Quiet(gate, [] { throw std::runtime_error("lost"); }), std::runtime_error);
  gate.enter(spins, *simulator, [] {});
  lost = true;
  const Gate::Quiet quiet(gate, [] {});
  give_back(5, true);
  CHECK(freed.back() == 5);
  gate.remove(spins);
}

TEST_CASE("a failing call at every place of programs that call the host") {
  const auto gives_back = [](const std::string& name) {
    for (const char* end : {"Free", "FreeHost", "Destroy", "Unload", "Release", "PopCurrent"}) {
      if (name.ends_with(end)) return true;
    }
    return false;
  };
  for (int64_t at = 0;; ++at) {
    const auto simulator = make_simulator();
    std::atomic<int64_t> seen = 0;
    std::string failed;
    const auto faulty = failing_driver(simulator, [&](int64_t, const char* name) {
      if (gives_back(name) || seen++ != at) return CUDA_SUCCESS;
      failed = name;
      return CUDA_ERROR_INVALID_VALUE;
    });
    int calls = 0;
    const HostFunctions functions{{"f",
                                   [&](Arguments a, Results r) {
                                     ++calls;
                                     add_one(a, r);
                                   }},
                                  {"g", add_one}};
    const auto use = [&](const std::shared_ptr<Driver>& driver) {
      const Device device = Device::on(driver);
      const Store store(device);
      Executable e(two_calls(HostWay::handshake, HostWay::node), store, functions);
      const auto in = ints(9);
      std::optional<Error> wrong;
      for (int launch = 0; launch < 2; ++launch) {
        const HostTensor y = e.run(in).at("y");
        CHECK(y.int_at(2) == in.at("x").int_at(2) + 2);
      }
      e.launch().wait();
    };
    try {
      use(faulty);
    } catch (const CudaError& error) {
      CHECK(contains(error.what(), failed));
    } catch (const NoDevice& error) {
      CHECK(contains(error.what(), failed));
    }
    CAPTURE(failed);
    CHECK(simulator->live_objects() == 0);
    calls = 0;
    use(simulator);
    CHECK(calls == 3);
    CHECK(simulator->live_objects() == 0);
    if (failed.empty()) {
      CHECK(at > 50);
      break;
    }
  }
}

TEST_CASE("a lost context ends everything, and nothing waits for it") {
  const auto simulator = make_simulator();
  {
    Bench bench(simulator);
    Caller c("lost");
    const uint32_t x = add_buffer(c.p, "x", Segment::input, kFive);
    const uint32_t poison = c.temp("poison", kFive);
    const uint32_t y = add_buffer(c.p, "y", Segment::output, kFive);
    const uint32_t z = add_buffer(c.p, "z", Segment::output, kFive);
    c.call("f", {poison}, {z}, {c.call("f", {x}, {y}, {})});
    int calls = 0;
    Executable e(c.p, bench.store, {{"f", [&](Arguments, Results) { ++calls; }}});
    Executable other(one_call(kFive), bench.store, {{"f", add_one}});
    e.write("x", ints(1).at("x"));
    Ticket ticket = e.launch();
    CHECK(calls == 1);
    CHECK_THROWS_AS(Executable(one_call(kFive), bench.store, {{"f", add_one}}), CudaError);
    CHECK_THROWS_AS(ticket.wait(), CudaError);
    CHECK_THROWS_AS(e.launch(), CudaError);
    CHECK_THROWS_AS(other.run(ints(1)), CudaError);
  }
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("a launch that fails in between leaves the executable as it was") {
  const auto simulator = make_simulator();
  std::string name;
  const auto faulty = failing_driver(simulator, [&](int64_t, const char* call) {
    return name == call ? (name.clear(), CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
  });
  {
    const Device device = Device::on(faulty);
    const Store store(device);
    int calls = 0;
    Executable e(one_call(kFive), store, {{"f", [&](Arguments a, Results r) {
                                             ++calls;
                                             add_one(a, r);
                                           }}});
    for (const char* call : {"cuGraphLaunch", "cuStreamWriteValue32", "cuEventRecord"}) {
      name = call;
      CHECK_THROWS_AS(e.launch(), CudaError);
      const auto in = ints(4);
      CHECK(e.run(in).at("y").int_at(0) == in.at("x").int_at(0) + 1);
    }
    CHECK(calls == 5);
  }
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("four threads, two executables, functions that throw and sleep: no call is lost") {
  const auto simulator = make_simulator();
  constexpr int kLaunches = BRAID_SANITIZED ? 60 : 250;
  {
    Bench bench(simulator);
    struct Count {
      std::mutex mutex;
      int64_t f = 0, g = 0, thrown = 0;
    };
    Count counts[2];
    const auto functions = [](Count& c) {
      return HostFunctions{{"f",
                            [&c](Arguments a, Results r) {
                              ++c.f;
                              if (c.f % 7 == 3) {
                                ++c.thrown;
                                throw std::runtime_error("f");
                              }
                              if (c.f % 40 == 0) std::this_thread::sleep_for(2ms);
                              add_one(a, r);
                            }},
                           {"g", [&c](Arguments a, Results r) {
                              ++c.g;
                              if (c.g % 5 == 1) {
                                ++c.thrown;
                                throw 5;
                              }
                              add_one(a, r);
                            }}};
    };
    Executable first(two_calls(HostWay::handshake, HostWay::handshake), bench.store,
                     functions(counts[0]));
    Executable second(two_calls(HostWay::node, HostWay::handshake), bench.store,
                      functions(counts[1]));
    for (Executable* e : {&first, &second}) e->write("x", ints(1).at("x"));
    std::atomic<int64_t> failed[2] = {0, 0};
    std::atomic<int> finished = 0;
    const auto work = [&](int thread) {
      for (int i = 0; i < kLaunches; ++i) {
        const int which = (i + thread) % 2;
        Executable& e = which == 0 ? first : second;
        Ticket ticket = e.launch();
        if (i % 50 == 49) Executable(one_call(kFive), bench.store, {{"f", add_one}}).run(ints(2));
        const std::string code = error_of([&] { ticket.wait(); }).code;
        if (!code.empty()) ++failed[which];
        CHECK((code.empty() || code == "E0870"));
      }
      ++finished;
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
    for (std::thread& t : threads) t.join();
    CHECK(finished == 4);
    for (int which = 0; which < 2; ++which) {
      const Count& c = counts[which];
      CHECK(c.f == 2 * kLaunches);
      CHECK(c.g == c.f - (c.f + 4) / 7);  // every seventh f fails, from the third on
      CHECK(failed[which] == c.thrown);
    }
    CHECK(simulator->take_reports().empty());
  }
  CHECK(simulator->live_objects() == 0);
}
