#include "passes/dynamic_order.hpp"

#include <algorithm>

namespace braid {

DynamicOrder::DynamicOrder(const ir::Graph& graph)
    : graph_(graph),
      at_(graph.ops().size()),
      after_(graph.ops().size()),
      before_(graph.ops().size()),
      seen_(graph.ops().size(), false) {
  for (uint32_t i = 0; i < at_.size(); ++i) at_[i] = i;
}

template <class Next>
bool DynamicOrder::reach(uint32_t start, uint32_t low, uint32_t high, uint32_t stop, Next next,
                         std::vector<uint32_t>* found) {
  bool clear = true;
  found->assign(1, start);
  seen_[start] = true;
  for (size_t i = 0; clear && i < found->size(); ++i) {
    next((*found)[i], [&](uint32_t v) {
      if (v == stop) clear = false;
      if (seen_[v] || at_[v] <= low || at_[v] >= high) return;
      seen_[v] = true;
      found->push_back(v);
    });
  }
  for (uint32_t v : *found) seen_[v] = false;
  return clear;
}

bool DynamicOrder::add(ir::OpId from, ir::OpId to) {
  const uint32_t low = at_[to.index], high = at_[from.index];
  if (low < high) {
    if (users_.empty()) users_ = graph_.users();
    std::vector<uint32_t> later, earlier;
    const auto successors = [&](uint32_t u, auto visit) {
      const ir::Op& op = graph_.ops()[u];
      for (uint32_t r = 0; r < op.results; ++r) {
        for (ir::OpId v : users_[op.result.index + r]) visit(v.index);
      }
      for (uint32_t v : after_[u]) visit(v);
    };
    const auto predecessors = [&](uint32_t u, auto visit) {
      for (ir::ValueId v : graph_.ops()[u].operands) visit(graph_.value(v).def.index);
      for (uint32_t v : before_[u]) visit(v);
    };
    if (!reach(to.index, low, high, from.index, successors, &later)) return false;
    reach(from.index, low, high, to.index, predecessors, &earlier);

    // What comes before `from` takes the first of the places of both, in the old order.
    const auto by_place = [&](uint32_t a, uint32_t b) { return at_[a] < at_[b]; };
    std::sort(later.begin(), later.end(), by_place);
    std::sort(earlier.begin(), earlier.end(), by_place);
    earlier.insert(earlier.end(), later.begin(), later.end());
    std::vector<uint32_t> places;
    for (uint32_t v : earlier) places.push_back(at_[v]);
    std::sort(places.begin(), places.end());
    for (size_t i = 0; i < places.size(); ++i) at_[earlier[i]] = places[i];
    moved_ = true;
  }
  after_[from.index].push_back(to.index);
  before_[to.index].push_back(from.index);
  return true;
}

std::vector<ir::OpId> DynamicOrder::ops() const {
  std::vector<ir::OpId> order(at_.size());
  for (uint32_t i = 0; i < at_.size(); ++i) order[at_[i]] = ir::OpId{i};
  return order;
}

}  // namespace braid
