#include "passes/kernels/cuda_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::kernels {
namespace {

std::string float_literal(double x, bool is_double) {
  if (!std::isfinite(x)) {
    if (is_double) {
      if (std::isnan(x)) return "__longlong_as_double(0x7ff8000000000000LL)";
      return x > 0 ? "__longlong_as_double(0x7ff0000000000000LL)"
                   : "(-__longlong_as_double(0x7ff0000000000000LL))";
    }
    if (std::isnan(x)) return "__int_as_float(0x7fc00000)";
    return x > 0 ? "__int_as_float(0x7f800000)" : "(-__int_as_float(0x7f800000))";
  }
  std::string s = is_double ? fmt::format("{}", x) : fmt::format("{}", static_cast<float>(x));
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  if (!is_double) s += "f";
  return s[0] == '-' ? "(" + s + ")" : s;
}

std::string int_literal(DType t, int64_t x) {
  if (t == DType::b1) return x != 0 ? "true" : "false";
  const bool wide = t == DType::i64;
  const int64_t lowest =
      wide ? std::numeric_limits<int64_t>::min() : int64_t{std::numeric_limits<int32_t>::min()};
  const char* suffix = wide ? "LL" : "";
  // The lowest value has no literal of its own type.
  std::string s = x == lowest ? fmt::format("({}{} - 1)", lowest + 1, suffix)
                  : x < 0     ? fmt::format("({}{})", x, suffix)
                              : fmt::format("{}{}", x, suffix);
  if (t == DType::i8 || t == DType::u8) s = fmt::format("(({}){})", register_type(t), s);
  return s;
}

}  // namespace

std::string_view storage_type(DType t) {
  switch (t) {
    case DType::f16:
      return "braid_f16";
    case DType::bf16:
      return "braid_bf16";
    case DType::b1:
      return "braid_b1";
    default:
      return register_type(t);
  }
}

std::string_view register_type(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "float";
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long long";
    case DType::i8:
      return "signed char";
    case DType::u8:
      return "unsigned char";
    case DType::b1:
      return "bool";
  }
  throw InternalError("a dtype has no CUDA type");
}

std::string_view index_type(int64_t extent) {
  return extent <= std::numeric_limits<int32_t>::max() - 2048 ? "int" : "long long";
}

std::string load_text(DType t, std::string_view memory) {
  return storage_type(t) == register_type(t) ? std::string(memory)
                                             : fmt::format("braid_load({})", memory);
}

std::string store_text(DType t, std::string_view value) {
  return storage_type(t) == register_type(t) ? std::string(value)
                                             : fmt::format("braid_to_{}({})", name_of(t), value);
}

std::string literal_text(DType t, double f, int64_t i) {
  return is_float(t) ? float_literal(f, t == DType::f64) : int_literal(t, i);
}

std::string literal_text(const ir::Literal& splat) {
  HostTensor one(TensorType{splat.type.dtype, Shape{}});
  ensure(splat.splat && splat.bytes.size() == one.bytes.size(),
         "a kernel body holds a constant that is not a splat");
  one.bytes = splat.bytes;
  const DType t = splat.type.dtype;
  return is_float(t) ? literal_text(t, one.at(0), 0) : literal_text(t, 0, one.int_at(0));
}

std::string cast_text(DType from, DType to, std::string_view x) {
  if (register_type(from) == register_type(to)) return std::string(x);
  if (to == DType::b1) return fmt::format("{} != 0", x);
  if (is_float(from) && is_int(to))
    return fmt::format("braid_to_int<{}>({})", register_type(to), x);
  return fmt::format("({}){}", register_type(to), x);
}

std::string function_text(Fn fn, DType t, const std::vector<std::string>& operands) {
  const ScalarInfo& f = info(fn);
  const std::string_view text = is_float(t) || f.cuda_int.empty() ? f.cuda_float : f.cuda_int;
  ensure(!text.empty(), "a scalar function has no CUDA text for this dtype");
  std::string s;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') {
      s += operands.at(static_cast<size_t>(text[++i] - '0'));
    } else {
      s += text[i];
    }
  }
  return s;
}

std::string combine_text(Fn fn, DType t) {
  const std::string_view type = register_type(t);
  return fmt::format("[]({} a, {} b) -> {} {{ return {}; }}", type, type, type,
                     function_text(fn, t, {"a", "b"}));
}

namespace {

Argument::Sort sort_of(const ir::Op& param) {
  if (std::holds_alternative<ir::HandleAttr>(param.attrs)) return Argument::Sort::handle;
  if (std::holds_alternative<ir::RingAttr>(param.attrs)) return Argument::Sort::ring;
  return Argument::Sort::memory;
}

}  // namespace

Signature::Signature(const ir::Graph& body, const Use& use)
    : parts(use.parts), guard(use.guard), waits(use.waits) {
  ensure(parts == 1 || !guard, "a guarded kernel has several parts");
  size_t inputs = 0, params = 0;
  for (const ir::Op& op : body.ops()) {
    if (op.kind == ir::OpKind::input) {
      args.push_back({fmt::format("a{}", inputs++), op.result, body.type(op.result)});
    } else if (op.kind == ir::OpKind::param) {
      args.push_back({fmt::format("s{}", params++), op.result, body.type(op.result), sort_of(op)});
      writes_in_place |= args.back().sort == Argument::Sort::memory;
    }
  }
  leading = args.size();
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const ir::ValueId v = body.outputs[i].value;
    ensure(!body.value(v).state, "a kernel body gives out a state version");
    args.push_back({fmt::format("r{}", i), v, body.type(v)});
  }
  for (size_t i = 0; i < std::min(leading, use.fixed.size()); ++i) args[i].fixed = use.fixed[i];
}

void Signature::set_in_place(const std::vector<InPlace>& pairs) {
  for (const InPlace& pair : pairs) args[pair.out].in_place = args[pair.in].in_place = true;
}

size_t Signature::arg_of(ir::ValueId v) const {
  for (size_t i = 0; i < leading; ++i) {
    if (args[i].value == v) return i;
  }
  throw InternalError("a kernel reads a value that is not an argument");
}

namespace {

/// "const float* __restrict__ ".
std::string argument_type(const Signature& signature, size_t arg) {
  const Argument& a = signature.args[arg];
  if (a.sort == Argument::Sort::handle) return "unsigned long long ";
  if (a.sort == Argument::Sort::ring) return "braid_ring* ";
  const bool constant = arg < signature.leading && a.name[0] == 'a';
  // What the kernel waits for must not be loaded earlier, as the compiler may where it knows that
  // nothing changes it.
  const bool early = constant && signature.waits && !a.fixed;
  return fmt::format("{}{}*{} ", constant ? "const " : "", storage_type(a.type.dtype),
                     signature.writes_in_place || a.in_place || early ? "" : " __restrict__");
}

std::string name_in_part(const Argument& a, uint32_t part) {
  return fmt::format("p{}_{}", part, a.name);
}

/// Names the arguments of the block's part like those of a kernel of one part.
std::vector<std::string> choose_part(const Signature& signature) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < signature.args.size(); ++i) {
    lines.push_back(argument_type(signature, i) + signature.args[i].name + ";");
  }
  lines.push_back("switch (blockIdx.y) {");
  for (uint32_t part = 0; part < signature.parts; ++part) {
    std::string line =
        part + 1 < signature.parts ? fmt::format("case {}:", part) : std::string("default:");
    for (const Argument& a : signature.args) {
      line += fmt::format(" {} = {};", a.name, name_in_part(a, part));
    }
    lines.push_back(line + " break;");
  }
  lines.push_back("}");
  return lines;
}

std::string leave_unless(const Guard& guard) {
  const std::string value = load_text(guard.dtype, "*guard");
  if (guard.dtype != DType::b1) return fmt::format("if ({} != {}) return;", value, guard.value);
  return fmt::format("if ({}{}) return;", guard.value != 0 ? "!" : "", value);
}

}  // namespace

std::string_view wait_line() { return "braid_wait_for_others();"; }

std::string kernel_text(const ir::Graph& body, const Signature& signature, std::string_view symbol,
                        std::string_view bounds, const std::vector<std::string>& lines,
                        int64_t cluster) {
  std::string s;
  std::istringstream bir(ir::print(body));
  for (std::string line; std::getline(bir, line);) s += line.empty() ? "//\n" : "// " + line + "\n";
  // The driver's own, which resolves it. Declared where it is called alone: what does without has
  // no symbol that is left open.
  const bool sets_handles =
      std::any_of(signature.args.begin(), signature.args.end(),
                  [](const Argument& a) { return a.sort == Argument::Sort::handle; });
  if (sets_handles) {
    s += "extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long, unsigned);\n";
  }
  const std::string clusters =
      cluster == 1 ? "" : fmt::format("__cluster_dims__({}, 1, 1) ", cluster);
  s += fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}) {}(\n", clusters, bounds,
                   symbol);
  std::vector<std::string> arguments;
  for (uint32_t part = 0; part < signature.parts; ++part) {
    for (size_t i = 0; i < signature.args.size(); ++i) {
      const Argument& a = signature.args[i];
      arguments.push_back("    " + argument_type(signature, i) +
                          (signature.parts == 1 ? a.name : name_in_part(a, part)));
    }
  }
  if (signature.guard) {
    arguments.push_back(fmt::format("    const {}* guard", storage_type(signature.guard->dtype)));
  }
  for (const std::string& declared : signature.trailing) arguments.push_back("    " + declared);
  s += fmt::format("{}) {{\n", fmt::join(arguments, ",\n"));
  std::vector<std::string> all;
  if (signature.waits) {
    const bool by_itself = std::find(lines.begin(), lines.end(), wait_line()) != lines.end();
    if (!by_itself || signature.guard) all.emplace_back(wait_line());
  }
  if (signature.parts > 1 && !lines.empty()) {
    const std::vector<std::string> chosen = choose_part(signature);
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  if (signature.guard && !lines.empty()) all.push_back(leave_unless(*signature.guard));
  all.insert(all.end(), lines.begin(), lines.end());
  int depth = 1;
  for (const std::string& line : all) {
    if (!line.empty() && line[0] == '}') --depth;
    const bool flush = line.empty() || line[0] == '#';
    s += (flush ? "" : std::string(static_cast<size_t>(2 * depth), ' ')) + line + "\n";
    if (!line.empty() && line.back() == '{') ++depth;
  }
  return s + "}\n";
}

LaunchShape launch_of(const Signature& signature, int64_t blocks, uint32_t threads) {
  if (blocks > std::numeric_limits<int32_t>::max()) {
    throw TooLarge(
        fmt::format("it would take {} blocks, and a launch has at most 2147483647", blocks));
  }
  LaunchShape launch;
  launch.grid = {static_cast<uint32_t>(std::max<int64_t>(blocks, 1)), signature.parts, 1};
  launch.block = {threads, 1, 1};
  return launch;
}

Emitted empty_kernel(const ir::Graph& body, const Signature& signature, std::string_view symbol) {
  return {kernel_text(body, signature, symbol, "32", {}), launch_of(signature, 1, 32)};
}

}  // namespace braid::kernels
