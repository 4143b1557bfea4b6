#include "ir/code_op.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/text.hpp"

namespace braid::ir {
namespace {

/// Whether a scalar parameter of the dtype can be the number: finite, and for integers exact.
bool holds(DType t, double x) {
  if (!std::isfinite(x)) return false;
  if (is_float(t)) return true;
  const double whole = std::trunc(x);
  if (whole != x) return false;
  switch (t) {
    case DType::b1:
      return x == 0 || x == 1;
    case DType::u8:
      return x >= 0 && x <= 255;
    case DType::i8:
      return x >= -128 && x <= 127;
    case DType::i32:
      return x >= INT32_MIN && x <= INT32_MAX;
    default:
      return std::abs(x) <= 0x1p53;
  }
}

/// What is wrong with the parameters of a kernel that takes so many operands and gives so many
/// values, or nothing.
std::string refuse_parameters(const KernelAttr& attr, size_t operands, size_t values) {
  std::vector<int> taken(operands), given(values);
  for (const CodeParameter& p : attr.parameters) {
    if (p.kind == CodeParameter::Kind::scalar) {
      if (p.extent && p.dtype != DType::i32 && p.dtype != DType::i64) {
        return fmt::format("an extent is passed as i32 or i64, not {}", braid::name_of(p.dtype));
      }
      if (!p.extent && !holds(p.dtype, p.number)) {
        return fmt::format("the number {} cannot be passed as {}", p.number,
                           braid::name_of(p.dtype));
      }
      continue;
    }
    const bool operand = p.kind == CodeParameter::Kind::operand;
    std::vector<int>& count = operand ? taken : given;
    if (p.index >= count.size()) {
      return fmt::format("a parameter is {} {}, but there are {}", operand ? "operand" : "result",
                         p.index, count.size());
    }
    ++count[p.index];
  }
  for (const auto& [count, what] : {std::pair(&taken, "operand"), std::pair(&given, "result")}) {
    const auto wrong = std::find_if(count->begin(), count->end(), [](int n) { return n != 1; });
    if (wrong == count->end()) continue;
    return fmt::format("{} {} is {}", what, wrong - count->begin(),
                       *wrong == 0 ? "no parameter" : "more than one parameter");
  }
  return {};
}

}  // namespace

std::optional<int64_t> Extent::value() const {
  if (!factor.is_const() || !dividend.is_const() || !divisor.is_const()) return std::nullopt;
  if (divisor.value() == 0) return std::nullopt;
  const int64_t whole = dividend.value() / divisor.value();
  const int64_t blocks = whole + (dividend.value() % divisor.value() != 0 ? 1 : 0);
  int64_t product;
  if (__builtin_mul_overflow(blocks, factor.value(), &product)) return std::nullopt;
  return product;
}

std::string to_string(const Extent& e, const DimTable& dims) {
  if (e == Extent(e.factor)) {
    const std::string text = dims.str(e.factor);
    return text.starts_with("ceil") ? "(" + text + ")" : text;  // a dim of that name
  }
  const std::string rounded =
      fmt::format("ceil({}, {})", dims.str(e.dividend), dims.str(e.divisor));
  if (e.factor == Dim(1)) return rounded;
  return fmt::format("{}*({})", rounded, dims.str(e.factor));
}

std::vector<std::string> launch_errors(const DimTable& dims, const KernelAttr& attr,
                                       int64_t most_shared_bytes) {
  constexpr std::array<int64_t, 3> kMostBlocks{INT32_MAX, 65535, 65535};
  constexpr std::array<int64_t, 3> kMostThreads{1024, 1024, 64};
  std::vector<std::string> wrong;
  const auto known = [](const Extent& e) {
    return e.factor.is_const() && e.dividend.is_const() && e.divisor.is_const();
  };
  const auto check = [&](const Extent& e, std::string_view what, int64_t least, int64_t most) {
    const std::optional<int64_t> n = e.value();
    if (n && *n >= least && *n <= most) return;
    if (n) {
      wrong.push_back(fmt::format("{} is {}, but must be {} to {}", what, *n, least, most));
    } else if (known(e)) {
      wrong.push_back(fmt::format("{} is {}, which is no 64-bit number", what, to_string(e, dims)));
    }
  };
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    check(attr.grid[i], fmt::format("the grid's {}", "xyz"[i]), 1, kMostBlocks[i]);
    check(attr.block[i], fmt::format("the block's {}", "xyz"[i]), 1, kMostThreads[i]);
    threads *= std::clamp<int64_t>(attr.block[i].value().value_or(1), 1, 1024);
  }
  if (wrong.empty() && threads > 1024) {
    wrong.push_back(fmt::format("a block of {} threads is more than 1024", threads));
  }
  check(attr.shared_bytes, "shared memory in bytes", 0, most_shared_bytes);
  for (size_t i = 0; i < attr.parameters.size(); ++i) {
    const CodeParameter& p = attr.parameters[i];
    if (!p.extent) continue;
    // 64-bit extents are kept as doubles: exact up to there.
    const int64_t most = p.dtype == DType::i32 ? INT32_MAX : int64_t{1} << 53;
    check(*p.extent, fmt::format("parameter {}, an {},", i + 1, braid::name_of(p.dtype)), 0, most);
  }
  return wrong;
}

int64_t most_shared_bytes(std::string_view arch) {
  constexpr int64_t kKib = 1024;
  if (arch == "sm_80" || arch == "sm_87") return 163 * kKib;
  if (arch == "sm_86" || arch == "sm_89" || arch.starts_with("sm_12")) return 99 * kKib;
  return kMostSharedBytes;
}

RegionResults code_results(const Graph& graph, OpKind kind, const Attrs& attrs,
                           const std::vector<ValueId>& operands,
                           const std::vector<TensorType>& values) {
  RegionResults out;
  const auto refuse = [&](const std::string& why) {
    out.error = fmt::format("{}: {}", info(kind).name, why);
    return out;
  };
  out.types = values;
  out.state.assign(values.size(), false);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!graph.value(operands[k]).state) continue;
    const Attrs& sort = graph.op(param_of(graph, operands[k])).attrs;
    if (!std::holds_alternative<ParamAttr>(sort) && !std::holds_alternative<LocalAttr>(sort)) {
      return refuse(fmt::format("operand {} is neither a value nor memory", k));
    }
    out.types.push_back(graph.type(operands[k]));
    out.state.push_back(true);
  }
  if (out.types.empty()) return refuse("it has no result");
  if (const auto* kernel = std::get_if<KernelAttr>(&attrs)) {
    if (std::string why = refuse_parameters(*kernel, operands.size(), values.size());
        !why.empty()) {
      return refuse(why);
    }
  }
  return out;
}

std::vector<TensorType> value_types(const Graph& graph, const Op& op) {
  std::vector<TensorType> types;
  for (uint32_t r = 0; r < op.results; ++r) {
    const Value& v = graph.value(op.result_at(r));
    if (!v.state) types.push_back(v.type);
  }
  return types;
}

std::string attributes_text(const Graph& g, const KernelAttr& a) {
  const auto extents = [&](const std::array<Extent, 3>& e) {
    return fmt::format("[{}, {}, {}]", to_string(e[0], g.dims), to_string(e[1], g.dims),
                       to_string(e[2], g.dims));
  };
  std::vector<std::string> parameters, include;
  for (const CodeParameter& p : a.parameters) {
    if (p.kind != CodeParameter::Kind::scalar) {
      const bool operand = p.kind == CodeParameter::Kind::operand;
      parameters.push_back(fmt::format("{} {}", operand ? "operand" : "result", p.index));
    } else if (p.extent) {
      parameters.push_back(
          fmt::format("extent {} {}", braid::name_of(p.dtype), to_string(*p.extent, g.dims)));
    } else {
      parameters.push_back(fmt::format("scalar {} {}", braid::name_of(p.dtype), p.number));
    }
    if (!g.strings[p.name].empty()) parameters.back() += " " + quoted(g.strings[p.name]);
  }
  for (StrId s : a.include) include.push_back(quoted(g.strings[s]));
  std::vector<std::string> all;
  const auto text = [&](std::string_view key, StrId s) {
    if (!g.strings[s].empty()) all.push_back(fmt::format("{}={}", key, quoted(g.strings[s])));
  };
  text("kernel", a.name);
  text("function", a.function);
  text("file", a.file);
  if (a.line != 1) all.push_back(fmt::format("line={}", a.line));
  if (!include.empty()) all.push_back(fmt::format("include=[{}]", fmt::join(include, ", ")));
  all.push_back(fmt::format("parameters=[{}]", fmt::join(parameters, ", ")));
  all.push_back("blocks=" + extents(a.grid));
  all.push_back("threads=" + extents(a.block));
  if (a.shared_bytes != Extent(Dim(0))) {
    all.push_back("shared=" + to_string(a.shared_bytes, g.dims));
  }
  text("reference", a.reference);
  text("code", a.code);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string attributes_text(const Graph& g, const LibraryAttr& a) {
  std::string s = "function=" + quoted(g.strings[a.function]);
  if (a.workspace != Dim(0)) s += ", workspace=" + g.dims.str(a.workspace);
  if (!g.strings[a.reference].empty()) s += ", reference=" + quoted(g.strings[a.reference]);
  return s;
}

}  // namespace braid::ir
