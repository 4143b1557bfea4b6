// Edges: every conflict over bytes ordered, every lane a chain, by the fewest edges.
// needs: lanes and memory. breaks: nothing.
//
// A full edge lets a kernel start when the one before has ended. A programmatic one lets it start
// earlier, and the kernel itself waits for that end before its first access: it leads into kernels
// that wait, and nowhere else. So every path orders the accesses of its first kernel before those
// of its last: what a programmatic edge enters cannot end before it has waited. No full edge is
// left out for a path through a kernel that does not wait, and one clock serves both kinds.
#include <algorithm>

#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

bool waits(const Program& p, const Node& node) {
  return node.kernel != kNoKernel && p.kernels[node.kernel].waits;
}

/// Whether a programmatic edge may leave the node.
bool lets_start_early(const Program& p, const Node& node) {
  return node.kernel != kNoKernel && is_launch(p.kernels[node.kernel]);
}

/// Visits the sources of each node latest first. An edge is kept iff no path through the edges
/// kept so far reaches its source: the result is the unique transitive reduction.
void emit(const Program& p, Body& body, HazardFinder& finder, const Options& o) {
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
      if (o.reduce && clocks.ordered(body, h->from, n)) continue;
      clocks.order(body, h->from, n);
      // A lane's own edges bound how many kernels are on the device: those stay full. So do those
      // of conditional and host nodes, which neither wait by themselves nor let others start early.
      const bool early = o.pdl && !body.stream && h->reason != EdgeReason::lane &&
                         waits(p, body.nodes[n]) && lets_start_early(p, body.nodes[h->from]);
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
  for (Body& body : p.bodies) emit(p, body, finder, o);
}

}  // namespace braid
