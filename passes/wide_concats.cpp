#include "passes/wide_concats.hpp"

#include <algorithm>

namespace braid {
namespace {

bool is_wide(const ir::Op& op) {
  return op.kind == ir::OpKind::concat && op.operands.size() > kMaxConcatOperands;
}

/// One level: as few concats as can be, each of a run of `operands`.
std::vector<ir::ValueId> join_runs(ir::Graph& graph, const ir::Op& op,
                                   const std::vector<ir::ValueId>& operands) {
  const size_t runs = (operands.size() + kMaxConcatOperands - 1) / kMaxConcatOperands;
  std::vector<ir::ValueId> joined;
  for (size_t r = 0; r < runs; ++r) {
    const auto at = [&](size_t run) {
      return operands.begin() + static_cast<int64_t>(operands.size() * run / runs);
    };
    joined.push_back(graph.add({ir::OpKind::concat,
                                op.attrs,
                                {at(r), at(r + 1)},
                                std::nullopt,
                                op.name,
                                op.loc,
                                {},
                                op.outside}));
  }
  return joined;
}

}  // namespace

void split_wide_concats(ir::Graph& graph) {
  if (std::none_of(graph.ops().begin(), graph.ops().end(), is_wide)) return;
  ir::Graph split(graph.name);
  split.strings = graph.strings;
  split.dims = graph.dims;
  split.repeats = graph.repeats;
  std::vector<ir::ValueId> to(graph.values().size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    std::vector<ir::ValueId> operands;
    for (ir::ValueId v : op.operands) operands.push_back(to[v.index]);
    while (op.kind == ir::OpKind::concat && operands.size() > kMaxConcatOperands) {
      operands = join_runs(split, op, operands);
    }
    map_results(to, op, split.clone_op(graph, ir::OpId{i}, std::move(operands)));
  }
  for (const ir::Output& o : graph.outputs) {
    split.outputs.push_back({o.name, to[o.value.index], o.loc});
  }
  graph = std::move(split);
}

}  // namespace braid
