#include "ir/code_op.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/text.hpp"

namespace braid::ir {
namespace {

/// What is wrong with the parameters of a kernel that takes so many operands and gives so many
/// values, or nothing.
std::string refuse_parameters(const KernelAttr& attr, size_t operands, size_t values) {
  std::vector<int> taken(operands), given(values);
  for (const CodeParameter& p : attr.parameters) {
    if (p.kind == CodeParameter::Kind::scalar) {
      if (p.extent && p.dtype != DType::i32 && p.dtype != DType::i64) {
        return fmt::format("an extent is passed as i32 or i64, not {}", braid::name_of(p.dtype));
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
  const auto dims = [&](const std::array<Dim, 3>& d) {
    return fmt::format("[{}, {}, {}]", g.dims.str(d[0]), g.dims.str(d[1]), g.dims.str(d[2]));
  };
  std::vector<std::string> parameters, include;
  for (const CodeParameter& p : a.parameters) {
    if (p.kind != CodeParameter::Kind::scalar) {
      const bool operand = p.kind == CodeParameter::Kind::operand;
      parameters.push_back(fmt::format("{} {}", operand ? "operand" : "result", p.index));
    } else if (p.extent) {
      parameters.push_back(
          fmt::format("extent {} {}", braid::name_of(p.dtype), g.dims.str(*p.extent)));
    } else {
      parameters.push_back(fmt::format("scalar {} {}", braid::name_of(p.dtype), p.number));
    }
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
  all.push_back("blocks=" + dims(a.grid));
  all.push_back("threads=" + dims(a.block));
  if (a.shared_bytes != Dim(0)) all.push_back("shared=" + g.dims.str(a.shared_bytes));
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
