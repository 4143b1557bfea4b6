// Edges: every conflict over bytes ordered, every lane a chain, by the fewest edges.
// needs: lanes and memory. breaks: nothing.
//
// A full edge lets a kernel start when the one before has ended. A programmatic one lets it start
// earlier, and the kernel itself waits for that end before its first access: it leads into kernels
// that wait, and nowhere else. So every path orders the accesses of its first kernel before those
// of its last: what a programmatic edge enters cannot end before it has waited. No full edge is
// left out for a path through a kernel that does not wait, and one clock serves both kinds.
#include <algorithm>

#include "passes/lanes.hpp"
#include "passes/node_costs.hpp"
#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Between which nodes edges are programmatic: where that pays.
class EarlyStarts {
 public:
  EarlyStarts(const Program& p, const Options& o) {
    if (may_start_early(p, o)) costs_ = costs_of(p);
  }
  bool pays(const Node& from, const Node& to) const {
    return !costs_.empty() && from.kernel != kNoKernel && to.kernel != kNoKernel &&
           starts_early(costs_[from.kernel], costs_[to.kernel], kPrices);
  }

 private:
  std::vector<KernelCost> costs_;  // by kernel; empty if there are no such edges
};

/// Visits the sources of each node latest first. An edge is kept iff no path through the edges
/// kept so far reaches its source: the result is the unique transitive reduction.
void emit(const Program& p, Body& body, HazardFinder& finder, const EarlyStarts& early_starts,
          bool reduce) {
  const bool conditional = is_conditional(p, body);
  const Hazards hazards = finder.find(body);
  const std::vector<uint32_t> lane_before = lane_predecessors(body);
  Clocks clocks(body);
  std::vector<Hazard> sources;
  body.edges.clear();
  body.edges.reserve(2 * body.nodes.size());
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    sources.assign(hazards.of(n).begin(), hazards.of(n).end());
    const uint32_t before = lane_before[n];
    const auto at = std::lower_bound(sources.begin(), sources.end(), before,
                                     [](const Hazard& h, uint32_t from) { return h.from < from; });
    if (before != kNone && (at == sources.end() || at->from != before)) {
      sources.insert(at, {before, EdgeReason::lane, kNone});
    }
    const size_t first = body.edges.size();
    for (auto h = sources.rbegin(); h != sources.rend(); ++h) {
      if (reduce && clocks.ordered(body, h->from, n)) continue;
      clocks.order(body, h->from, n);
      // A lane's own edges bound how many kernels are on the device: those stay full. So do those
      // of conditional and host nodes, which neither wait by themselves nor let others start early.
      const bool early = !body.stream && !conditional && h->reason != EdgeReason::lane &&
                         early_starts.pays(body.nodes[h->from], body.nodes[n]);
      body.edges.push_back({.from = h->from,
                            .to = n,
                            .kind = early ? EdgeKind::programmatic : EdgeKind::full,
                            .reason = h->reason,
                            .buffer = h->buffer});
    }
    std::reverse(body.edges.begin() + static_cast<std::ptrdiff_t>(first), body.edges.end());
  }
}

}  // namespace

void emit_edges(Program& p, const Options& o) {
  HazardFinder finder(p, true);
  const EarlyStarts early(p, o);
  for (Body& body : p.bodies) emit(p, body, finder, early, o.reduce);
}

}  // namespace braid
