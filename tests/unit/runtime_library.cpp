// Library ops: captured into graphs, bound anew, and broken out where they cannot be captured.
#include <doctest/doctest.h>

#include <algorithm>

#include "ir/break_out.hpp"
#include "ir/diagnostic.hpp"
#include "runtime_help.hpp"
#include "runtime_library_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// How many times a call was made.
using Counts = std::map<std::string, int64_t>;

std::shared_ptr<Driver> counting(const std::shared_ptr<Simulator>& simulator, Counts& counts) {
  return failing_driver(simulator, [&counts](int64_t, const char* name) {
    ++counts[name];
    return CUDA_SUCCESS;
  });
}

/// Fails calls of `name` of the numbers from `from` up to `to`, counted from 0, while armed.
struct Fault {
  std::string name;
  int64_t from = 0, to = 0, seen = 0;
  bool armed = true;
  CUresult operator()(const char* call) {
    if (!armed || name != call) return CUDA_SUCCESS;
    const int64_t now = seen++;
    return now >= from && now < to ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
  }
};

std::shared_ptr<Driver> faulty(const std::shared_ptr<Simulator>& simulator, Fault& fault) {
  return failing_driver(simulator, [&fault](int64_t, const char* name) { return fault(name); });
}

void runs_right(Executable& e, const Store& store, uint64_t seed) {
  const auto in = diamond_inputs(seed);
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
    CHECK(values(e.run(in, mode).at("y")) == with_library_y(in, store.get("w")));
  }
}

}  // namespace

TEST_CASE("library ops are captured into their graph, beside other lanes") {
  const auto simulator = make_simulator();
  Counts counts;
  {
    const Device device = Device::on(counting(simulator, counts));
    Store store(device);
    Executable e(with_library(), store, references());
    CHECK(e.program().breaks.empty());
    CHECK(e.program().bodies.size() == 1);
    CHECK(counts["cuStreamBeginCapture"] == 2);  // trials
    CHECK(counts["cuStreamBeginCaptureToGraph"] == 2);
    CHECK(counts["cuStreamEndCapture"] == 4);
    for (uint64_t seed = 1; seed < 6; ++seed) runs_right(e, store, seed);
  }
  CHECK(simulator->take_reports().empty());
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("what a library op leaves in its workspace reaches nobody") {
  // Two calls in parallel with one workspace: the simulator sees the race.
  Program p = with_library();
  const Node& first = p.bodies[0].nodes[2];
  p.bodies[0].nodes[3].args.back() = first.args.back();
  Bench bench;
  Executable e(p, bench.store, references());
  CHECK_THROWS_AS(e.run(diamond_inputs(3)), CudaError);
  const auto reports = bench.simulator->take_reports();
  REQUIRE_FALSE(reports.empty());
  CHECK(contains(reports[0], "library_twice"));
}

TEST_CASE("an input or output that a library op uses is bound anew by making the graph again") {
  const auto simulator = make_simulator();
  Counts counts;
  {
    const Device device = Device::on(counting(simulator, counts));
    Store store(device);
    Executable e(library_at_the_ends(), store, references());
    const auto in = diamond_inputs(7);
    const auto expected = library_at_the_ends_y(in);
    CHECK(values(e.run(in).at("y")) == expected);
    const int64_t bytes = floats().bytes();
    const Current current(device.context());
    const OwnedMemory x = allocate(device.context(), bytes, "test"),
                      y = allocate(device.context(), bytes, "test");
    const int64_t made = counts["cuGraphInstantiateWithParams"];
    e.bind("x", x.get(), bytes);
    e.bind("y", y.get(), bytes);
    CHECK(counts["cuGraphInstantiateWithParams"] == made + 2);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
      e.poison();
      CHECK(values(e.run(in, mode).at("y")) == expected);
    }
    // What no library op uses is patched.
    const OwnedMemory b = allocate(device.context(), bytes, "test");
    e.bind("b", b.get(), bytes);
    CHECK(counts["cuGraphInstantiateWithParams"] == made + 2);
    CHECK(values(e.run(in).at("y")) == expected);
  }
  CHECK(simulator->take_reports().empty());
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("a failed capture is one break, and the rest is as before") {
  for (const char* call : {"cuStreamEndCapture", "cuStreamGetCaptureInfo", "cuLaunchKernel"}) {
    CAPTURE(call);
    const auto simulator = make_simulator();
    Fault fault{call, 0, 1};
    {
      const Device device = Device::on(faulty(simulator, fault));
      Store store(device);
      Executable e(with_library(), store, references());
      fault.armed = false;
      const Program& p = e.program();
      REQUIRE(p.breaks.size() == 1);
      CHECK(p.breaks[0].op == "op2");
      CHECK(contains(p.breaks[0].reason, "'twice'"));
      CHECK(contains(p.breaks[0].reason, "cannot be captured"));
      CHECK(contains(p.breaks[0].reason, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
      CHECK_FALSE(p.breaks[0].remedy.empty());
      REQUIRE(p.bodies.size() == 3);
      CHECK(p.bodies[0].nodes.size() == 3);
      CHECK(p.bodies[1].stream);
      CHECK(p.bodies[1].nodes.size() == 1);
      CHECK(p.bodies[2].nodes.size() == 2);
      runs_right(e, store, 4);
      // The next build knows nothing of it.
      Executable next(with_library(), store, references());
      CHECK(next.program().breaks.empty());
      runs_right(next, store, 5);
    }
    CHECK(simulator->take_reports().empty());
    CHECK(simulator->live_objects() == 0);
  }
}

TEST_CASE("two failed captures are two breaks") {
  const auto simulator = make_simulator();
  Fault fault{"cuLaunchKernel", 0, 1000};
  {
    const Device device = Device::on(faulty(simulator, fault));
    Store store(device);
    Executable e(with_library(), store, references());
    fault.armed = false;
    CHECK(e.program().breaks.size() == 2);
    CHECK(std::count_if(e.program().bodies.begin(), e.program().bodies.end(),
                        [](const Body& b) { return b.stream; }) == 2);
    runs_right(e, store, 9);
  }
  CHECK(simulator->take_reports().empty());
}

TEST_CASE("a capture that fails only in its graph is a break too") {
  for (const char* call : {"cuStreamEndCapture", "cuLaunchKernel"}) {
    CAPTURE(call);
    const auto simulator = make_simulator();
    Fault fault{call, 2, 3};  // behind both trials
    {
      const Device device = Device::on(faulty(simulator, fault));
      Store store(device);
      Executable e(with_library(), store, references());
      fault.armed = false;
      CHECK(e.program().breaks.size() == 1);
      runs_right(e, store, 11);
    }
    CHECK(simulator->take_reports().empty());
    CHECK(simulator->live_objects() == 0);
  }
}

TEST_CASE("fifty builds with failing captures leave nothing behind") {
  const auto simulator = make_simulator();
  Fault fault{"cuStreamEndCapture", 0, 1};
  {
    const Device device = Device::on(faulty(simulator, fault));
    Store store(device);
    {
      Executable warm(with_library(), store, references());
    }
    const int64_t level = simulator->live_objects();
    for (int i = 0; i < 50; ++i) {
      fault.seen = 0;
      Executable e(with_library(), store, references());
      CHECK(e.program().breaks.size() == 1);
    }
    CHECK(simulator->live_objects() == level);
  }
  CHECK(simulator->live_objects() == 0);
}

TEST_CASE("a failed binding keeps the old one where graphs are made again") {
  const auto simulator = make_simulator();
  Fault fault{"cuStreamEndCapture", 0, 1};
  fault.armed = false;
  const Device device = Device::on(faulty(simulator, fault));
  Store store(device);
  Executable e(library_at_the_ends(), store, references());
  const auto in = diamond_inputs(8);
  const int64_t bytes = floats().bytes();
  const Current current(device.context());
  const OwnedMemory x = allocate(device.context(), bytes, "test");
  const DevicePtr before = e.address("x");
  fault.armed = true;
  try {
    e.bind("x", x.get(), bytes);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.diagnostics()[0].code == "E0893");
    CHECK(contains(error.what(), "'twice'"));
  }
  fault.armed = false;
  CHECK(e.address("x") == before);
  CHECK(values(e.run(in).at("y")) == library_at_the_ends_y(in));
  e.bind("x", x.get(), bytes);
  CHECK(values(e.run(in).at("y")) == library_at_the_ends_y(in));
}

TEST_CASE("the simulator needs the references of library ops") {
  Bench bench;
  const auto code = [&](const Program& p, const HostFunctions& functions) -> std::string {
    try {
      const Executable e(p, bench.store, functions);
    } catch (const Error& error) {
      CHECK(contains(error.what(), "'twice'"));
      return error.diagnostics()[0].code;
    }
    return "none";
  };
  CHECK(code(with_library(), {}) == "E0806");
  Program p = with_library();
  for (ir::Op& op : p.kernels[4].body.ops()) {
    if (auto* attr = std::get_if<ir::LibraryAttr>(&op.attrs)) attr->reference = {};
  }
  CHECK(code(p, references()) == "E0808");
  CHECK(code(with_library(), references()) == "none");
}

TEST_CASE("the simulator's captures follow the driver's rules") {
  const auto simulator = make_simulator();
  const Device device = Device::on(simulator);
  const Current current(device.context());
  Driver& d = *device.context()->driver;
  const OwnedStream stream = make_stream(device.context());
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(d.cuStreamEndCapture(stream.get(), &graph) == CUDA_ERROR_ILLEGAL_STATE);
  const auto begin = [&] {
    return d.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  };
  CHECK(begin() == CUDA_SUCCESS);
  CHECK(begin() == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(d.cuStreamSynchronize(stream.get()) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(d.cuStreamIsCapturing(stream.get(), &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(d.cuStreamEndCapture(stream.get(), &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(graph == nullptr);
  CHECK(d.cuStreamIsCapturing(stream.get(), &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  CUdeviceptr memory = 0;
  CHECK(begin() == CUDA_SUCCESS);
  CHECK(d.cuMemAlloc(&memory, 64) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(d.cuStreamEndCapture(stream.get(), &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(d.cuMemAlloc(&memory, 64) == CUDA_SUCCESS);
  CHECK(d.cuMemFree(memory) == CUDA_SUCCESS);
  CHECK(begin() == CUDA_SUCCESS);
  CHECK(d.cuStreamEndCapture(stream.get(), &graph) == CUDA_SUCCESS);
  REQUIRE(graph != nullptr);
  CHECK(d.cuGraphDestroy(graph) == CUDA_SUCCESS);
}
