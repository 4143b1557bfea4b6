#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "passes/plan.hpp"
#include "plan_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Who touches each temporary.
std::vector<std::vector<uint32_t>> touchers(const PlanMaker& m) {
  std::vector<std::vector<uint32_t>> nodes(m.p.buffers.size());
  for (uint32_t n = 0; n < m.p.bodies[0].nodes.size(); ++n) {
    for (uint32_t view : m.p.bodies[0].nodes[n].args) nodes[m.p.views[view].buffer].push_back(n);
  }
  return nodes;
}

/// Plans, and proves the plan from the definitions.
void checked(PlanMaker& m, bool reuse = true) {
  Options o;
  o.reuse = reuse;
  plan_memory(m.p, o);
  const Program& p = m.p;
  const std::vector<std::vector<uint32_t>> nodes = touchers(m);
  const Relation before = closure(must_order(p, p.bodies[0], false));
  const auto all_before = [&](uint32_t a, uint32_t b) {
    for (uint32_t x : nodes[a]) {
      for (uint32_t y : nodes[b]) {
        if (!before(x, y)) return false;
      }
    }
    return true;
  };
  std::vector<uint32_t> temps;
  int64_t end = 0, unshared = 0;
  std::vector<int64_t> live(p.bodies[0].nodes.size(), 0);
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    if (buffer.segment != Segment::temp) {
      CHECK(buffer.offset == 0);
      continue;
    }
    CHECK(buffer.offset % 256 == 0);
    end = std::max(end, buffer.offset + padded(buffer.bytes));
    unshared += padded(buffer.bytes);
    for (uint32_t n = nodes[b].front(); n <= nodes[b].back(); ++n) live[n] += padded(buffer.bytes);
    if (buffer.bytes > 0) temps.push_back(b);
  }
  std::sort(temps.begin(), temps.end(),
            [&](uint32_t a, uint32_t b) { return p.buffers[a].offset < p.buffers[b].offset; });
  for (size_t i = 0; i < temps.size(); ++i) {
    const Buffer& a = p.buffers[temps[i]];
    for (size_t j = i + 1; j < temps.size(); ++j) {
      if (p.buffers[temps[j]].offset >= a.offset + a.bytes) break;
      REQUIRE(reuse);
      REQUIRE((all_before(temps[i], temps[j]) || all_before(temps[j], temps[i])));
    }
  }
  CHECK(p.arena_bytes == end);
  CHECK(p.temp_bytes_unshared == unshared);
  CHECK(p.arena_lower_bound == *std::max_element(live.begin(), live.end()));
  CHECK(p.arena_bytes >= p.arena_lower_bound);
  CHECK(p.arena_bytes <= p.temp_bytes_unshared);
}

}  // namespace

TEST_CASE("a chain needs two buffers") {
  PlanMaker m;
  const uint32_t in = m.buffer(Segment::input, 1000);
  uint32_t last = in;
  for (int i = 0; i < 10; ++i) {
    const uint32_t next = m.temp(1000);
    m.node({{last, Role::in}, {next, Role::out}});
    last = next;
  }
  checked(m);
  CHECK(m.p.arena_bytes == 2048);
  CHECK(m.p.arena_lower_bound == 2048);
  checked(m, false);
  CHECK(m.p.arena_bytes == 10240);
}

TEST_CASE("a node's results do not lie on its operands") {
  PlanMaker m;
  const uint32_t a = m.temp(256), b = m.temp(256);
  m.node({{a, Role::out}});
  m.node({{a, Role::in}, {b, Role::out}});
  checked(m);
  CHECK(m.p.arena_bytes == 512);
}

TEST_CASE("lanes share bytes only where data orders them") {
  const auto arena = [](uint32_t second_lane, bool joined) {
    PlanMaker m;
    const uint32_t a = m.temp(512), b = m.temp(512), c = m.temp(512), out = m.temp(4);
    m.node({{a, Role::out}}, 0);
    m.node({{a, Role::in}, {out, Role::out}}, 0);
    std::vector<PlanMaker::Use> uses{{b, Role::out}};
    if (joined) uses.push_back({out, Role::in});
    m.node(uses, second_lane);
    m.node({{b, Role::in}, {c, Role::out}}, second_lane);
    checked(m);
    return m.p.arena_bytes;
  };
  CHECK(arena(0, false) == 1024);
  CHECK(arena(1, false) == 1536 + 256);  // nothing orders a before b
  CHECK(arena(1, true) == 1024);
}

TEST_CASE("plans are right by brute force, and sharing orders nothing more") {
  std::mt19937 random(30);
  for (int round = 0; round < 60; ++round) {
    const uint32_t lanes = 1 + static_cast<uint32_t>(random() % 4);
    PlanMaker m = random_plan(random, 2 + static_cast<uint32_t>(random() % 60), lanes,
                              1 + static_cast<uint32_t>(random() % 20));
    checked(m, false);
    checked(m);
    REQUIRE(closure(must_order(m.p, m.body(), true)) == closure(must_order(m.p, m.body(), false)));
    const std::vector<Buffer> first = m.p.buffers;
    plan_memory(m.p, {});
    for (size_t b = 0; b < first.size(); ++b) CHECK(m.p.buffers[b].offset == first[b].offset);
  }
}

TEST_CASE("large plans take the linear way and stay close to the bound") {
  for (uint32_t lanes : {1u, 3u}) {
    std::mt19937 random(31);
    PlanMaker m = random_plan(random, 2500, lanes, 40);  // about 5000 temporaries
    checked(m);
    CHECK(m.p.arena_bytes < m.p.temp_bytes_unshared / 4);
    const auto ratio =
        static_cast<double>(m.p.arena_bytes) / static_cast<double>(m.p.arena_lower_bound);
    MESSAGE(lanes << " lanes: planned / lower bound = " << ratio);
    CHECK(ratio < (lanes == 1 ? 2.0 : 4.0));
  }
}

TEST_CASE("100k nodes are planned in near-linear time") {
  std::mt19937 random(32);
  const auto ms = [&](uint32_t nodes) {
    PlanMaker m = random_plan(random, nodes, 1, 40);
    const auto start = std::chrono::steady_clock::now();
    plan_memory(m.p, {});
    emit_edges(m.p, {});
    const std::chrono::duration<double, std::milli> t = std::chrono::steady_clock::now() - start;
    CHECK(m.body().edges.size() + 1 == nodes);  // one lane: a chain
    return t.count();
  };
  const double small = ms(10'000), large = ms(100'000);
  MESSAGE("10k nodes " << small << " ms, 100k nodes " << large << " ms");
  CHECK(large < 60 * small + 200);
}
