// A limit on the arena: what is tried, what it costs, and what to say if nothing fits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/lifetimes.hpp"
#include "passes/memory.hpp"

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
  double us = 0;
  for (const Body& body : p.bodies) us += body.predicted_us;
  return us;
}

/// What a plan changes in the Program.
struct Fit {
  double us = 0;
  std::vector<Body> bodies;
  std::vector<Buffer> buffers;
  int64_t arena_bytes = 0, arena_lower_bound = 0;
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
  const Timeline timeline(p);
  const Lifetimes lifetimes = find_lifetimes(p, timeline);
  const std::optional<Lifetimes> joined = join_in_place(p, timeline, lifetimes);
  const uint32_t peak = fullest_moment(joined ? *joined : lifetimes, timeline);
  std::vector<const Buffer*> temps;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    const uint32_t t = lifetimes.temp_of[b];
    if (t == UINT32_MAX) continue;
    const Temp& temp = lifetimes.temps[t];
    if (temp.first <= peak && peak <= temp.end) temps.push_back(&p.buffers[b]);
  }
  std::stable_sort(temps.begin(), temps.end(),
                   [](const Buffer* x, const Buffer* y) { return x->bytes > y->bytes; });
  return temps;
}

/// `p` with the order of the nodes that needs the least.
[[noreturn]] void refuse(const Program& p, const Options& o, int64_t least) {
  const std::vector<const Buffer*> temps = live_at_peak(p);
  Diagnostic d;
  d.code = "E0706";
  d.message = fmt::format("the temporaries take {} bytes at least, and the limit is {}", least,
                          o.memory_limit);
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < temps.size() && i < kNamed; ++i) {
    d.details.push_back(fmt::format("in use at once: {}, {}, {} bytes", temps[i]->name,
                                    to_string(temps[i]->type), temps[i]->bytes));
  }
  if (temps.size() > kNamed) {
    d.details.push_back(fmt::format("and {} more at that time", temps.size() - kNamed));
  }
  d.suggestion = o.reuse ? fmt::format("allow {} bytes, or make some of these smaller", least)
                         : "let temporaries share bytes: without --no-reuse";
  throw Error(std::move(d));
}

}  // namespace

void fit_arena(Program& p, const Options& o, std::span<const KernelCost> costs,
               const Prices& prices, std::span<const Body> unscheduled) {
  if (!o.reuse) refuse(p, o, p.arena_bytes);
  const std::vector<Body> given = p.bodies;
  const std::vector<Body> start =
      unscheduled.empty() ? given : std::vector<Body>(unscheduled.begin(), unscheduled.end());
  MemoryCut cut{o.memory_limit, p.arena_bytes, widest(p), 0, predict(p, costs, prices), 0};
  int64_t least = p.arena_bytes;
  std::vector<Body> least_bodies = given;
  std::optional<Fit> best;
  const auto consider = [&](std::optional<double> slack_us) {
    plan_arena(p, true, slack_us);
    const double us = predict(p, costs, prices);
    if (p.arena_bytes < least) {
      least = p.arena_bytes;
      least_bodies = p.bodies;
    }
    if (p.arena_bytes > o.memory_limit) return false;
    if (!best || us < best->us) {
      best = Fit{us, p.bodies, p.buffers, p.arena_bytes, p.arena_lower_bound};
    }
    return true;
  };
  // Sharing that adds order makes nothing faster: first none, then what should delay nothing, then
  // whatever the launch order has.
  const auto consider_all = [&] {
    double us = 0;
    for (const Body& body : p.bodies) us += body.predicted_us;
    if (best && best->us <= us) return;
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
    p.bodies = std::move(least_bodies);
    refuse(p, o, least);
  }
  p.bodies = std::move(best->bodies);
  p.buffers = std::move(best->buffers);
  p.arena_bytes = best->arena_bytes;
  p.arena_lower_bound = best->arena_lower_bound;
  cut.streams_after = widest(p);
  cut.us_after = best->us;
  p.memory_cut = cut;
}

}  // namespace braid
