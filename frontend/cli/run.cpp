#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/cli/cli.hpp"
#include "frontend/npy.hpp"

namespace braid::cli {
namespace {

constexpr int kCudaOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

std::string value_text(const HostTensor& t, int64_t i) {
  if (t.type.dtype == DType::b1) return t.int_at(i) ? "true" : "false";
  if (is_float(t.type.dtype)) return fmt::format("{:.6g}", t.at(i));
  return fmt::format("{}", t.int_at(i));
}

/// "y f32[128,16]  mean 0.01 std 0.8  [0.1, 0.2, ...]"
std::string summary(const std::string& name, const HostTensor& t) {
  const int64_t n = t.numel();
  std::string line = fmt::format("{} {}", name, to_string(t.type));
  if (is_float(t.type.dtype) && n > 1) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += t.at(i);
    const double mean = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) squares += (t.at(i) - mean) * (t.at(i) - mean);
    line +=
        fmt::format("  mean {:.6g}  std {:.6g}", mean, std::sqrt(squares / static_cast<double>(n)));
  }
  line += "  [";
  for (int64_t i = 0; i < std::min<int64_t>(n, 6); ++i) {
    line += (i ? ", " : "") + value_text(t, i);
  }
  return line + (n > 6 ? ", ...]" : "]");
}

/// |a - b| <= atol + rtol * |b| for every element; NaN equals NaN. Returns a sentence if not.
std::string mismatch(const HostTensor& a, const HostTensor& b, double rtol, double atol) {
  int64_t wrong = 0, worst = -1;
  double worst_excess = -1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.at(i), y = b.at(i);
    const bool same =
        x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= atol + rtol * std::abs(y);
    if (same) continue;
    ++wrong;
    const double excess = std::isfinite(x - y) ? std::abs(x - y) : INFINITY;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} elements differ; the worst is element {}: {} instead of {}", wrong,
                     a.numel(), worst, value_text(a, worst), value_text(b, worst));
}

/// The least cosine between rows, which lie along the last axis. NaN if a row is not finite or is
/// zero on one side only.
double least_cosine(const HostTensor& a, const HostTensor& b) {
  const Shape& s = a.type.shape;
  const int64_t n = s.rank() == 0 ? 1 : s[s.rank() - 1].value();
  double least = 1;
  for (int64_t row = 0; n > 0 && row < a.numel() / n; ++row) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) {
      ab += a.at(i) * b.at(i);
      aa += a.at(i) * a.at(i);
      bb += b.at(i) * b.at(i);
    }
    const double cosine = aa == 0 && bb == 0 ? 1 : ab / std::sqrt(aa * bb);
    if (!(cosine >= least)) least = cosine;
    if (std::isnan(least)) return least;
  }
  return least;
}

/// Compares as the flags ask: a line, and whether it is as expected.
std::pair<std::string, bool> compare(const HostTensor& got, const HostTensor& expected,
                                     const RunArgs& a) {
  const double error = relative_error(got, expected);
  if (a.cosine > 0) {
    const double cosine = least_cosine(got, expected);
    const bool good = cosine >= a.cosine;
    return {fmt::format("{}: least cosine of a row {:.7f}{}, relative error {:.3g}",
                        good ? "as expected" : "MISMATCH", cosine,
                        good ? "" : fmt::format(" is below {}", a.cosine), error),
            good};
  }
  const std::string wrong = mismatch(got, expected, a.rtol, a.atol);
  return {wrong.empty() ? fmt::format("as expected: relative error {:.3g}", error)
                        : fmt::format("MISMATCH: {}; relative error {:.3g}", wrong, error),
          wrong.empty()};
}

/// What the flags give values to.
struct Given {
  const std::vector<NamedFile>&inputs, &params;
  const std::vector<NamedNumber>& scalars;
};

/// How many params nothing but the seed fills.
size_t random_params(const Program& program, bool weights, const std::vector<NamedFile>& given) {
  if (weights) return 0;
  size_t count = 0;
  for (const ParamBinding& b : program.params) {
    count += b.init == ir::Init::normal &&
             std::none_of(given.begin(), given.end(),
                          [&](const NamedFile& f) { return f.name == b.name; });
  }
  return count;
}

/// Compiles, loads, fills and launches; the outputs of the last launch.
std::map<std::string, HostTensor> launch(const RunArgs& a, const GlobalArgs& g,
                                         const Device& device, Program program,
                                         const std::optional<WeightsFrom>& weights,
                                         const Given& given) {
  const std::map<std::string, HostTensor> in = make_inputs(program, given.inputs, a.seed);
  if (!device.simulated()) compile_kernels(program, g);
  Store store(device);
  store.declare(program, a.seed);
  if (weights) load_weights(store, program, *weights);
  // A .braid file names no weights, whatever its model did.
  const size_t random = random_params(program, weights.has_value(), given.params);
  if (random > 0 && is_program_file(a.plan.file)) {
    note(g, fmt::format("{} hold{} random values: --weights FILE gives them others",
                        random == 1 ? "1 param" : fmt::format("{} params", random),
                        random == 1 ? "s" : ""));
  }
  for (const NamedFile& f : given.params) {
    for (const ParamBinding& b : program.params) {
      if (b.name == f.name) {
        store.set(f.name, load_tensor(f.file, program.buffers[b.buffer].type, f.name));
      }
    }
  }
  Messages messages(a.messages, g);
  Executable executable(std::move(program), store, host_functions(), messages.options());
  executable.poison();
  std::map<std::string, HostTensor> results;
  for (int64_t step = 0; step < a.steps; ++step) {
    set_scalars(executable, given.scalars, step);
    results = executable.run(in, a.stream ? LaunchMode::stream : LaunchMode::graph);
  }
  messages.finish(executable);
  return results;
}

}  // namespace

int run_command(const RunArgs& a, const GlobalArgs& g) {
  const std::vector<NamedFile> inputs = named_files(a.inputs, "--input");
  const std::vector<NamedFile> params = named_files(a.params, "--param");
  const std::vector<NamedFile> outputs = named_files(a.outputs, "--output");
  const std::vector<NamedFile> expects = named_files(a.expects, "--expect");
  const std::vector<NamedNumber> scalars = scalar_values(a.scalars);
  if (a.steps < 1) throw UsageError("--steps takes a number of launches, 1 or more");

  const Device device = Device::open(a.device);
  if (const std::string why = device.note(); !why.empty()) {
    note(g, fmt::format("simulating: {}", why));
  }
  auto [program, weights, origins] =
      load_program(a.plan, g, device.simulated() ? std::string() : device.target().arch, inputs);
  require_names(inputs, names_of(program.inputs), "--input", "input");
  require_names(outputs, names_of(program.outputs), "--output", "output");
  require_names(expects, names_of(program.outputs), "--expect", "output");
  std::vector<std::string> param_names;
  for (const ParamBinding& b : program.params) param_names.push_back(b.name);
  require_names(params, param_names, "--param", "param");

  if (weights) {
    for (const NamedFile& f : params) weights->given.push_back(f.name);
    check_weights(weight_specs(program), *weights);
  }

  std::map<std::string, HostTensor> expected;
  for (const NamedFile& f : expects) {
    for (const Binding& b : program.outputs) {
      if (b.name == f.name) {
        expected[f.name] = load_tensor(f.file, program.buffers[b.buffer].type, f.name);
      }
    }
  }

  const std::vector<Binding> bindings = program.outputs;
  const HostNeeds needs = host_needs(program);
  if (device.simulated()) require_host_memory(needs);
  std::map<std::string, HostTensor> results;
  try {
    results = launch(a, g, device, std::move(program), weights, {inputs, params, scalars});
  } catch (const std::bad_alloc&) {
    out_of_memory(needs);
  } catch (const CudaError& e) {
    if (device.simulated() && e.code() == kCudaOutOfMemory) out_of_memory(needs);
    throw;
  }

  for (const NamedFile& f : outputs) write_npy(f.file, results.at(f.name));
  int code = kOk;
  for (const Binding& b : bindings) {
    const HostTensor& got = results.at(b.name);
    std::string line = summary(b.name, got);
    if (const auto it = expected.find(b.name); it != expected.end()) {
      const auto [text, good] = compare(got, it->second, a);
      line += "\n  " + text;
      if (!good) code = kMismatch;
    }
    print_out(line + "\n");
  }
  return code;
}

}  // namespace braid::cli
