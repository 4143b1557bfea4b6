// Recompute: cheap maps of inputs and params, broadcast, become maps of the broadcast, one for each
// use, so that every kernel that needs one evaluates it where it is used.
// needs: a static graph. breaks: equal ops are one.
#pragma once

#include "ir/graph.hpp"

namespace braid {

/// `broadcast(cast(gamma))` becomes `cast(broadcast(gamma))` in front of each op that works on
/// elements and uses it: no kernel for a row of numbers, and the narrow dtype is what is read. A
/// value qualifies if it comes from maps of total cost kMostRecomputed at most over constants,
/// iotas and at most one input or version of a param that the graph does not replace, and if no
/// more than kMostViewsRecomputed views follow one another: every use gets its own.
void recompute_broadcasts(ir::Graph& graph);

inline constexpr int kMostRecomputed = 4;
inline constexpr int kMostViewsRecomputed = 8;

}  // namespace braid
