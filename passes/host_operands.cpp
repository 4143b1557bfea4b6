#include "passes/host_operands.hpp"

#include <algorithm>

#include "ir/code_op.hpp"
#include "ir/region.hpp"
#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

bool in_memory(const ir::Graph& graph, ValueId v) {
  const ValueId root = memory_root(graph, v);
  const OpKind kind = graph.def(root).kind;
  return kind != OpKind::view && !is_inline(graph, root);
}

/// Whether the op takes operand `k` as it lies in memory.
bool takes_memory(const ir::Op& op, size_t k) {
  if (op.kind == OpKind::compact) return k == 0;  // rows are computed by index
  return op.kind == OpKind::host || ir::is_region(op.kind) || ir::runs_code(op.kind);
}

bool needs_copies(const ir::Graph& graph, const ir::Op& op) {
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (takes_memory(op, k) && !in_memory(graph, op.operands[k])) return true;
  }
  return false;
}

}  // namespace

void place_host_operands(ir::Graph& graph) {
  const std::vector<ir::Op>& ops = graph.ops();
  if (std::none_of(ops.begin(), ops.end(),
                   [&](const ir::Op& op) { return needs_copies(graph, op); })) {
    return;
  }
  ir::Graph placed(graph.name);
  placed.strings = graph.strings;
  placed.dims = graph.dims;
  placed.repeats = graph.repeats;
  std::vector<ValueId> to(graph.values().size()), copies(graph.values().size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const ir::Op& op = ops[i];
    std::vector<ValueId> operands;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const ValueId v = op.operands[k];
      if (!takes_memory(op, k) || in_memory(graph, v)) {
        operands.push_back(to[v.index]);
        continue;
      }
      ValueId& copy = copies[v.index];
      if (!copy.valid()) {
        copy = placed.add({OpKind::map,
                           ir::MapAttr{Fn::cast},
                           {to[v.index]},
                           graph.type(v),
                           graph.def(v).name,
                           op.loc});
      }
      operands.push_back(copy);
    }
    map_results(to, op, placed.clone_op(graph, ir::OpId{i}, std::move(operands)));
  }
  for (const ir::Output& o : graph.outputs) {
    placed.outputs.push_back({o.name, to[o.value.index], o.loc});
  }
  graph = std::move(placed);
}

}  // namespace braid
