#include "passes/read_through.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// Operands of a concat that a product reads in place: each element is found by so many branches,
/// in text that is unrolled.
constexpr size_t kMostParts = 8;
/// What computes an operand of a concat keeps alive what it reads until the concat is made: so many
/// times the operand's bytes at most.
constexpr int64_t kMostHeld = 4;

bool is_all(const ir::Graph& graph, const Group& group, std::initializer_list<OpKind> kinds) {
  return std::all_of(group.ops.begin(), group.ops.end(), [&](OpId id) {
    return std::find(kinds.begin(), kinds.end(), graph.op(id).kind) != kinds.end();
  });
}

/// Whether views between have elements of `from` several times in `v`.
bool repeats(const ir::Graph& graph, ValueId v, ValueId from) {
  for (; v != from; v = graph.def(v).operands[0]) {
    const auto* view = std::get_if<ir::ViewAttr>(&graph.def(v).attrs);
    if (view && view->kind == ir::ViewKind::broadcast) return true;
  }
  return false;
}

/// Whether the temporaries that the group reads have many more bytes than what it makes.
bool holds_much(const ir::Graph& graph, const FuseFacts& facts, const Fusion& fusion,
                const Group& group, ValueId made) {
  std::set<ValueId> held;
  for (const OpId id : group.ops) {
    for (const ValueId operand : graph.op(id).operands) {
      const ValueId v = facts.source[operand.index];
      const uint32_t from = fusion.group_of[graph.value(v).def.index];
      if (from != UINT32_MAX && from != fusion.group_of[id.index]) held.insert(v);
    }
  }
  int64_t room = graph.type(made).bytes();
  for (const ValueId v : held) {
    const int64_t share = graph.type(v).bytes() / kMostHeld;
    if (share > room) return true;
    room -= share;  // sums of bytes may overflow
  }
  return false;
}

}  // namespace

bool is_elementwise(const ir::Graph& graph, const Group& group) {
  return group.family == FamilyId::row &&
         is_all(graph, group, {OpKind::map, OpKind::gather, OpKind::concat});
}

bool may_read_through(const ir::Graph& graph, const FuseFacts& facts, const Fusion& fusion,
                      uint32_t maker, uint32_t user) {
  const Group& from = fusion.groups[maker];
  const Group& to = fusion.groups[user];
  if (from.family != FamilyId::row || from.outputs.size() != 1) return false;
  const ValueId made = from.outputs[0];
  if (facts.is_output[made.index]) return false;
  // Nor may it write what the maker reads.
  const bool writes = std::any_of(to.outputs.begin(), to.outputs.end(),
                                  [&](ValueId v) { return graph.value(v).state; });
  if (writes) return false;

  OpKind reader = OpKind::concat;
  if (to.family == FamilyId::dot) {
    reader = OpKind::dot;
    if (from.ops.size() != 1 || !is_all(graph, from, {OpKind::concat}) ||
        graph.op(from.ops[0]).operands.size() > kMostParts) {
      return false;
    }
  } else if (!is_elementwise(graph, to) || !is_all(graph, from, {OpKind::map, OpKind::gather}) ||
             holds_much(graph, facts, fusion, from, made)) {
    return false;
  }
  size_t reads = 0;
  for (const OpId id : to.ops) {
    for (const ValueId v : graph.op(id).operands) {
      if (facts.source[v.index] != made) continue;
      if (graph.op(id).kind != reader || repeats(graph, v, made)) return false;
      ++reads;
    }
  }
  return reads == 1 || reader == OpKind::dot;
}

}  // namespace braid
