// A limit on the arena: what is tried, what it costs, and what to say if nothing fits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

[[noreturn]] void refuse(const Program& p, const Options& o, int64_t least) {
  std::vector<const Buffer*> temps;
  for (const Buffer& b : p.buffers) {
    if (b.segment == Segment::temp) temps.push_back(&b);
  }
  std::stable_sort(temps.begin(), temps.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  Diagnostic d;
  d.code = "E0706";
  d.message = fmt::format("the temporaries take {} bytes at least, and the limit is {}", least,
                          o.memory_limit);
  for (size_t i = 0; i < temps.size() && i < 3; ++i) {
    d.details.push_back(fmt::format("temporary {}: {}, {} bytes", temps[i]->name,
                                    to_string(temps[i]->type), temps[i]->bytes));
  }
  d.suggestion = o.reuse ? fmt::format("allow {} bytes, or make the largest of them smaller", least)
                         : "let temporaries share bytes: without --no-reuse";
  throw Error(std::move(d));
}

}  // namespace

void fit_arena(Program& p, const Options& o, std::span<const KernelCost> costs,
               const Prices& prices) {
  if (!o.reuse) refuse(p, o, p.arena_bytes);
  const std::vector<Body> given = p.bodies;
  MemoryCut cut{o.memory_limit, p.arena_bytes, widest(p), 0, predict(p, costs, prices), 0};
  int64_t least = p.arena_bytes;
  std::optional<Fit> best;
  const auto consider = [&](std::optional<double> slack_us) {
    plan_arena(p, true, slack_us);
    const double us = predict(p, costs, prices);
    least = std::min(least, p.arena_bytes);
    if (p.arena_bytes > o.memory_limit || (best && best->us <= us)) return;
    best = Fit{us, p.bodies, p.buffers, p.arena_bytes, p.arena_lower_bound};
  };
  Options narrower = o;
  for (auto lanes = static_cast<int>(cut.streams_before); lanes > 0; lanes /= 2) {
    p.bodies = given;
    if (lanes < static_cast<int>(cut.streams_before)) {
      narrower.streams = lanes;
      assign_lanes(p, narrower, costs, prices);
    }
    consider(std::nullopt);
    // Sharing that adds order: first what should delay nothing, then whatever the launch order has.
    const std::vector<Body> predicted = p.bodies;
    for (const double slack_us : {4.0, 1.0, 0.0, -std::numeric_limits<double>::infinity()}) {
      p.bodies = predicted;
      consider(slack_us);
    }
  }
  p.bodies = given;
  order_for_memory(p);
  narrower.streams = 1;
  assign_lanes(p, narrower, costs, prices);
  consider(std::nullopt);
  if (!best) refuse(p, o, least);
  p.bodies = std::move(best->bodies);
  p.buffers = std::move(best->buffers);
  p.arena_bytes = best->arena_bytes;
  p.arena_lower_bound = best->arena_lower_bound;
  cut.streams_after = widest(p);
  cut.us_after = best->us;
  p.memory_cut = cut;
}

}  // namespace braid
