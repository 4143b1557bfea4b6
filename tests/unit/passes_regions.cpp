// Lanes, memory, groups and edges of Programs with regions.
#include <doctest/doctest.h>

#include <ctime>

#include "passes/lanes.hpp"
#include "passes/memory.hpp"
#include "passes/node_costs.hpp"
#include "region_oracle.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

constexpr uint32_t kNone = UINT32_MAX;
using K = Region::Kind;
using S = Step::Kind;

std::vector<KernelCost> random_costs(const Program& p, std::mt19937& random) {
  std::vector<KernelCost> costs;
  for (size_t k = 0; k < p.kernels.size(); ++k) {
    costs.push_back({static_cast<double>(random() % 9000 + 100) / 1000, 0.05});
  }
  return costs;
}

}  // namespace

TEST_CASE("sides overlay in the region's slab, which is one temporary around it") {
  for (const bool loop : {false, true}) {
    RegionMaker m;
    const uint32_t x = m.temp(512), y = m.temp(512), out = m.buffer(Segment::output, 4);
    const uint32_t handle = m.buffer(Segment::handle, 1);
    const uint32_t main = m.body();
    m.p.script = {{S::launch, main}};
    m.node(main, {{x, Role::out}, {handle, Role::out}});
    const uint32_t r = m.region(K::node, loop, handle);
    std::vector<uint32_t> inner;
    for (uint32_t side = 0; side < (loop ? 1 : 2); ++side) {
      const uint32_t b = m.side_body(r);
      const uint32_t u = m.temp(1000, r), v = m.temp(2000 + 1000 * side, r);
      inner.insert(inner.end(), {u, v});
      m.node(b, {{x, Role::in}, {u, Role::out}});
      m.node(b, {{u, Role::in}, {v, Role::out}});
      m.node(b, {{v, Role::in}, {y, Role::out}});
    }
    m.close(r);
    m.conditional(main, r);
    m.node(main, {{y, Role::in}, {out, Role::out}});
    const uint32_t late = m.temp(5000);
    m.node(main, {{late, Role::out}});
    plan_memory(m.p, {});
    check_regions(m.p, Sharing::by_data);
    const uint32_t slab = m.p.regions[r].slab;
    CHECK(m.p.buffers[slab].bytes == 1024 + (loop ? 2048 : 3072));
    // The slab is over when the node is, and what comes later lies on it.
    CHECK(m.p.arena_bytes == std::max<int64_t>(1024 + m.p.buffers[slab].bytes, 5120));
    CHECK(m.p.arena_lower_bound == m.p.arena_bytes);
    if (!loop) {
      CHECK(m.p.buffers[inner[0]].offset / 256 + m.p.buffers[inner[1]].offset / 256 > 0);
      CHECK(m.p.temp_bytes_unshared == 2 * 512 + 2 * 1024 + 2048 + 3072 + 5120);
    }
    Options apart;
    apart.reuse = false;
    plan_memory(m.p, apart);
    check_regions(m.p, Sharing::none);
    CHECK(m.p.buffers[slab].bytes == (loop ? 3072 : 2048 + 2048 + 3072));
  }
}

TEST_CASE("what a loop carries lives as long as the loop") {
  RegionMaker m;
  const uint32_t carried = m.temp(256), handle = m.buffer(Segment::handle, 1);
  const uint32_t main = m.body();
  m.p.script = {{S::launch, main}};
  m.node(main, {{carried, Role::out}, {handle, Role::out}});
  const uint32_t r = m.region(K::node, true, handle);
  const uint32_t b = m.side_body(r);
  const uint32_t u = m.temp(256, r), v = m.temp(256, r), w = m.temp(256, r);
  m.node(b, {{carried, Role::in}, {u, Role::out}});
  m.node(b, {{u, Role::in}, {v, Role::out}});
  m.node(b, {{v, Role::in}, {w, Role::out}});
  m.node(b, {{w, Role::in}, {carried, Role::out}, {handle, Role::out}});
  m.close(r);
  m.conditional(main, r);
  m.node(main, {{carried, Role::in}});
  plan_memory(m.p, {});
  check_regions(m.p, Sharing::by_data);
  CHECK(m.p.arena_bytes == 3 * 256);
  CHECK(m.p.regions[r].slots[1].role == Role::inout);
  // The contract: what two levels use belongs to the outer one.
  m.p.buffers[carried].region = r;
  CHECK_THROWS_AS(plan_memory(m.p, {}), InternalError);
}

TEST_CASE("two sides cannot share a temporary of their slab") {
  RegionMaker m;
  const uint32_t handle = m.buffer(Segment::handle, 1), main = m.body();
  m.p.script = {{S::launch, main}};
  m.node(main, {{handle, Role::out}});
  const uint32_t r = m.region(K::node, false, handle);
  const uint32_t t = m.temp(256, r);
  for (int side = 0; side < 2; ++side) m.node(m.side_body(r), {{t, Role::out}});
  m.close(r);
  m.conditional(main, r);
  CHECK_THROWS_AS(plan_memory(m.p, {}), InternalError);
}

TEST_CASE("guarded kernels leave what they do not write: nothing lies in place in them") {
  for (const bool guard : {false, true}) {
    RegionMaker m;
    const uint32_t a = m.temp(256), b = m.temp(256), flag = m.temp(1), main = m.body();
    m.p.script = {{S::launch, main}};
    m.node(main, {{a, Role::out}, {flag, Role::out}});
    const uint32_t r = m.region(K::predicate, false, flag);
    if (guard) {
      m.guarded(main, r, 1, {{a, Role::in}, {b, Role::out}});
    } else {
      m.node(main, {{a, Role::in}, {b, Role::out}});
    }
    m.p.kernels.back().in_place = {{1, 0}};
    m.node(main, {{b, Role::in}});
    plan_memory(m.p, {});
    check_regions(m.p, Sharing::by_data);
    CHECK(m.p.arena_bytes == (guard ? 768 : 512));
  }
}

TEST_CASE("a host's region is a step with slabs of its own") {
  RegionMaker m;
  const uint32_t flag = m.temp(1), kept = m.temp(512), main = m.body();
  m.node(main, {{flag, Role::out}, {kept, Role::out}});
  m.p.script = {{S::launch, main}};
  const uint32_t r = m.region(K::host, true, flag);
  const uint32_t t = m.temp(1024, r), u = m.temp(2048, r), first = m.body(r);
  m.node(first, {{kept, Role::in}, {t, Role::out}});
  std::vector<Step> script{{S::launch, first}};
  RegionMaker::steps(script, m.call({t}, {u}));
  const uint32_t last = m.body(r);
  m.node(last, {{u, Role::in}, {flag, Role::out}});
  script.push_back({S::launch, last});
  m.side_script(r, script);
  m.close(r);
  m.p.script.push_back({S::region, r});
  m.p.script.push_back({S::launch, m.body()});
  const uint32_t after = m.temp(4096);
  m.node(m.p.script.back().index, {{after, Role::out}, {flag, Role::in}});
  plan_memory(m.p, {});
  check_regions(m.p, Sharing::by_data);
  CHECK(m.p.buffers[m.p.regions[r].slab].bytes == 2048);
  CHECK(m.p.arena_bytes == 4096 + 256);
  // A graph, a call and a graph, and the flag: 6.4 us for each wait and 2 us for each graph.
  assign_lanes(m.p, {}, std::vector<KernelCost>(m.p.kernels.size(), {3, 0.1}), kPrices);
  CHECK(m.p.regions[r].estimate_us == doctest::Approx(2 * (3 + 2) + 2 * 6.4));
  CHECK(predicted_us(m.p) == doctest::Approx(3 + 22.8 + 3));
}

TEST_CASE("random nested regions: plans are right by all that may run") {
  std::mt19937 random(70);
  size_t regions = 0, deep = 0, hosts = 0, sharing = 0, in_place = 0, guarded = 0;
  for (int round = 0; round < test::rounds(400); ++round) {
    Program p = RandomRegions(random, {}).make();
    for (const Sharing s : {Sharing::none, Sharing::by_data}) {
      Options o;
      o.reuse = s != Sharing::none;
      plan_memory(p, o);
      check_regions(p, s);
    }
    emit_edges(p, {});
    for (const Body& body : p.bodies) {
      const Relation made = closure(edges_of(body));
      REQUIRE(made == closure(must_order(p, body, true)));
      REQUIRE(made == closure(must_order(p, body, false)));  // sharing orders nothing more
    }
    const std::vector<Buffer> first = p.buffers;
    plan_memory(p, {});
    for (size_t b = 0; b < first.size(); ++b) REQUIRE(p.buffers[b].offset == first[b].offset);
    for (const Region& r : p.regions) {
      regions += r.slab != kNone && p.buffers[r.slab].bytes > 0;
      deep += r.region != kNone && p.regions[r.region].region != kNone;
      hosts += r.kind == K::host;
    }
    sharing += p.arena_bytes < p.temp_bytes_unshared;
    for (Kernel& k : p.kernels) {
      guarded += k.guard.has_value();
      in_place += !k.in_place.empty();
      k.in_place.clear();
    }
  }
  CHECK(regions > test::rounds<size_t>(500));
  CHECK(deep > test::rounds<size_t>(100));
  CHECK(hosts > test::rounds<size_t>(100));
  CHECK(sharing > test::rounds<size_t>(200));
  CHECK(in_place > test::rounds<size_t>(1000));
  CHECK(guarded > test::rounds<size_t>(200));
}

TEST_CASE("random nested regions within a limit: right, or refused with what would do") {
  std::mt19937 random(71);
  int kept = 0, refused = 0;
  for (int round = 0; round < test::rounds(60); ++round) {
    Program p = RandomRegions(random, {.lanes = 4}).make();
    const std::vector<KernelCost> costs = random_costs(p, random);
    assign_lanes(p, {}, costs, kPrices);
    plan_arena(p, true);
    if (p.arena_bytes < 1000) continue;
    Options o;
    o.memory_limit = p.arena_bytes * (9 - static_cast<int64_t>(random() % 5)) / 10;
    Program limited = p;
    for (int again = 0; again < 2; ++again) {
      try {
        fit_arena(limited, o, costs, kPrices);
        CHECK(limited.arena_bytes <= o.memory_limit);
        CHECK(limited.memory_cut.us_after == doctest::Approx(predicted_us(limited)));
        check_regions(limited, Sharing::by_launch_order);
        emit_edges(limited, o);
        for (const Body& body : limited.bodies) {
          REQUIRE(closure(edges_of(body)) == closure(must_order(limited, body, true)));
        }
        ++kept;
        break;
      } catch (const Error& e) {
        const Diagnostic& d = e.diagnostics().at(0);
        REQUIRE(d.code == "E0706");
        REQUIRE(again == 0);
        ++refused;
        o.memory_limit = std::stoll(d.suggestion.substr(6));
        limited = p;
        if (o.memory_limit >= p.arena_bytes) break;
      }
    }
  }
  CHECK(kept > test::rounds(20));
  CHECK(refused > test::rounds(5));
}

TEST_CASE("no more kernels run at once than there are streams, in bodies of bodies too") {
  std::mt19937 random(72);
  size_t full = 0, nested = 0, wide = 0;
  for (int round = 0; round < test::rounds(300); ++round) {
    Options o;
    o.streams = 1 + static_cast<int>(random() % 8);
    o.force_lanes = random() % 2;
    Program p = RandomRegions(random, {.nodes = 9, .lanes = 1, .host = random() % 4 == 0}).make();
    assign_lanes(p, o, random_costs(p, random), kPrices);
    plan_memory(p, o);
    emit_edges(p, o);
    const std::vector<uint32_t> widths = widths_of(p);
    std::vector<Relation> edges;
    for (size_t b = 0; b < p.bodies.size(); ++b) {
      REQUIRE(widths[b] <= static_cast<uint32_t>(o.streams));
      edges.push_back(closure(edges_of(p.bodies[b])));
      wide += widths[b] > p.bodies[b].lanes;
    }
    const Order order(edges);
    for (int choice = 0; choice < 4; ++choice) {
      const auto some_side = [&](const Region& r) {
        return static_cast<uint32_t>(random() % r.sides);
      };
      const std::vector<Event> events = Expansion(p, 1, some_side).take();
      Relation before(events.size());
      for (size_t a = 0; a < events.size(); ++a) {
        for (size_t b = a + 1; b < events.size(); ++b) {
          const Order::Kind k = order(events[a], events[b]);
          REQUIRE((k == Order::before || k == Order::any));
          before.set(a, b, k == Order::before);
        }
      }
      const size_t most = largest_antichain(closure(before));
      REQUIRE(most <= static_cast<size_t>(o.streams));
      full += most > 1 && most == static_cast<size_t>(o.streams);
      for (const Event& e : events) nested += e.path.size() > 4;
    }
  }
  CHECK(full > test::rounds<size_t>(100));
  CHECK(nested > test::rounds<size_t>(1000));
  CHECK(wide > test::rounds<size_t>(20));
}

TEST_CASE("wide conditional nodes share a lane, and slim nodes take what is left") {
  // Two branches of four chains each, and some kernels beside them.
  const auto made = [](int streams, int slim) {
    RegionMaker m;
    const uint32_t main = m.body();
    m.p.script = {{S::launch, main}};
    for (int i = 0; i < 2; ++i) {
      const uint32_t handle = m.buffer(Segment::handle, 1);
      m.node(main, {{handle, Role::out}});
      const uint32_t r = m.region(K::node, false, handle);
      const uint32_t b = m.side_body(r);
      for (int chain = 0; chain < 4; ++chain) {
        const uint32_t t = m.temp(4, r);
        m.node(b, {{t, Role::out}});
        m.node(b, {{t, Role::inout}});
      }
      m.close(r);
      m.conditional(main, r);
    }
    for (int i = 0; i < slim; ++i) m.node(main, {{m.temp(4), Role::out}});
    Options o;
    o.streams = streams;
    assign_lanes(m.p, o, std::vector<KernelCost>(m.p.kernels.size(), {10, 0.01}), kPrices);
    return std::move(m.p);
  };
  Program p = made(8, 4);
  CHECK(widths_of(p) == std::vector<uint32_t>{8, 4, 4});
  CHECK(p.bodies[1].lanes == 4);
  // Both branches at once, each on a lane of its own.
  CHECK(p.bodies[0].lanes == 2);
  p = made(6, 8);
  CHECK(widths_of(p)[0] <= 6);
  CHECK(widths_of(p)[1] == 4);
  std::vector<uint32_t> lanes;
  for (const Node& n : p.bodies[0].nodes) {
    if (n.kernel == kNoKernel) lanes.push_back(n.lane);
  }
  REQUIRE(lanes.size() == 2);
  CHECK(lanes[0] == lanes[1]);
  CHECK(p.bodies[0].lanes == 3);
  // Bodies as wide as all streams leave one lane.
  p = made(4, 8);
  CHECK(widths_of(p) == std::vector<uint32_t>{4, 4, 4});
  CHECK(p.bodies[0].lanes == 1);
}

TEST_CASE("a conditional node costs its costlier side and its price, a loop one run") {
  RegionMaker m;
  const uint32_t handle = m.buffer(Segment::handle, 1), main = m.body();
  m.p.script = {{S::launch, main}};
  m.node(main, {{handle, Role::out}});
  const uint32_t r = m.region(K::node, false, handle);
  for (int side = 0; side < 3; ++side) {
    const uint32_t b = m.side_body(r), t = m.temp(4, r);
    for (int i = 0; i < 4 - side; ++i) m.node(b, {{t, Role::inout}});
  }
  m.close(r);
  m.conditional(main, r);
  const std::vector<KernelCost> costs(m.p.kernels.size(), {2, 0.5});
  assign_lanes(m.p, {}, costs, kPrices);
  const double side_us = 4 * 2 + 3 * 0.5;
  CHECK(m.p.bodies[1].predicted_us == doctest::Approx(side_us));
  CHECK(m.p.regions[r].estimate_us == doctest::Approx(side_us + 8));
  CHECK(m.p.bodies[0].nodes[1].estimate_us == m.p.regions[r].estimate_us);
  CHECK(m.p.bodies[0].predicted_us == doctest::Approx(2 + 0.5 + side_us + 8));
  m.p.regions[r].loop = true;
  predict_bodies(m.p, costs);
  CHECK(m.p.regions[r].estimate_us == doctest::Approx(side_us + 3.9));
  CHECK(m.p.bodies[0].predicted_us == doctest::Approx(2 + 0.5 + side_us + 3.9));
}

TEST_CASE("guarded kernels cost what the costliest side costs; the others leave") {
  RegionMaker m;
  const uint32_t flag = m.temp(1), v = m.temp(4), main = m.body();
  m.p.script = {{S::launch, main}};
  m.node(main, {{flag, Role::out}});
  const uint32_t r = m.region(K::predicate, false, flag);
  m.guarded(main, r, 0, {{v, Role::inout}});
  m.guarded(main, r, 1, {{v, Role::inout}});
  m.guarded(main, r, 1, {{v, Role::inout}});
  assign_lanes(m.p, {}, std::vector<KernelCost>(4, {2, 0.5}), kPrices);
  const std::vector<Node>& nodes = m.p.bodies[0].nodes;
  CHECK(nodes[1].estimate_us == doctest::Approx(0.2));
  CHECK(nodes[2].estimate_us == doctest::Approx(2));
  CHECK(m.p.regions[r].estimate_us == doctest::Approx(4.2));
  CHECK(m.p.bodies[0].predicted_us == doctest::Approx(2 + 0.2 + 4 + 1.5));
  // They read the flag and write one after the other.
  emit_edges(m.p, {});
  CHECK(edges_of(m.p.bodies[0]) == reduction(closure(must_order(m.p, m.p.bodies[0], true))));
}

TEST_CASE(
    "programmatic edges neither enter nor leave conditional nodes, nor stand in their bodies") {
  std::mt19937 random(73);
  size_t programmatic = 0, full = 0;
  for (int round = 0; round < 100; ++round) {
    Program p = RandomRegions(random, {.lanes = 1, .host = false}).make();
    Options o;
    o.pdl = true;
    assign_lanes(p, o, random_costs(p, random), kPrices);
    plan_memory(p, o);
    emit_edges(p, o);
    for (const Body& body : p.bodies) {
      for (const Edge& e : body.edges) {
        const Node &from = body.nodes[e.from], &to = body.nodes[e.to];
        const bool conditional = from.kernel == kNoKernel || to.kernel == kNoKernel;
        const bool early =
            !conditional && p.kernels[to.kernel].waits && e.reason != EdgeReason::lane &&
            !(body.region != UINT32_MAX && p.regions[body.region].kind == Region::Kind::node);
        CHECK((e.kind == EdgeKind::programmatic) == early);
        programmatic += early;
        full += conditional;
      }
    }
  }
  CHECK(programmatic > test::rounds<size_t>(10));
  CHECK(full > test::rounds<size_t>(200));
}

TEST_CASE("only plain kernels are grouped") {
  RegionMaker m;
  const uint32_t flag = m.temp(1), handle = m.buffer(Segment::handle, 1), main = m.body();
  m.p.script = {{S::launch, main}};
  m.node(main, {{flag, Role::out}, {handle, Role::out}});
  m.p.kernels.back().symbol = "row_flag_0";
  const uint32_t node = m.region(K::node, false, handle);
  m.side_body(node);
  m.close(node);
  m.conditional(main, node);
  const uint32_t r = m.region(K::predicate, false, flag);
  std::vector<uint32_t> plain, guarded;
  for (int i = 0; i < 3; ++i) {
    plain.push_back(m.node(main, {{m.temp(4), Role::out}}).kernel);
    m.p.kernels.back().symbol = "row_plain_1";
    guarded.push_back(m.guarded(main, r, 1, {{m.temp(4), Role::out}}).kernel);
    m.p.kernels.back().symbol = "row_guarded_2";
  }
  for (Node& n : m.p.bodies[main].nodes) {
    if (std::find(plain.begin(), plain.end(), n.kernel) != plain.end()) n.kernel = plain[0];
    if (std::find(guarded.begin(), guarded.end(), n.kernel) != guarded.end()) {
      n.kernel = guarded[0];
    }
  }
  group_nodes(m.p, {});
  const std::vector<Node>& nodes = m.p.bodies[main].nodes;
  REQUIRE(nodes.size() == 1 + 1 + 1 + 3);
  REQUIRE(m.p.kernels.size() == 3);
  size_t groups = 0, alone = 0, conditional = 0;
  for (const Node& n : nodes) {
    conditional += n.kernel == kNoKernel && n.region == node;
    if (n.kernel == kNoKernel) continue;
    groups += m.p.kernels[n.kernel].parts == 3 && n.args.size() == 3;
    alone += m.p.kernels[n.kernel].guard == 1 && n.args.size() == 2 && n.region == r;
  }
  CHECK(groups == 1);
  CHECK(alone == 3);
  CHECK(conditional == 1);
}

TEST_CASE("many regions are planned in near-linear time") {
  const auto ms = [](uint32_t regions) {
    std::mt19937 random(74);
    RegionMaker m;
    const uint32_t main = m.body();
    m.p.script = {{S::launch, main}};
    std::vector<uint32_t> seen{m.buffer(Segment::param, 64)};
    for (uint32_t i = 0; i < regions; ++i) {
      const uint32_t handle = m.buffer(Segment::handle, 1), x = m.temp(512);
      m.p.bodies[main].lanes = 1;
      const auto recent = [&] {
        return seen[seen.size() - 1 - random() % std::min<size_t>(seen.size(), 8)];
      };
      const uint32_t from = recent();
      Kernel k;
      k.args = {{"", Role::in, m.p.buffers[from].type},
                {"", Role::out, m.p.buffers[x].type},
                {"", Role::out, m.p.buffers[handle].type}};
      Node n;
      n.kernel = static_cast<uint32_t>(m.p.kernels.size());
      n.args = {from, x, handle};
      n.position = 2 * i;
      m.p.kernels.push_back(k);
      m.p.bodies[main].nodes.push_back(n);
      const uint32_t r = m.region(K::node, i % 2, handle);
      const uint32_t y = m.temp(512);
      for (uint32_t side = 0; side < 2 - i % 2; ++side) {
        const uint32_t b = m.side_body(r);
        uint32_t last = x;
        for (int j = 0; j < 3; ++j) {
          const uint32_t t = m.temp(1024, r);
          m.node(b, {{last, Role::in}, {t, Role::out}});
          last = t;
        }
        m.node(b, {{last, Role::in}, {y, Role::out}});
      }
      m.close(r);
      Node c;
      c.kernel = kNoKernel;
      c.region = r;
      c.args = m.p.regions[r].args;
      c.position = 2 * i + 1;
      m.p.bodies[main].nodes.push_back(c);
      seen.push_back(y);
    }
    const std::vector<KernelCost> costs(m.p.kernels.size(), {2, 0.1});
    const std::clock_t start = std::clock();
    group_nodes(m.p, {});
    assign_lanes(m.p, {}, std::vector<KernelCost>(m.p.kernels.size(), {2, 0.1}), kPrices);
    plan_memory(m.p, {});
    emit_edges(m.p, {});
    const std::clock_t end = std::clock();
    CHECK(m.p.arena_bytes < m.p.temp_bytes_unshared / 4);
    return 1e3 * static_cast<double>(end - start) / CLOCKS_PER_SEC;
  };
  const double small = ms(1'500), large = ms(15'000);
  MESSAGE("9k nodes in 1.5k regions " << small << " ms, 100k in 15k " << large << " ms");
  CHECK(large < 60 * small + 400);
}
