// Home: every version of a param lives in the param's one buffer; what that orders, and which
// copies of old versions it needs.
// needs: a verified static graph. breaks: nothing.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// `from` must finish before `to` starts: a reader of the old version before the writer of the new.
struct OrderEdge {
  ir::OpId from, to;
  auto operator<=>(const OrderEdge&) const = default;
};

struct HomePlan {
  /// Anti-dependences between ops that are not free, sorted, without duplicates. Together with the
  /// data edges they form a DAG that agrees with the graph's op order.
  std::vector<OrderEdge> order;
  /// The copies of old versions that were inserted: map(cast) ops of the version's type.
  std::vector<ir::OpId> copies;
  /// The copies that give an output memory of its own (see below): map(cast) ops.
  std::vector<ir::OpId> output_copies;
  std::string print(const ir::Graph& graph) const;
};

/// Rewrites `graph` so that whatever makes a version of state (assign, update, branch, loop) can
/// write in place: where a reader of the version it replaces depends on the new one (also by way of
/// other params: a swap), that reader takes a copy of the old value, made before the write. A swap
/// of two params needs one copy. Readers are the ops that use a version's `read`, also through
/// other free ops; an update and an assign of the same param are ordered by the chain of versions.
/// An op may read the version that it replaces only if it is an assign of that very value (through
/// reshapes), or a branch or loop that takes the version itself. O(V+E) but for the reachability
/// tests of readers against writers. Host ops with side effects keep their order.
///
/// Outputs get a home too: afterwards every output is, through reshapes, the result of an op that
/// is not free or read from the last version of a variable (`may_be_output` in free_ops.hpp), and
/// no two outputs share it. Where one is a view, an input, a param's version, a constant, or
/// repeats another, a map(cast) is inserted; for an old version it is made before the write.
HomePlan plan_homes(ir::Graph& graph);

}  // namespace braid
