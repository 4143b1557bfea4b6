// Branches and loops: how operands, bodies and results belong together.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace braid::ir {

// A body is a graph of its own, in Graph::bodies, and belongs to one op. It sees nothing from
// outside but its arguments, which are its first ops, in order: a plain `input` for a value, a
// `param` for a version of state, with attributes of the same sort as the param's outside. Both
// have names. Whatever else a body holds comes after them; of inputs and params that are only
// params with LocalAttr or HandleAttr, which are the body's own.
//
// branch: operand 0 selects, the others are the arguments of every body. A b1[] takes body 0 for
//   false and 1 for true. An i32[] takes the body of that number, the first for a negative one, the
//   last for one that is too large.
//   Results: the bodies' outputs, which agree in number and types, then for every state argument
//   its next version, in order. Where that is nothing, one i8[0].
// loop, as frontends make it (a condition or a limit): for i = 0, 1, ..: ends before iteration i if
//   i is the limit or the condition gives false; else runs the body. Arguments of both bodies: i
//   (i32[]), then the operands, of which the first `carried` hold, from iteration 1 on, what the
//   last iteration gave. The condition gives one b1[] and makes no version of its state arguments.
//   The body's outputs: the carried ones' next values, of their types, then rows that are stacked.
//   Results: the carried values after the last iteration; per row a [limit, ..] with that of
//   iteration i at index i and zeros where there was no such iteration (needs a limit); the next
//   version of every state operand. Where that is nothing, one i8[0].
// The effect form, which the control pass leaves for lowerings that keep the op: no values go out.
//   A body has no outputs and the op no results but versions of state (or the i8[0]); what it gives
//   it assigns to state arguments. Operand 0 of a branch is a version of a HandleAttr param
//   (Lowering::node), or a value (predicate, host). A loop has neither condition nor limit, and its
//   body's arguments are its operands alone. The first is its flag, state b1[] of a HandleAttr
//   (node) or LocalAttr (host) param, which the body assigns: it runs while the flag holds true.

/// Bodies nest at most so deep: a body of the outermost graph's is one deep.
inline constexpr int kMaxBodyDepth = 64;

/// Whether ops of the kind have bodies.
constexpr bool is_region(OpKind kind) { return kind == OpKind::branch || kind == OpKind::loop; }

/// Whether a loop is of the effect form.
inline bool has_flag(const LoopAttr& a) { return a.condition == kNoBody && !a.limit; }

/// The first operand that is an argument of the bodies.
inline uint32_t first_argument(const Op& op) { return op.kind == OpKind::branch ? 1 : 0; }
/// The first argument of a body that is an operand.
uint32_t first_operand_argument(const Op& op);

/// Its bodies, by index into Graph::bodies: branch in order, loop: the body, then the condition.
/// Empty for all other ops.
std::vector<uint32_t> bodies_of(const Op& op);

/// Whether operand `k` of an op of this kind must be (true), may be (nothing) or must not be state.
std::optional<bool> takes_state(OpKind kind, size_t k);

/// The param that a version is a version of.
OpId param_of(const Graph& graph, ValueId version);
/// The version before, or nothing for a param itself.
std::optional<ValueId> version_before(const Graph& graph, ValueId version);
/// The result of an op of any kind but read that is the next version of its state operand `k`.
ValueId next_version(const Graph& graph, const Op& op, size_t k);
/// Whether ops of the kind may have more than one result. Versions of state are the last of them.
constexpr bool has_more_results(OpKind kind) {
  return is_region(kind) || kind == OpKind::host || kind == OpKind::kernel ||
         kind == OpKind::library || kind == OpKind::compact;
}
/// Every version that an op takes to make the next one, with that: in the order of the operands.
std::vector<std::pair<ValueId, ValueId>> versions_made(const Graph& graph, const Op& op);
/// Whether some op of the body makes a new version of its argument `k`, a param.
bool writes_argument(const Graph& body, size_t k);

/// Declares the symbols of `from` in `to`, where those that are known keep their default and
/// maximum.
void carry_symbols(DimTable& to, const DimTable& from);
/// The dim of the table `from` as one of the table `to`.
Dim carry_dim(DimTable& to, const DimTable& from, Dim dim);

/// What an op of kind branch or loop gives. `dims` is the graph's table or a copy of it:
/// polynomials may be added.
RegionResults region_results(const Graph& graph, DimTable& dims, OpKind kind, const Attrs& attrs,
                             const std::vector<ValueId>& operands);
inline RegionResults region_results(Graph& graph, OpKind kind, const Attrs& attrs,
                                    const std::vector<ValueId>& operands) {
  return region_results(graph, graph.dims, kind, attrs, operands);
}

/// Calls visit(graph) for `graph` and all bodies in it, outermost first.
template <class G, class Visit>
void for_each_graph(G& graph, const Visit& visit) {
  visit(graph);
  for (auto& body : graph.bodies) for_each_graph(body, visit);
}

}  // namespace braid::ir
