#include "passes/view_chains.hpp"

#include <algorithm>

namespace braid {

void cap_view_chains(ir::Graph& graph) {
  std::vector<int> views(graph.values().size(), 0);  // in a row that end at the value
  std::vector<bool> copied(graph.values().size(), false);
  for (const ir::Op& op : graph.ops()) {
    if (op.kind != ir::OpKind::view) continue;
    const uint32_t from = op.operands[0].index;
    views[op.result.index] = (copied[from] ? 0 : views[from]) + 1;
    copied[op.result.index] = views[op.result.index] == kMaxViewChain;
  }
  if (std::find(copied.begin(), copied.end(), true) == copied.end()) return;

  ir::Graph capped(graph.name);
  capped.strings = graph.strings;
  capped.dims = graph.dims;
  capped.repeats = graph.repeats;
  std::vector<ir::ValueId> to(graph.values().size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    std::vector<ir::ValueId> operands;
    for (ir::ValueId v : op.operands) operands.push_back(to[v.index]);
    ir::ValueId result = capped.clone_op(graph, ir::OpId{i}, std::move(operands));
    if (copied[op.result.index]) {
      result = capped.add({ir::OpKind::map,
                           ir::MapAttr{Fn::cast},
                           {result},
                           graph.type(op.result),
                           op.name,
                           op.loc});
    }
    map_results(to, op, result);
  }
  for (const ir::Output& o : graph.outputs) {
    capped.outputs.push_back({o.name, to[o.value.index], o.loc});
  }
  graph = std::move(capped);
}

}  // namespace braid
