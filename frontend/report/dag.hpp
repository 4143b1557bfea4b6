// The order that a body's data asks for, how wide it is, and its longest path.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.hpp"

namespace braid::report {

/// By node: the nodes that must come before it, sorted, each once. Nodes stand in a topological
/// order.
using Dag = std::vector<std::vector<uint32_t>>;

/// What the values alone order: each node after the last writer of a buffer it touches, writers
/// after the readers since. Neither streams nor shared bytes count. Whole buffers.
Dag data_dag(const Program& p, const Body& body);
/// The edges of the plan.
Dag edge_dag(const Body& body);

struct Width {
  /// How many nodes can run side by side: the largest set of which none must wait for another.
  /// Exact up to `kExactWidth` nodes, above at least this.
  size_t nodes = 0;
  bool exact = true;
  std::vector<uint32_t> at;  // such a set, sorted
};
inline constexpr size_t kExactWidth = 2000;
/// By Dilworth's theorem: nodes less a maximum matching of the closure, the set itself by König's.
/// O(V^3 / 64); above `exact_up_to` nodes the most that stand at one depth, O(V + E).
Width width_of(const Dag& dag, size_t exact_up_to = kExactWidth);

struct Path {
  std::vector<uint32_t> nodes;  // first to last
  double us = 0;                // the kernels' estimates, added up
};
/// The path on which most kernel time lies: no number of streams takes less.
Path critical_path(const Dag& dag, const Body& body);

}  // namespace braid::report
