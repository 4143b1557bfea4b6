// What branches and loops cost by each lowering. Measured on one H200 (driver 580, CUDA 13.0), in
// microseconds, and checked in, as those of prices.hpp are.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.hpp"
#include "passes/options.hpp"

namespace braid {

struct ControlPrices {
  double guarded_us = 0.55;   // a guarded kernel that leaves at once, in a chain
  double if_us = 6.5;         // an IF node that is skipped, with the kernel that sets it ...
  double if_taken_us = 10.4;  // ... and one that runs a body of one kernel, which is counted in
  double switch_us = 8.2;     // a SWITCH node of four bodies
  double while_us = 3.9;      // an iteration of a WHILE node, beside the body's kernels
  double host_us = 6.4;       // a wait of the host in the middle of a script
  double launch_us = 2;       // a graph more to launch
  double edge_us = 0.5;       // from one kernel of a chain to the next
  // Choices. A WHILE's body is copied until its own price is at most this part of the copies', ...
  double while_share = 0.03;
  // ... but with a condition no further than pays for this many iterations, where the limit does
  // not say that there are fewer: what is left of the last copies leaves one by one.
  int64_t trips = 128;
  int64_t most_kernels = 1024;      // of a WHILE's body
  int64_t most_unrolled = 1 << 16;  // kernels, where somebody asks for a loop to be unrolled
  int64_t most_concat = 64;         // rows that one concat stacks
};
inline constexpr ControlPrices kControlPrices{};

/// What a body does and is predicted to take.
struct BodyPrice {
  int64_t kernels = 0;  // with those of branches and loops in it
  double us = 0;        // one after the other, with their edges
  int64_t copies =
      0;  // kernels more if its outputs are to be assigned: outputs that it only hands on
  int64_t host_ops = 0;
  bool sends = false;
  bool regions = false;  // branches or loops are left in it
  bool on_host = false;  // it, or a body in it, has to be driven by the host

  bool leaf() const { return !regions && !on_host && host_ops == 0; }
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
