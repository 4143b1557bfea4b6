// Group: like kernels that are ready together become one launch.
// needs: chosen kernels. breaks: nothing; lanes, memory and edges come after it.
#include "passes/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "passes/cost.hpp"
#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

using Launches = std::vector<std::vector<uint32_t>>;

/// What all bodies of a program share: conflicts over its buffers, and what its kernels cost, each
/// asked for once.
class Shared {
 public:
  explicit Shared(const Program& p) : finder(p, false), p_(p), known_(p.kernels.size()) {}

  HazardFinder finder;
  /// Microseconds of the whole device's work of one part.
  double work_us(uint32_t kernel) { return of(kernel).work_us; }
  uint32_t most(uint32_t kernel) { return of(kernel).most; }

 private:
  struct Facts {
    double work_us = -1;  // negative: not known yet
    uint32_t most = 1;
  };
  const Facts& of(uint32_t kernel) {
    Facts& facts = known_[kernel];
    if (facts.work_us < 0) {
      facts.work_us = cost_of(p_.kernels[kernel], p_.target).work_us();
      facts.most = most_parts(p_.kernels[kernel], p_.target);
    }
    return facts;
  }

  const Program& p_;
  std::vector<Facts> known_;
};

/// The hazards of a body as a DAG, and for every node the first step it can have and the last one
/// that leaves the longest path as it is.
struct Steps {
  std::vector<std::vector<uint32_t>> next;
  std::vector<uint32_t> sources;  // how many
  std::vector<uint32_t> first, last;
  uint32_t count = 0;

  Steps(const Body& body, Shared& shared)
      : next(body.nodes.size()), sources(body.nodes.size(), 0), first(body.nodes.size(), 0) {
    const Hazards hazards = shared.finder.find(body);
    const auto nodes = static_cast<uint32_t>(body.nodes.size());
    for (uint32_t n = 0; n < nodes; ++n) {
      for (const Hazard& h : hazards.of(n)) {
        next[h.from].push_back(n);
        ++sources[n];
        first[n] = std::max(first[n], first[h.from] + 1);
      }
      count = std::max(count, first[n] + 1);
    }
    last.assign(nodes, count - 1);
    for (uint32_t n = nodes; n-- > 0;) {
      for (const uint32_t later : next[n]) last[n] = std::min(last[n], last[later] - 1);
    }
  }
};

/// Nodes that could share a launch: of one kernel and one level.
struct Kind {
  std::vector<uint32_t> by_first;  // all of them, by the first step they can have
  size_t unready = 0;              // index into by_first: those before are ready or launched
  std::vector<uint32_t> ready;
  uint32_t ready_last = 0;  // the last step that any of the ready ones can have
};

class Scheduler {
 public:
  Scheduler(const Body& body, const Steps& steps, Shared& shared)
      : steps_(steps), kind_of_(body.nodes.size()) {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const std::pair<uint32_t, uint32_t> key(body.nodes[n].kernel, body.nodes[n].level);
      kind_of_[n] = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
      if (kind_of_[n] == kinds_.size()) {
        kinds_.emplace_back();
        most_.push_back(key.first == kNoKernel ? 1 : shared.most(key.first));
      }
      kinds_[kind_of_[n]].by_first.push_back(n);
    }
    for (Kind& k : kinds_) {
      std::stable_sort(k.by_first.begin(), k.by_first.end(),
                       [&](uint32_t a, uint32_t b) { return steps_.first[a] < steps_.first[b]; });
    }
  }

  /// The launches by steps.
  Launches run(bool may_wait) {
    const size_t nodes = kind_of_.size();
    std::vector<std::vector<uint32_t>> due(steps_.count);  // nodes by the last step they can have
    for (uint32_t n = 0; n < nodes; ++n) due[steps_.last[n]].push_back(n);
    waiting_ = steps_.sources;
    is_ready_.assign(nodes, false);
    launched_.assign(nodes, false);
    for (Kind& k : kinds_) k.unready = 0;
    launches_.clear();
    std::vector<uint32_t> becoming_ready;
    for (uint32_t n = 0; n < nodes; ++n) {
      if (waiting_[n] == 0) becoming_ready.push_back(n);
    }
    for (uint32_t step = 0; step < steps_.count; ++step) {
      std::vector<uint32_t> gained;  // kinds
      for (const uint32_t n : becoming_ready) {
        Kind& k = kinds_[kind_of_[n]];
        is_ready_[n] = true;
        k.ready_last = k.ready.empty() ? steps_.last[n] : std::max(k.ready_last, steps_.last[n]);
        k.ready.push_back(n);
        gained.push_back(kind_of_[n]);
      }
      becoming_ready.clear();
      for (const uint32_t n : due[step]) {
        if (!launched_[n]) launch(kind_of_[n], becoming_ready);
      }
      for (const uint32_t kind : gained) {
        if (may_wait && worth_waiting(kinds_[kind], most_[kind])) continue;
        launch(kind, becoming_ready);
      }
    }
    return std::move(launches_);
  }

 private:
  /// Whether a node that is not ready may become so while one of the ready ones can still wait.
  bool worth_waiting(Kind& k, uint32_t most) const {
    if (most == 1) return false;
    while (k.unready < k.by_first.size() && is_ready_[k.by_first[k.unready]]) ++k.unready;
    return k.unready < k.by_first.size() && steps_.first[k.by_first[k.unready]] <= k.ready_last;
  }

  /// All ready nodes of a kind, in as few launches as may be, of nearly equal size.
  void launch(uint32_t kind, std::vector<uint32_t>& becoming_ready) {
    std::vector<uint32_t> nodes = std::exchange(kinds_[kind].ready, {});
    std::sort(nodes.begin(), nodes.end());
    const size_t count = (nodes.size() + most_[kind] - 1) / most_[kind];
    for (size_t i = 0; i < count; ++i) {
      const auto begin = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() * i / count);
      const auto end = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() * (i + 1) / count);
      launches_.emplace_back(begin, end);
    }
    for (const uint32_t n : nodes) {
      launched_[n] = true;
      for (const uint32_t later : steps_.next[n]) {
        if (--waiting_[later] == 0) becoming_ready.push_back(later);
      }
    }
  }

  const Steps& steps_;
  std::vector<uint32_t> kind_of_;  // by node
  std::vector<Kind> kinds_;
  std::vector<uint32_t> most_;  // parts of a launch, by kind
  std::vector<uint32_t> waiting_;
  std::vector<bool> is_ready_, launched_;
  Launches launches_;
};

/// Microseconds of the longest path and of the launches themselves. Parts run side by side until
/// the device is full.
double price(const Body& body, const Launches& by_step, const Steps& steps, Shared& shared) {
  constexpr double kLaunchUs = 0.5;  // measured on an H200: an empty kernel in a chain
  std::vector<double> start(body.nodes.size(), 0);
  double longest = 0;
  for (const std::vector<uint32_t>& launch : by_step) {
    const Node& first = body.nodes[launch[0]];
    double begin = 0, us = first.estimate_us;
    for (const uint32_t n : launch) begin = std::max(begin, start[n]);
    if (launch.size() > 1) {
      us = std::max(us, shared.work_us(first.kernel) * static_cast<double>(launch.size()));
    }
    for (const uint32_t n : launch) {
      for (const uint32_t later : steps.next[n]) start[later] = std::max(start[later], begin + us);
    }
    longest = std::max(longest, begin + us);
  }
  return longest + kLaunchUs * static_cast<double>(by_step.size());
}

/// Launches in an order that keeps the hazards and, as far as that allows, the place of the last
/// node of each: without groups nothing moves.
Launches in_order(const Launches& launches, const Steps& steps) {
  std::vector<uint32_t> launch_of(steps.next.size());
  for (uint32_t l = 0; l < launches.size(); ++l) {
    for (const uint32_t n : launches[l]) launch_of[n] = l;
  }
  std::vector<size_t> waiting(launches.size(), 0);
  for (uint32_t n = 0; n < steps.next.size(); ++n) waiting[launch_of[n]] += steps.sources[n];
  using Place = std::pair<uint32_t, uint32_t>;  // of the last node, and the launch
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  const auto add = [&](uint32_t l) { ready.emplace(launches[l].back(), l); };
  for (uint32_t l = 0; l < launches.size(); ++l) {
    if (waiting[l] == 0) add(l);
  }
  Launches ordered;
  while (!ready.empty()) {
    const uint32_t l = ready.top().second;
    ready.pop();
    ordered.push_back(launches[l]);
    for (const uint32_t n : launches[l]) {
      for (const uint32_t later : steps.next[n]) {
        if (--waiting[launch_of[later]] == 0) add(launch_of[later]);
      }
    }
  }
  ensure(ordered.size() == launches.size(), "grouped launches form a cycle");
  return ordered;
}

/// "row_relu_3f2a91c4" to "row_relu_x8_3f2a91c4".
std::string grouped_symbol(const std::string& symbol, uint32_t parts) {
  const size_t at = symbol.rfind('_');
  return fmt::format("{}_x{}{}", symbol.substr(0, at), parts, symbol.substr(at));
}

int64_t times(int64_t x, uint32_t n) {
  int64_t product;
  return __builtin_mul_overflow(x, int64_t{n}, &product) ? INT64_MAX : product;
}

Launches plan(const Body& body, Shared& shared) {
  if (body.nodes.empty()) return {};
  const Steps steps(body, shared);
  Scheduler scheduler(body, steps, shared);
  const Launches at_once = scheduler.run(false), waiting = scheduler.run(true);
  const bool wait = price(body, waiting, steps, shared) < price(body, at_once, steps, shared);
  return in_order(wait ? waiting : at_once, steps);
}

class Grouper {
 public:
  explicit Grouper(Program& p) : p_(p), shared_(p) {}

  void run() {
    for (Body& body : p_.bodies) {
      if (!body.stream) group(body);
    }
    drop_unused();
  }

 private:
  void group(Body& body) {
    std::vector<Node> nodes;
    for (const std::vector<uint32_t>& launch : plan(body, shared_)) {
      Node first = std::move(body.nodes[launch[0]]);
      if (launch.size() > 1) {
        for (size_t i = 1; i < launch.size(); ++i) append(first, std::move(body.nodes[launch[i]]));
        first.kernel = grouped(first.kernel, static_cast<uint32_t>(launch.size()));
        first.estimate_us = estimate_us(p_.kernels[first.kernel], p_.target);
      }
      nodes.push_back(std::move(first));
    }
    body.nodes = std::move(nodes);
  }

  static void append(Node& to, Node&& part) {
    const auto add = [](auto& all, auto& more) {
      all.insert(all.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
    };
    add(to.args, part.args);
    add(to.values, part.values);
    add(to.values_before, part.values_before);
    add(to.ops, part.ops);
    to.place = std::move(part.place);
    to.earliest = std::max(to.earliest, part.earliest);
    to.latest = std::min(to.latest, part.latest);
  }

  uint32_t grouped(uint32_t kernel, uint32_t parts) {
    const auto [it, added] =
        grouped_.try_emplace(std::pair(kernel, parts), static_cast<uint32_t>(p_.kernels.size()));
    if (!added) return it->second;
    Kernel k = p_.kernels[kernel];
    k.parts = parts;
    k.symbol = grouped_symbol(k.symbol, parts);
    k.flops = times(k.flops, parts);
    k.bytes_moved = times(k.bytes_moved, parts);
    const std::vector<ArgSlot> one = k.args;
    for (uint32_t i = 1; i < parts; ++i) k.args.insert(k.args.end(), one.begin(), one.end());
    p_.kernels.push_back(std::move(k));
    return it->second;
  }

  /// Kernels in the order of the nodes that launch them first.
  void drop_unused() {
    std::vector<uint32_t> now(p_.kernels.size(), kNone);
    std::vector<Kernel> kept;
    for (Body& body : p_.bodies) {
      for (Node& n : body.nodes) {
        if (n.kernel == kNoKernel) continue;
        if (now[n.kernel] == kNone) {
          now[n.kernel] = static_cast<uint32_t>(kept.size());
          kept.push_back(std::move(p_.kernels[n.kernel]));
        }
        n.kernel = now[n.kernel];
      }
    }
    p_.kernels = std::move(kept);
  }

  Program& p_;
  Shared shared_;                                              // of the kernels before grouping
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> grouped_;  // by kernel and parts
};

}  // namespace

uint32_t most_parts(const Kernel& k, const Target& t) {
  if (k.guard || k.exchanges || k.code != Code::generated) return 1;
  // Parts that take the whole device for long gain nothing by sharing a launch, and would hold back
  // what waits for the first of them.
  const double work = cost_of(k, t).work_us();
  const auto by_pointers = static_cast<double>(kMostPointers / std::max<size_t>(k.args.size(), 1));
  const double by_work = work * by_pointers <= kFullLaunchUs ? by_pointers : kFullLaunchUs / work;
  return std::max<uint32_t>(1, static_cast<uint32_t>(by_work));
}

Launches plan_launches(const Program& p, const Body& body) {
  Shared shared(p);
  return plan(body, shared);
}

void group_nodes(Program& p, const Options& o) {
  if (o.group) Grouper(p).run();
}

}  // namespace braid
