#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "frontend/cli/cli.hpp"
#include "frontend/npy.hpp"
#include "frontend/toml.hpp"
#include "ir/file.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "runtime/nvrtc.hpp"

namespace braid::cli {
namespace {

bool ends_with(std::string_view s, std::string_view end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}

}  // namespace

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw_error("E0701", fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

void say(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void note(const GlobalArgs& g, std::string_view line) {
  if (g.quiet) return;
  if (g.json_diagnostics) {
    Diagnostic d;
    d.severity = Severity::note;
    d.message = line;
    say(render_json({d}));
  } else {
    say(fmt::format("{}\n", line));
  }
}

void show(const GlobalArgs& g, const std::vector<Diagnostic>& diagnostics) {
  if (g.json_diagnostics) {
    say(render_json(diagnostics, g.max_errors));
    return;
  }
  RenderOptions o;
  o.colour = stderr_colour(g);
  o.max_errors = g.max_errors;
  say(render(diagnostics, o));
}

bool stderr_colour(const GlobalArgs& g) {
  if (g.color != "auto") return g.color == "always";
  const auto set = [](const char* name) {
    const char* v = std::getenv(name);
    return v && *v;
  };
  if (set("NO_COLOR")) return false;
  if (set("FORCE_COLOR")) return true;
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && term && std::strcmp(term, "dumb") != 0;
}

bool is_program_file(const std::string& file) { return ends_with(file, ".braid"); }

namespace {

/// "T=bf16" -> {"T", bf16}.
TomlDTypes dtypes_of(const PlanArgs& a) {
  TomlDTypes out;
  for (const std::string& arg : a.dtypes) {
    const size_t eq = arg.find('=');
    const auto dtype = eq == std::string::npos ? std::nullopt : dtype_from_name(arg.substr(eq + 1));
    if (eq == 0 || !dtype) {
      throw UsageError(fmt::format(
          "--dtype takes NAME=DTYPE, such as T=bf16, not '{}'; dtypes are f32 f16 bf16 f64 i32 i64 "
          "i8 u8 b1",
          arg));
    }
    const std::string name = arg.substr(0, eq);
    for (const auto& [other, before] : out) {
      if (other == name) throw UsageError(fmt::format("--dtype '{}' is given twice", name));
    }
    out.emplace_back(name, *dtype);
  }
  return out;
}

/// --weights names another file, but not other tensors to ignore.
std::optional<WeightsFrom> weights_of(const PlanArgs& a, std::optional<WeightsFrom> file) {
  if (a.weights.empty()) return file;
  WeightsFrom from = std::move(file).value_or(WeightsFrom{});
  from.path = a.weights;
  from.place = {};
  return from;
}

}  // namespace

Model load_graph(const PlanArgs& a, const GlobalArgs& g) {
  if (a.file != "-" && !ends_with(a.file, ".bir") && !ends_with(a.file, ".toml")) {
    throw UsageError(fmt::format("{}: a model is a .toml, .bir or .braid file", a.file));
  }
  const std::string text = read_file(a.file);
  const std::string name = a.file == "-" ? "<stdin>" : a.file;
  if (a.file == "-" && text.rfind("BRAIDPRG", 0) == 0) {
    throw UsageError("a .braid file cannot come from standard input: give its name");
  }
  const bool bir = a.file == "-" ? text.rfind("bir", 0) == 0 : ends_with(a.file, ".bir");
  const TomlDTypes dtypes = dtypes_of(a);
  if (bir) {
    if (!dtypes.empty()) throw UsageError("--dtype belongs to the [dtypes] of a .toml model");
    return {ir::parse(text, name), weights_of(a, {}), settings_of(a)};
  }
  TomlModel model = read_toml(text, name, dtypes);
  if (!model.warnings.empty()) show(g, model.warnings);
  Settings settings = settings_of(a, model.compile);
  for (const auto& [dim, value] : settings.options.dims) {
    const auto it = model.constant_dims.find(dim);
    if (it == model.constant_dims.end()) continue;
    Diagnostic d;
    d.code = "E0601";
    d.message = fmt::format(
        "--dim {}: the model has '{}' as a constant or expression, not as a "
        "symbol",
        dim, dim);
    d.suggestion = fmt::format("a symbol is {} = {{ default = {} }}", dim, value);
    d.place = it->second;
    throw Error(std::move(d));
  }
  return {model.graph->ir(), weights_of(a, std::move(model.weights)), std::move(settings)};
}

Plan load_program(const PlanArgs& a, const GlobalArgs& g, std::string_view target,
                  const std::vector<NamedFile>& inputs) {
  if (is_program_file(a.file)) {
    const bool switches = a.fuse || a.chain || a.group || a.reuse || a.reduce || a.split || a.pdl ||
                          a.simplify || a.single_graph || a.force_lanes || !a.on_break.empty() ||
                          !a.memory_limit.empty() || !a.branches.empty() || !a.loops.empty() ||
                          !a.host.empty() || a.unroll || a.unroll_limit;
    if (!a.target.empty() || a.streams != 0 || !a.math.empty() || !a.dots.empty() ||
        !a.dims.empty() || !a.dtypes.empty() || switches || !a.dump_dir.empty()) {
      throw UsageError(fmt::format(
          "{} is compiled already: flags that shape the plan belong to 'braid compile'", a.file));
    }
    const std::string text = read_file(a.file);
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    Program p = read_program(bytes, a.file);
    const std::vector<std::string> wrong = check(p);
    if (!wrong.empty()) {
      Diagnostic d;
      d.code = "E0840";
      d.message = fmt::format("{} holds a plan that does not pass the checker", a.file);
      for (size_t i = 0; i < wrong.size() && i < 10; ++i) d.details.push_back(wrong[i]);
      throw Error(std::move(d));
    }
    return {std::move(p), weights_of(a, {}), {}};
  }
  Model model = load_graph(a, g);
  Options& o = model.settings.options;
  if (const std::string dims = dims_from_inputs(model.graph, inputs, o.dims); !dims.empty()) {
    note(g, dims);
  }
  if (!target.empty() && !model.settings.target_from_caller) {
    if (const auto t = target_from_name(target)) {
      o.target = *t;
    } else {
      note(g, fmt::format("{} is not a known target, compiling for {}", target, o.target.arch));
    }
  }
  return plan_of(std::move(model), g);
}

Plan plan_of(Model model, const GlobalArgs& g) {
  const Options& o = model.settings.options;
  const Places places = o.on_break == OnBreak::warn ? places_of(model.graph) : Places();
  Plan plan{compile(std::move(model.graph), o), std::move(model.weights),
            std::move(model.settings.origins)};
  if (o.on_break == OnBreak::warn) warn_of_breaks(plan.program, places, g);
  return plan;
}

void compile_kernels(Program& p, const GlobalArgs& g) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && !g.quiet && !g.json_diagnostics;
  bool shown = false;
  const runtime::Cache cache = runtime::Cache::from_environment();
  const InterruptGuard guard;
  runtime::CompileStats s;
  const auto erase = [&] {
    if (shown) say(fmt::format("\r{:40}\r", ""));
  };
  try {
    s = runtime::compile_modules(p, cache, 0, [&](int64_t done, int64_t total) {
      if (terminal && total > 1) {
        say(fmt::format("\r[{}/{} kernel modules]", done, total));
        shown = true;
      }
      return !InterruptGuard::seen_signal();
    });
  } catch (const Error&) {
    erase();
    if (InterruptGuard::seen_signal()) throw Interrupted();
    throw;
  }
  erase();
  if (s.compiled > 0) {
    note(g, fmt::format("compiled {} kernels in {} modules, {} modules from the cache",
                        s.kernels_compiled, s.compiled, s.from_cache));
  }
  if (!s.not_kept.empty()) {
    note(g, fmt::format("the kernels were not kept: {}; BRAID_CACHE names another folder",
                        s.not_kept));
  }
}

std::vector<std::string> names_of(const std::vector<Binding>& bindings) {
  std::vector<std::string> names;
  for (const Binding& b : bindings) names.push_back(b.name);
  return names;
}

std::vector<NamedFile> named_files(const std::vector<std::string>& args, std::string_view flag,
                                   bool repeated) {
  std::vector<NamedFile> out;
  for (const std::string& arg : args) {
    const size_t eq = arg.find("=@");
    if (eq == 0 || eq == std::string::npos || eq + 2 == arg.size()) {
      throw UsageError(fmt::format("{} takes NAME=@FILE.npy, not '{}'", flag, arg));
    }
    NamedFile f{arg.substr(0, eq), arg.substr(eq + 2)};
    if (f.file == "-") {
      throw UsageError(
          fmt::format("{} {}: a tensor is a .npy file of its own, not a standard stream; give the "
                      "name of a file",
                      flag, arg));
    }
    for (const NamedFile& other : out) {
      if (other.name == f.name && !repeated)
        throw UsageError(fmt::format("{} '{}' is given twice", flag, f.name));
    }
    out.push_back(std::move(f));
  }
  return out;
}

std::vector<NamedNumber> scalar_values(const std::vector<std::string>& args) {
  std::vector<NamedNumber> out;
  for (const std::string& arg : args) {
    const size_t eq = arg.find('=');
    const std::string name = arg.substr(0, eq);
    const std::string text = eq == std::string::npos ? std::string() : arg.substr(eq + 1);
    char* end = nullptr;
    errno = 0;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    const bool integer = !text.empty() && *end == '\0' && errno == 0;
    const double number = std::strtod(text.c_str(), &end);
    const bool truth = text == "true" || text == "false";
    const bool step = text == "step";
    if (name.empty() || text.empty() || (*end != '\0' && !truth && !step)) {
      throw UsageError(fmt::format(
          "--set takes NAME=NUMBER, or NAME=step for the number of the launch, not '{}'", arg));
    }
    for (const NamedNumber& other : out) {
      if (other.name == name) throw UsageError(fmt::format("--set '{}' is given twice", name));
    }
    if (step) {
      out.push_back({name, int64_t{0}, true});
    } else if (truth) {
      out.push_back({name, text == "true"});
    } else if (integer) {
      out.push_back({name, int64_t{whole}});
    } else {
      out.push_back({name, number});
    }
  }
  return out;
}

void set_scalars(Executable& e, const std::vector<NamedNumber>& values, int64_t step) {
  std::vector<std::string> known;
  for (const ScalarBinding& b : e.program().scalars) known.push_back(b.name);
  std::vector<NamedFile> names;
  for (const NamedNumber& v : values) names.push_back({v.name, {}});
  require_names(names, known, "--set", "scalar");
  for (const NamedNumber& v : values) e.set(v.name, v.step ? ScalarValue(step) : v.value);
}

void require_names(const std::vector<NamedFile>& files, const std::vector<std::string>& known,
                   std::string_view flag, std::string_view what) {
  for (const NamedFile& f : files) {
    if (std::find(known.begin(), known.end(), f.name) != known.end()) continue;
    const std::string hint = suggest_or_list(f.name, known);
    throw UsageError(fmt::format("{}: the model has no {} '{}'{}{}", flag, what, f.name,
                                 hint.empty() ? "" : "; ", hint));
  }
}

HostTensor load_tensor(const std::string& file, const TensorType& type, std::string_view name) {
  HostTensor t = read_npy(file);
  if (t.type.shape != type.shape) {
    throw_error("E0802", fmt::format("'{}' is {}, but {} holds {}", name, to_string(type), file,
                                     to_string(t.type)));
  }
  if (t.type.dtype == type.dtype) return t;
  if (!(is_float(t.type.dtype) && is_float(type.dtype)) &&
      !(is_int(t.type.dtype) && is_int(type.dtype))) {
    throw_error("E0802", fmt::format("'{}' is {}, but {} holds {}: convert the file", name,
                                     to_string(type), file, to_string(t.type)));
  }
  std::string why;
  std::optional<HostTensor> out = convert_elements(std::move(t), type.dtype, why);
  if (!out) throw_error("E0802", fmt::format("{} for '{}': {}", file, name, why));
  return *std::move(out);
}

std::map<std::string, HostTensor> make_inputs(const Program& p, const std::vector<NamedFile>& files,
                                              uint64_t seed) {
  std::map<std::string, HostTensor> inputs;
  for (const Binding& b : p.inputs) {
    inputs[b.name] = random_tensor(p.buffers[b.buffer].type, seed, b.name);
  }
  for (const NamedFile& f : files) {
    inputs[f.name] = load_tensor(f.file, inputs.at(f.name).type, f.name);
  }
  return inputs;
}

}  // namespace braid::cli
