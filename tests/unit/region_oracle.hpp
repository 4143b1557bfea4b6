// Arenas of Programs with regions, decided from all that may run: which temporary lives in which
// run of its side, and what else may lie on its bytes.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "memory_help.hpp"
#include "region_help.hpp"

namespace braid::test {

/// What may let two temporaries have the same bytes.
enum class Sharing : uint8_t { none, by_data, by_launch_order };

/// By body: what must come before what, by data and lanes or by the launch order.
inline std::vector<Relation> relations(const Program& p, bool launch_order) {
  std::vector<Relation> all;
  for (const Body& body : p.bodies) {
    Relation r = closure(must_order(p, body, false));
    for (size_t a = 0; launch_order && a < r.size(); ++a) {
      for (size_t b = a + 1; b < r.size(); ++b) r.set(a, b);
    }
    all.push_back(std::move(r));
  }
  return all;
}

/// What one temporary is in one run of the side that it belongs to.
struct Instance {
  uint32_t buffer;
  Path side;                     // the way to that side
  std::vector<uint32_t> events;  // that touch it
};

inline std::vector<Instance> instances(const Program& p, const std::vector<Event>& events) {
  std::vector<Instance> all;
  for (uint32_t e = 0; e < events.size(); ++e) {
    for (uint32_t view : events[e].views) {
      const uint32_t b = p.views[view].buffer;
      const Buffer& buffer = p.buffers[b];
      if (buffer.segment != Segment::temp || buffer.bytes == 0) continue;
      const Path& path = events[e].path;
      auto end = path.begin();
      if (buffer.region != RegionMaker::kNone) {
        end = std::find_if(path.begin(), path.end(), [&](const Stop& s) {
          return s.kind == Stop::side && s.where == buffer.region;
        });
        REQUIRE(end != path.end());
        ++end;
      }
      const Path side(path.begin(), end);
      auto it = std::find_if(all.begin(), all.end(),
                             [&](const Instance& i) { return i.buffer == b && i.side == side; });
      if (it == all.end()) it = all.insert(all.end(), Instance{b, side, {}});
      if (it->events.empty() || it->events.back() != e) it->events.push_back(e);
    }
  }
  return all;
}

/// Whether a kernel lets the event write `b` over `a`, as its only uses of both.
inline bool lets_in_place(const Program& p, const Event& event, uint32_t a, uint32_t b) {
  if (!event.node) return false;
  const Kernel& k = p.kernels[event.node->kernel];
  bool allowed = false;
  int uses = 0;
  for (uint32_t s = 0; s < event.views.size(); ++s) {
    const uint32_t buffer = p.views[event.views[s]].buffer;
    uses += buffer == a || buffer == b;
    for (const InPlace& i : k.in_place) {
      allowed = allowed || (i.out == s && buffer == b && p.views[event.views[i.in]].buffer == a);
    }
  }
  return allowed && uses == 2 && !k.guard;
}

/// Proves the plan of a Program with regions from what may run. Loops run twice.
inline void check_regions(const Program& p, Sharing sharing) {
  const auto all_sides = [](const Region&) { return RegionMaker::kNone; };
  const std::vector<Event> events = Expansion(p, 2, all_sides).take();
  const Order order(relations(p, sharing == Sharing::by_launch_order));
  const std::vector<Instance> all = instances(p, events);
  const auto over = [&](const Instance& x, const Instance& y) {
    for (uint32_t a : x.events) {
      for (uint32_t b : y.events) {
        const Order::Kind k = order(events[a], events[b]);
        if (k != Order::before && k != Order::never) return false;
      }
    }
    return true;
  };
  const auto in_place = [&](Instance x, Instance y) {
    const uint32_t e = y.events.front();
    if (x.events.back() != e || p.buffers[x.buffer].offset != p.buffers[y.buffer].offset ||
        p.buffers[x.buffer].bytes != p.buffers[y.buffer].bytes ||
        !lets_in_place(p, events[e], x.buffer, y.buffer)) {
      return false;
    }
    y.events.erase(y.events.begin());
    if (y.events.empty()) y.events = {e};
    const Instance here{y.buffer, {}, {e}};
    x.events.pop_back();
    return over(x, here) && (y.events.front() == e || over(here, y));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Buffer& a = p.buffers[all[i].buffer];
    for (size_t j = i + 1; j < all.size(); ++j) {
      const Buffer& b = p.buffers[all[j].buffer];
      if (a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) continue;
      if (all[i].buffer != all[j].buffer) REQUIRE(sharing != Sharing::none);
      REQUIRE((over(all[i], all[j]) || over(all[j], all[i]) || in_place(all[i], all[j]) ||
               in_place(all[j], all[i])));
    }
  }

  std::vector<bool> used(p.buffers.size(), false);
  int64_t end = 0, unshared = 0;
  for (const Instance& i : all) used[i.buffer] = true;
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    if (!used[b]) continue;
    CHECK(buffer.offset % 256 == 0);
    end = std::max(end, buffer.offset + padded(buffer.bytes));
    unshared += padded(buffer.bytes);
    if (buffer.region == RegionMaker::kNone) continue;
    const Buffer& slab = p.buffers.at(p.regions[buffer.region].slab);
    CHECK(slab.offset <= buffer.offset);
    CHECK(buffer.offset + buffer.bytes <= slab.offset + slab.bytes);
  }
  for (const Region& r : p.regions) {
    if (r.slab == RegionMaker::kNone) continue;
    CHECK(p.buffers[r.slab].type.bytes() == p.buffers[r.slab].bytes);
    for (size_t s = 0; s < r.args.size(); ++s) CHECK(r.slots[s].type == p.views[r.args[s]].type);
    CHECK(p.views[r.args.back()].buffer == r.slab);
    CHECK(p.views[r.args.back()].type == p.buffers[r.slab].type);
  }
  CHECK(p.arena_bytes == end);
  CHECK(p.temp_bytes_unshared == unshared);
  CHECK(p.arena_bytes >= p.arena_lower_bound);
  CHECK(p.arena_bytes <= p.temp_bytes_unshared);
  if (sharing == Sharing::none) CHECK(p.arena_bytes == unshared);
}

}  // namespace braid::test
