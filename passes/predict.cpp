#include "passes/predict.hpp"

#include <algorithm>
#include <limits>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// Shares are sums of rounded numbers.
constexpr double kWhole = 1 + 1e-9;

}  // namespace

double edge_us(const Prices& prices, uint32_t lanes, bool same_lane) {
  if (lanes == 1) return prices.chain_edge_us;
  return prices.forked_edge_us + (same_lane ? 0 : prices.cross_edge_us);
}

const std::vector<uint32_t>& Machine::next() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  ended_.clear();
  for (;;) {
    const double slower = shares_ > kWhole ? shares_ : 1;
    const double ends =
        running_.empty() ? kNever : now_ + std::max(0.0, running_.top().at - progress_) * slower;
    const double starts =
        arrivals_.empty() ? kNever : std::max({arrivals_.top().at, issue_free_, now_});
    if (!ended_.empty() && ends > now_) return ended_;
    if (ends == kNever && starts == kNever) return ended_;
    if (starts < ends) {
      const uint32_t node = arrivals_.top().node, rank = arrivals_.top().rank;
      arrivals_.pop();
      progress_ += (starts - now_) / slower;
      now_ = starts;
      start_[node] = now_;
      started_.push_back(node);
      issue_free_ = now_ + prices_.issue_us;
      shares_ += tasks_.cost(node).share;
      running_.push({progress_ + tasks_.cost(node).us, rank, node});
    } else {
      const uint32_t node = running_.top().node;
      now_ = ends;
      progress_ = std::max(progress_, running_.top().at);
      running_.pop();
      shares_ = running_.empty() ? 0 : shares_ - tasks_.cost(node).share;
      end_[node] = now_;
      ended_.push_back(node);
    }
  }
}

Prediction predict(const Tasks& tasks, const LanePlan& plan, const Prices& prices) {
  const uint32_t n = tasks.size();
  std::vector<uint32_t> waits(n), rank(n), after(n, kNone), tail(plan.lanes, kNone);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t v = plan.order[i];
    rank[v] = i;
    waits[v] = static_cast<uint32_t>(tasks.preds(v).size());
    uint32_t& last = tail[plan.lane[v]];
    if (last != kNone) {
      after[last] = v;
      ++waits[v];
    }
    last = v;
  }
  Machine machine(tasks, prices);
  std::vector<double> ready(n, 0);
  for (uint32_t v : plan.order) {
    if (waits[v] == 0) machine.arrive(v, 0, rank[v]);
  }
  bool alone = false;
  const auto done = [&](uint32_t from, uint32_t to) {
    // Where one lane alone is at work, its steps are those of a chain.
    const bool same = plan.lane[from] == plan.lane[to];
    const std::span<const uint32_t> over_data = tasks.succs(from);
    const bool early = starts_early(tasks.cost(from), tasks.cost(to), prices) &&
                       std::binary_search(over_data.begin(), over_data.end(), to);
    const double edge =
        edge_us(prices, alone && same ? 1 : plan.lanes, same) + (early ? 0 : prices.full_us);
    ready[to] = std::max(ready[to], machine.end(from) + edge);
    if (--waits[to] == 0) machine.arrive(to, ready[to], rank[to]);
  };
  for (;;) {
    const std::vector<uint32_t>& ended = machine.next();
    if (ended.empty()) break;
    alone = machine.idle();
    for (uint32_t v : ended) {
      for (uint32_t to : tasks.succs(v)) done(v, to);
      if (after[v] != kNone) done(v, after[v]);
    }
  }
  ensure(machine.started().size() == n, "the lanes of a body go round in a circle");
  return {machine.now(), machine.starts(), machine.started()};
}

Prediction predict_stream(const Tasks& tasks, const Prices& prices) {
  Prediction result{0, {}, one_lane(tasks.size()).order};
  double launched = 0, idle = 0;
  for (uint32_t v = 0; v < tasks.size(); ++v) {
    result.start_us.push_back(std::max(launched, idle));
    result.us = result.start_us.back() + tasks.cost(v).us;
    idle = result.us + prices.chain_edge_us;
    launched += prices.stream_launch_us;
  }
  return result;
}

}  // namespace braid
