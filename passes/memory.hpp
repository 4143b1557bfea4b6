// Inside the memory pass: one plan, and what a limit on the arena makes of it.
#pragma once

#include <optional>

#include "passes/lanes.hpp"

namespace braid {

/// Places the temporaries, with the lanes as they are. Without `slack_us` bytes are shared where
/// data and lanes alone order the accesses. With it also where the launch order does and the ones
/// are predicted to end that many microseconds before the others begin (-infinity: whatever the
/// prediction): then the edges pass orders them.
void plan_arena(Program& p, bool reuse, std::optional<double> slack_us = std::nullopt);

/// Gives a region's slab so many bytes: the buffer, its view and the slot.
void set_slab_bytes(Program& p, uint32_t region, int64_t bytes);

/// Puts the nodes of every body in an order, which their data allows, that keeps few bytes in use.
/// Lanes are to be assigned again.
void order_for_memory(Program& p);

/// Makes a plan above Options::memory_limit fit: with fewer lanes, with sharing that adds order,
/// with the nodes in an order for little memory, or several of these, whichever is predicted to be
/// fastest; says in Program::memory_cut what it cost. Throws Error (E0706) if nothing fits. `costs`
/// by kernel. `unscheduled`: the bodies as the lanes pass found them, so that fewer lanes give the
/// plan that they give without a limit; if empty, p's own.
void fit_arena(Program& p, const Options& o, std::span<const KernelCost> costs,
               const Prices& prices, std::span<const Body> unscheduled = {});

}  // namespace braid
