// Host operands: what a host op, a branch, a loop or code of the user's takes, and the mask of a
// compaction, lies in memory as a whole.
// needs: a static graph. breaks: nothing.
#pragma once

#include "ir/graph.hpp"

namespace braid {

/// Inserts a map(cast), a copy, for each such operand that has no memory as a whole: a
/// view other than a reshape, a splat, an iota.
void place_host_operands(ir::Graph& graph);

}  // namespace braid
