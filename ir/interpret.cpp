#include "ir/interpret.hpp"

#include <fmt/format.h>

#include <utility>

#include "ir/interpret_graph.hpp"
#include "ir/region.hpp"

namespace braid::ir {
namespace {

[[noreturn]] void refuse(std::string message) {
  Diagnostic d;
  d.code = "E0802";
  d.message = std::move(message);
  throw Error(std::move(d));
}

/// The caller's tensor, which outlives the run.
TensorRef find(const TensorMap& map, const std::string& name, const TensorType& type,
               std::string_view what) {
  const auto it = map.find(name);
  if (it == map.end()) refuse(fmt::format("the {} '{}' is missing", what, name));
  if (it->second.type != type) {
    refuse(fmt::format("the {} '{}' is {}, but {} was given", what, name, to_string(type),
                       to_string(it->second.type)));
  }
  return TensorRef(TensorRef(), &it->second);
}

TensorRef scalar_value(const TensorType& type, double x) {
  HostTensor value(type);
  value.set(0, x);
  return std::make_shared<WideTensor>(widen(value));
}

/// By the op that is the param: handles that are assigned, and that no branch or loop of the graph
/// takes.
std::vector<bool> given_handles(const Graph& g) {
  std::vector<bool> assigned(g.ops().size(), false), decides(g.ops().size(), false);
  for (const Op& op : g.ops()) {
    const bool region = is_region(op.kind);
    if (!region && op.kind != OpKind::assign) continue;
    for (ValueId v : op.operands) {
      if (g.value(v).state) (region ? decides : assigned)[param_of(g, v).index] = true;
    }
  }
  for (uint32_t i = 0; i < g.ops().size(); ++i) {
    const bool handle = std::holds_alternative<HandleAttr>(g.ops()[i].attrs);
    assigned[i] = assigned[i] && handle && !decides[i];
  }
  return assigned;
}

}  // namespace

TensorMap interpret(const Graph& g, const TensorMap& inputs, TensorMap& params, Rounding rounding,
                    const HostFunctions& functions, Observed* observed) {
  const auto name = [&](uint32_t op) { return std::string(g.name_of(OpId{op})); };
  const auto count = static_cast<uint32_t>(g.ops().size());
  std::vector<TensorRef> arguments(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Op& op = g.ops()[i];
    const TensorType& type = g.type(op.result);
    if (op.kind == OpKind::input) {
      const auto* scalar = std::get_if<ScalarAttr>(&op.attrs);
      arguments[i] = scalar && !inputs.contains(name(i)) ? scalar_value(type, scalar->value)
                                                         : find(inputs, name(i), type, "input");
    } else if (std::holds_alternative<ParamAttr>(op.attrs) ||
               (std::holds_alternative<LocalAttr>(op.attrs) && params.contains(name(i)))) {
      arguments[i] = find(params, name(i), type, "param");
    }
  }
  const Evaluator::Results results = Evaluator(g).run(arguments, {rounding, functions, observed});

  TensorMap outputs, last;
  for (size_t o = 0; o < g.outputs.size(); ++o) outputs[g.outputs[o].name] = *results.outputs[o];
  const std::vector<bool> handles = given_handles(g);
  for (uint32_t i = 0; i < count; ++i) {
    const bool param = g.ops()[i].kind == OpKind::param && arguments[i];
    if (param && results.versions[i] == arguments[i]) continue;
    if (param || handles[i]) last[name(i)] = *results.versions[i];
  }
  // Only now: a version may be what `params` holds of another param.
  for (auto& [param, value] : last) params[param] = std::move(value);
  return outputs;
}

int64_t interpret_bytes(const Graph& graph) { return bytes_besides(graph, 0); }

}  // namespace braid::ir
