// The nodes of a body as a scheduler sees them: what each costs and what it waits for.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/program.hpp"
#include "passes/cost.hpp"
#include "passes/order.hpp"

namespace braid {

/// A DAG whose edges go from lower to higher index, with predecessors and successors in flat
/// storage.
class Tasks {
 public:
  /// `preds` by node: each node once, all lower than it.
  Tasks(std::vector<KernelCost> costs, const std::vector<std::vector<uint32_t>>& preds);
  /// The nodes of a body, which must be in an order that its data allows; `costs` by node. They
  /// wait for each other where the finder sees hazards.
  Tasks(const Body& body, std::vector<KernelCost> costs, HazardFinder& finder);

  uint32_t size() const { return static_cast<uint32_t>(costs_.size()); }
  const KernelCost& cost(uint32_t node) const { return costs_[node]; }
  /// The most kernels of one node that may run at once; 1 if there are no nodes.
  uint32_t widest() const;
  std::span<const uint32_t> preds(uint32_t node) const { return preds_.of(node); }
  std::span<const uint32_t> succs(uint32_t node) const { return succs_.of(node); }

 private:
  struct Lists {
    std::vector<uint32_t> all{};
    std::vector<size_t> begin{0};
    std::span<const uint32_t> of(uint32_t node) const {
      return {all.data() + begin[node], all.data() + begin[node + 1]};
    }
  };
  void turn();  // preds_ to succs_

  std::vector<KernelCost> costs_;
  Lists preds_, succs_;
};

/// Every node's lane, and an order of the nodes in which each comes after what it waits for and
/// each lane's nodes come as they run.
struct LanePlan {
  std::vector<uint32_t> lane;   // by node
  std::vector<uint32_t> order;  // nodes
  uint32_t lanes = 1;
};

/// All nodes in one lane, in the order they have.
LanePlan one_lane(uint32_t nodes);

}  // namespace braid
