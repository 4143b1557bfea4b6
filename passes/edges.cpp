// Edges: every conflict over bytes ordered, every lane a chain, by the fewest edges.
// needs: lanes and memory. breaks: nothing.
//
// A full edge lets a kernel start when the one before has ended. A programmatic one lets it start
// earlier, and the kernel itself waits for that end before its first access: it leads into kernels
// that wait, and nowhere else. So every path orders the accesses of its first kernel before those
// of its last: what a programmatic edge enters cannot end before it has waited. No full edge is
// left out for a path through a kernel that does not wait, and one clock serves both kinds.
#include <algorithm>

#include "passes/cost.hpp"
#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Where programmatic edges gain. Blocks that wait hold room: in a kernel of several waves the rest
/// of them, and in one before it too, want that room themselves. A chain of elementwise kernels
/// took 0.68 us a step in place of 1.07 with one wave each, and 5.47 in place of 3.36 with several.
class EarlyStarts {
 public:
  EarlyStarts(const Program& p, const Options& o) : p_(p), one_wave_(p.kernels.size()) {
    if (!o.pdl || !has_programmatic_edges(p.target)) return;
    for (size_t k = 0; k < p.kernels.size(); ++k) {
      const Kernel& kernel = p.kernels[k];  // of what users write the room is not known
      one_wave_[k] = kernel.code == Code::generated && cost_of(kernel, p.target).room <= 1;
    }
  }
  bool pays(const Node& from, const Node& to) const {
    return from.kernel != kNoKernel && to.kernel != kNoKernel && p_.kernels[to.kernel].waits &&
           one_wave_[from.kernel] && one_wave_[to.kernel];
  }

 private:
  const Program& p_;
  std::vector<bool> one_wave_;  // by kernel; false for all if there are no such edges
};

/// Visits the sources of each node latest first. An edge is kept iff no path through the edges
/// kept so far reaches its source: the result is the unique transitive reduction.
void emit(Body& body, HazardFinder& finder, const EarlyStarts& early_starts, bool reduce) {
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
      const bool early = !body.stream && h->reason != EdgeReason::lane &&
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
  for (Body& body : p.bodies) emit(body, finder, early, o.reduce);
}

}  // namespace braid
