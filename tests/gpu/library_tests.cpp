// Library ops on a device: products by cuBLASLt inside graphs, functions that enqueue copies and
// memsets, and functions that cannot be captured, against the interpreter.
// usage: braid_library_tests [--device sim|0|auto] [--seed N]
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "passes/check.hpp"
#include "runtime/context.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

using Tensors = std::map<std::string, HostTensor>;

/// Calls of the driver that functions of a user's would make.
struct Cuda {
  CUresult (*set)(CUdeviceptr, unsigned, size_t, CUstream) = nullptr;
  CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream) = nullptr;
  CUresult (*wait)(CUstream) = nullptr;
  CUresult (*make_stream)(CUstream*, unsigned) = nullptr;
  CUresult (*make_event)(CUevent*, unsigned) = nullptr;
  CUresult (*record)(CUevent, CUstream) = nullptr;
  CUresult (*wait_event)(CUstream, CUevent, unsigned) = nullptr;
  CUresult (*free_memory)(size_t*, size_t*) = nullptr;

  static const Cuda& get() {
    static const Cuda cuda = [] {
      Cuda c;
      void* lib = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      const auto find = [&](const char* name, auto& f) {
        f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(::dlsym(lib, name));
        if (!f) throw std::runtime_error(std::string("no ") + name);
      };
      find("cuMemsetD32Async", c.set);
      find("cuMemcpyDtoDAsync_v2", c.copy);
      find("cuStreamSynchronize", c.wait);
      find("cuStreamCreate", c.make_stream);
      find("cuEventCreate", c.make_event);
      find("cuEventRecord", c.record);
      find("cuStreamWaitEvent", c.wait_event);
      find("cuMemGetInfo_v2", c.free_memory);
      return c;
    }();
    return cuda;
  }
};

void good(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(fmt::format("CUDA error {}", int{result}));
}

size_t bytes_of(const LibraryTensor& t) { return static_cast<size_t>(t.type.bytes()); }

/// results[0] = arguments[0]; results[1] = 7 everywhere.
void copy_and_fill(const LibraryCall& c) {
  const Cuda& cuda = Cuda::get();
  good(cuda.copy(c.results[0].address, c.arguments[0].address, bytes_of(c.results[0]), c.stream));
  good(cuda.set(c.results[1].address, 7, bytes_of(c.results[1]) / 4, c.stream));
}

/// A second stream and events to fork to it and join it. First asked for outside of captures.
struct Side {
  CUstream stream = nullptr;
  CUevent fork = nullptr, join = nullptr;
  static const Side& get() {
    static const Side side = [] {
      Side s;
      good(Cuda::get().make_stream(&s.stream, CU_STREAM_NON_BLOCKING));
      good(Cuda::get().make_event(&s.fork, CU_EVENT_DISABLE_TIMING));
      good(Cuda::get().make_event(&s.join, CU_EVENT_DISABLE_TIMING));
      return s;
    }();
    return side;
  }
};

/// The same on two streams, so that two nodes are the last: nothing follows the join.
void copy_beside_fill(const LibraryCall& c) {
  const Cuda& cuda = Cuda::get();
  const auto& [side, fork, join] = Side::get();
  good(cuda.record(fork, c.stream));
  good(cuda.wait_event(side, fork, 0));
  good(cuda.copy(c.results[0].address, c.arguments[0].address, bytes_of(c.results[0]), side));
  good(cuda.record(join, side));
  good(cuda.set(c.results[1].address, 7, bytes_of(c.results[1]) / 4, c.stream));
  good(cuda.wait_event(c.stream, join, 0));
}

/// By way of the workspace, which must be there.
void copy_by_workspace(const LibraryCall& c) {
  const Cuda& cuda = Cuda::get();
  const size_t bytes = bytes_of(c.results[0]);
  if (c.workspace_bytes < static_cast<int64_t>(bytes)) throw std::runtime_error("no workspace");
  good(cuda.copy(c.workspace, c.arguments[0].address, bytes, c.stream));
  good(cuda.copy(c.results[0].address, c.workspace, bytes, c.stream));
  good(cuda.set(c.results[1].address, 7, bytes_of(c.results[1]) / 4, c.stream));
}

/// The state's first half becomes 0.
void clear_half(const LibraryCall& c) {
  good(Cuda::get().set(c.results[0].address, 0, bytes_of(c.results[0]) / 8, c.stream));
}

HostFunctions references() {
  const HostFunction copies = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    for (int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, in[0].at(i));
    for (int64_t i = 0; i < out[1].numel(); ++i) out[1].set_int(i, 7);
  };
  return {{"copies", copies},
          {"clears",
           [](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (int64_t i = 0; i < out[0].numel(); ++i) {
               out[0].set(i, i < out[0].numel() / 2 ? 0 : in[0].at(i));
             }
             out[1].bytes = in[1].bytes;
           }},
          {"keeps", [](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (size_t r = 0; r < out.size(); ++r) out[r].bytes = in[r].bytes;
           }}};
}

struct Product {
  DType dtype = DType::f32;
  Math math = Math::strict;
  int64_t batch = 1, m = 0, k = 0, n = 0;
  bool ta = false, tb = false;
  int epilogue = 0;  // bit 0: bias; 2: relu; 4: gelu
};

std::string text_of(const Product& p) {
  return fmt::format("{}{} {}x {}x{}x{}{}{} epilogue {}", name_of(p.dtype),
                     p.math == Math::tf32 ? " tf32" : "", p.batch, p.m, p.k, p.n, p.ta ? " ta" : "",
                     p.tb ? " tb" : "", p.epilogue);
}

class Suite {
 public:
  Suite(Device device, uint64_t seed) : device_(std::move(device)), seed_(seed) {}

  int run() {
    if (!device_.simulated()) {
      const runtime::Current current(device_.context());
      Side::get();
    }
    for (const auto& [dtype, math] : {std::pair(DType::f32, Math::strict),
                                      {DType::f32, Math::tf32},
                                      {DType::f16, Math::strict},
                                      {DType::bf16, Math::strict}}) {
      for (const int epilogue : {0, 1, 2, 3, 4, 5}) {
        product({dtype, math, 1, 96, 64, 80, false, false, epilogue});
        product({dtype, math, 1, 33, 47, 61, epilogue % 2 == 0, epilogue > 2, epilogue});
        product({dtype, math, 3, 40, 24, 56, epilogue > 2, epilogue % 2 == 0, epilogue});
      }
      product({dtype, math, 1, 1, 128, 256, false, false, 1});
      product({dtype, math, 1, 128, 1, 64, false, true, 0});
    }
    for (const bool lanes : {false, true}) {
      for (const auto& [name, f] : {std::pair("copy and fill", LibraryFunction(copy_and_fill)),
                                    {"two streams", LibraryFunction(copy_beside_fill)},
                                    {"workspace", LibraryFunction(copy_by_workspace)}}) {
        attempt(fmt::format("{}{}", name, lanes ? " on lanes" : ""),
                [&] { return function(f, lanes, 0); });
      }
    }
    attempt("state", [&] { return state(clear_half, "clears"); });
    attempt("nothing enqueued", [&] { return state([](const LibraryCall&) {}, "keeps"); });
    attempt("in an IF", [&] { return in_a_branch(copy_and_fill, {}); });
    if (!device_.simulated()) failures();
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_;
  }

 private:
  template <class Work>
  void attempt(const std::string& what, const Work& work) {
    std::string wrong;
    try {
      wrong = work();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    ++(wrong.empty() ? passed_ : failed_);
    if (!wrong.empty()) fmt::print("FAILED {}: {}\n", what, wrong);
  }

  Executable build_it(const Graph& g, Store store, Options o, const LibraryFunctions& libraries) {
    o.verify = true;
    return build(g, std::move(store), o, references(), {}, {}, libraries);
  }

  /// Outputs and params after two launches, with other bindings for the second.
  std::string compare(const Graph& g, Executable& e, double limit) {
    ir::Graph graph = g.ir();
    graph.bind_dims({});
    for (int launch = 0; launch < 2; ++launch) {
      if (launch == 1) bind_anew(e);
      Tensors inputs;
      ir::TensorMap wide, params;
      for (const Binding& b : e.program().inputs) {
        const TensorType type = e.type(b.name);
        inputs[b.name] = random_tensor(type, seed_ + static_cast<uint64_t>(launch), b.name);
        wide[b.name] = widen(inputs[b.name]);
      }
      for (const ParamBinding& b : e.program().params) {
        params[b.name] = widen(e.store().get(b.name));
      }
      const ir::TensorMap want =
          ir::interpret(graph, wide, params, ir::Rounding::wide, references());
      e.poison();
      const Tensors got = e.run(inputs);
      for (const auto& [name, t] : want) {
        if (const double error = relative_error(got.at(name), t); !(error <= limit)) {
          return fmt::format("launch {}: output {}: relative error {:.3g}", launch, name, error);
        }
      }
      for (const auto& [name, t] : params) {
        if (const double error = relative_error(e.store().get(name), t); !(error <= limit)) {
          return fmt::format("launch {}: param {}: relative error {:.3g}", launch, name, error);
        }
      }
    }
    return {};
  }

  void bind_anew(Executable& e) {
    const runtime::Current current(device_.context());
    const auto bind = [&](const Binding& b) {
      const int64_t bytes = e.type(b.name).bytes();
      bound_.push_back(runtime::allocate(device_.context(), bytes, "test"));
      e.bind(b.name, bound_.back().get(), bytes);
    };
    for (const Binding& b : e.program().inputs) bind(b);
    for (const Binding& b : e.program().outputs) bind(b);
  }

  void product(const Product& p) {
    attempt(text_of(p), [&]() -> std::string {
      Graph g("product");
      const auto type = [&](int64_t rows, int64_t columns) {
        TypeArg t{p.dtype, {DimArg(rows), DimArg(columns)}};
        if (p.batch > 1) t.shape.insert(t.shape.begin(), DimArg(p.batch));
        return t;
      };
      const Tensor x = g.input("x", p.ta ? type(p.k, p.m) : type(p.m, p.k));
      const Tensor w = g.input("w", p.tb ? type(p.n, p.k) : type(p.k, p.n));
      Tensor y = matmul(x, w, {.ta = p.ta, .tb = p.tb});
      if (p.epilogue & 1) y = y + g.input("b", {p.dtype, {DimArg(p.n)}});
      if (p.epilogue & 2) y = apply(Fn::relu, {y});
      if (p.epilogue & 4) y = apply(Fn::gelu_tanh, {y});
      g.output("y", y);
      // A lane beside it, and somebody who needs both.
      const Tensor z = tanh(g.input("z", type(p.m, p.n)) * 0.5);
      g.output("s", y + z);
      Options o;
      o.math = p.math;
      o.dots = Dots::cublaslt;
      o.force_lanes = true;
      Store store(device_);
      Executable e = build_it(g, store, o, {});
      const auto library = std::count_if(
          e.program().kernels.begin(), e.program().kernels.end(),
          [](const Kernel& k) { return k.code == Code::library && k.function == kCublasLtMatmul; });
      if (library != 1) return "no kernel is cuBLASLt's";
      if (!e.program().breaks.empty()) return e.program().breaks[0].reason;
      const double limit = p.dtype == DType::bf16  ? 2e-2
                           : p.dtype == DType::f16 ? 3e-3
                           : p.math == Math::tf32  ? 3e-3
                                                   : 2e-5;
      return compare(g, e, device_.simulated() ? 2e-2 : limit);
    });
  }

  static void calls(Graph& g) {
    const Tensor x = g.input("x", {f32, {64, 32}}), z = g.input("z", {f32, {64, 32}});
    const auto r = g.library("f", {tanh(x)}, {{f32, {64, 32}}, {i32, {16}}},
                             {.workspace = 64 * 32 * 4, .reference = "copies"});
    const Tensor beside = exp(z * 0.1);
    g.output("y", r[0] * 2 + beside);
    g.output("filled", r[1]);
    // Straight from an input to an output.
    const auto ends = g.library("f", {z}, {{f32, {64, 32}}, {i32, {8}}},
                                {.workspace = 64 * 32 * 4, .reference = "copies"});
    g.output("copy", ends[0]);
    g.output("sum", sum(cast(ends[1], f32), {.axes = {}}));
  }

  std::string function(const LibraryFunction& f, bool lanes, size_t breaks) {
    Graph g("calls");
    calls(g);
    Options o;
    o.force_lanes = lanes;
    Store store(device_);
    Executable e = build_it(g, store, o, {{"f", f}});
    if (e.program().breaks.size() != breaks) {
      return fmt::format("{} breaks, not {}", e.program().breaks.size(), breaks);
    }
    if (const auto wrong = braid::check(e.program()); !wrong.empty()) return wrong[0];
    return compare(g, e, 1e-5);
  }

  std::string state(const LibraryFunction& f, const std::string& reference) {
    Graph g("state");
    const Tensor x = g.input("x", {f32, {32}});
    const Tensor p = g.param("p", {f32, {32}});
    const auto now = g.library("f", {}, {}, {.reference = reference, .inout = {p, tanh(x)}});
    g.output("y", now[0] + now[1]);
    Store store(device_);
    Executable e = build_it(g, store, {}, {{"f", f}});
    return compare(g, e, 1e-5);
  }

  std::string in_a_branch(const LibraryFunction& f, const std::string& code) {
    Graph g("branch");
    const Tensor x = g.input("x", {f32, {64, 32}});
    const Tensor y = g.if_(
        greater(sum(x, {.axes = {}}), 0),
        [&] {
          return g.library("f", {tanh(x)}, {{f32, {64, 32}}, {i32, {8}}},
                           {.workspace = 64 * 32 * 4, .reference = "copies"})[0];
        },
        [&] { return x * 0.5; }, {.lowering = ir::Lowering::node});
    g.output("y", y);
    Store store(device_);
    try {
      Executable e = build_it(g, store, {}, {{"f", f}});
      if (!code.empty()) return "it was built";
      return compare(g, e, 1e-5);
    } catch (const Error& error) {
      const std::string got = error.diagnostics().front().code;
      return !code.empty() && got == code ? std::string() : error.what();
    }
  }

  void failures() {
    const LibraryFunction throws = [](const LibraryCall& c) {
      copy_and_fill(c);
      if (capturing(c.stream)) throw std::runtime_error("not today");
    };
    const LibraryFunction waits = [](const LibraryCall& c) {
      copy_and_fill(c);
      Cuda::get().wait(c.stream);
    };
    attempt("a function that throws", [&] { return function(throws, true, 2); });
    attempt("a function that waits", [&] { return function(waits, true, 2); });
    attempt("a good one after them", [&] { return function(copy_and_fill, true, 0); });
    attempt("a function that waits, in an IF", [&] { return in_a_branch(waits, "E0890"); });
    attempt("a good one in an IF after it", [&] { return in_a_branch(copy_and_fill, {}); });
    attempt("fifty builds in a row", [&]() -> std::string {
      size_t level = 0;
      for (int i = 0; i < 50; ++i) {
        std::string wrong = function(i % 2 == 0 ? waits : throws, true, 2);
        if (!wrong.empty()) return fmt::format("build {}: {}", i, wrong);
        bound_.clear();
        const size_t now = free_bytes();
        if (i == 9) level = now;
        if (i > 9 && now + (size_t{16} << 20) < level) {
          return fmt::format("after build {} {} bytes are free, after the tenth {} were", i, now,
                             level);
        }
      }
      return {};
    });
  }

  static bool capturing(CUstream stream) {
    static const auto asks = reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureStatus*)>(
        ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuStreamIsCapturing"));
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    good(asks(stream, &status));
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  size_t free_bytes() const {
    const runtime::Current current(device_.context());
    size_t free = 0, total = 0;
    good(Cuda::get().free_memory(&free, &total));
    return free;
  }

  Device device_;
  uint64_t seed_;
  int passed_ = 0, failed_ = 0;
  std::vector<runtime::OwnedMemory> bound_;
};

int main_of(int argc, char** argv) {
  std::string which = "sim";
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--device") which = argv[i + 1];
    if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  std::optional<Device> device;
  try {
    device = Device::open(which);
  } catch (const NoDevice& e) {
    const char* required = std::getenv("BRAID_REQUIRE_GPU");
    const bool fail = required && std::strcmp(required, "1") == 0;
    fmt::print("{}\n0 passed, {} failed\n", e.what(), fail ? 1 : 0);
    return fail ? 1 : 77;
  }
  return Suite(*device, seed).run() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::main_of(argc, argv); }
