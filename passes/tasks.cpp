#include "passes/tasks.hpp"

#include <algorithm>
#include <numeric>

namespace braid {

Tasks::Tasks(std::vector<KernelCost> costs, const std::vector<std::vector<uint32_t>>& preds)
    : costs_(std::move(costs)) {
  for (const std::vector<uint32_t>& of_node : preds) {
    preds_.all.insert(preds_.all.end(), of_node.begin(), of_node.end());
    preds_.begin.push_back(preds_.all.size());
  }
  turn();
}

Tasks::Tasks(const Body& body, std::vector<KernelCost> costs, HazardFinder& finder)
    : costs_(std::move(costs)) {
  const Hazards hazards = finder.find(body);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    for (const Hazard& h : hazards.of(n)) preds_.all.push_back(h.from);
    preds_.begin.push_back(preds_.all.size());
  }
  turn();
}

uint32_t Tasks::widest() const {
  uint32_t width = 1;
  for (const KernelCost& c : costs_) width = std::max(width, c.width);
  return width;
}

void Tasks::turn() {
  succs_.begin.assign(costs_.size() + 1, 0);
  succs_.all.resize(preds_.all.size());
  for (uint32_t from : preds_.all) ++succs_.begin[from + 1];
  std::partial_sum(succs_.begin.begin(), succs_.begin.end(), succs_.begin.begin());
  std::vector<size_t> next(succs_.begin.begin(), succs_.begin.end() - 1);
  for (uint32_t n = 0; n < size(); ++n) {
    for (uint32_t from : preds(n)) succs_.all[next[from]++] = n;
  }
}

LanePlan one_lane(uint32_t nodes) {
  LanePlan plan{std::vector<uint32_t>(nodes, 0), std::vector<uint32_t>(nodes), 1};
  std::iota(plan.order.begin(), plan.order.end(), 0);
  return plan;
}

}  // namespace braid
