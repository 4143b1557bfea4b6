// A limit on the arena: what is tried, what it costs, and what to say if nothing fits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/memory.hpp"
#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint32_t widest(const Program& p) {
  uint32_t lanes = 1;
  for (const Body& body : p.bodies) lanes = std::max(lanes, body.lanes);
  return lanes;
}

/// When each node starts if it waits for all that it conflicts with and for its lane alone. Returns
/// the time of all bodies together.
double predict(Program& p) {
  constexpr double kEdge = 0.5;  // us, measured: from a node's end to the start of the next
  double total = 0;
  for (Body& body : p.bodies) {
    const Hazards hazards = find_hazards(p, body, true);
    const std::vector<uint32_t> lane_before = lane_predecessors(body);
    body.predicted_us = 0;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const auto after = [&](uint32_t from) {
        const Node& f = body.nodes[from];
        body.nodes[n].start_us =
            std::max(body.nodes[n].start_us, f.start_us + f.estimate_us + kEdge);
      };
      body.nodes[n].start_us = 0;
      if (lane_before[n] != kNone) after(lane_before[n]);
      for (const Hazard& h : hazards.of(n)) after(h.from);
      body.predicted_us =
          std::max(body.predicted_us, body.nodes[n].start_us + body.nodes[n].estimate_us);
    }
    total += body.predicted_us;
  }
  return total;
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
  d.suggestion = o.reuse ? fmt::format("allow {} bytes, or make its extents smaller", least)
                         : "let temporaries share bytes: without --no-reuse";
  throw Error(std::move(d));
}

}  // namespace

void fit_arena(Program& p, const Options& o) {
  if (!o.reuse) refuse(p, o, p.arena_bytes);
  const std::vector<Body> given = p.bodies;
  MemoryCut cut{o.memory_limit, p.arena_bytes, widest(p), 0, predict(p), 0};
  int64_t least = p.arena_bytes;
  std::optional<Fit> best;
  const auto consider = [&](std::optional<double> slack_us) {
    plan_arena(p, true, slack_us);
    least = std::min(least, p.arena_bytes);
    if (p.arena_bytes > o.memory_limit) return;
    const double us = predict(p);
    if (best && best->us <= us) return;
    best = Fit{us, p.bodies, p.buffers, p.arena_bytes, p.arena_lower_bound};
  };
  Options narrower = o;
  for (auto lanes = static_cast<int>(cut.streams_before); lanes > 0; lanes /= 2) {
    if (lanes < static_cast<int>(cut.streams_before)) {
      p.bodies = given;
      narrower.streams = lanes;
      assign_lanes(p, narrower);
      consider(std::nullopt);
    }
    // Sharing that adds order: first what should delay nothing, then whatever the launch order has.
    for (const double slack_us : {4.0, 1.0, 0.0, -std::numeric_limits<double>::infinity()}) {
      plan_arena(p, true);
      predict(p);
      consider(slack_us);
    }
  }
  p.bodies = given;
  order_for_memory(p);
  narrower.streams = 1;
  assign_lanes(p, narrower);
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
