// What the nodes of bodies cost: kernels by themselves, regions by what their bodies are predicted
// to take.
#pragma once

#include <span>
#include <vector>

#include "passes/cost.hpp"

namespace braid {

/// Whether a conditional node runs the body. Its edges are full: under compute-sanitizer kernels
/// behind programmatic ones there ended in illegal addresses, and nobody documents that they hold.
bool is_conditional(const Program& p, const Body& body);

/// The most kernels of a body that its lanes let run at once: a lane runs one node at a time, and a
/// conditional node as many as its widest body. `inner` by body, for those of its conditional
/// nodes.
uint32_t width_of(const Program& p, const Body& body, std::span<const uint32_t> inner);
/// By body. In each it must not exceed the number of streams.
std::vector<uint32_t> widths_of(const Program& p);

/// Microseconds of all that the script does on the device, each loop run once, as predicted.
double predicted_us(const Program& p);

/// Costs of nodes from costs by kernel. Bodies are done from the last to the first, since those of
/// a conditional node stand behind the one that holds it.
///
/// A conditional node costs what its costlier side is predicted to take, or one run of a loop's,
/// and its own price; its share is that side's on average. Of the guarded kernels of a region those
/// of the costliest side, the first of equal ones, cost what they cost unguarded; the others leave.
class NodeCosts {
 public:
  NodeCosts(const Program& p, std::span<const KernelCost> kernels, const Prices& prices)
      : p_(p),
        kernels_(kernels),
        prices_(prices),
        work_us_(p.bodies.size(), 0),
        width_(p.bodies.size(), 0) {}

  /// By node. Throws InternalError if a body of a conditional node is not done yet.
  std::vector<KernelCost> of(uint32_t body) const;
  /// The body has its lanes and its prediction; `costs` as of() gave them, in any order.
  void done(uint32_t body, const std::vector<KernelCost>& costs);

 private:
  KernelCost of_region(const Region& region) const;

  const Program& p_;
  const std::span<const KernelCost> kernels_;
  const Prices& prices_;
  std::vector<double> work_us_;  // by body
  std::vector<uint32_t> width_;  // by body; 0: not done yet
};

/// Sets Region::estimate_us of all regions from the predictions of bodies and the estimates of
/// nodes. The host pays for the wait for its flag, for those of calls, and for each launch.
void estimate_regions(Program& p, const Prices& prices);

}  // namespace braid
