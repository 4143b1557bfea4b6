// Lanes: the stream of every node, its place there, and when it is predicted to run.
// needs: chosen kernels. breaks: memory and edges, which follow the lanes and the launch order.
#include "passes/lanes.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "passes/node_costs.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

/// Part of a time that is worth more lanes, or an order in which more memory is live at once.
constexpr double kWorth = 0.02;
/// Up to so many nodes every schedule and number of lanes is tried that may be better.
constexpr uint32_t kSmall = 4096;

struct Choice {
  LanePlan plan;
  Prediction prediction;
};

/// The best of the schedules for `lanes` lanes and at most `width` kernels at once, those first
/// that leave memory the shortest lives.
Choice schedule(const Tasks& tasks, uint32_t lanes, uint32_t width, const Bounds& bounds,
                const Prices& prices) {
  const auto by_time = [&](Priority priority) {
    return schedule_by_time(tasks, lanes, prices, priority, width);
  };
  const auto predicted = [&](LanePlan plan) {
    Prediction prediction = predict(tasks, plan, prices);
    return Choice{std::move(plan), std::move(prediction)};
  };
  // Where no schedule can be much better a large body is done.
  const double enough = tasks.size() <= kSmall ? 0 : bounds.least_us(lanes) * (1 + kWorth);
  Choice best = predicted(by_time(Priority::given_order));
  const auto consider = [&](Choice other, double gain) {
    if (other.prediction.us < best.prediction.us * (1 - gain)) best = std::move(other);
  };
  if (best.prediction.us > enough) consider(predicted(by_time(Priority::longest_path)), kWorth);
  if (best.prediction.us > enough) {
    consider(predicted(schedule_by_rank(tasks, lanes, prices, width)), 0);
  }
  return best;
}

Choice choose(const Tasks& tasks, Choice chain, const Options& o, const Prices& prices) {
  const auto most = static_cast<uint32_t>(o.streams);
  if (tasks.size() < 2 || tasks.widest() == most) return chain;
  const Bounds bounds = bounds_of(tasks, prices);
  if (o.force_lanes) return schedule(tasks, most, most, bounds, prices);
  const double chain_us = chain.prediction.us;
  Choice best = std::move(chain);
  double limit = std::min(chain_us * (1 - prices.least_gain), chain_us - prices.least_gain_us);
  if (bounds.least_us(most) >= limit) return best;
  // Large bodies begin where more lanes can no longer be of much use.
  const double useful = tasks.size() <= kSmall ? 2 : std::clamp(bounds.parallelism(), 2.0, 32.0);
  uint32_t lanes = std::min(std::bit_ceil(static_cast<uint32_t>(useful)), most);
  for (;; lanes = std::min(lanes * 2, most)) {
    Choice wider = schedule(tasks, lanes, most, bounds, prices);
    if (wider.plan.lanes > 1 && wider.prediction.us < limit) {
      limit = wider.prediction.us * (1 - kWorth);
      best = std::move(wider);
    }
    const bool done = best.prediction.us <= bounds.least_us(most) * (1 + kWorth);
    if (lanes == most || done) return best;
  }
}

/// Nanoseconds are more than the model knows.
double rounded(double us) { return std::round(us * 1e3) / 1e3; }

/// Nodes in the order in which they are predicted to start, lanes numbered as they begin.
void apply(Body& body, const Choice& c) {
  std::vector<Node> nodes;
  nodes.reserve(body.nodes.size());
  std::vector<uint32_t> number(c.plan.lane.empty() ? 0 : kMaxStreams, UINT32_MAX), length;
  for (uint32_t v : c.prediction.order) {
    Node& node = nodes.emplace_back(std::move(body.nodes[v]));
    uint32_t& lane = number[c.plan.lane[v]];
    if (lane == UINT32_MAX) {
      lane = static_cast<uint32_t>(length.size());
      length.push_back(0);
    }
    node.lane = lane;
    node.position = length[lane]++;
    node.start_us = rounded(c.prediction.start_us[v]);
  }
  body.nodes = std::move(nodes);
  body.lanes = std::max<uint32_t>(1, static_cast<uint32_t>(length.size()));
  body.predicted_us = rounded(c.prediction.us);
}

Prices prices_in(const Program& p, const Body& body, const Prices& prices) {
  return body.stream || is_conditional(p, body) ? with_full_edges(prices) : prices;
}

}  // namespace

std::vector<KernelCost> costs_of(const Program& p) {
  std::vector<KernelCost> costs;
  costs.reserve(p.kernels.size());
  for (const Kernel& k : p.kernels) costs.push_back(cost_of(k, p.target));
  return costs;
}

void assign_lanes(Program& p, const Options& o, std::span<const KernelCost> costs,
                  const Prices& prices) {
  if (o.streams < 1 || o.streams > kMaxStreams) {
    throw Error(Diagnostic{
        .code = "E0704",
        .message = fmt::format("streams must be 1 to {}, not {}", kMaxStreams, o.streams)});
  }
  HazardFinder finder(p, false);
  NodeCosts node_costs(p, costs, prices);
  for (uint32_t b = static_cast<uint32_t>(p.bodies.size()); b-- > 0;) {
    Body& body = p.bodies[b];
    const std::vector<KernelCost> of_nodes = node_costs.of(b);
    const Tasks tasks(body, of_nodes, finder);
    const Prices here = prices_in(p, body, prices);
    for (size_t n = 0; n < of_nodes.size(); ++n) {
      body.nodes[n].estimate_us = rounded(of_nodes[n].us);
    }
    Choice chain{one_lane(tasks.size()), {}};
    chain.prediction = body.stream ? predict_stream(tasks, here) : predict(tasks, chain.plan, here);
    body.chain_us = rounded(chain.prediction.us);
    apply(body, body.stream ? chain : choose(tasks, std::move(chain), o, here));
    node_costs.done(b, of_nodes);
  }
  estimate_regions(p, prices);
}

bool may_start_early(const Program& p, const Options& o) {
  return o.pdl && has_programmatic_edges(p.target);
}

Prices prices_for(const Program& p, const Options& o) {
  return may_start_early(p, o) ? with_early_starts(kPrices) : kPrices;
}

void assign_lanes(Program& p, const Options& o) {
  assign_lanes(p, o, costs_of(p), prices_for(p, o));
}

void predict_bodies(Program& p, std::span<const KernelCost> costs, const Prices& prices) {
  HazardFinder finder(p, true);
  NodeCosts node_costs(p, costs, prices);
  for (uint32_t b = static_cast<uint32_t>(p.bodies.size()); b-- > 0;) {
    Body& body = p.bodies[b];
    const std::vector<KernelCost> of_nodes = node_costs.of(b);
    const Tasks tasks(body, of_nodes, finder);
    LanePlan plan = one_lane(tasks.size());
    plan.lanes = body.lanes;
    for (uint32_t n = 0; n < tasks.size(); ++n) plan.lane[n] = body.nodes[n].lane;
    const Prices here = prices_in(p, body, prices);
    const Prediction prediction =
        body.stream ? predict_stream(tasks, here) : predict(tasks, plan, here);
    body.predicted_us = rounded(prediction.us);
    for (uint32_t n = 0; n < tasks.size(); ++n) {
      body.nodes[n].start_us = rounded(prediction.start_us[n]);
      body.nodes[n].estimate_us = rounded(of_nodes[n].us);
    }
    node_costs.done(b, of_nodes);
  }
  estimate_regions(p, prices);
}

}  // namespace braid
