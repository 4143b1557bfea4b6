// Chain: kernels one after the other become one where a block can keep what lies between.
#pragma once

#include "passes/fuse.hpp"
#include "passes/options.hpp"

namespace braid {

/// Joins groups of `fusion` with groups that make their operands, where the chain family can
/// compute both and the cost model gains by it. Nobody but what follows the joined kernel may have
/// waited for the first group alone. Groups stay convex, as fuse() has them. Near-linear.
void join_chains(const ir::Graph& graph, const HomePlan& homes, const Options& options,
                 Fusion& fusion);

}  // namespace braid
