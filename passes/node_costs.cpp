#include "passes/node_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace braid {
namespace {

double own_us(const Region& region, const Prices& prices) {
  return region.loop ? prices.while_us : prices.branch_us;
}

/// Of the predicate regions of a body the costliest side, the first of equal ones.
std::map<uint32_t, uint32_t> costliest_sides(const Body& body,
                                             std::span<const KernelCost> kernels) {
  std::map<uint32_t, std::map<uint32_t, double>> us;  // by region and side
  for (const Node& node : body.nodes) {
    if (node.kernel == kNoKernel || node.region == UINT32_MAX) continue;
    us[node.region][node.branch] += kernels[node.kernel].us;
  }
  std::map<uint32_t, uint32_t> costliest;
  for (const auto& [region, sides] : us) {
    const auto most =
        std::max_element(sides.begin(), sides.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    costliest[region] = most->first;
  }
  return costliest;
}

double script_us(const Program& p, const std::vector<Step>& script, const Prices& prices) {
  double us = 0;
  for (const Step& step : script) {
    if (step.kind == Step::Kind::launch) {
      const Body& body = p.bodies[step.index];
      us += body.predicted_us + (body.stream ? 0 : prices.graph_launch_us);
    }
    if (step.kind == Step::Kind::wait) us += prices.host_sync_us;
    if (step.kind == Step::Kind::region) us += p.regions[step.index].estimate_us;
  }
  return us;
}

/// Nanoseconds are more than the model knows.
double rounded(double us) { return std::round(us * 1e3) / 1e3; }

}  // namespace

bool is_conditional(const Program& p, const Body& body) {
  return body.region != UINT32_MAX && p.regions[body.region].kind == Region::Kind::node;
}

uint32_t width_of(const Program& p, const Body& body, std::span<const uint32_t> inner) {
  std::vector<uint32_t> widest(body.lanes, 1);
  for (const Node& node : body.nodes) {
    if (node.kernel != kNoKernel) continue;
    for (uint32_t b : p.regions[node.region].bodies) {
      widest[node.lane] = std::max(widest[node.lane], inner[b]);
    }
  }
  uint32_t width = 0;
  for (uint32_t w : widest) width += w;
  return width;
}

std::vector<uint32_t> widths_of(const Program& p) {
  std::vector<uint32_t> widths(p.bodies.size(), 0);
  for (size_t b = p.bodies.size(); b-- > 0;) widths[b] = width_of(p, p.bodies[b], widths);
  return widths;
}

double predicted_us(const Program& p) {
  double us = 0;
  for (const Step& step : p.script) {
    if (step.kind == Step::Kind::launch) us += p.bodies[step.index].predicted_us;
    if (step.kind == Step::Kind::region) us += p.regions[step.index].estimate_us;
  }
  return us;
}

KernelCost NodeCosts::of_region(const Region& region) const {
  KernelCost cost;
  for (uint32_t b : region.bodies) {
    ensure(width_[b] > 0, "a conditional node stands behind its bodies");
    cost.width = std::max(cost.width, width_[b]);
    if (p_.bodies[b].predicted_us <= cost.us) continue;
    cost.us = p_.bodies[b].predicted_us;
    cost.share = work_us_[b];
  }
  cost.us += own_us(region, prices_);
  cost.share = std::min(1.0, cost.share / cost.us);
  return cost;
}

std::vector<KernelCost> NodeCosts::of(uint32_t body) const {
  const std::vector<Node>& nodes = p_.bodies[body].nodes;
  const std::map<uint32_t, uint32_t> costliest = costliest_sides(p_.bodies[body], kernels_);
  std::vector<KernelCost> costs;
  costs.reserve(nodes.size());
  for (const Node& node : nodes) {
    if (node.kernel == kNoKernel) {
      costs.push_back(of_region(p_.regions[node.region]));
    } else if (node.region != UINT32_MAX && costliest.at(node.region) != node.branch) {
      costs.push_back({prices_.leaves_us, 0});
    } else {
      costs.push_back(kernels_[node.kernel]);
    }
  }
  return costs;
}

void NodeCosts::done(uint32_t body, const std::vector<KernelCost>& costs) {
  work_us_[body] = 0;
  for (const KernelCost& c : costs) work_us_[body] += c.work_us();
  width_[body] = width_of(p_, p_.bodies[body], width_);
}

void estimate_regions(Program& p, const Prices& prices) {
  for (size_t r = p.regions.size(); r-- > 0;) {
    Region& region = p.regions[r];
    double us = 0;
    if (region.kind == Region::Kind::node) {
      for (uint32_t b : region.bodies) us = std::max(us, p.bodies[b].predicted_us);
      us += own_us(region, prices);
    } else if (region.kind == Region::Kind::host) {
      for (const std::vector<Step>& side : region.scripts) {
        us = std::max(us, script_us(p, side, prices));
      }
      us += prices.host_sync_us;
    }
    region.estimate_us = rounded(us);
  }
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel == kNoKernel || node.region == UINT32_MAX) continue;
      Region& region = p.regions[node.region];
      region.estimate_us = rounded(region.estimate_us + node.estimate_us);
    }
  }
}

}  // namespace braid
