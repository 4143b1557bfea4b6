#include <doctest/doctest.h>

#include <string>

#include "memory_help.hpp"
#include "passes/memory.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// plan_memory for kernels without bodies: each takes 2 us and a tenth of the GPU.
void plan(PlanMaker& m, const Options& o) {
  plan_arena(m.p, o.reuse);
  if (o.memory_limit == 0 || m.p.arena_bytes <= o.memory_limit) return;
  fit_arena(m.p, o, std::vector<KernelCost>(m.p.kernels.size(), KernelCost{2, 0.1}), kPrices);
}

/// `width` chains of `length` nodes, each chain in a lane, all joined by the last node. Unlike
/// lanes that the pass would give, these stay until the limit makes the pass run.
PlanMaker towers(uint32_t width, uint32_t length, int64_t bytes) {
  PlanMaker m;
  std::vector<uint32_t> last(width);
  for (uint32_t i = 0; i < length; ++i) {
    for (uint32_t w = 0; w < width; ++w) {
      std::vector<PlanMaker::Use> uses;
      if (i > 0) uses.push_back({last[w], Role::in});
      last[w] = m.temp(i + 1 < length ? bytes : 256);
      uses.push_back({last[w], Role::out});
      m.node(uses, w);
    }
  }
  std::vector<PlanMaker::Use> uses;
  for (uint32_t t : last) uses.push_back({t, Role::in});
  uses.push_back({m.buffer(Segment::output, 4), Role::out});
  m.node(uses, 0);
  return m;
}

MemoryCut plan_within(PlanMaker& m, int64_t limit) {
  Options o;
  o.memory_limit = limit;
  plan(m, o);
  check_plan(m.p, true, true);
  CHECK(m.p.arena_bytes <= limit);
  emit_edges(m.p, o);
  // What shares bytes is ordered, whatever it took.
  const Relation must = closure(must_order(m.p, m.body(), true));
  CHECK(closure(edges_of(m.body())) == must);
  for (const Node& n : m.body().nodes) CHECK(n.lane < m.body().lanes);
  return m.p.memory_cut;
}

}  // namespace

TEST_CASE("a limit that the plan keeps changes nothing") {
  PlanMaker m = towers(4, 5, 4096);
  plan(m, {});
  const int64_t bytes = m.p.arena_bytes;
  CHECK(plan_within(m, bytes) == MemoryCut{});
  CHECK(m.p.arena_bytes == bytes);
}

TEST_CASE("a limit makes lanes share what they do not order, and says what that costs") {
  for (const int64_t share : {3, 2}) {
    PlanMaker m = towers(4, 5, 4096);
    plan(m, {});
    const int64_t bytes = m.p.arena_bytes;
    const MemoryCut cut = plan_within(m, bytes * share / 4);
    CHECK(cut.limit == bytes * share / 4);
    CHECK(cut.bytes_before == bytes);
    CHECK(cut.streams_before == 4);
    CHECK(cut.streams_after >= 1);
    CHECK(cut.streams_after <= 4);
    CHECK(cut.us_before > 10);
    CHECK(cut.us_after > cut.us_before);
    double us = 0;
    for (const Body& b : m.p.bodies) us += b.predicted_us;
    CHECK(us == doctest::Approx(cut.us_after));
  }
}

TEST_CASE("a limit that nothing keeps is an error with what is needed") {
  PlanMaker m = towers(3, 4, 4096);
  m.p.buffers[2].name = "tower2/relu";
  Options o;
  o.memory_limit = 1024;
  try {
    plan(m, o);
    FAIL("there is no such plan");
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().at(0);
    CHECK(d.code == "E0706");
    CHECK(d.message.find("the limit is 1024") != std::string::npos);
    REQUIRE(d.details.size() >= 3);
    CHECK(d.details[0].find("4096 bytes") != std::string::npos);
    CHECK(d.suggestion.find("allow ") == 0);
    // What it names is enough.
    const int64_t least = std::stoll(d.suggestion.substr(6));
    CHECK(least > 1024);
    PlanMaker again = towers(3, 4, 4096);
    plan_within(again, least);
  }
  o.reuse = false;
  o.memory_limit = 20'000;
  PlanMaker apart = towers(3, 4, 4096);
  CHECK_THROWS_WITH_AS(plan(apart, o), doctest::Contains("--no-reuse"), Error);
}
