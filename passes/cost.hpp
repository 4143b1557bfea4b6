// Cost model: how long a kernel runs by itself, and how much of the GPU it takes meanwhile. Numbers
// are those of prices.hpp and of the families' tiles: an estimate to compare plans with.
#pragma once

#include <string_view>

#include "ir/program.hpp"
#include "passes/prices.hpp"

namespace braid {

/// Bytes that a kernel with this body reads and writes, each argument once: of a param that it only
/// updates the box, and of an input that it only gathers from or slices no more than it takes.
int64_t bytes_moved(const ir::Graph& body);

/// A kernel of that family with what cost_of asks for: its body, flops and bytes.
Kernel costed_kernel(std::string_view family, ir::Graph body);

/// Families of kernels that call host functions: a whole call, or what comes before and after a
/// host node. Nodes of the last are no kernels of ours.
inline constexpr std::string_view kExchangeFamily = "exchange", kPostFamily = "post",
                                  kFetchFamily = "fetch", kHostNodeFamily = "host_node";

struct KernelCost {
  double us = 0;       // of one launch with the GPU to itself, without the edge to it
  double share = 0;    // 0 to 1: of what the GPU can do, the part that it takes while it runs
  uint32_t width = 1;  // so many kernels of it may run at once: more for conditional nodes alone
  /// Of the room for threads and shared memory what all its blocks want together: above 1 they come
  /// in several waves. What is not known counts as several.
  double room = 2;
  bool waits = false;  // by itself, behind a programmatic edge
  /// Of `us`, what is left where it starts early: what is fixed has come by then.
  double late_us = 0;
  double work_us() const { return us * share; }  // alone, were it spread over the whole GPU
};

/// From the kernel's body, parts, flops and bytes. Blocks and threads are the family's, so a kernel
/// of one block has the rates of one SM. A kernel takes the largest of its shares of memory
/// bandwidth, arithmetic, threads and shared memory: kernels whose shares add up to 1 run side by
/// side as fast as alone. A kernel without a family does nothing. One that calls a host function
/// takes what prices say of that: the function's own time is not known.
KernelCost cost_of(const Kernel& k, const Target& t, const Prices& prices = kPrices);

/// Whether a programmatic edge pays. Blocks that wait hold room: in a kernel of several waves the
/// rest of them, and in one before it too, want that room themselves. A chain of elementwise
/// kernels took 0.68 us a step in place of 1.07 with one wave each, and 5.47 in place of 3.36 with
/// several. And blocks that start early go where room is, not one to each SM: a kernel that
/// computes for long loses more by that than its start is worth, also where blocks are made to
/// spread (write_sources): a recommendation model took 54.5 us a step with all starts early, 47.4
/// with those into kernels with 3 us left at most; with 1.8 us towers took 18.8 in place of 14.5,
/// and an encoder 84 in place of 69.
inline bool starts_early(const KernelCost& from, const KernelCost& to, const Prices& prices) {
  return to.waits && from.room <= 1 && to.room <= 1 && to.late_us <= prices.longest_early_us;
}

/// cost_of's time.
double estimate_us(const Kernel& k, const Target& t);

}  // namespace braid
