// Lanes: the stream of every node, its place there, and when it is predicted to run.
// needs: chosen kernels. breaks: memory and edges, which follow the lanes and the launch order.
#include "passes/lanes.hpp"

#include <fmt/format.h>

#include <utility>

#include "passes/plan.hpp"

namespace braid {
namespace {

/// A wider schedule must be better by this part than the best narrower one: fewer lanes leave more
/// memory to share.
constexpr double kWorthALane = 0.98;
/// Up to so many nodes fewer lanes than allowed are tried as well.
constexpr uint32_t kSmall = 4096;

struct Choice {
  LanePlan plan;
  Prediction prediction;
};

/// The better of both forms.
Choice schedule(const Tasks& tasks, uint32_t lanes, const Prices& prices) {
  Choice rank{schedule_by_rank(tasks, lanes, prices), {}};
  rank.prediction = predict(tasks, rank.plan, prices);
  Choice time{schedule_by_time(tasks, lanes, prices), {}};
  time.prediction = predict(tasks, time.plan, prices);
  return std::move(time.prediction.us < rank.prediction.us ? time : rank);
}

Choice choose(const Tasks& tasks, Choice chain, const Options& o, const Prices& prices) {
  const auto most = static_cast<uint32_t>(o.streams);
  if (most == 1 || tasks.size() < 2) return chain;
  if (o.force_lanes) return schedule(tasks, most, prices);
  const double chain_us = chain.prediction.us;
  Choice best = std::move(chain);
  double limit = std::min(chain_us * (1 - prices.least_gain), chain_us - prices.least_gain_us);
  for (uint32_t lanes = tasks.size() <= kSmall ? 2 : most;; lanes = std::min(lanes * 2, most)) {
    Choice wider = schedule(tasks, lanes, prices);
    if (wider.plan.lanes > 1 && wider.prediction.us < limit) {
      limit = wider.prediction.us * kWorthALane;
      best = std::move(wider);
    }
    if (lanes == most) return best;
  }
}

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
    node.start_us = c.prediction.start_us[v];
  }
  body.nodes = std::move(nodes);
  body.lanes = std::max<uint32_t>(1, static_cast<uint32_t>(length.size()));
  body.predicted_us = c.prediction.us;
}

}  // namespace

void assign_lanes(Program& p, const Options& o, std::span<const KernelCost> costs,
                  const Prices& prices) {
  if (o.streams < 1 || o.streams > kMaxStreams) {
    throw Error(Diagnostic{
        .code = "E0704",
        .message = fmt::format("streams must be 1 to {}, not {}", kMaxStreams, o.streams)});
  }
  for (Body& body : p.bodies) {
    const Tasks tasks(p, body, costs);
    for (Node& node : body.nodes) node.estimate_us = costs[node.kernel].us;
    Choice chain{one_lane(tasks.size()), {}};
    chain.prediction =
        body.stream ? predict_stream(tasks, prices) : predict(tasks, chain.plan, prices);
    body.chain_us = chain.prediction.us;
    apply(body, body.stream ? chain : choose(tasks, std::move(chain), o, prices));
  }
}

void assign_lanes(Program& p, const Options& o) {
  std::vector<KernelCost> costs;
  costs.reserve(p.kernels.size());
  for (const Kernel& k : p.kernels) costs.push_back(cost_of(k, o.target));
  assign_lanes(p, o, costs, kPrices);
}

}  // namespace braid
