// Prediction: when each node of a body runs, given its lanes.
#pragma once

#include <queue>
#include <vector>

#include "passes/tasks.hpp"

namespace braid {

/// Microseconds from a node's end to the start of one that waits for it, in a body of `lanes`.
double edge_us(const Prices& prices, uint32_t lanes, bool same_lane);

/// One GPU in time. Kernels whose shares add up to more than 1 all run slower by that sum; starts
/// lie at least issue_us apart, first come, first served.
///
/// All running kernels slow alike, so one clock of progress serves all: a kernel ends when progress
/// since its start equals its time alone. An event is O(log n).
class Machine {
 public:
  Machine(const Tasks& tasks, const Prices& prices)
      : tasks_(tasks), prices_(prices), start_(tasks.size(), 0), end_(tasks.size(), 0) {}

  /// `node` may start from time `at` on, which is not in the past; of two that may start at once
  /// the lower rank does.
  void arrive(uint32_t node, double at, uint32_t rank) { arrivals_.push({at, rank, node}); }
  /// Lets time pass until kernels end: those that end at that instant, in order; none at the end.
  const std::vector<uint32_t>& next();

  /// Whether nothing runs or waits to start, right after a single kernel has ended.
  bool idle() const { return ended_.size() == 1 && running_.empty() && arrivals_.empty(); }

  double now() const { return now_; }
  double start(uint32_t node) const { return start_[node]; }
  double end(uint32_t node) const { return end_[node]; }
  /// The nodes started so far, as they started.
  const std::vector<uint32_t>& started() const { return started_; }
  const std::vector<double>& starts() const { return start_; }

 private:
  struct Event {
    double at;
    uint32_t rank, node;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : rank > o.rank; }
  };
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

  const Tasks& tasks_;
  const Prices& prices_;
  Events arrivals_, running_;  // running_ by progress at their end
  double now_ = 0, progress_ = 0, shares_ = 0, issue_free_ = 0;
  std::vector<double> start_, end_;
  std::vector<uint32_t> started_, ended_;
};

struct Prediction {
  double us = 0;                 // from the first start to the last end
  std::vector<double> start_us;  // by node
  std::vector<uint32_t> order;   // nodes as they start
};

/// Runs the nodes on a Machine: a node may start when all that it waits for has ended, the node
/// before it in its lane too, and the edges have been paid: those of a chain from a node that ended
/// alone to the next of its lane. O((V + E) log V).
Prediction predict(const Tasks& tasks, const LanePlan& plan, const Prices& prices = kPrices);

/// The same for kernels that the host launches one by one on a stream, in their order.
Prediction predict_stream(const Tasks& tasks, const Prices& prices = kPrices);

}  // namespace braid
