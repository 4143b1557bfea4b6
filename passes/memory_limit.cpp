// A limit on the arena: what is tried, what it costs, and what to say if nothing fits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/lifetimes.hpp"
#include "passes/memory.hpp"
#include "passes/node_costs.hpp"

namespace braid {
namespace {

uint32_t widest(const Program& p) {
  uint32_t lanes = 1;
  for (const Body& body : p.bodies) lanes = std::max(lanes, body.lanes);
  return lanes;
}

/// Of all bodies, with what the plan orders.
double predict(Program& p, std::span<const KernelCost> costs, const Prices& prices) {
  predict_bodies(p, costs, prices);
  return predicted_us(p);
}

/// What a plan changes in the Program.
struct Fit {
  double us = 0;
  std::vector<Body> bodies;
  std::vector<Buffer> buffers;
  std::vector<Region> regions;
  int64_t arena_bytes = 0, arena_lower_bound = 0;

  Fit(const Program& p, double predicted)
      : us(predicted),
        bodies(p.bodies),
        buffers(p.buffers),
        regions(p.regions),
        arena_bytes(p.arena_bytes),
        arena_lower_bound(p.arena_lower_bound) {}

  void restore(Program& p) && {
    p.bodies = std::move(bodies);
    p.buffers = std::move(buffers);
    p.regions = std::move(regions);
    for (uint32_t r = 0; r < p.regions.size(); ++r) {
      const uint32_t slab = p.regions[r].slab;
      if (slab != UINT32_MAX) set_slab_bytes(p, r, p.buffers[slab].bytes);
    }
    p.arena_bytes = arena_bytes;
    p.arena_lower_bound = arena_lower_bound;
  }
};

/// Bodies of more nodes try powers of two streams alone.
constexpr size_t kSmall = 1024;

std::vector<int> numbers_of_streams(const Program& p, uint32_t most) {
  size_t nodes = 0;
  for (const Body& body : p.bodies) nodes = std::max(nodes, body.nodes.size());
  std::vector<int> out;
  for (auto k = static_cast<int>(most); k > 0; --k) {
    if (nodes <= kSmall || k == static_cast<int>(most) || (k & (k - 1)) == 0) out.push_back(k);
  }
  return out;
}

/// The temporaries in use at the moment at which most bytes are, the largest first.
std::vector<const Buffer*> live_at_peak(const Program& p) {
  const Level outermost = levels_of(p)[0];
  HazardFinder finder(p, false);
  const Timeline timeline(p, outermost, finder);
  std::vector<uint32_t> place_of(p.buffers.size(), UINT32_MAX);
  const Lifetimes lifetimes = find_lifetimes(p, timeline, place_of);
  const std::optional<Lifetimes> joined = join_in_place(p, timeline, lifetimes, place_of);
  const uint32_t peak = fullest_moment(joined ? *joined : lifetimes, timeline);
  std::vector<const Buffer*> temps;
  for (const Buffer& b : p.buffers) {
    const uint32_t place = place_of[static_cast<size_t>(&b - p.buffers.data())];
    if (place == UINT32_MAX) continue;
    const Temp& temp = lifetimes.temps[lifetimes.temp_of[place]];
    if (temp.first <= peak && peak <= temp.end) temps.push_back(&b);
  }
  std::stable_sort(temps.begin(), temps.end(),
                   [](const Buffer* x, const Buffer* y) { return x->bytes > y->bytes; });
  return temps;
}

/// `p` with the plan that needs the least.
[[noreturn]] void refuse(const Program& p, const Options& o) {
  const std::vector<const Buffer*> temps = live_at_peak(p);
  Diagnostic d;
  d.code = "E0706";
  d.message = fmt::format("the temporaries take {} bytes at least, and the limit is {}",
                          p.arena_bytes, o.memory_limit);
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < temps.size() && i < kNamed; ++i) {
    d.details.push_back(fmt::format("in use at once: {}, {}, {} bytes", temps[i]->name,
                                    to_string(temps[i]->type), temps[i]->bytes));
  }
  if (temps.size() > kNamed) {
    d.details.push_back(fmt::format("and {} more at that time", temps.size() - kNamed));
  }
  d.suggestion = o.reuse
                     ? fmt::format("allow {} bytes, or make some of these smaller", p.arena_bytes)
                     : "let temporaries share bytes: without --no-reuse";
  throw Error(std::move(d));
}

}  // namespace

void fit_arena(Program& p, const Options& o, std::span<const KernelCost> costs,
               const Prices& prices, std::span<const Body> unscheduled) {
  if (!o.reuse) refuse(p, o);
  const std::vector<Body> given = p.bodies;
  const std::vector<Body> start =
      unscheduled.empty() ? given : std::vector<Body>(unscheduled.begin(), unscheduled.end());
  MemoryCut cut{o.memory_limit, p.arena_bytes, widest(p), 0, predict(p, costs, prices), 0};
  Fit least(p, cut.us_before);
  std::optional<Fit> best;
  const auto consider = [&](std::optional<double> slack_us) {
    plan_arena(p, true, slack_us);
    const double us = predict(p, costs, prices);
    if (p.arena_bytes < least.arena_bytes) least = Fit(p, us);
    if (p.arena_bytes > o.memory_limit) return false;
    if (!best || us < best->us) best = Fit(p, us);
    return true;
  };
  // Sharing that adds order makes nothing faster: first none, then what should delay nothing, then
  // whatever the launch order has.
  const auto consider_all = [&] {
    if (best && best->us <= predicted_us(p)) return;
    const std::vector<Body> predicted = p.bodies;
    if (consider(std::nullopt)) return;
    for (const double slack_us : {4.0, 1.0, 0.0, -std::numeric_limits<double>::infinity()}) {
      p.bodies = predicted;
      consider(slack_us);
    }
  };
  consider_all();
  Options narrower = o;
  const auto consider_streams = [&](const std::vector<Body>& nodes) {
    for (const int streams : numbers_of_streams(p, cut.streams_before)) {
      p.bodies = nodes;
      narrower.streams = streams;
      assign_lanes(p, narrower, costs, prices);
      consider_all();
    }
  };
  consider_streams(start);
  p.bodies = start;
  order_for_memory(p);
  consider_streams(std::vector<Body>(p.bodies));
  if (!best) {
    std::move(least).restore(p);
    refuse(p, o);
  }
  cut.us_after = best->us;
  std::move(*best).restore(p);
  cut.streams_after = widest(p);
  p.memory_cut = cut;
}

}  // namespace braid
