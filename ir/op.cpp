#include "ir/op.hpp"

#include "ir/graph.hpp"
#include "ir/type_rules.hpp"

namespace braid::ir {
namespace {

int64_t no_flops(const Graph&, const Op&) { return 0; }

/// A cost model needs no more than the largest number where the true one overflows.
int64_t times(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

int64_t map_flops(const Graph& g, const Op& op) {
  return times(g.type(op.result).shape.numel(), braid::info(std::get<MapAttr>(op.attrs).fn).cost);
}

int64_t reduce_flops(const Graph& g, const Op& op) { return g.type(op.operands[0]).shape.numel(); }

int64_t dot_flops(const Graph& g, const Op& op) {
  const Shape& l = g.type(op.operands[0]).shape;
  const Dim k = l[std::get<DotAttr>(op.attrs).ta ? l.rank() - 2 : l.rank() - 1];
  return times(times(2, g.type(op.result).shape.numel()), k.value());
}

/// Every element of the result looks at every index.
int64_t scatter_flops(const Graph& g, const Op& op) {
  return times(g.type(op.result).shape.numel(), g.type(op.operands[1]).shape.numel());
}

constexpr std::array<OpInfo, 21> kOps{{
    {OpKind::input, "input", 0, 0, false, type_input, no_flops},
    {OpKind::param, "param", 0, 0, false, type_param, no_flops},
    {OpKind::read, "read", 1, 1, true, type_read, no_flops},
    {OpKind::assign, "assign", 2, 2, false, type_assign, no_flops},
    {OpKind::update, "update", 2, 2 + kMaxRank, false, type_update, no_flops},
    {OpKind::constant, "constant", 0, 0, true, type_constant, no_flops},
    {OpKind::iota, "iota", 0, 0, true, type_iota, no_flops},
    {OpKind::map, "map", 1, 3, false, type_map, map_flops},
    {OpKind::reduce, "reduce", 1, 1, false, type_reduce, reduce_flops},
    {OpKind::dot, "dot", 2, 2, false, type_dot, dot_flops},
    {OpKind::view, "view", 1, 1, true, type_view, no_flops},
    {OpKind::concat, "concat", 1, -1, false, type_concat, no_flops},
    {OpKind::gather, "gather", 2, 2, false, type_gather, no_flops},
    {OpKind::scatter, "scatter", 3, 3, false, type_scatter, scatter_flops},
    {OpKind::host, "host", 0, -1, false, type_host, no_flops},
    {OpKind::branch, "branch", 1, -1, false, type_region, no_flops},
    {OpKind::loop, "loop", 0, -1, false, type_region, no_flops},
    {OpKind::send, "send", 2, -1, false, type_send, no_flops},
    {OpKind::kernel, "kernel", 0, -1, false, type_code, no_flops},
    {OpKind::library, "library", 0, -1, false, type_code, no_flops},
    {OpKind::compact, "compact", 2, 2, false, type_compact, no_flops},
}};

}  // namespace

std::span<const OpInfo> op_table() { return kOps; }
const OpInfo& info(OpKind kind) { return kOps[static_cast<size_t>(kind)]; }

std::optional<OpKind> op_kind_from_name(std::string_view name) {
  for (const OpInfo& i : kOps) {
    if (i.name == name) return i.kind;
  }
  return std::nullopt;
}

std::string_view name_of(ViewKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"reshape", "transpose", "broadcast", "slice"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace braid::ir
