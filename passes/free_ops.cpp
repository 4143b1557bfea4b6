#include "passes/free_ops.hpp"

namespace braid {

using ir::OpKind;
using ir::ValueId;

bool is_work(const ir::Op& op) {
  return op.kind != OpKind::input && op.kind != OpKind::param && !ir::info(op.kind).free;
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
    source[op.result.index] = through ? source[op.operands[0].index] : op.result;
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
