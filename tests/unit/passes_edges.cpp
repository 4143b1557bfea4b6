#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "passes/order.hpp"
#include "passes/plan.hpp"
#include "plan_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using Found = std::vector<std::tuple<uint32_t, uint32_t, EdgeReason>>;

Found edges(PlanMaker& m, bool reduce = true) {
  Options o;
  o.reduce = reduce;
  emit_edges(m.p, o);
  Found found;
  for (const Edge& e : m.body().edges) {
    found.emplace_back(e.from, e.to, e.reason);
    CHECK(e.kind == EdgeKind::full);
    CHECK((e.buffer == UINT32_MAX) == (e.reason == EdgeReason::lane));
  }
  return found;
}

constexpr EdgeReason raw = EdgeReason::raw, war = EdgeReason::war, waw = EdgeReason::waw,
                     lane = EdgeReason::lane;

}  // namespace

TEST_CASE("each kind of hazard makes its edge") {
  PlanMaker m;
  const uint32_t a = m.buffer(Segment::param, 16), b = m.temp(8, 0), c = m.temp(8, 256);
  m.node({{a, Role::out}}, 0);                 // 0
  m.node({{a, Role::in}, {b, Role::out}}, 1);  // 1 reads 0's
  m.node({{a, Role::in}, {c, Role::out}}, 2);  // 2 reads 0's
  m.node({{a, Role::inout}}, 3);               // 3 overwrites what 1 and 2 read
  m.node({{a, Role::out}}, 4);                 // 4 overwrites 3's, which nobody reads
  CHECK(edges(m) == Found{{0, 1, raw}, {0, 2, raw}, {1, 3, war}, {2, 3, war}, {3, 4, waw}});
  // What others imply is there as well, once per pair, data before order.
  CHECK(edges(m, false) ==
        Found{{0, 1, raw}, {0, 2, raw}, {0, 3, raw}, {1, 3, war}, {2, 3, war}, {3, 4, waw}});
}

TEST_CASE("a write after a write alone is one") {
  PlanMaker m;
  const uint32_t a = m.buffer(Segment::output, 16);
  m.node({{a, Role::out}}, 0);
  m.node({{a, Role::out}}, 1);
  CHECK(edges(m) == Found{{0, 1, waw}});
}

TEST_CASE("one edge per pair, with the strongest reason and its buffer") {
  PlanMaker m;
  const uint32_t a = m.buffer(Segment::param, 16), b = m.temp(8);
  m.node({{a, Role::in}, {b, Role::out}}, 0);
  m.node({{a, Role::out}, {b, Role::in}}, 0);
  CHECK(edges(m) == Found{{0, 1, raw}});
  CHECK(m.body().edges[0].buffer == b);
}

TEST_CASE("lanes are chains") {
  PlanMaker m;
  for (uint32_t i = 0; i < 6; ++i) m.node({{m.temp(4, 256 * i), Role::out}}, i % 2);
  CHECK(edges(m) == Found{{0, 2, lane}, {1, 3, lane}, {2, 4, lane}, {3, 5, lane}});
}

TEST_CASE("temporaries conflict where their bytes meet, and only there") {
  PlanMaker m;
  m.node({{m.temp(256, 0), Role::out}}, 0);
  m.node({{m.temp(256, 256), Role::out}}, 1);
  m.node({{m.temp(300, 512), Role::out}}, 2);
  m.node({{m.temp(512, 256), Role::out}}, 3);  // over the second and a part of the third
  CHECK(edges(m) == Found{{1, 3, waw}, {2, 3, waw}});
  m.node({{m.temp(0, 300), Role::out}}, 4);  // no bytes, no conflict
  CHECK(edges(m) == Found{{1, 3, waw}, {2, 3, waw}});
}

TEST_CASE("inputs and constants are never written, so they order nothing") {
  PlanMaker m;
  const uint32_t in = m.buffer(Segment::input, 8), k = m.buffer(Segment::constant, 8);
  for (uint32_t i = 0; i < 3; ++i) {
    m.node({{in, Role::in}, {k, Role::in}, {m.temp(8, 256 * i), Role::out}}, i);
  }
  CHECK(edges(m).empty());
}

TEST_CASE("edges are the transitive reduction, by brute force") {
  std::mt19937 random(20);
  size_t kept = 0, dropped = 0;
  for (int round = 0; round < 150; ++round) {
    const uint32_t lanes = 1 + static_cast<uint32_t>(random() % 5);
    PlanMaker m = random_plan(random, 2 + static_cast<uint32_t>(random() % 40), lanes);
    // Anywhere at all: temporaries that overlap in part are the hard case.
    for (Buffer& b : m.p.buffers) {
      if (b.segment == Segment::temp) b.offset = static_cast<int64_t>(random() % 64) * 256;
    }
    const Relation must = must_order(m.p, m.body(), true);
    const Relation closed = closure(must);
    const Found reduced = edges(m);
    REQUIRE(edges_of(m.body()) == reduction(closed));
    const auto by_target = [](const Edge& a, const Edge& b) {
      return std::pair(a.to, a.from) < std::pair(b.to, b.from);
    };
    CHECK(std::is_sorted(m.body().edges.begin(), m.body().edges.end(), by_target));
    const Found all = edges(m, false);
    REQUIRE(closure(edges_of(m.body())) == closed);
    CHECK(std::is_sorted(m.body().edges.begin(), m.body().edges.end(), by_target));
    for (const Edge& e : m.body().edges) CHECK(must(e.from, e.to));
    for (const auto& e : reduced) CHECK(std::find(all.begin(), all.end(), e) != all.end());
    kept += reduced.size();
    dropped += all.size() - reduced.size();
  }
  CHECK(kept > 1000);
  CHECK(dropped > 1000);
}

TEST_CASE("clocks answer reachability exactly") {
  std::mt19937 random(21);
  for (int round = 0; round < 40; ++round) {
    PlanMaker m = random_plan(random, 40, 1 + static_cast<uint32_t>(random() % 6));
    const Body& body = m.body();
    const Relation closed = closure(must_order(m.p, body, false));
    Clocks clocks(body);
    const Hazards hazards = find_hazards(m.p, body, false);
    const std::vector<uint32_t> before = lane_predecessors(body);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      if (before[n] != UINT32_MAX) clocks.order(body, before[n], n);
      for (const Hazard& h : hazards.of(n)) clocks.order(body, h.from, n);
    }
    for (uint32_t a = 0; a < body.nodes.size(); ++a) {
      for (uint32_t b = 0; b < body.nodes.size(); ++b) {
        REQUIRE(clocks.ordered(body, a, b) == closed(a, b));
      }
    }
  }
}

namespace {

/// What edges promise, from what the driver does: every node starts, goes (makes its first access)
/// and ends. A full edge: it starts after the other's end. A programmatic one: it starts after the
/// other's start, and goes after its end because its kernel waits.
Relation promised(const Program& p, const Body& body) {
  const auto start = [](size_t n) { return 3 * n; };
  const auto go = [](size_t n) { return 3 * n + 1; };
  const auto end = [](size_t n) { return 3 * n + 2; };
  const size_t count = body.nodes.size();
  Relation events(3 * count);
  for (size_t n = 0; n < count; ++n) {
    events.set(start(n), go(n));
    events.set(go(n), end(n));
  }
  for (const Edge& e : body.edges) {
    if (e.kind == EdgeKind::full) {
      events.set(end(e.from), start(e.to));
    } else {
      events.set(start(e.from), start(e.to));
      if (p.kernels[body.nodes[e.to].kernel].waits) events.set(end(e.from), go(e.to));
    }
  }
  const Relation closed = closure(events);
  Relation result(count);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) result.set(a, b, closed(end(a), go(b)));
  }
  return result;
}

}  // namespace

TEST_CASE("programmatic edges lead only into kernels that wait, and only when asked for") {
  PlanMaker m;
  const uint32_t a = m.temp(8, 0), b = m.temp(8, 256), c = m.temp(8, 512), d = m.temp(8, 768);
  m.node({{a, Role::out}}, 0);
  m.node({{a, Role::in}, {b, Role::out}}, 1);                 // waits
  m.node({{a, Role::in}, {b, Role::in}, {c, Role::out}}, 0);  // does not
  m.node({{d, Role::out}}, 1);                                // waits, but only its lane is before
  m.p.kernels[1].waits = m.p.kernels[3].waits = true;
  const auto kinds = [&](bool pdl, bool stream) {
    Options o;
    o.pdl = pdl;
    m.body().stream = stream;
    emit_edges(m.p, o);
    std::string text;
    for (const Edge& e : m.body().edges) {
      text += std::to_string(e.from) + (e.kind == EdgeKind::full ? "-" : "~") +
              std::to_string(e.to) + " ";
    }
    return text;
  };
  CHECK(kinds(false, false) == "0-1 1-2 1-3 ");
  // 0 -> 2 follows: 1 does not end before it has waited for 0.
  CHECK(kinds(true, false) == "0~1 1-2 1-3 ");
  CHECK(kinds(true, true) == "0-1 1-2 1-3 ");
}

TEST_CASE("edges of both kinds order every conflict, and none is too many") {
  std::mt19937 random(22);
  size_t programmatic = 0, full = 0;
  for (int round = 0; round < 30; ++round) {
    PlanMaker m = random_plan(random, 2 + static_cast<uint32_t>(random() % 30),
                              1 + static_cast<uint32_t>(random() % 5));
    for (Kernel& k : m.p.kernels) k.waits = random() % 3 != 0;
    Options o;
    o.pdl = true;
    plan_memory(m.p, o);
    emit_edges(m.p, o);
    const Relation must = closure(must_order(m.p, m.body(), true));
    REQUIRE(promised(m.p, m.body()) == must);
    const std::vector<Edge> edges = m.body().edges;
    for (size_t i = 0; i < edges.size(); ++i) {
      const Edge& e = edges[i];
      const bool waits = m.p.kernels[m.body().nodes[e.to].kernel].waits;
      CHECK((e.kind == EdgeKind::programmatic) == (waits && e.reason != EdgeReason::lane));
      (e.kind == EdgeKind::full ? full : programmatic) += 1;
      m.body().edges.erase(m.body().edges.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(!promised(m.p, m.body())(e.from, e.to));
      m.body().edges = edges;
    }
  }
  CHECK(programmatic > 100);
  CHECK(full > 100);
}
