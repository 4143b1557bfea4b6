// Library functions that are really called: on a driver that runs the simulator's kernels and says
// that it is none.
#include <doctest/doctest.h>

#include "ir/diagnostic.hpp"
#include "runtime/cublaslt.hpp"
#include "runtime_library_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

class Pretender final : public Driver {
 public:
  explicit Pretender(std::shared_ptr<Driver> inner) : inner_(std::move(inner)) {}
  bool simulated() const override { return false; }
  std::string last_report() const override { return inner_->last_report(); }
#define BRAID_CALL(name, version, params, args) \
  CUresult name params override { return inner_->name args; }
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

 private:
  std::shared_ptr<Driver> inner_;
};

/// What a user's function would have: a library of its own, here with one kernel r0 = a0 + a1.
struct Sums {
  ContextPtr context;
  OwnedLibrary library;
  CUfunction function = nullptr;

  explicit Sums(const Device& device) : context(device.context()) {
    const Current current(context);
    Program p = empty_program("sums");
    p.kernels = {binary_kernel(Fn::add, "sums", floats())};
    const auto image = simulator_image(p, 0);
    CUlibrary loaded = nullptr;
    context->check(context->driver->cuLibraryLoadData(&loaded, image.data(), nullptr, nullptr, 0,
                                                      nullptr, nullptr, 0),
                   "cuLibraryLoadData");
    library = OwnedLibrary(context, loaded);
    CUkernel kernel = nullptr;
    context->check(context->driver->cuLibraryGetKernel(&kernel, loaded, "sums"),
                   "cuLibraryGetKernel");
    context->check(context->driver->cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  }
  void enqueue(DevicePtr a, DevicePtr b, DevicePtr to, Stream stream) const {
    void* arguments[] = {&a, &b, &to};
    const CUresult result =
        context->driver->cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr);
    if (result != CUDA_SUCCESS) throw std::runtime_error("no launch");
  }
};

/// with_library() with its kernels' images, and the function as t -> t + t.
struct Scene {
  std::shared_ptr<Simulator> simulator = make_simulator();
  Device device = Device::on(std::make_shared<Pretender>(simulator));
  Store store{device};
  Sums sums{device};
  int calls = 0;

  static Program program() {
    Program p = with_library();
    p.modules[0].image = simulator_image(p, 0);
    return p;
  }
  LibraryFunctions functions(std::function<void(const LibraryCall&)> more = {}) {
    return {{"twice", [this, more](const LibraryCall& c) {
               ++calls;
               CHECK(c.arguments.size() == 1);
               CHECK(c.results.size() == 1);
               CHECK(c.arguments[0].type == floats());
               CHECK(c.workspace_bytes == 300);
               CHECK(c.workspace % 256 == 0);
               CHECK(c.stream != nullptr);
               sums.enqueue(c.arguments[0].address, c.arguments[0].address, c.results[0].address,
                            c.stream);
               if (more) more(c);
             }}};
  }
  void runs_right(Executable& e, LaunchMode mode = LaunchMode::graph) const {
    const auto in = diamond_inputs(21);
    const HostTensor w = store.get("w");
    std::vector<float> y;
    for (int64_t i = 0; i < kCount; ++i) {
      const auto x = static_cast<float>(in.at("x").at(i));
      const float t0 = x * static_cast<float>(w.at(i));
      const float t1 = x - static_cast<float>(in.at("b").at(i));
      y.push_back((t0 + t0) + (t1 + t1));
    }
    CHECK(values(e.run(in, mode).at("y")) == y);
  }
};

bool capturing(const Device& device, Stream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  device.context()->driver->cuStreamIsCapturing(stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

TEST_CASE("a library function is called for trials, for graphs, and for each launch outside") {
  Scene s;
  Executable e(Scene::program(), s.store, {}, {}, {}, s.functions());
  CHECK(e.program().breaks.empty());
  CHECK(s.calls == 4);  // two ops, each tried and captured
  s.runs_right(e);
  CHECK(s.calls == 4);
  s.runs_right(e, LaunchMode::stream);
  CHECK(s.calls == 6);
  CHECK(s.simulator->take_reports().empty());
}

TEST_CASE("a library function that cannot be captured makes its op a break") {
  Scene s;
  const auto throws = [&](const LibraryCall& c) {
    if (capturing(s.device, c.stream)) throw std::runtime_error("not while you watch");
  };
  const auto waits = [&](const LibraryCall& c) {
    s.device.context()->driver->cuStreamSynchronize(c.stream);
  };
  const auto allocates = [&](const LibraryCall&) {
    CUdeviceptr memory = 0;
    if (s.device.context()->driver->cuMemAlloc(&memory, 16) != CUDA_SUCCESS) return;
    s.device.context()->driver->cuMemFree(memory);
  };
  const auto ends = [&](const LibraryCall& c) {
    CUgraph graph = nullptr;
    if (!capturing(s.device, c.stream)) return;
    s.device.context()->driver->cuStreamEndCapture(c.stream, &graph);
    if (graph) s.device.context()->driver->cuGraphDestroy(graph);
  };
  const std::pair<std::function<void(const LibraryCall&)>, const char*> all[] = {
      {throws, "not while you watch"},
      {waits, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {allocates, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {ends, "ended the capture"}};
  for (const auto& [more, why] : all) {
    CAPTURE(why);
    Executable e(Scene::program(), s.store, {}, {}, {}, s.functions(more));
    REQUIRE(e.program().breaks.size() == 2);
    for (const Break& b : e.program().breaks) CHECK(contains(b.reason, why));
    s.runs_right(e);
    s.runs_right(e, LaunchMode::stream);
    CHECK(s.simulator->take_reports().empty());
  }
  Executable next(Scene::program(), s.store, {}, {}, {}, s.functions());
  CHECK(next.program().breaks.empty());
  s.runs_right(next);
}

TEST_CASE("what a library function throws outside graphs is the launch's error") {
  Scene s;
  bool fails = false;
  const auto more = [&](const LibraryCall& c) {
    if (fails || capturing(s.device, c.stream)) throw std::runtime_error("no plan");
  };
  Executable e(Scene::program(), s.store, {}, {}, {}, s.functions(more));
  s.runs_right(e);
  fails = true;
  try {
    e.run(diamond_inputs(2));
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.diagnostics()[0].code == "E0893");
    CHECK(contains(error.what(), "no plan"));
    CHECK(contains(error.what(), "'twice'"));
  }
  fails = false;
  s.runs_right(e);
}

TEST_CASE("a library function may not use Braid's objects") {
  Scene s;
  const auto more = [&](const LibraryCall&) { s.store.get("w"); };
  Executable e(Scene::program(), s.store, {}, {}, {}, s.functions(more));
  REQUIRE(e.program().breaks.size() == 2);
  CHECK(contains(e.program().breaks[0].reason, "host function may not use"));
}

TEST_CASE("a library function that is missing is named") {
  Scene s;
  try {
    const Executable e(Scene::program(), s.store, {}, {}, {},
                       {{"twise", [](const LibraryCall&) {}}});
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.diagnostics()[0].code == "E0892");
    CHECK(contains(error.what(), "'twice'"));
  }
}

TEST_CASE("where cuBLASLt is not there, or there is no GPU, the error says what to do") {
  try {
    const LtLibrary library;
  } catch (const Error& error) {
    CHECK(error.diagnostics()[0].code == "E0891");
    CHECK(contains(error.diagnostics()[0].suggestion, "--dots=braid"));
  }
}
