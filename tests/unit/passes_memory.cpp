#include <doctest/doctest.h>

#include <chrono>

#include "memory_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// Plans, and proves the plan from the definitions.
void checked(PlanMaker& m, bool reuse = true) {
  Options o;
  o.reuse = reuse;
  plan_memory(m.p, o);
  check_plan(m.p, reuse);
}

}  // namespace

TEST_CASE("a chain needs two buffers, in place one") {
  for (const bool in_place : {false, true}) {
    PlanMaker m;
    const uint32_t in = m.buffer(Segment::input, 1000);
    uint32_t last = in;
    for (int i = 0; i < 10; ++i) {
      const uint32_t next = m.temp(1000);
      m.node({{last, Role::in}, {next, Role::out}});
      if (in_place) m.p.kernels.back().in_place = {{1, 0}};
      last = next;
    }
    checked(m);
    CHECK(m.p.arena_bytes == (in_place ? 1024 : 2048));
    CHECK(m.p.arena_lower_bound == m.p.arena_bytes);
    checked(m, false);
    CHECK(m.p.arena_bytes == 10240);
  }
}

TEST_CASE("a node's results lie on its operands only where the kernel allows it") {
  const auto arena = [](const auto& change) {
    PlanMaker m;
    const uint32_t a = m.temp(256), b = m.temp(256), c = m.temp(256),
                   out = m.buffer(Segment::output, 4);
    m.node({{a, Role::out}, {b, Role::out}});
    m.node({{a, Role::in}, {b, Role::in}, {c, Role::out}});
    m.p.kernels.back().in_place = {{2, 0}, {2, 1}};
    m.node({{c, Role::in}, {out, Role::out}});
    change(m, a, b, c);
    checked(m);
    return m.p.arena_bytes;
  };
  using M = PlanMaker&;
  using B = uint32_t;
  CHECK(arena([](M, B, B, B) {}) == 512);
  CHECK(arena([](M m, B, B, B) { m.p.kernels[1].in_place = {}; }) == 768);
  CHECK(arena([](M m, B, B, B) { m.p.kernels[1].in_place = {{2, 1}}; }) == 512);
  // Somebody reads the operands later.
  const auto later = [](M m, B a, B b, B) { m.node({{a, Role::in}, {b, Role::in}}); };
  CHECK(arena(later) == 768);
  // Somebody may read them at the same time.
  const auto beside = [](M m, B a, B b, B) {
    m.node({{a, Role::in}, {b, Role::in}}, 1);
    std::swap(m.body().nodes[1], m.body().nodes[3]);
    std::swap(m.body().nodes[2], m.body().nodes[3]);
  };
  CHECK(arena(beside) == 768);
  // Other sizes.
  CHECK(arena([](M m, B, B, B c) {
          m.p.buffers[c].bytes = m.p.views[c].type.shape[0].value() - 1;
          m.p.buffers[c].type =
              m.p.views[c].type = {DType::u8, Shape::of(std::vector<int64_t>{255})};
          m.p.kernels[1].args[2].type = m.p.kernels[2].args[0].type = m.p.views[c].type;
        }) == 768);
  // The operand twice, once perhaps where it is read elsewhere.
  CHECK(arena([](M m, B a, B, B) {
          m.body().nodes[1].args[1] = a;
          m.node({{1, Role::in}});
        }) == 768);
}

TEST_CASE("two results find an operand each") {
  // The first may lie on either operand, the second on the first operand alone.
  PlanMaker m;
  const uint32_t a = m.temp(512), b = m.temp(512), c = m.temp(512), d = m.temp(512);
  m.node({{a, Role::out}, {b, Role::out}});
  m.node({{a, Role::in}, {b, Role::in}, {c, Role::out}, {d, Role::out}});
  m.p.kernels.back().in_place = {{2, 0}, {2, 1}, {3, 0}};
  m.node({{c, Role::in}, {d, Role::in}});
  checked(m);
  CHECK(m.p.arena_bytes == 1024);
  CHECK(m.p.arena_lower_bound == 1024);
  CHECK(m.p.buffers[d].offset == m.p.buffers[a].offset);
  CHECK(m.p.buffers[c].offset == m.p.buffers[b].offset);
}

TEST_CASE("the parts of a kernel are in place one by one") {
  PlanMaker m;
  const uint32_t a = m.temp(256), b = m.temp(256), c = m.temp(256), d = m.temp(256);
  m.node({{a, Role::out}, {b, Role::out}});
  m.node({{a, Role::in}, {c, Role::out}, {b, Role::in}, {d, Role::out}});
  m.p.kernels.back().parts = 2;
  m.p.kernels.back().in_place = {{1, 0}};
  m.node({{c, Role::in}, {d, Role::in}});
  checked(m);
  CHECK(m.p.arena_bytes == 512);
  // An operand of both parts is read by one while the other writes.
  m.body().nodes[1].args[2] = a;
  checked(m);
  CHECK(m.p.buffers[c].offset != m.p.buffers[a].offset);
  CHECK(m.p.buffers[d].offset != m.p.buffers[a].offset);
}

TEST_CASE("in place orders nothing more") {
  PlanMaker m;
  const uint32_t a = m.temp(256), b = m.temp(256), c = m.temp(256);
  m.node({{a, Role::out}});
  m.node({{a, Role::in}, {b, Role::out}});
  m.p.kernels.back().in_place = {{1, 0}};
  m.node({{b, Role::in}, {c, Role::out}});
  m.p.kernels.back().in_place = {{1, 0}};
  checked(m);
  CHECK(m.p.arena_bytes == 256);
  emit_edges(m.p, {});
  REQUIRE(m.body().edges.size() == 2);
  for (const Edge& e : m.body().edges) CHECK(e.reason == EdgeReason::raw);
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

TEST_CASE("one arena for all bodies and calls of a script") {
  PlanMaker m;
  const uint32_t a = m.temp(256), b = m.temp(256), c = m.temp(256), d = m.temp(256);
  // Body 0 makes a and b, a call takes b and gives c, body 1 reads a and c and makes d.
  m.node({{a, Role::out}});
  m.node({{b, Role::out}}, 1);
  m.next_body();
  m.node({{a, Role::in}, {c, Role::in}, {d, Role::out}});
  Call call;
  call.args = {b};
  call.results = {c};
  m.p.calls.push_back(call);
  using K = Step::Kind;
  m.p.script = {{K::launch, 0}, {K::read, 0},  {K::wait, 0},
                {K::call, 0},   {K::write, 0}, {K::launch, 1}};
  checked(m);
  CHECK(m.p.arena_lower_bound == 768);  // a, c and d in body 1
  CHECK(m.p.arena_bytes == 768);
  CHECK(m.p.buffers[a].offset != m.p.buffers[b].offset);  // lives past the call
  // Across steps nothing needs an edge.
  emit_edges(m.p, {});
  CHECK(m.p.bodies[0].edges.empty());
  CHECK(m.p.bodies[1].edges.empty());
  m.p.script.push_back({K::launch, 0});
  CHECK_THROWS_AS(plan_memory(m.p, {}), InternalError);
}

TEST_CASE("plans are right by brute force, and sharing orders nothing more") {
  std::mt19937 random(30);
  int in_place = 0;
  for (int round = 0; round < 100; ++round) {
    const uint32_t lanes = 1 + static_cast<uint32_t>(random() % 4);
    PlanMaker m = random_plan(random, 2 + static_cast<uint32_t>(random() % 60), lanes,
                              1 + static_cast<uint32_t>(random() % 20));
    if (round % 2) allow_in_place(m, random);
    checked(m, false);
    checked(m);
    in_place += m.p.arena_lower_bound < live_apart(m.p);
    if (round % 2 == 0) CHECK(m.p.arena_lower_bound == live_apart(m.p));
    REQUIRE(closure(must_order(m.p, m.body(), true)) == closure(must_order(m.p, m.body(), false)));
    const std::vector<Buffer> first = m.p.buffers;
    plan_memory(m.p, {});
    for (size_t b = 0; b < first.size(); ++b) CHECK(m.p.buffers[b].offset == first[b].offset);
  }
  CHECK(in_place > 5);
}

TEST_CASE("scripts of several bodies are right by brute force") {
  std::mt19937 random(33);
  for (int round = 0; round < 25; ++round) {
    PlanMaker m = random_plan(random, 5 + static_cast<uint32_t>(random() % 50),
                              1 + static_cast<uint32_t>(random() % 4), 20);
    allow_in_place(m, random);
    cut_into_script(m, random);
    checked(m);
    for (const Body& body : m.p.bodies) {
      REQUIRE(closure(must_order(m.p, body, true)) == closure(must_order(m.p, body, false)));
    }
  }
}

TEST_CASE("large plans take the linear way and stay close to the bound") {
  for (uint32_t lanes : {1u, 3u}) {
    std::mt19937 random(31);
    PlanMaker m = random_plan(random, lanes == 1 ? 2500 : 12'000, lanes, 40);
    plan_memory(m.p, {});
    CHECK(m.p.arena_bytes < m.p.temp_bytes_unshared / 4);
    const auto ratio =
        static_cast<double>(m.p.arena_bytes) / static_cast<double>(m.p.arena_lower_bound);
    MESSAGE(lanes << " lanes: planned / lower bound = " << ratio);
    CHECK(ratio < (lanes == 1 ? 1.05 : 4.0));
  }
}

TEST_CASE("100k nodes are planned in near-linear time") {
  std::mt19937 random(32);
  const auto ms = [&](uint32_t nodes, uint32_t lanes) {
    PlanMaker m = random_plan(random, nodes, lanes, 40);
    const auto start = std::chrono::steady_clock::now();
    plan_memory(m.p, {});
    emit_edges(m.p, {});
    const std::chrono::duration<double, std::milli> t = std::chrono::steady_clock::now() - start;
    if (lanes == 1) CHECK(m.body().edges.size() + 1 == nodes);  // a chain
    return t.count();
  };
  for (uint32_t lanes : {1u, 8u}) {
    const double small = ms(10'000, lanes), large = ms(100'000, lanes);
    MESSAGE(lanes << " lanes: 10k nodes " << small << " ms, 100k nodes " << large << " ms");
    CHECK(large < 60 * small + 400);
  }
}
