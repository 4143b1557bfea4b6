// Places temporaries in the arena.
#pragma once

#include <functional>

#include "passes/lifetimes.hpp"

namespace braid {

/// Whether all of a temporary is over before a moment begins, which lies behind its first one.
/// Later moments of one lane never answer no after yes.
using Over = std::function<bool(const Temp&, uint32_t moment)>;
/// By the timeline alone: sharing then makes no node wait that need not.
Over over_by_order(const Timeline& timeline);

/// Sets the offset of every temporary, so that two share bytes only if one is over before the other
/// begins, and returns the end of the last. `bound` is what no plan can undercut: a plan that
/// reaches it is the best.
///
/// Where few enough pairs conflict, greedy placements in several orders (by size, Pisarchyk and
/// Lee, arXiv 2001.03288; by bytes times lifetime; by first use), each at the lowest gap between
/// what it conflicts with, then a local search over the order of the best one. Else a best fit in
/// the script's order, near-linear. Work is bounded by counts, not by time, so a plan does not
/// depend on the machine.
int64_t place(std::vector<Temp>& temps, const Timeline& timeline, const Over& over, int64_t bound);

}  // namespace braid
