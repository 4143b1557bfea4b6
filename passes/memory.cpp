// Memory: places the temporaries in the arena, one for the whole script.
// needs: lanes. breaks: edges (they depend on who shares bytes).
//
// Two temporaries may share bytes only if every access of one happens before every access of the
// other, by data and lanes alone, so sharing makes no node wait that need not; or if a kernel may
// write one over the other in place. Only a limit on the arena makes it order more.
#include "passes/memory.hpp"

#include "passes/place.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

void set_offsets(Program& p, const Lifetimes& lifetimes) {
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    const uint32_t t = lifetimes.temp_of[b];
    if (p.buffers[b].segment != Segment::temp) continue;
    p.buffers[b].offset = t == kNone ? 0 : lifetimes.temps[t].offset;
  }
}

/// Edges go forward in the launch order, so those that sharing by it adds never close a cycle.
Over over_with_slack(const Timeline& timeline, double slack_us) {
  return [&timeline, slack_us](const Temp& t, uint32_t moment) {
    return t.last.all([&](uint32_t last) {
      if (timeline.ordered(last, moment)) return true;
      const Node* const from = timeline.node(last);
      const Node* const to = timeline.node(moment);
      return last < moment && from && to &&
             from->start_us + from->estimate_us + slack_us <= to->start_us;
    });
  };
}

}  // namespace

void plan_arena(Program& p, bool reuse, std::optional<double> slack_us) {
  const Timeline timeline(p);
  Lifetimes apart = find_lifetimes(p, timeline);
  p.temp_bytes_unshared = 0;
  for (Temp& t : apart.temps) {
    t.offset = p.temp_bytes_unshared;
    p.temp_bytes_unshared += t.bytes;
  }
  std::optional<Lifetimes> joined = join_in_place(p, timeline, apart);
  p.arena_lower_bound = most_live(joined ? *joined : apart, timeline);
  p.arena_bytes = p.temp_bytes_unshared;
  if (!reuse) return set_offsets(p, apart);

  const Over over = slack_us ? over_with_slack(timeline, *slack_us) : over_by_order(timeline);
  if (joined) {
    p.arena_bytes = place(joined->temps, timeline, over, p.arena_lower_bound);
    set_offsets(p, *joined);
    if (p.arena_bytes == p.arena_lower_bound) return;
  }
  // Less is in use at once in place, but longer lives may fit worse.
  const int64_t bytes = place(apart.temps, timeline, over, p.arena_lower_bound);
  if (joined && bytes >= p.arena_bytes) return;
  p.arena_bytes = bytes;
  set_offsets(p, apart);
}

void plan_memory(Program& p, const Options& o, std::span<const Body> unscheduled) {
  p.memory_cut = {};
  plan_arena(p, o.reuse);
  if (o.memory_limit > 0 && p.arena_bytes > o.memory_limit) {
    fit_arena(p, o, costs_of(p), kPrices, unscheduled);
  }
}

}  // namespace braid
