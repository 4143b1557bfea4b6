// The partition report: its numbers against independent ones, its text and its JSON.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "frontend/compile.hpp"
#include "frontend/report/report.hpp"
#include "frontend_plans.hpp"
#include "made_plan.hpp"

using namespace braid;
using namespace braid::testing;
using namespace braid::report;
using Json = nlohmann::ordered_json;

namespace {

Dag random_dag(std::mt19937_64& random, size_t n) {
  Dag dag(n);
  const uint64_t one_in = 1 + random() % 6;
  for (uint32_t to = 0; to < n; ++to) {
    for (uint32_t from = 0; from < to; ++from) {
      if (random() % one_in == 0) dag[to].push_back(from);
    }
  }
  return dag;
}

std::vector<std::vector<bool>> closure_of(const Dag& dag) {
  std::vector<std::vector<bool>> before(dag.size(), std::vector<bool>(dag.size(), false));
  for (size_t to = 0; to < dag.size(); ++to) {
    for (uint32_t from : dag[to]) {
      before[to][from] = true;
      for (size_t k = 0; k < dag.size(); ++k) before[to][k] = before[to][k] || before[from][k];
    }
  }
  return before;
}

bool is_antichain(const std::vector<std::vector<bool>>& before, const std::vector<uint32_t>& set) {
  for (uint32_t a : set) {
    for (uint32_t b : set) {
      if (before[a][b]) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("report: the width is the largest antichain, and names one") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 400; ++round) {
    const size_t n = 1 + random() % 11;
    const Dag dag = random_dag(random, n);
    const auto before = closure_of(dag);
    size_t best = 0;
    for (uint32_t mask = 1; mask < (1u << n); ++mask) {
      std::vector<uint32_t> set;
      for (uint32_t i = 0; i < n; ++i) {
        if (mask >> i & 1) set.push_back(i);
      }
      if (set.size() > best && is_antichain(before, set)) best = set.size();
    }
    const Width w = width_of(dag);
    CAPTURE(round);
    CHECK(w.exact);
    CHECK(w.nodes == best);
    CHECK(w.at.size() == best);
    CHECK(is_antichain(before, w.at));
    const Width bound = width_of(dag, 0);
    CHECK(!bound.exact);
    CHECK(bound.nodes <= best);
    CHECK(bound.nodes == bound.at.size());
    CHECK(is_antichain(before, bound.at));
  }
  CHECK(width_of({}).nodes == 0);
  CHECK(width_of(Dag(1500)).nodes == 1500);
}

TEST_CASE("report: the critical path is the heaviest of all paths") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random() % 9;
    const Dag dag = random_dag(random, n);
    Body body;
    for (size_t i = 0; i < n; ++i) {
      body.nodes.emplace_back();
      body.nodes.back().estimate_us = 0.25 * static_cast<double>(1 + random() % 40);
    }
    double best = 0;
    const auto walk = [&](const auto& self, uint32_t at, double us) -> void {
      us += body.nodes[at].estimate_us;
      best = std::max(best, us);
      for (uint32_t from : dag[at]) self(self, from, us);
    };
    for (uint32_t i = 0; i < n; ++i) walk(walk, i, 0);
    const Path path = critical_path(dag, body);
    CHECK(path.us == best);
    double sum = 0;
    for (size_t i = 0; i < path.nodes.size(); ++i) {
      sum += body.nodes[path.nodes[i]].estimate_us;
      if (i == 0) continue;
      const auto& sources = dag[path.nodes[i]];
      CHECK(std::find(sources.begin(), sources.end(), path.nodes[i - 1]) != sources.end());
    }
    CHECK(sum == best);
  }
}

TEST_CASE("report: real plans keep their streams' promise and their edges hold the data's order") {
  for (const Plan& plan : plans()) {
    CAPTURE(plan.name);
    const Report r = make_report(plan.program);
    REQUIRE(r.fragments.size() == 1);
    const Fragment& f = r.fragments[0];
    CHECK(f.width_after.nodes <= plan.program.bodies[0].lanes);
    CHECK(f.width_after.nodes <= f.width_before.nodes);
    CHECK(f.critical.us <= f.kernel_us + 1e-9);
    CHECK(f.edges.all() == plan.program.bodies[0].edges.size());
    CHECK(f.edges.all() >= f.kernels - f.streams.size());
    const auto reach = reach_of(plan.program.bodies[0]);
    const Dag data = data_dag(plan.program, plan.program.bodies[0]);
    for (uint32_t to = 0; to < data.size(); ++to) {
      for (uint32_t from : data[to]) CHECK(reach[to][from]);
    }
    // Without sharing, one stream: what is live at once is the lower bound.
    if (plan.program.bodies[0].lanes == 1) CHECK(f.live_bytes <= plan.program.arena_bytes);
  }
}

TEST_CASE("report: parts, breaks, streams and memory as text") {
  const Program p = made_of_parts();
  CHECK(
      to_text(make_report(p), p, sections_from(kUsualSections)) ==
      R"(parts   30 ops -> 7 kernels (7 distinct)   2 graphs, 1 stretch without a graph, 1 host call   4 streams allowed, 2 used   target sm_90
  part  run  ops  kernels  streams   live    predicted  from
  g0    0    5    4        2         3072 B  5.0 us     embed, q, q2, k, o
  c0    1    1    host               2048 B             pick   m.toml:40:3
  s1    1    1    1        no graph  3072 B  1.2 us     keep
  g2    2    2    2        1         3072 B  3.5 us     block0 .. block1 (2x)
about 30.9 us a launch: 9.8 us in parts + 4.0 us to launch 2 graphs + 4.5 us to launch 1 stretch + 6.4 us for the host to wait once + 6.2 us to copy for it; the host functions come on top
no fewer: these 3 ops force 2 graphs in 3 runs: embed (gather) -> pick (host) -> block0/u (exp)
g0: critical path 3 kernels, 4.0 us of the kernels' 5.0; width 2 (q2, k), 2 on its streams
g2: critical path 2 kernels, 3.0 us of the kernels' 3.0; width 1
breaks: 2 ops outside graphs
  BREAK   g0 | g2  pick (host): the host function 'sample' returns tensors   m.toml:40:3
          fix: write it as ops, or call it after the last graph
  BREAK   g0 | g2  keep (cast): it is marked graph = false   m.toml:15:3
          fix: remove the mark
streams
  g0  2 streams  5.0 us predicted, 6.2 us on one: streams save 1.2 us (20 %)
      stream 0   3 kernels, 4.0 us busy, 80 % of the time
      stream 1   1 kernel, 1.0 us busy, 20 % of the time
  g2  1 stream   3.5 us predicted; every kernel needs the one before, so more streams would change nothing
memory
  arena 3072 B, lower bound 3000 B (+2.4 %), without sharing 7168 B
  params 1024 B, constants 0 B, inputs 1024 B, outputs 1024 B, scalars 0 B
  7 temporaries
    1024 B  @0     f32[256]  a  g0.n0  m.toml:11:3  shares bytes with d, f
    1024 B  @1024  f32[256]  b  g0.n1  m.toml:12:3  shares bytes with e
    1024 B  @2048  f32[256]  c  g0.n2  m.toml:13:3  shares bytes with h
    1024 B  @0     f32[256]  d  g0.n3  m.toml:14:3  shares bytes with a, f
    1024 B  @1024  f32[256]  e  c0     m.toml:40:3  shares bytes with b
    1024 B  @0     f32[256]  f  g2.n0  m.toml:16:3  shares bytes with a, d
    1024 B  @2048  f32[256]  h  s1.n0  m.toml:15:3  shares bytes with c
)");
  CHECK(to_text(make_report(p), p, sections_from("edges,kernels")) ==
        R"(edges
  g0: 4 edges: 4 raw, 0 war, 0 waw, 0 lane; 1 programmatic; values and streams ask for 4
    n0 -> n1  raw  full          a
    n0 -> n2  raw  programmatic  a
    n1 -> n3  raw  full          b
    n2 -> n3  raw  full          c
  s1: 0 edges: 0 raw, 0 war, 0 waw, 0 lane; 0 programmatic; values and streams ask for 0
  g2: 1 edge: 1 raw, 0 war, 0 waw, 0 lane; 0 programmatic; values and streams ask for 1
    n0 -> n1  raw  full  f
kernels
  row_0  row  1 use  grid 1  block 1    100 flop  2048 B  1.00 us  embed (gather)
  row_1  row  1 use  grid 1  block 1    100 flop  2048 B  2.00 us  q (dot), q2 (add)
  row_2  row  1 use  grid 1  block 1    100 flop  2048 B  1.00 us  k (dot)
  row_3  row  1 use  grid 1  block 1    100 flop  2048 B  1.00 us  o (add)
  row_4  row  1 use  grid 1  block 1    100 flop  2048 B  1.25 us  keep (cast)
  row_5  row  1 use  grid 1  block 1    100 flop  2048 B  1.50 us  block0/u (exp)
  row_6  row  1 use  grid 1  block 1    100 flop  2048 B  1.50 us  block1/u (exp)
)");
}

TEST_CASE(
    "report: breaks in the copies of a block are one, long lists are cut, scalars are avoided") {
  MadePlan m("many");
  m.p.repeats = {{"block", 40}};
  for (int i = 0; i < 40; ++i) {
    m.p.breaks.push_back({fmt::format("block{}/p (host)", i), "", 1, "why", "fix it"});
    m.p.breaks.push_back({fmt::format("z{} (host)", i), "", 1, "why", ""});
  }
  m.p.scalars.push_back({"pos", 0, 1, 0});
  const Report r = make_report(m.p);
  REQUIRE(r.breaks.size() == 80);
  CHECK(r.breaks[0].op == "block0/p (host)");
  CHECK(r.breaks[0].folded == "block*/p (host)");
  const std::string text = to_text(r, m.p, sections_from("breaks"));
  CHECK(text.find("breaks: 80 ops outside graphs, 1 avoided\n"
                  "  BREAK   block*/p (host) (40x): why\n          fix: fix it\n") == 0);
  CHECK(text.find("  and 17 more breaks; --format=json has all\n") != text.npos);
  CHECK(text.find("  AVOIDED pos  a runtime scalar") != text.npos);
  CHECK(Json::parse(to_json(r, m.p, sections_from("breaks")))["breaks"]["breaks"].size() == 80);
}

TEST_CASE("report: only breaks that say the same are one line") {
  Program p = made_of_parts();  // graphs in runs 0 and 2
  p.repeats = {{"b", 6}};
  p.breaks.clear();
  const auto add = [&](int copy, uint32_t run, const char* fix, const char* place = "m.toml:1:1") {
    p.breaks.push_back({fmt::format("b{}/h (host)", copy), place, run, "why", fix});
  };
  add(0, 1, "one");
  add(1, 1, "one");
  add(2, 1, "two");
  add(3, 3, "one");
  add(4, 1, "one", "m.toml:2:1");
  add(5, 1, "one");
  const Report r = make_report(p);
  CHECK(to_text(r, p, sections_from("breaks")) ==
        "breaks: 6 ops outside graphs\n"
        "  BREAK   g0 | g2  b*/h (host) (3x): why   m.toml:1:1\n          fix: one\n"
        "  BREAK   g0 | g2  b2/h (host): why   m.toml:1:1\n          fix: two\n"
        "  BREAK   after g2  b3/h (host): why   m.toml:1:1\n          fix: one\n"
        "  BREAK   g0 | g2  b4/h (host): why   m.toml:2:1\n          fix: one\n");
  const Json json = Json::parse(to_json(r, p, sections_from("breaks")))["breaks"]["breaks"];
  REQUIRE(json.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(json[i]["op"] == p.breaks[i].op);
    CHECK(json[i]["fix"] == p.breaks[i].remedy);
  }
}

TEST_CASE("report: one stream for a memory limit is no advice that more would not be faster") {
  Program p = made_of_parts();
  for (Node& n : p.bodies[0].nodes) n.lane = 0;
  p.memory_cut = {4096, 7168, 2, 1, 8.5, 9.25};
  const std::string text = to_text(make_report(p), p, sections_from("streams"));
  CHECK(text.find("would not be faster") == text.npos);
  CHECK(text.find("no faster plan within the memory limit has more") != text.npos);
  p.memory_cut.streams_after = 2;
  CHECK(to_text(make_report(p), p, sections_from("memory"))
            .find("7168 B before, 2 streams as before, in another order, 9.2 us") != text.npos);
}

TEST_CASE("report: certificates, both and long ones") {
  MadePlan m("tie");
  m.p.graphs = 2;
  m.p.runs = 5;
  for (int i = 0; i < 20; ++i) m.p.certificate.push_back(fmt::format("op{}", i));
  m.p.second_certificate = {"h (host)", "e (exp)"};
  const std::string text = to_text(make_report(m.p), m.p, sections_from("partitions"));
  CHECK(
      text.find("no fewer: these 20 ops force 2 graphs: op0 -> op1 -> op2 -> op3 -> op4 -> op5 -> "
                "(12 more) -> op18 -> op19\n") != text.npos);
  CHECK(text.find("as long a path begins outside graphs, and both together force 5 runs: h (host) "
                  "-> e (exp)\n") != text.npos);
}

TEST_CASE("report: what a launch takes, with graphs and waits") {
  Program p = made_of_parts();
  p.script = {{Step::Kind::launch, 0}, {Step::Kind::read, 0}, {Step::Kind::launch, 1},
              {Step::Kind::wait, 0},   {Step::Kind::call, 0}, {Step::Kind::write, 0},
              {Step::Kind::launch, 2}};
  const Report r = make_report(p);
  double parts = 0;
  for (const Fragment& f : r.fragments) parts += f.predicted_us > 0 ? f.predicted_us : f.kernel_us;
  CHECK(r.launch.us() == doctest::Approx(parts + 2 * 2.0 + 4.5 + 6.4 + 6.24).epsilon(0.001));
  const std::string text = to_text(r, p, sections_from("partitions"));
  INFO(text);
  CHECK(text.find(" us to launch 2 graphs + 4.5 us to launch 1 stretch + 6.4 us for the host to "
                  "wait once + 6.2 us to copy for it; the host functions "
                  "come on top\n") != text.npos);
  const Json j = Json::parse(to_json(r, p, sections_from("partitions")))["partitions"]["launch"];
  CHECK(j["us"] == r.launch.us());
  CHECK(j["waits"] == 1);
}

TEST_CASE("report: one op, one kernel, no graph, and why there are no more streams") {
  MadePlan m("one");
  m.p.options = "streams=8";
  m.p.certificate = {"a (exp)"};
  const uint32_t x = m.tensor("x", Segment::input, 8);
  const uint32_t a = m.tensor("a", Segment::output, 8), b = m.tensor("b", Segment::output, 8);
  const uint32_t c = m.tensor("c", Segment::output, 8);
  m.body(0);
  m.node(0, {"a"}, {x}, {a});
  m.p.bodies[0].predicted_us = m.p.bodies[0].chain_us = 1;
  const auto says = [&](const char* part) {
    const std::string text = to_text(make_report(m.p), m.p, sections_from("partitions,streams"));
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  says("no fewer: this op forces 1 graph in 1 run: a (exp)\n");
  says("1.0 us predicted; it is one kernel\n");
  m.node(0, {"b"}, {x}, {b});
  m.node(0, {"c"}, {x}, {c});
  m.edge(0, 1, EdgeReason::lane);
  m.edge(1, 2, EdgeReason::lane);
  says("width 3 (a, b, c), 1 on its streams: more would save too little to pay\n");
  m.p.bodies[0].lanes = 2;
  m.p.bodies[0].nodes[1].lane = 1;
  m.p.bodies[0].edges.clear();
  m.edge(0, 2, EdgeReason::lane);
  says("width 3 (a, b, c), 2 on its streams: one more would end no earlier\n");
  m.p.options = "streams=2";
  says("2 on its streams: no more are allowed\n");
  m.p.bodies[0].stream = true;
  says("streams: none, because there is no graph\n");
}

TEST_CASE("report: above the limit of the exact width both widths are bounds") {
  MadePlan m("wide");
  const uint32_t x = m.tensor("x", Segment::input, 1), y = m.tensor("y", Segment::output, 1);
  m.body(0, 2);
  for (uint32_t n = 0; n <= kExactWidth; ++n) m.node(n % 2, {"n"}, {x}, {});
  m.node(0, {"y"}, {x}, {y});
  const std::string text = to_text(make_report(m.p), m.p, sections_from("partitions"));
  CHECK(text.find("width at least 2002 (n, y, ..), at most 2 on its streams\n") != text.npos);
}

TEST_CASE("report: beside what others would cut") {
  const Program p = made_of_parts();
  Report r = make_report(p);
  CHECK(!Json::parse(to_json(r, p, sections_from("partitions")))["partitions"].contains("compare"));
  r.comparison = Comparison{{7, 12}, {3, 5}, true};
  std::string text = to_text(r, p, sections_from("partitions"));
  CHECK(text.find("compare\n"
                  "                                        graphs  runs\n"
                  "  this plan                             2       3\n"
                  "  the model's order, as vLLM cuts       7       12\n"
                  "  host ops first, as Inductor reorders  3       5\n") != text.npos);
  r.comparison->reordered = false;
  text = to_text(r, p, sections_from("partitions"));
  CHECK(text.find("takes too much memory and is not used\n") != text.npos);
  const Json j = Json::parse(to_json(r, p, sections_from("partitions")))["partitions"]["compare"];
  CHECK(j == Json{{"in_order", {{"graphs", 7}, {"runs", 12}}},
                  {"host_first", {{"graphs", 3}, {"runs", 5}, {"reordered", false}}}});
}

TEST_CASE("report: streams pay, cost, or would change nothing") {
  MadePlan m("s");
  m.p.options = "streams=8";
  const uint32_t x = m.tensor("x", Segment::input, 8);
  const uint32_t a = m.tensor("a", Segment::output, 8), b = m.tensor("b", Segment::output, 8);
  m.body(0);
  m.node(0, {"a"}, {x}, {a});
  m.node(0, {"b"}, {x}, {b});
  const auto text = [&] { return to_text(make_report(m.p), m.p, sections_from("streams")); };
  CHECK(text() == "streams\n  g0  1 stream  2.0 us in kernels, one after another; not predicted\n");
  m.p.bodies[0].predicted_us = m.p.bodies[0].chain_us = 2.5;
  CHECK(text() == "streams\n  g0  1 stream  2.5 us predicted; more would save too little to pay\n");
  m.p.options = "streams=1";
  CHECK(text() == "streams\n  g0  1 stream  2.5 us predicted; one stream is allowed\n");
  m.p.bodies[0].lanes = 2;
  m.p.bodies[0].nodes[1].lane = 1;
  m.p.bodies[0].predicted_us = 3;
  CHECK(text().find("3.0 us predicted, 2.5 us on one: streams cost 0.5 us (20 %)") !=
        std::string::npos);
}

TEST_CASE("report: JSON has the sections asked for, and every part") {
  const Program p = made_of_parts();
  const Report r = make_report(p);
  const Json all = Json::parse(to_json(r, p, sections_from("all")));
  std::vector<std::string> keys;
  for (const auto& [key, value] : all.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"schema", "minor", "name", "target", "options", "dims",
                                         "source_ops", "launches", "grouped_launches",
                                         "distinct_kernels", "partitions", "breaks", "streams",
                                         "memory", "edges", "kernels"});
  CHECK(all["schema"] == "braid.report/1");
  const Json& parts = all["partitions"]["parts"];
  REQUIRE(parts.size() == 4);
  CHECK(parts[0]["width"] == Json{{"nodes", 2}, {"exact", true}, {"at", {"g0.n1", "g0.n2"}}});
  CHECK(parts[0]["critical_path"]["nodes"] == Json{"g0.n0", "g0.n1", "g0.n3"});
  CHECK(parts[1]["kind"] == "call");
  CHECK(parts[1]["function"] == "sample");
  CHECK(parts[2]["kind"] == "stream");
  CHECK(all["partitions"]["certificate"].size() == 3);
  CHECK(all["breaks"]["breaks"][0]["fix"] == "write it as ops, or call it after the last graph");
  CHECK(all["streams"]["parts"][0]["one_stream_us"] == 6.25);
  CHECK(all["memory"]["largest"][0]["shares_bytes_with"] == Json{"d", "f"});
  CHECK(all["edges"][0]["edges"][1]["kind"] == "programmatic");
  const Json some = Json::parse(to_json(r, p, sections_from("memory,breaks")));
  CHECK(some.contains("memory"));
  CHECK(some.contains("breaks"));
  CHECK(!some.contains("edges"));
  CHECK(to_json(r, p, sections_from("all")) == to_json(make_report(p), p, sections_from("all")));
}

TEST_CASE("report: what a limit on memory cost") {
  Program p = made_of_parts();
  p.memory_cut = {4096, 7168, 4, 2, 8.5, 9.25};
  const Report r = make_report(p);
  CHECK(
      to_text(r, p, sections_from("memory"))
          .find("  to stay within 4096 B: 7168 B before, 2 streams instead of 4, 9.2 us predicted "
                "instead of 8.5\n") != std::string::npos);
  const Json limit = Json::parse(to_json(r, p, sections_from("memory")))["memory"]["limit"];
  CHECK(limit["bytes"] == 4096);
  CHECK(limit["us_after"] == 9.25);
}

TEST_CASE("report: the sections are named") {
  CHECK(sections_from("edges,breaks") == std::vector<Section>{Section::breaks, Section::edges});
  CHECK(sections_from("all").size() == 6);
  CHECK_THROWS_WITH_AS(sections_from("braeks"), "no section 'braeks'; did you mean 'breaks'?",
                       std::invalid_argument);
  CHECK_THROWS_AS(sections_from(""), std::invalid_argument);
  CHECK_THROWS_AS(sections_from("memory,"), std::invalid_argument);
}
