// Edges: every conflict over bytes ordered, every lane a chain, by the fewest edges.
// needs: lanes and memory. breaks: nothing.
#include <algorithm>

#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Visits the sources of each node latest first. An edge is kept iff no path through the edges
/// kept so far reaches its source: the result is the unique transitive reduction.
void emit(const Program& p, Body& body, bool reduce) {
  const Hazards hazards = find_hazards(p, body, true);
  const std::vector<uint32_t> lane_before = lane_predecessors(body);
  Clocks clocks(body);
  std::vector<Hazard> sources;
  body.edges.clear();
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
      body.edges.push_back({.from = h->from, .to = n, .reason = h->reason, .buffer = h->buffer});
    }
    std::reverse(body.edges.begin() + static_cast<std::ptrdiff_t>(first), body.edges.end());
  }
}

}  // namespace

void emit_edges(Program& p, const Options& o) {
  for (Body& body : p.bodies) emit(p, body, o.reduce);
}

}  // namespace braid
