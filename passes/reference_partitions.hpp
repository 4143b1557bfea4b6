// How others cut a graph where ops cannot be in a CUDA graph: yardsticks for minimal_levels, in
// tests and in reports. No plan is made this way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passes/levels.hpp"

namespace braid {

/// An order of the nodes, cut where the colour changes.
struct ReferencePartition {
  std::vector<uint32_t> run;  // by node
  uint32_t runs = 0;
  uint32_t graphs = 0;
  bool reordered = false;  // false: it is the order of the indices
};

/// vLLM's split_graph: program order, which is the order of the indices here.
/// Throws InternalError if an edge does not go to a higher index. O(V+E).
ReferencePartition in_order(const ColouredDag& dag);

/// Inductor's reorder_for_minimizing_partition with its gate: Kahn's algorithm with two heaps by
/// index, all host nodes that are ready, then all graph nodes that are ready, and so on. The new
/// order is kept only if its peak memory stays below 1.1 times that of the indices' order; else
/// nothing moves. A node's `bytes` live from itself to its last user, or to the end if it has none.
/// Without bytes, or where both need none, the order is kept. Edges as for in_order; bytes must not
/// be negative nor add up to more than 2^60. O(V log V + E).
ReferencePartition drain_host_first(const ColouredDag& dag, std::span<const int64_t> bytes = {});

}  // namespace braid
