#include "passes/schedule.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr double kNever = -std::numeric_limits<double>::infinity();

/// The time from each node's start to the end of the last one that waits for it, directly or not.
std::vector<double> bottom_levels(const Tasks& tasks, const Prices& prices) {
  std::vector<double> level(tasks.size(), 0);
  for (uint32_t v = tasks.size(); v-- > 0;) {
    level[v] += tasks.cost(v).us;
    for (uint32_t p : tasks.preds(v)) {
      level[p] = std::max(level[p], prices.forked_edge_us + level[v]);
    }
  }
  return level;
}

/// Ready nodes, the longest remaining path first.
class ReadyNodes {
 public:
  /// `levels` by node.
  explicit ReadyNodes(const std::vector<double>& levels) : levels_(levels) {}
  bool empty() const { return heap_.empty(); }
  uint32_t top() const { return heap_.front(); }
  /// Whether `a` comes before `b`.
  bool before(uint32_t a, uint32_t b) const { return Later{levels_}(b, a); }
  void push(uint32_t node) {
    heap_.push_back(node);
    std::push_heap(heap_.begin(), heap_.end(), Later{levels_});
  }
  uint32_t pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{levels_});
    const uint32_t node = heap_.back();
    heap_.pop_back();
    return node;
  }

 private:
  struct Later {
    const std::vector<double>& levels;
    bool operator()(uint32_t a, uint32_t b) const {
      return levels[a] != levels[b] ? levels[a] < levels[b] : a > b;
    }
  };
  const std::vector<double>& levels_;
  std::vector<uint32_t> heap_;
};

/// The lanes as they fill, with a clock per node: how many of each lane's nodes come before it.
/// Exact, since lanes are chains.
class Lanes {
 public:
  Lanes(const Tasks& tasks, uint32_t lanes, const Prices& prices, uint32_t width)
      : tasks_(tasks),
        prices_(prices),
        count_(lanes),
        plan_{std::vector<uint32_t>(tasks.size(), kNone), {}, 0},
        position_(tasks.size(), 0),
        end_(tasks.size(), 0),
        clocks_(size_t{tasks.size()} * lanes, 0),
        tail_(lanes, kNone),
        free_(lanes, kNever),
        last_(lanes, kNone),
        width_(lanes, 0),
        spare_(width) {
    plan_.order.reserve(tasks.size());
    width_[0] = tasks.widest();
    ensure(width_[0] <= width, "a node is wider than its body may be");
    spare_ -= width_[0];
  }

  /// Whether `v` may join a lane. The first one is open to all.
  bool admits(uint32_t lane, uint32_t v) const {
    const uint32_t width = tasks_.cost(v).width;
    return width <= width_[lane] || width - width_[lane] <= spare_;
  }

  /// Puts `v`, whose predecessors are all placed and whose ends are known, on the lane with the
  /// least start plus price of joins among those that admit it and that `may` names. Ties go to a
  /// lane that ends in a predecessor, then to the one used last, so that few lanes are used.
  /// Returns v's start.
  template <class May>
  double place(uint32_t v, const May& may) {
    find_sources(v);
    Key best;
    for (uint32_t lane = 0; lane < count_; ++lane) {
      if (!may(lane) || !admits(lane, v)) continue;
      const double start = earliest(lane);
      if (best.lane != kNone && start > best.key) continue;
      const bool follows = last_[lane] != kNone && last_[lane] == tail_[lane];
      const Key key{start + prices_.join_us * joins(lane), follows, free_[lane], lane, start};
      if (best.lane == kNone || key.before(best)) best = key;
    }
    put(v, best.lane);
    for (uint32_t lane : sources_) last_[lane] = kNone;
    return best.start;
  }
  void set_end(uint32_t v, double end) { end_[v] = free_[plan_.lane[v]] = end; }
  uint32_t lane_of(uint32_t v) const { return plan_.lane[v]; }

  /// Lanes are begun in order, since the unused ones are all alike: those used come first.
  LanePlan take() {
    plan_.lanes =
        static_cast<uint32_t>(std::find(tail_.begin(), tail_.end(), kNone) - tail_.begin());
    return std::move(plan_);
  }

 private:
  struct Key {
    double key = 0;
    bool follows = false;
    double free_at = 0;
    uint32_t lane = kNone;
    double start = 0;
    bool before(const Key& o) const {
      if (key != o.key) return key < o.key;
      return follows != o.follows ? follows : free_at > o.free_at;
    }
  };

  uint32_t* clock(uint32_t v) { return clocks_.data() + size_t{v} * count_; }

  /// Of each lane the last node that `v` waits for: last_, and in sources_ the lanes that have one.
  void find_sources(uint32_t v) {
    sources_.clear();
    for (uint32_t p : tasks_.preds(v)) {
      uint32_t& last = last_[plan_.lane[p]];
      if (last == kNone) sources_.push_back(plan_.lane[p]);
      if (last == kNone || position_[last] < position_[p]) last = p;
    }
    // What another of them waits for needs no edge.
    if (sources_.size() < 2) {
      kept_ = sources_;
      return;
    }
    kept_.clear();
    for (uint32_t lane : sources_) {
      const auto covers = [&](uint32_t other) {
        return other != lane && clock(last_[other])[lane] > position_[last_[lane]];
      };
      if (std::none_of(sources_.begin(), sources_.end(), covers)) kept_.push_back(lane);
    }
  }

  /// Behind the lane's tail, which no node that `v` waits for in that lane outlasts, and behind the
  /// others.
  double earliest(uint32_t lane) const {
    double at = std::max(0.0, free_[lane] + prices_.forked_edge_us);
    for (uint32_t from : kept_) {
      if (from == lane) continue;
      at = std::max(at, end_[last_[from]] + prices_.forked_edge_us + prices_.cross_edge_us);
    }
    return at;
  }

  /// Edges from other lanes that `v` would need behind the lane's tail.
  int joins(uint32_t lane) {
    int count = 0;
    for (uint32_t from : kept_) {
      count += from != lane &&
               !(tail_[lane] != kNone && clock(tail_[lane])[from] > position_[last_[from]]);
    }
    return count;
  }

  void put(uint32_t v, uint32_t lane) {
    uint32_t* const mine = clock(v);
    const auto follow = [&](uint32_t from) {
      const uint32_t* const theirs = clock(from);
      for (uint32_t l = 0; l < count_; ++l) mine[l] = std::max(mine[l], theirs[l]);
      uint32_t& own = mine[plan_.lane[from]];
      own = std::max(own, position_[from] + 1);
    };
    for (uint32_t from : kept_) follow(last_[from]);
    if (tail_[lane] != kNone) {
      follow(tail_[lane]);
      position_[v] = position_[tail_[lane]] + 1;
    }
    if (const uint32_t width = tasks_.cost(v).width; width > width_[lane]) {
      spare_ -= width - width_[lane];
      width_[lane] = width;
    }
    plan_.lane[v] = lane;
    plan_.order.push_back(v);
    tail_[lane] = v;
  }

  const Tasks& tasks_;
  const Prices& prices_;
  uint32_t count_;
  LanePlan plan_;
  std::vector<uint32_t> position_;
  std::vector<double> end_;
  std::vector<uint32_t> clocks_;
  std::vector<uint32_t> tail_;            // by lane
  std::vector<double> free_;              // by lane: the end of its tail
  std::vector<uint32_t> last_;            // by lane, for the node in hand
  std::vector<uint32_t> sources_, kept_;  // lanes, for the node in hand
  std::vector<uint32_t> width_;           // by lane: what it takes of the width that there is
  uint32_t spare_;                        // of that width, what no lane takes
};

/// Ready nodes for lanes of which some are busy. Wide nodes wait apart, so that one that fits
/// nowhere holds up no others.
class Queue {
 public:
  Queue(const std::vector<double>& levels, const Tasks& tasks)
      : tasks_(tasks), slim_(levels), wide_(levels) {}
  void push(uint32_t v) { (tasks_.cost(v).width > 1 ? wide_ : slim_).push(v); }
  /// The first of those that `fits` allows; nothing if there is none at the heads.
  template <class Fits>
  std::optional<uint32_t> pop(const Fits& fits) {
    const bool slim = !slim_.empty() && fits(slim_.top());
    const bool wide = !wide_.empty() && fits(wide_.top());
    if (slim && (!wide || slim_.before(slim_.top(), wide_.top()))) return slim_.pop();
    if (wide) return wide_.pop();
    return std::nullopt;
  }

 private:
  const Tasks& tasks_;
  ReadyNodes slim_, wide_;
};

std::vector<uint32_t> pred_counts(const Tasks& tasks) {
  std::vector<uint32_t> counts(tasks.size());
  for (uint32_t v = 0; v < tasks.size(); ++v) {
    counts[v] = static_cast<uint32_t>(tasks.preds(v).size());
  }
  return counts;
}

}  // namespace

LanePlan schedule_by_rank(const Tasks& tasks, uint32_t count, const Prices& prices,
                          uint32_t width) {
  Lanes lanes(tasks, count, prices, width);
  const std::vector<double> levels = bottom_levels(tasks, prices);
  ReadyNodes ready(levels);
  std::vector<uint32_t> waits = pred_counts(tasks);
  for (uint32_t v = 0; v < tasks.size(); ++v) {
    if (waits[v] == 0) ready.push(v);
  }
  while (!ready.empty()) {
    const uint32_t v = ready.pop();
    const double start = lanes.place(v, [](uint32_t) { return true; });
    lanes.set_end(v, start + tasks.cost(v).us);
    for (uint32_t to : tasks.succs(v)) {
      if (--waits[to] == 0) ready.push(to);
    }
  }
  return lanes.take();
}

LanePlan schedule_by_time(const Tasks& tasks, uint32_t count, const Prices& prices,
                          Priority priority, uint32_t width) {
  Lanes lanes(tasks, count, prices, width);
  // Nodes of one level come by index.
  const std::vector<double> levels = priority == Priority::given_order
                                         ? std::vector<double>(tasks.size(), 0)
                                         : bottom_levels(tasks, prices);
  Queue ready(levels, tasks);
  std::vector<uint32_t> waits = pred_counts(tasks);
  for (uint32_t v = 0; v < tasks.size(); ++v) {
    if (waits[v] == 0) ready.push(v);
  }
  Machine machine(tasks, prices);
  std::vector<bool> busy(count, false);
  uint32_t free = count, rank = 0;
  const auto idle = [&](uint32_t lane) { return !busy[lane]; };
  const auto fits = [&](uint32_t v) {
    for (uint32_t lane = 0; lane < count; ++lane) {
      if (idle(lane) && lanes.admits(lane, v)) return true;
    }
    return false;
  };
  for (;;) {
    for (; free > 0; --free) {
      const std::optional<uint32_t> v = ready.pop(fits);
      if (!v) break;
      const double start = lanes.place(*v, idle);
      busy[lanes.lane_of(*v)] = true;
      machine.arrive(*v, start, rank++);
    }
    const std::vector<uint32_t>& ended = machine.next();
    if (ended.empty()) break;
    for (uint32_t v : ended) {
      busy[lanes.lane_of(v)] = false;
      ++free;
      lanes.set_end(v, machine.end(v));
      for (uint32_t to : tasks.succs(v)) {
        if (--waits[to] == 0) ready.push(to);
      }
    }
  }
  return lanes.take();
}

Bounds bounds_of(const Tasks& tasks, const Prices& prices) {
  Bounds bounds{.edge = prices.forked_edge_us};
  Prices alone = prices;  // where all else is done
  alone.forked_edge_us = prices.chain_edge_us;
  for (double level : bottom_levels(tasks, alone)) bounds.path = std::max(bounds.path, level);
  for (uint32_t v = 0; v < tasks.size(); ++v) {
    bounds.nodes += tasks.cost(v).us + prices.forked_edge_us;
    bounds.gpu += tasks.cost(v).work_us();
  }
  bounds.gpu = std::max(bounds.gpu, prices.issue_us * (tasks.size() - 1.0));
  return bounds;
}

}  // namespace braid
