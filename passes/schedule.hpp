// Scheduling: nodes onto a bounded number of lanes, by two forms of list scheduling.
#pragma once

#include <algorithm>

#include "passes/predict.hpp"

namespace braid {

/// Which of several ready nodes comes first.
enum class Priority : uint8_t {
  longest_path,  // the one with the longest remaining path: short makespans
  given_order,   // the lowest index: branches written one after the other are run so, and what they
                 // keep in memory is over soon
};

// `width` bounds how many kernels may run at once. A lane takes as many of that as its widest node,
// and the first lane as many as the widest node of all from the start, so that each finds a place.

/// Nodes by longest remaining path, each to the lane where it can start first; a cross edge counts
/// join_us more. A lane may stand idle until a node that must come next is ready, as in HEFT
/// (Topcuoglu, Hariri, Wu, 2002). SM shares are left to the prediction. O(V log V + (V + E) lanes).
LanePlan schedule_by_rank(const Tasks& tasks, uint32_t lanes, const Prices& prices = kPrices,
                          uint32_t width = UINT32_MAX);

/// By time: whenever a lane is free and a node ready, the first by `priority` starts. So the
/// makespan is at most (2 - 1/lanes) of the best (Graham, 1969), and the longest sum of edges on a
/// path more. Runs on a Machine, so it sees SM shares. O((V + E) (log V + lanes)). A node that the
/// width keeps off all free lanes waits; so may the wide ones behind it.
LanePlan schedule_by_time(const Tasks& tasks, uint32_t lanes, const Prices& prices = kPrices,
                          Priority priority = Priority::longest_path, uint32_t width = UINT32_MAX);

/// What no schedule on more than one lane undercuts, in microseconds.
struct Bounds {
  double path = 0;   // the longest path, with its edges
  double nodes = 0;  // all nodes, each with the edge to the next in its lane
  double gpu = 0;    // what the GPU has to do and to start
  double edge = 0;   // the least one
  double least_us(uint32_t lanes) const { return std::max({path, nodes / lanes - edge, gpu}); }
  /// More lanes than this do not help.
  double parallelism() const { return path > 0 ? nodes / std::max(path, gpu) : 1; }
};
Bounds bounds_of(const Tasks& tasks, const Prices& prices = kPrices);

}  // namespace braid
