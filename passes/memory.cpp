// Memory: places the temporaries in the arena, one for the whole script.
// needs: lanes. breaks: edges (they depend on who shares bytes).
//
// Two temporaries may share bytes only if every access of one happens before every access of the
// other, by data and lanes alone, so sharing makes no node wait that need not; or if a kernel may
// write one over the other in place. Only a limit on the arena makes it order more.
//
// Regions are planned from the innermost out. The temporaries of one side have places in the
// region's slab, sides on the same bytes, since only one of them runs; the slab is a temporary of
// the level around. A loop's temporaries are over before its next iteration begins, so one side's
// bytes do for all iterations. In the end places become absolute, from the outermost in.
#include "passes/memory.hpp"

#include "passes/lanes.hpp"
#include "passes/place.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

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

class Planner {
 public:
  Planner(Program& p, bool reuse, std::optional<double> slack_us)
      : p_(p),
        reuse_(reuse),
        slack_us_(slack_us),
        finder_(p, false),
        in_place_(std::any_of(p.kernels.begin(), p.kernels.end(),
                              [](const Kernel& k) { return !k.in_place.empty(); })) {}

  void run() {
    for (Buffer& b : p_.buffers) {
      if (b.segment == Segment::temp) b.offset = 0;
    }
    p_.temp_bytes_unshared = 0;
    is_slab_.assign(p_.buffers.size(), false);
    for (const Region& r : p_.regions) {
      if (r.slab != kNone) is_slab_[r.slab] = true;
    }
    place_of_.assign(p_.buffers.size(), kNone);
    const std::vector<Level> levels = levels_of(p_);
    std::vector<std::vector<uint32_t>> placed(levels.size());  // buffers
    for (size_t l = levels.size(); l-- > 0;) {
      const Level& level = levels[l];
      const Plan plan = plan_level(level);
      placed[l] = plan.buffers;
      if (level.region == kNone) {
        p_.arena_bytes = plan.bytes;
        p_.arena_lower_bound = plan.lower_bound;
      } else {
        add_to_slab(level, plan);
      }
    }
    for (size_t l = 1; l < levels.size(); ++l) {
      if (placed[l].empty()) continue;
      const int64_t at = p_.buffers[p_.regions[levels[l].region].slab].offset;
      for (uint32_t b : placed[l]) p_.buffers[b].offset += at;
    }
  }

 private:
  struct Plan {
    std::vector<uint32_t> buffers;  // that got an offset
    int64_t bytes = 0, lower_bound = 0;
  };

  Plan plan_level(const Level& level) {
    const Timeline timeline(p_, level, finder_);
    Lifetimes apart = find_lifetimes(p_, timeline, place_of_);
    Plan plan;
    plan.buffers = apart.buffers;
    for (size_t i = 0; i < apart.temps.size(); ++i) {
      Temp& t = apart.temps[i];
      t.offset = plan.bytes;
      plan.bytes += t.bytes;
      if (!is_slab_[apart.buffers[i]]) p_.temp_bytes_unshared += t.bytes;
    }
    std::optional<Lifetimes> joined;
    if (in_place_) joined = join_in_place(p_, timeline, apart, place_of_);
    plan.lower_bound = most_live(joined ? *joined : apart, timeline);
    if (!reuse_) {
      set_offsets(apart);
      return plan;
    }
    const Over over = slack_us_ ? over_with_slack(timeline, *slack_us_) : over_by_order(timeline);
    if (joined) {
      plan.bytes = place(joined->temps, timeline, over, plan.lower_bound);
      set_offsets(*joined);
      if (plan.bytes == plan.lower_bound) return plan;
    }
    // Less is in use at once in place, but longer lives may fit worse.
    const int64_t bytes = place(apart.temps, timeline, over, plan.lower_bound);
    if (joined && bytes >= plan.bytes) return plan;
    plan.bytes = bytes;
    set_offsets(apart);
    return plan;
  }

  void set_offsets(const Lifetimes& lifetimes) {
    for (size_t i = 0; i < lifetimes.buffers.size(); ++i) {
      p_.buffers[lifetimes.buffers[i]].offset = lifetimes.temps[lifetimes.temp_of[i]].offset;
    }
  }
  /// The sides of a region come one after the other.
  void add_to_slab(const Level& level, const Plan& plan) {
    if (level.region != region_) {
      region_ = level.region;
      slab_bytes_ = 0;
    }
    if (!reuse_) {
      for (uint32_t b : plan.buffers) p_.buffers[b].offset += slab_bytes_;
    }
    slab_bytes_ = reuse_ ? std::max(slab_bytes_, plan.bytes) : slab_bytes_ + plan.bytes;
    const uint32_t slab = p_.regions[level.region].slab;
    ensure(slab != kNone || slab_bytes_ == 0, "a region with temporaries has no slab");
    if (slab != kNone) set_slab_bytes(p_, level.region, slab_bytes_);
  }

  Program& p_;
  const bool reuse_;
  const std::optional<double> slack_us_;
  HazardFinder finder_;
  const bool in_place_;             // whether some kernel allows it
  std::vector<uint32_t> place_of_;  // see find_lifetimes
  std::vector<bool> is_slab_;       // by buffer
  uint32_t region_ = kNone;         // whose sides are being placed
  int64_t slab_bytes_ = 0;          // of its slab so far
};

}  // namespace

void set_slab_bytes(Program& p, uint32_t region, int64_t bytes) {
  Region& r = p.regions[region];
  Buffer& slab = p.buffers[r.slab];
  slab.bytes = bytes;
  slab.type = {DType::i8, Shape::of(std::vector<int64_t>{bytes})};
  for (size_t s = 0; s < r.args.size(); ++s) {
    View& view = p.views[r.args[s]];
    if (view.buffer != r.slab) continue;
    view.type = r.slots[s].type = slab.type;
    view.strides = {1};
  }
}

void plan_arena(Program& p, bool reuse, std::optional<double> slack_us) {
  Planner(p, reuse, slack_us).run();
}

void plan_memory(Program& p, const Options& o, std::span<const Body> unscheduled) {
  p.memory_cut = {};
  plan_arena(p, o.reuse);
  if (o.memory_limit > 0 && p.arena_bytes > o.memory_limit) {
    fit_arena(p, o, costs_of(p), prices_for(p, o), unscheduled);
  }
}

}  // namespace braid
