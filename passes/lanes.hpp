// Lanes: the stream of every node, its place there, and when it is predicted to run.
#pragma once

#include <span>

#include "passes/options.hpp"
#include "passes/schedule.hpp"

namespace braid {

/// By kernel.
std::vector<KernelCost> costs_of(const Program& p);

/// Whether the options and the program's target allow programmatic edges.
bool may_start_early(const Program& p, const Options& o);
/// What edges cost with these options on that target.
Prices prices_for(const Program& p, const Options& o);

/// The pass with costs by kernel and prices of the caller's: what assign_lanes of plan.hpp does
/// with those of the cost model. Bodies of conditional nodes come before the body that holds these:
/// each has as many lanes as are good for it, and the body around gets by with those that are left
/// (see width_of).
void assign_lanes(Program& p, const Options& o, std::span<const KernelCost> costs,
                  const Prices& prices);

/// Predicts every body anew as it stands: with the lanes and the order that its nodes have, and
/// with the waits of temporaries that share bytes. Sets start_us, predicted_us and the estimates of
/// conditional nodes and regions.
void predict_bodies(Program& p, std::span<const KernelCost> costs, const Prices& prices = kPrices);

}  // namespace braid
