#include "passes/free_ops.hpp"

namespace braid {

using ir::OpKind;
using ir::ValueId;

bool is_work(const ir::Op& op) {
  return op.kind != OpKind::input && op.kind != OpKind::param && !ir::info(op.kind).free;
}

std::vector<bool> needed_ops(const ir::Graph& graph) {
  std::vector<bool> needed(graph.ops().size(), false);
  for (const ir::Output& output : graph.outputs) {
    needed[graph.value(output.value).def.index] = true;
  }
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const ir::Op& op = graph.ops()[i];
    const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
    if (graph.value(op.result).state || (host && !host->pure)) needed[i] = true;
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

}  // namespace braid
