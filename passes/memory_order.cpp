// A launch order for little memory, for when a limit forces one lane.
#include <algorithm>

#include "passes/memory.hpp"
#include "passes/order.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Ready nodes that are compared at each step: the latest ones, so that chains are followed.
constexpr size_t kCompared = 256;

/// Greedy list scheduling of one body: of the ready nodes the one after which the fewest bytes more
/// are in use; of equal ones the latest to become ready.
class Scheduler {
 public:
  /// `kept` by buffer: other steps use it. Those of other levels do not count here.
  Scheduler(const Program& p, Body& body, const std::vector<bool>& kept)
      : p_(p), body_(body), kept_(kept), uses_(p.buffers.size(), 0), started_(p.buffers.size()) {
    for (const Node& node : body.nodes) {
      each_temp(node, [&](uint32_t b) { ++uses_[b]; });
    }
  }

  void run() {
    const auto count = static_cast<uint32_t>(body_.nodes.size());
    const Hazards hazards = find_hazards(p_, body_, false);
    std::vector<std::vector<uint32_t>> after(count);
    std::vector<size_t> waits(count);
    std::vector<uint32_t> ready;
    for (uint32_t n = 0; n < count; ++n) {
      waits[n] = hazards.of(n).size();
      for (const Hazard& h : hazards.of(n)) after[h.from].push_back(n);
    }
    for (uint32_t n = count; n-- > 0;) {
      if (waits[n] == 0) ready.push_back(n);
    }
    std::vector<Node> nodes;
    while (!ready.empty()) {
      const auto first = ready.size() > kCompared
                             ? ready.end() - static_cast<std::ptrdiff_t>(kCompared)
                             : ready.begin();
      auto best = ready.end() - 1;
      int64_t least = growth(*best);
      for (auto it = best; it != first;) {
        --it;
        if (const int64_t bytes = growth(*it); bytes < least) {
          best = it;
          least = bytes;
        }
      }
      const uint32_t n = *best;
      ready.erase(best);
      each_temp(body_.nodes[n], [&](uint32_t b) {
        started_[b] = true;
        --uses_[b];
      });
      for (auto next = after[n].rbegin(); next != after[n].rend(); ++next) {
        if (--waits[*next] == 0) ready.push_back(*next);
      }
      nodes.push_back(std::move(body_.nodes[n]));
    }
    body_.nodes = std::move(nodes);
  }

 private:
  /// Each temporary of a node once.
  template <class Visit>
  void each_temp(const Node& node, const Visit& visit) const {
    for (size_t i = 0; i < node.args.size(); ++i) {
      const uint32_t b = p_.views[node.args[i]].buffer;
      const bool again =
          std::any_of(node.args.begin(), node.args.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](uint32_t v) { return p_.views[v].buffer == b; });
      const Buffer& buffer = p_.buffers[b];
      if (!again && buffer.segment == Segment::temp && buffer.region == body_.region) visit(b);
    }
  }

  /// Bytes in use after the node less those before it.
  int64_t growth(uint32_t n) const {
    int64_t bytes = 0;
    each_temp(body_.nodes[n], [&](uint32_t b) {
      if (!started_[b]) bytes += p_.buffers[b].bytes;
      if (uses_[b] == 1 && !kept_[b]) bytes -= p_.buffers[b].bytes;
    });
    return bytes;
  }

  const Program& p_;
  Body& body_;
  const std::vector<bool>& kept_;
  std::vector<uint32_t> uses_;  // still to come, by buffer
  std::vector<bool> started_;
};

}  // namespace

void order_for_memory(Program& p) {
  // By buffer: the body of its level that uses it, kNone - 1 once another step does. What bodies
  // further in use their conditional nodes use too.
  constexpr uint32_t kShared = kNone - 1;
  std::vector<uint32_t> user(p.buffers.size(), kNone);
  const auto use = [&](uint32_t view, uint32_t by) {
    uint32_t& u = user[p.views[view].buffer];
    u = u == kNone || u == by ? by : kShared;
  };
  for (const Region& region : p.regions) {
    if (region.kind != Region::Kind::host) continue;
    for (uint32_t view : region.args) use(view, kShared);
  }
  for (const Call& call : p.calls) {
    for (uint32_t view : call.args) use(view, kShared);
    for (uint32_t view : call.results) use(view, kShared);
  }
  for (uint32_t b = 0; b < p.bodies.size(); ++b) {
    for (const Node& node : p.bodies[b].nodes) {
      for (uint32_t view : node.args) {
        if (p.buffers[p.views[view].buffer].region == p.bodies[b].region) use(view, b);
      }
    }
  }
  std::vector<bool> kept;
  for (uint32_t u : user) kept.push_back(u == kShared);
  for (Body& body : p.bodies) Scheduler(p, body, kept).run();
}

}  // namespace braid
