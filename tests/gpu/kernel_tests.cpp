// Kernels of the user's on a GPU or the simulator: random programs of our ops and of kernels with
// random parameters, against the interpreter, which calls the kernels' references.
//   braid_kernel_tests [--device D] [--seed N] [--programs N] [--only I] [--compile 1]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

struct Arguments {
  std::string device = "sim";
  uint64_t seed = 1;
  int programs = 100, only = -1;
  bool compile = false;  // the code too where the device is the simulator
};

const char* cpp_type(DType t) {
  switch (t) {
    case DType::f32:
      return "float";
    case DType::f16:
      return "__half";
    case DType::bf16:
      return "__nv_bfloat16";
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    default:
      return "long long";
  }
}

/// A program and the references of its kernels. Every kernel computes, for each element i of its
/// tensors, sums of coefficients times its `in` and `inout` tensors at i, or at the mirrored place.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed), graph_("kernels") {
    dtype_ = pick({f32, f32, f32, f16, bf16, f64, i32, i64});
    rows_ = int_in(1, 40);
    cols_ = int_in(1, 70);
    const TypeArg type{dtype_, {rows_, cols_}};
    for (int i = 0; i < int_in(1, 3); ++i) {
      values_.push_back(graph_.input(fmt::format("x{}", i), type));
    }
    for (int i = 0; i < int_in(0, 2); ++i) {
      params_.push_back(graph_.param(fmt::format("p{}", i), type));
    }
    const int count = int_in(2, 7);
    for (int i = 0; i < count; ++i) {
      if (random_() % 5 < 2) {
        own();
      } else {
        kernel(i);
      }
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      if (i + 1 == values_.size() || random_() % 2 == 0) {
        graph_.output(fmt::format("y{}", i), values_[i]);
      }
    }
  }

  const Graph& graph() const { return graph_; }
  const HostFunctions& references() const { return references_; }
  DType dtype() const { return dtype_; }

 private:
  int int_in(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[random_() % from.size()];
  }
  Tensor value() { return values_[random_() % values_.size()]; }

  void own() {
    const Tensor a = value(), b = value();
    values_.push_back(random_() % 2 == 0 ? maximum(a, b) : a - b);
  }

  void kernel(int number) {
    const bool template_ = random_() % 2 == 0, file = random_() % 3 == 0;
    const std::string name = fmt::format("k{}", number), t = cpp_type(dtype_);
    KernelSpec spec{.name = name};
    std::vector<std::string> declared, given;  // parameters in C++; what is multiplied
    std::vector<In> in;
    std::vector<int> coefficients;
    std::vector<bool> state;  // by operand
    int outs = 0;
    std::string stores;
    const int operands = int_in(1, 4);
    std::vector<Tensor> used;
    for (int i = 0; i < operands; ++i) {
      const bool changes = random_() % 3 == 0;
      std::optional<Tensor> param;
      if (changes && !params_.empty() && random_() % 2 == 0) param = params_.back();
      const Tensor x = param ? *param : value();
      if (param) params_.pop_back();  // changed once
      in.emplace_back(x);
      state.push_back(changes);
      coefficients.push_back(int_in(-2, 2));
      const std::string a = fmt::format("a{}", i);
      spec.parameters.push_back(
          fmt::format("{} {}: {}[N, M]", changes ? "inout" : "in", a, name_of(dtype_)));
      declared.push_back(fmt::format("{}{}* {}", changes ? "" : "const ", t, a));
    }
    const bool nothing = std::find(state.begin(), state.end(), true) == state.end();
    for (; outs < int_in(nothing ? 1 : 0, 2); ++outs) {
      spec.parameters.push_back(fmt::format("out r{}: {}[N, M]", outs, name_of(dtype_)));
      declared.push_back(fmt::format("{}* r{}", t, outs));
    }
    spec.parameters.push_back("i32 n = N * M");
    declared.push_back("int n");
    const int threads = pick({32, 64, 96});
    const int shift = int_in(-3, 3);
    spec.parameters.push_back(fmt::format("i64 {}", shift));
    declared.push_back("long long shift");
    // In another order than the model's own.
    std::vector<size_t> order(declared.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // Operands keep their order among themselves, and results theirs.
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [&](size_t i) {
        const size_t first = static_cast<size_t>(operands),
                     last = first + static_cast<size_t>(outs);
        return i < first ? 2 : i < last ? 1 : 0;
      };
      return template_ ? key(a) < key(b) : key(a) > key(b);
    });
    std::vector<std::string> parameters, cpp;
    for (const size_t i : order) {
      parameters.push_back(spec.parameters[i]);
      cpp.push_back(declared[i]);
    }
    spec.parameters = parameters;

    const bool floats = is_float(dtype_);
    const std::string wide = dtype_ == f64 ? "double" : floats ? "float" : "long long";
    std::string code;
    if (dtype_ == f16) code += "#include <cuda_fp16.h>\n";
    if (dtype_ == bf16) code += "#include <cuda_bf16.h>\n";
    code += template_ ? "template <int kThreads>\n" : "";
    code += fmt::format("__global__ void {}(", name);
    for (size_t i = 0; i < cpp.size(); ++i) code += (i > 0 ? ", " : "") + cpp[i];
    code += fmt::format(") {{\n  const int i = blockIdx.x * {} + threadIdx.x;\n",
                        template_ ? "kThreads" : "blockDim.x");
    code += fmt::format("  if (i >= n) return;\n  {} sum = shift;\n", wide);
    for (int i = 0; i < operands; ++i) {
      code +=
          fmt::format("  sum += {} * ({})a{}[i];\n", coefficients[static_cast<size_t>(i)], wide, i);
    }
    for (int i = 0; i < outs; ++i) {
      code += fmt::format("  r{}[i] = ({})(sum + ({}){});\n", i, t, wide, i);
    }
    for (int i = 0; i < operands; ++i) {
      if (state[static_cast<size_t>(i)]) {
        code += fmt::format("  a{}[i] = ({})(sum - ({}){});\n", i, t, wide, i + 1);
      }
    }
    code += "}\n";
    spec.code = code;
    if (file) spec.file = name + ".cu";
    if (template_) spec.function = fmt::format("{}<{}>", name, threads);
    spec.grid = {fmt::format("ceil(N * M, {})", threads)};
    spec.block = {threads};
    spec.shared = pick({0, 256});
    spec.reference = name;
    references_[name] = [=](std::span<const HostTensor> args, std::span<HostTensor> results) {
      for (int64_t e = 0; e < results[0].numel(); ++e) {
        double sum = shift;
        for (size_t i = 0; i < args.size(); ++i) sum += coefficients[i] * args[i].at(e);
        size_t r = 0;
        for (int i = 0; i < outs; ++i) results[r++].set(e, sum + i);
        for (size_t i = 0; i < args.size(); ++i) {
          if (state[i]) results[r++].set(e, sum - static_cast<double>(i) - 1);
        }
      }
    };
    const std::vector<Tensor> made = graph_.kernel(spec, in);
    values_.insert(values_.end(), made.begin(), made.end());
  }

  std::mt19937_64 random_;
  Graph graph_;
  DType dtype_ = f32;
  int64_t rows_ = 1, cols_ = 1;
  std::vector<Tensor> values_, params_;
  HostFunctions references_;
};

double tolerance(DType t) {
  return t == f16 ? 2e-2 : t == bf16 ? 1e-1 : t == f64 ? 1e-12 : t == f32 ? 1e-5 : 0;
}

/// Empty if the tensors are equal within what the dtype allows.
std::string differs(const std::string& what, const HostTensor& got, const WideTensor& want) {
  const double error = relative_error(got, want);
  if (error <= tolerance(got.type.dtype)) return {};
  return fmt::format("{} {}: relative error {:.3g}", what, to_string(got.type), error);
}

Options random_options(uint64_t seed) {
  std::mt19937_64 random(seed);
  Options o;
  o.verify = true;
  o.fuse = random() % 4 != 0;
  o.group = random() % 4 != 0;
  o.simplify = random() % 4 != 0;
  o.reuse = random() % 4 != 0;
  o.streams = static_cast<int>(1 + random() % 4);
  o.force_lanes = random() % 2 == 0;
  return o;
}

std::string run_one(const Device& device, uint64_t seed, bool compile_too) {
  const RandomProgram program(seed);
  const ir::Graph& graph = program.graph().ir();
  Store store(device);
  if (compile_too) {
    Program p = compile(program.graph(), random_options(seed));
    runtime::compile_modules(p, runtime::Cache());
  }
  Executable e = build(program.graph(), store, random_options(seed), program.references());
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::graph, LaunchMode::stream}) {
    std::map<std::string, HostTensor> inputs;
    ir::TensorMap wide, params;
    for (const Binding& b : e.program().inputs) {
      HostTensor t(e.program().buffers[b.buffer].type);
      // Small whole numbers, so that sums of integers and of short floats stay in range.
      std::mt19937 numbers(static_cast<unsigned>(seed + inputs.size()));
      for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<int>(numbers() % 7) - 3);
      wide[b.name] = widen(t);
      inputs.emplace(b.name, std::move(t));
    }
    for (const ParamBinding& b : e.program().params) {
      HostTensor t(e.program().buffers[b.buffer].type);
      for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i % 5));
      store.set(b.name, t);
      params[b.name] = widen(t);
    }
    const ir::TensorMap want =
        ir::interpret(graph, wide, params, ir::Rounding::dtype, program.references());
    e.poison();
    const std::map<std::string, HostTensor> got = e.run(inputs, mode);
    for (const auto& [name, t] : want) {
      if (std::string wrong = differs("output " + name, got.at(name), t); !wrong.empty()) {
        return wrong;
      }
    }
    for (const auto& [name, t] : params) {
      if (std::string wrong = differs("param " + name, store.get(name), t); !wrong.empty()) {
        return wrong;
      }
    }
  }
  return {};
}

int main_of(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--device") a.device = argv[i + 1];
    if (flag == "--seed") a.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--programs") a.programs = std::atoi(argv[i + 1]);
    if (flag == "--compile") a.compile = std::strcmp(argv[i + 1], "0") != 0;
    if (flag == "--only") a.only = std::atoi(argv[i + 1]);
  }
  std::optional<Device> device;
  try {
    device = Device::open(a.device);
  } catch (const NoDevice& e) {
    const char* required = std::getenv("BRAID_REQUIRE_GPU");
    const bool fail = required && std::strcmp(required, "1") == 0;
    fmt::print("{}\n0 passed, {} failed\n", e.what(), fail ? 1 : 0);
    return fail ? 1 : 77;
  }
  int passed = 0, failed = 0;
  for (int i = 0; i < a.programs; ++i) {
    if (a.only >= 0 && i != a.only) continue;
    std::string wrong;
    try {
      wrong = run_one(*device, a.seed * 1000 + static_cast<uint64_t>(i), a.compile);
    } catch (const Error& e) {
      wrong = render(e.diagnostics());
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    ++(wrong.empty() ? passed : failed);
    if (!wrong.empty()) fmt::print("FAILED program {} (--only {}): {}\n", i, i, wrong);
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::main_of(argc, argv); }
