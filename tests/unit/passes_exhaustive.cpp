// Random Programs against everything that can be enumerated: all pairs, all paths, all antichains.
#include <doctest/doctest.h>

#include <algorithm>

#include "judge_program.hpp"
#include "passes/check.hpp"
#include "random_program.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// The same by trying all sets.
size_t largest_antichain_of_all_sets(const Relation& closed) {
  const size_t n = closed.size();
  size_t most = 0;
  for (uint32_t set = 0; set < (1u << n); ++set) {
    bool antichain = true;
    size_t size = 0;
    for (size_t a = 0; a < n && antichain; ++a) {
      if (!(set >> a & 1)) continue;
      ++size;
      for (size_t b = a + 1; b < n && antichain; ++b) {
        antichain = !(set >> b & 1) || !closed(a, b);
      }
    }
    if (antichain) most = std::max(most, size);
  }
  return most;
}

std::string first_of(const std::vector<std::string>& found) {
  return found.empty() ? std::string() : found[0];
}

}  // namespace

TEST_CASE("the maximum antichain by matching is that of all sets") {
  std::mt19937 random(60);
  for (int round = 0; round < 60; ++round) {
    Relation r(1 + random() % 10);
    for (size_t a = 0; a < r.size(); ++a) {
      for (size_t b = a + 1; b < r.size(); ++b) r.set(a, b, random() % 4 == 0);
    }
    const Relation closed = closure(r);
    REQUIRE(largest_antichain(closed) == largest_antichain_of_all_sets(closed));
  }
}

TEST_CASE(
    "10,000 random DAGs with aliasing and updates in place: accepted, and right exhaustively") {
  std::mt19937 random(61);
  size_t nodes = 0, edges = 0, conflicts = 0, full_width = 0, in_place = 0, updates = 0, parts = 0;
  for (int round = 0; round < test::rounds(10'000); ++round) {
    const Program p = random_program(random, {.nodes = 12, .lanes = 8});
    const std::vector<std::string> found = check(p);
    REQUIRE_MESSAGE(found.empty(), "round ", round, ": ", first_of(found));

    const Body& body = p.bodies.at(0);
    const Relation must = must_order(p, body, true);
    const Relation made = closure(edges_of(body));
    for (size_t a = 0; a < must.size(); ++a) {
      for (size_t b = 0; b < must.size(); ++b) {
        if (must(a, b)) REQUIRE(made(a, b));
        conflicts += must(a, b);
      }
    }
    REQUIRE(edges_of(body) == reduction(closure(must)));
    const size_t width = largest_antichain(made);
    REQUIRE(width <= body.lanes);
    const Verdict verdict = judge(p);
    REQUIRE(verdict.good());

    nodes += body.nodes.size();
    edges += body.edges.size();
    full_width += width == body.lanes && width > 1;
    for (const Node& n : body.nodes) {
      const Kernel& k = p.kernels[n.kernel];
      in_place += !k.in_place.empty();
      parts += k.parts > 1;
      for (const ArgSlot& a : k.args) updates += a.role == Role::inout;
    }
  }
  // What the random Programs have in them.
  CHECK(nodes > test::rounds<size_t>(60'000));
  CHECK(edges > test::rounds<size_t>(50'000));
  CHECK(conflicts > edges);
  CHECK(full_width > test::rounds<size_t>(1'000));
  CHECK(in_place > test::rounds<size_t>(2'000));
  CHECK(updates > test::rounds<size_t>(5'000));
  CHECK(parts > test::rounds<size_t>(1'000));
}

TEST_CASE("larger ones") {
  std::mt19937 random(62);
  for (int round = 0; round < 100; ++round) {
    const Program p = random_program(random, {.nodes = 120, .lanes = 32});
    const std::vector<std::string> found = check(p);
    REQUIRE_MESSAGE(found.empty(), "round ", round, ": ", first_of(found));
    const Body& body = p.bodies.at(0);
    REQUIRE(edges_of(body) == reduction(closure(must_order(p, body, true))));
    REQUIRE(largest_antichain(closure(edges_of(body))) <= body.lanes);
  }
}

TEST_CASE("scripts of graphs, streams and calls in turn, with programmatic edges: accepted") {
  std::mt19937 random(63);
  size_t bodies = 0, calls = 0, streams = 0, programmatic = 0, early = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Program p = random_program(random, {.nodes = 6,
                                              .lanes = 4,
                                              .runs = 1 + static_cast<uint32_t>(random() % 6),
                                              .programmatic = true});
    const std::vector<std::string> found = check(p);
    REQUIRE_MESSAGE(found.empty(), "round ", round, ": ", first_of(found));
    REQUIRE(judge(p).good());
    bodies += p.bodies.size();
    calls += p.calls.size();
    for (const Body& b : p.bodies) {
      streams += b.stream;
      for (const Edge& e : b.edges) programmatic += e.kind == EdgeKind::programmatic;
    }
    for (size_t i = 0; i + 1 < p.script.size(); ++i) {
      early += p.script[i].kind == Step::Kind::read && p.script[i + 1].kind == Step::Kind::launch;
    }
  }
  CHECK(bodies > test::rounds<size_t>(4'000));
  CHECK(calls > test::rounds<size_t>(3'000));
  CHECK(streams > test::rounds<size_t>(1'000));
  CHECK(programmatic > test::rounds<size_t>(1'000));
  CHECK(early > test::rounds<size_t>(500));
}
