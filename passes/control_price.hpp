// What branches and loops cost by each lowering: the prices of prices.hpp applied to bodies.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.hpp"
#include "passes/options.hpp"
#include "passes/prices.hpp"

namespace braid {

/// What the control pass chooses by, beside prices.
struct ControlLimits {
  /// A WHILE's body is copied until the node's own price is at most this part of the copies', ...
  double while_share = 0.03;
  /// ... but with a condition no further than pays for this many iterations, where the limit does
  /// not say that there are fewer: what is left of the last copies leaves one by one.
  int64_t trips = 128;
  int64_t most_kernels = 1024;      // of a WHILE's body
  int64_t most_unrolled = 1 << 16;  // kernels, where somebody asks for a loop to be unrolled
  // Ops of all copies of a body, since long chains make few kernels; and where somebody asks.
  int64_t most_ops = 1 << 15;
  int64_t most_unrolled_ops = 1 << 17;
  int64_t most_concat = 64;  // rows that one concat stacks
};
inline constexpr ControlLimits kControlLimits{};

/// A kernel in a chain that does next to nothing, and one that leaves at once.
inline constexpr double kSmallKernelUs = kPrices.row_us + kPrices.chain_edge_us;
inline constexpr double kLeavingKernelUs = kPrices.leaves_us + kPrices.chain_edge_us;
/// What a region costs that the host drives, each time it takes a side.
inline constexpr double kHostTurnUs = kPrices.host_sync_us + kPrices.graph_launch_us;

/// What a body does and is predicted to take.
struct BodyPrice {
  int64_t kernels = 0;  // with those of branches and loops in it
  double us = 0;        // one after the other, with their edges
  int64_t copies =
      0;            // kernels more if its outputs are to be assigned: outputs that it only hands on
  int64_t ops = 0;  // with those of its own bodies
  int64_t host_ops = 0;
  bool sends = false;
  bool regions = false;  // branches or loops are left in it
  bool on_host = false;  // it, or a body in it, has to be driven by the host
  bool apart = false;    // has kernels that no guard can turn off: the user's

  bool leaf() const { return !regions && !on_host && host_ops == 0 && !apart; }
  bool pure() const { return leaf() && !sends; }
  int64_t assigned_kernels() const { return kernels + copies; }
  /// With the kernels that assign what it only hands on.
  double assigned_us() const;
};

/// By running home, levels and fuse on a copy, so near-linear. `body` has no branch or loop that
/// the control pass has not lowered.
BodyPrice price_body(const ir::Graph& body, const Options& options);

/// "2 kernels, 1.9 us".
std::string to_string(const BodyPrice& p);

}  // namespace braid
