#include "passes/lifetimes.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

int64_t padded(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

Clocks clocks_of(const Body& body, HazardFinder& finder) {
  Clocks clocks(body);
  const Hazards hazards = finder.find(body);
  const std::vector<uint32_t> lane_before = lane_predecessors(body);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    if (lane_before[n] != kNone) clocks.order(body, lane_before[n], n);
    for (const Hazard& h : hazards.of(n)) {
      if (!clocks.ordered(body, h.from, n)) clocks.order(body, h.from, n);
    }
  }
  return clocks;
}

/// Which results of one node lie on which of its operands: as many as can be.
class Matching {
 public:
  explicit Matching(const std::vector<std::pair<uint32_t, uint32_t>>& pairs) : pairs_(pairs) {
    for (const auto& [out, in] : pairs) {
      seen_.clear();
      if (operand_of(out) == kNone) augment(out);
    }
  }
  /// Pairs of a result and its operand.
  const std::vector<std::pair<uint32_t, uint32_t>>& chosen() const { return chosen_; }

 private:
  uint32_t operand_of(uint32_t out) const {
    for (const auto& [o, i] : chosen_) {
      if (o == out) return i;
    }
    return kNone;
  }
  bool augment(uint32_t out) {
    for (const auto& [o, in] : pairs_) {
      if (o != out || std::find(seen_.begin(), seen_.end(), in) != seen_.end()) continue;
      seen_.push_back(in);
      const auto taken = std::find_if(chosen_.begin(), chosen_.end(),
                                      [&, i = in](const auto& c) { return c.second == i; });
      if (taken == chosen_.end()) {
        chosen_.emplace_back(out, in);
        return true;
      }
      const uint32_t other = taken->first;
      if (!augment(other)) continue;
      // `other` has another operand now, and stands in chosen_ once more for it.
      std::erase(chosen_, std::pair(other, in));
      chosen_.emplace_back(out, in);
      return true;
    }
    return false;
  }

  const std::vector<std::pair<uint32_t, uint32_t>>& pairs_;
  std::vector<std::pair<uint32_t, uint32_t>> chosen_;
  std::vector<uint32_t> seen_;
};

}  // namespace

std::vector<Level> levels_of(const Program& p) {
  std::vector<Level> levels{{UINT32_MAX, 0, p.script}};
  for (uint32_t r = 0; r < p.regions.size(); ++r) {
    const Region& region = p.regions[r];
    uint32_t side = 0;
    for (uint32_t b : region.bodies) levels.push_back({r, side++, {{Step::Kind::launch, b}}});
    for (const std::vector<Step>& script : region.scripts) levels.push_back({r, side++, script});
  }
  return levels;
}

Timeline::Timeline(const Program& p, const Level& level, HazardFinder& finder)
    : level_(level),
      ranges_(finder.ranges()),
      begin_(level.script.size()),
      bodies_(level.script.size()),
      clocks_(level.script.size()) {
  std::set<uint32_t> launched;
  for (uint32_t s = 0; s < level.script.size(); ++s) {
    const Step& step = level.script[s];
    begin_[s] = static_cast<uint32_t>(step_.size());
    if (step.kind == Step::Kind::launch) {
      ensure(launched.insert(step.index).second, "the script launches a body twice");
      const Body& body = p.bodies[step.index];
      bodies_[s] = &body;
      clocks_[s].emplace(clocks_of(body, finder));
      for (const Node& node : body.nodes) lane_.push_back(lanes_ + node.lane);
      step_.resize(step_.size() + body.nodes.size(), s);
      lanes_ += body.lanes;
    } else if (step.kind == Step::Kind::read || step.kind == Step::Kind::write ||
               step.kind == Step::Kind::region) {
      step_.push_back(s);
      lane_.push_back(lanes_++);
    }
  }
}

Lifetimes find_lifetimes(const Program& p, const Timeline& timeline,
                         std::vector<uint32_t>& place_of) {
  Lifetimes result;
  const uint32_t region = timeline.level().region;
  timeline.accesses(p, [&](uint32_t moment, const Range& range) {
    if (range.segment != Segment::temp) return;
    const Buffer& buffer = p.buffers[range.buffer];
    if (buffer.region != region) {
      // Outer regions have lower numbers.
      ensure(buffer.region == kNone || (region != kNone && buffer.region < region),
             "a temporary is used outside the region whose slab it lies in");
      return;
    }
    uint32_t& place = place_of[range.buffer];
    if (place == kNone) {
      if (buffer.bytes == 0) return;
      place = static_cast<uint32_t>(result.temps.size());
      result.buffers.push_back(range.buffer);
      result.temp_of.push_back(place);
      result.temps.push_back({padded(buffer.bytes), 0, moment, moment, LastAccesses(moment)});
      return;
    }
    ensure(place < result.buffers.size() && result.buffers[place] == range.buffer,
           "two sides of a region use a temporary that lies in its slab");
    Temp& t = result.temps[result.temp_of[place]];
    const bool new_step = timeline.step(t.end) != timeline.step(moment);
    t.end = moment;
    if (new_step) {
      t.last = LastAccesses(moment);
      return;
    }
    for (size_t i = 0; i < t.last.size(); ++i) {
      if (timeline.lane(t.last[i]) == timeline.lane(moment)) return t.last.set(i, moment);
    }
    t.last.add(moment);
  });
  return result;
}

std::optional<Lifetimes> join_in_place(const Program& p, const Timeline& timeline,
                                       const Lifetimes& apart,
                                       const std::vector<uint32_t>& place_of) {
  bool some = false;
  // By temp: the one that it lies on, which comes before it.
  std::vector<uint32_t> under(apart.temps.size());
  std::iota(under.begin(), under.end(), 0);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t m = 0; m < timeline.size(); ++m) {
    const Node* node = timeline.node(m);
    if (!node || node->kernel == kNoKernel) continue;
    const Kernel& kernel = p.kernels[node->kernel];
    if (kernel.in_place.empty() || kernel.guard) continue;
    /// The temp of an argument that is all of its buffer and the node's only access to it.
    const auto whole_temp = [&](size_t slot) {
      const View& view = p.views[node->args[slot]];
      const auto same_buffer = [&](uint32_t v) { return p.views[v].buffer == view.buffer; };
      const bool whole = view.offset == 0 && view.type.bytes() == p.buffers[view.buffer].bytes;
      const bool once = std::count_if(node->args.begin(), node->args.end(), same_buffer) == 1;
      const uint32_t place = place_of[view.buffer];
      const bool here = place < apart.buffers.size() && apart.buffers[place] == view.buffer;
      return whole && once && here ? apart.temp_of[place] : kNone;
    };
    const auto over_but_for_this = [&](const Temp& t) {
      return t.end == m &&
             t.last.all([&](uint32_t other) { return other == m || timeline.ordered(other, m); });
    };
    pairs.clear();
    for (const InPlace& pair : in_place_of_parts(kernel)) {
      const uint32_t out = whole_temp(pair.out), in = whole_temp(pair.in);
      if (out == kNone || in == kNone) continue;
      if (apart.temps[out].first != m || apart.temps[in].first == m) continue;
      if (kernel.args[pair.out].type.bytes() != kernel.args[pair.in].type.bytes()) continue;
      if (over_but_for_this(apart.temps[in])) pairs.emplace_back(out, in);
    }
    const Matching matching(pairs);
    for (const auto& [out, in] : matching.chosen()) under[out] = in;
    some = some || !matching.chosen().empty();
  }
  if (!some) return std::nullopt;

  Lifetimes joined;
  std::vector<uint32_t> index(apart.temps.size());
  for (uint32_t t = 0; t < apart.temps.size(); ++t) {
    const Temp& temp = apart.temps[t];
    if (under[t] == t) {
      index[t] = static_cast<uint32_t>(joined.temps.size());
      joined.temps.push_back(temp);
    } else {
      index[t] = index[under[t]];
      joined.temps[index[t]].end = temp.end;
      joined.temps[index[t]].last = temp.last;
    }
  }
  joined.buffers = apart.buffers;
  for (uint32_t t : apart.temp_of) joined.temp_of.push_back(index[t]);
  return joined;
}

namespace {

/// The first moment at which most bytes are in use, and how many.
std::pair<uint32_t, int64_t> peak(const Lifetimes& lifetimes, const Timeline& timeline) {
  std::vector<int64_t> change(timeline.size() + 1, 0);
  for (const Temp& t : lifetimes.temps) {
    change[t.first] += t.bytes;
    change[t.end + 1] -= t.bytes;
  }
  std::pair<uint32_t, int64_t> most{0, 0};
  int64_t live = 0;
  for (uint32_t m = 0; m < change.size(); ++m) {
    live += change[m];
    if (live > most.second) most = {m, live};
  }
  return most;
}

}  // namespace

int64_t most_live(const Lifetimes& lifetimes, const Timeline& timeline) {
  return peak(lifetimes, timeline).second;
}

uint32_t fullest_moment(const Lifetimes& lifetimes, const Timeline& timeline) {
  return peak(lifetimes, timeline).first;
}

}  // namespace braid
