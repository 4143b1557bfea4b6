// Lanes: the stream of every node, its place there, and when it is predicted to run.
#pragma once

#include <span>

#include "passes/options.hpp"
#include "passes/schedule.hpp"

namespace braid {

/// The pass with costs by kernel and prices of the caller's: what assign_lanes of plan.hpp does
/// with those of the cost model.
void assign_lanes(Program& p, const Options& o, std::span<const KernelCost> costs,
                  const Prices& prices);

}  // namespace braid
