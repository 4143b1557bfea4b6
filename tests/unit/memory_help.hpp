// Arenas decided from the definition: who touches each temporary, and what may share bytes.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "passes/plan.hpp"
#include "plan_help.hpp"

namespace braid::test {

inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// One access of the script: a node of a step's body, or a copy (node 0 of its step).
struct Moment {
  uint32_t step, node;
  uint32_t order;  // among all
};

/// Who touches each buffer, in the script's order, each moment once.
inline std::vector<std::vector<Moment>> touchers(const Program& p) {
  std::vector<std::vector<Moment>> all(p.buffers.size());
  uint32_t order = 0;
  const auto touch = [&](uint32_t step, uint32_t node, const std::vector<uint32_t>& views) {
    for (uint32_t view : views) {
      auto& list = all[p.views[view].buffer];
      if (list.empty() || list.back().order != order) list.push_back({step, node, order});
    }
    ++order;
  };
  for (uint32_t s = 0; s < p.script.size(); ++s) {
    const Step& step = p.script[s];
    if (step.kind == Step::Kind::launch) {
      const Body& body = p.bodies[step.index];
      for (uint32_t n = 0; n < body.nodes.size(); ++n) touch(s, n, body.nodes[n].args);
    }
    if (step.kind == Step::Kind::read) touch(s, 0, p.calls[step.index].args);
    if (step.kind == Step::Kind::write) touch(s, 0, p.calls[step.index].results);
  }
  return all;
}

/// Proves a plan from the definitions. `free_order`: sharing may add order, that of the script.
inline void check_plan(const Program& p, bool reuse = true, bool free_order = false) {
  const std::vector<std::vector<Moment>> all = touchers(p);
  std::vector<Relation> before;  // by step; empty where no body is launched
  for (const Step& s : p.script) {
    before.push_back(s.kind == Step::Kind::launch ? closure(must_order(p, p.bodies[s.index], false))
                                                  : Relation(1));
  }
  const auto ordered = [&](const Moment& x, const Moment& y) {
    if (free_order) return x.order < y.order;
    return x.step != y.step ? x.step < y.step : before[x.step](x.node, y.node);
  };
  /// Whether everything that touches `a` is over when anything touches `b`.
  const auto all_before = [&](uint32_t a, uint32_t b) {
    return std::all_of(all[a].begin(), all[a].end(), [&](const Moment& x) {
      return std::all_of(all[b].begin(), all[b].end(),
                         [&](const Moment& y) { return ordered(x, y); });
    });
  };
  /// Whether `b` begins in place of `a`: in one node, which is the last to touch `a`.
  const auto in_place = [&](uint32_t a, uint32_t b) {
    if (all[a].empty() || all[b].empty()) return false;
    const Moment& m = all[b].front();
    if (all[a].back().order != m.order || p.script[m.step].kind != Step::Kind::launch) return false;
    if (p.buffers[a].offset != p.buffers[b].offset || p.buffers[a].bytes != p.buffers[b].bytes) {
      return false;
    }
    const Node& node = p.bodies[p.script[m.step].index].nodes[m.node];
    const Kernel& k = p.kernels[node.kernel];
    const size_t slots = k.args.size() / k.parts;
    bool allowed = false;
    int uses = 0;
    for (size_t s = 0; s < node.args.size(); ++s) {
      uses += p.views[node.args[s]].buffer == a || p.views[node.args[s]].buffer == b;
      for (size_t t = 0; t < node.args.size(); ++t) {
        const bool pair = std::any_of(k.in_place.begin(), k.in_place.end(), [&](const InPlace& i) {
          return i.out == s % slots && i.in == t % slots;
        });
        allowed = allowed || (pair && s / slots == t / slots && p.views[node.args[s]].buffer == b &&
                              p.views[node.args[t]].buffer == a);
      }
    }
    return allowed && uses == 2 &&
           std::all_of(all[a].begin(), all[a].end() - 1,
                       [&](const Moment& x) { return ordered(x, m); }) &&
           std::all_of(all[b].begin() + 1, all[b].end(),
                       [&](const Moment& y) { return ordered(m, y); });
  };
  std::vector<uint32_t> temps;
  int64_t end = 0, unshared = 0;
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    if (buffer.segment != Segment::temp) {
      CHECK(buffer.offset == 0);
      continue;
    }
    CHECK(buffer.offset % 256 == 0);
    if (buffer.bytes == 0 || all[b].empty()) continue;
    end = std::max(end, buffer.offset + padded(buffer.bytes));
    unshared += padded(buffer.bytes);
    temps.push_back(b);
  }
  std::sort(temps.begin(), temps.end(),
            [&](uint32_t a, uint32_t b) { return p.buffers[a].offset < p.buffers[b].offset; });
  for (size_t i = 0; i < temps.size(); ++i) {
    const Buffer& a = p.buffers[temps[i]];
    for (size_t j = i + 1; j < temps.size(); ++j) {
      const uint32_t x = temps[i], y = temps[j];
      if (p.buffers[y].offset >= a.offset + a.bytes) break;
      REQUIRE(reuse);
      REQUIRE((all_before(x, y) || all_before(y, x) || in_place(x, y) || in_place(y, x)));
    }
  }
  CHECK(p.arena_bytes == end);
  CHECK(p.temp_bytes_unshared == unshared);
  CHECK(p.arena_bytes >= p.arena_lower_bound);
  CHECK(p.arena_bytes <= p.temp_bytes_unshared);
}

/// The most bytes in use at one moment, with nothing in place.
inline int64_t live_apart(const Program& p) {
  const std::vector<std::vector<Moment>> all = touchers(p);
  std::vector<int64_t> live;
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].segment != Segment::temp || all[b].empty()) continue;
    live.resize(std::max(live.size(), size_t{all[b].back().order} + 1), 0);
    for (uint32_t m = all[b].front().order; m <= all[b].back().order; ++m) {
      live[m] += padded(p.buffers[b].bytes);
    }
  }
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace braid::test
