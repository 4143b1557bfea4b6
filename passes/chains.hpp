// Chain: kernels one after the other become one where a block can keep what lies between.
#pragma once

#include "passes/fuse.hpp"
#include "passes/options.hpp"

namespace braid {

/// Joins groups of `fusion` with groups that make their operands, where one kernel can compute both
/// and the cost model gains by it: one of the chain family, which keeps what lies between, or one
/// that computes what it reads for a concat, or reads a concat for a product, in place. Nobody but
/// what follows the joined kernel may have waited for the first group alone. Groups stay convex.
/// Near-linear.
void join_chains(const ir::Graph& graph, const HomePlan& homes, const Options& options,
                 Fusion& fusion);

}  // namespace braid
