#include "passes/free_ops.hpp"

#include "ir/code_op.hpp"
#include "ir/region.hpp"

namespace braid {

using ir::OpKind;
using ir::ValueId;

bool is_work(const ir::Op& op) {
  return op.kind != OpKind::input && op.kind != OpKind::param && !ir::info(op.kind).free;
}

bool makes_state(const ir::Graph& graph, const ir::Op& op) {
  for (uint32_t i = 0; i < op.results; ++i) {
    if (graph.value(op.result_at(i)).state) return true;
  }
  return false;
}

bool stores_state(const ir::Graph& graph, const ir::Op& op) {
  return !ir::is_region(op.kind) && !ir::runs_code(op.kind) && graph.value(op.result).state;
}

bool acts_on_host(const ir::Graph& graph, const ir::Op& op) {
  const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
  if (host) return !host->pure;
  for (uint32_t b : ir::bodies_of(op)) {
    const ir::Graph& body = graph.bodies[b];
    for (const ir::Op& inner : body.ops()) {
      if (acts_on_host(body, inner)) return true;
    }
  }
  return false;
}

std::vector<bool> needed_ops(const ir::Graph& graph) {
  std::vector<bool> needed(graph.ops().size(), false);
  for (const ir::Output& output : graph.outputs) {
    needed[graph.value(output.value).def.index] = true;
  }
  // What selects a side of a branch that nobody needs: a handle without a node.
  std::vector<bool> selects(graph.values().size(), false);
  for (const ir::Op& op : graph.ops()) {
    if (op.kind != OpKind::branch) continue;
    selects[op.operands[0].index] = graph.value(op.operands[0]).state;
  }
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const ir::Op& op = graph.ops()[i];
    const bool acts = makes_state(graph, op) || acts_on_host(graph, op);
    if (acts && !selects[op.result.index]) needed[i] = true;
    if (!needed[i]) continue;
    for (ValueId v : op.operands) needed[graph.value(v).def.index] = true;
  }
  return needed;
}

bool is_inline(const ir::Graph& graph, ValueId v) {
  const ir::Op& op = graph.def(v);
  if (op.kind == OpKind::iota) return true;
  return op.kind == OpKind::constant &&
         graph.literals[std::get<ir::ConstAttr>(op.attrs).literal].splat;
}

std::vector<ValueId> memory_sources(const ir::Graph& graph) {
  std::vector<ValueId> source(graph.values().size());
  for (const ir::Op& op : graph.ops()) {
    const bool through = op.kind == OpKind::view || op.kind == OpKind::read;
    for (uint32_t i = 0; i < op.results; ++i) {
      source[op.result.index + i] = through ? source[op.operands[0].index] : op.result_at(i);
    }
  }
  return source;
}

ValueId memory_root(const ir::Graph& graph, ValueId v) {
  while (graph.def(v).kind == OpKind::view &&
         std::get<ir::ViewAttr>(graph.def(v).attrs).kind == ir::ViewKind::reshape) {
    v = graph.def(v).operands[0];
  }
  return v;
}

bool may_be_output(const ir::Graph& graph, ValueId root) {
  const ir::Op& op = graph.def(root);
  if (op.kind != OpKind::read) return is_work(op);
  return std::holds_alternative<ir::LocalAttr>(graph.op(ir::param_of(graph, op.operands[0])).attrs);
}

}  // namespace braid
