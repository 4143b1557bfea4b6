// diff A B, and the picture of a plan: what is folded, and what crosses between parts.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli_bench.hpp"
#include "frontend/compile.hpp"
#include "frontend/report/diff.hpp"
#include "ir/program_dot.hpp"
#include "made_plan.hpp"

using namespace braid;
using namespace braid::testing;
using Json = nlohmann::ordered_json;

namespace {

Program chain(int copies) {
  MadePlan m("chain");
  m.p.repeats = {{"b", copies}};
  uint32_t last = m.tensor("x", Segment::input, 64);
  m.body(0);
  for (int i = 0; i < copies; ++i) {
    const uint32_t a = m.tensor(fmt::format("b{}/a (exp)", i), Segment::temp, 64, 512 * (i % 2));
    const uint32_t y = m.tensor(fmt::format("b{}/y (tanh)", i), Segment::temp, 64, 1024);
    m.node(0, {fmt::format("b{}/a (exp)", i)}, {last}, {a}).kernel = 0;
    m.node(0, {fmt::format("b{}/y (tanh)", i)}, {a}, {y}).kernel = 1;
    const auto n = static_cast<uint32_t>(2 * i);
    if (i > 0) m.edge(n - 1, n, EdgeReason::raw, last);
    m.edge(n, n + 1, EdgeReason::raw, a);
    last = y;
  }
  return m.p;
}

size_t count(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("diff: equal plans, and what differs") {
  const Program a = made_of_parts();
  CHECK(!report::diff(a, a).different());
  CHECK(report::to_text(report::diff(a, a)) == "parts and parts: the plans are the same\n");

  Program b = a;
  b.options = "target=sm_90 streams=1 fuse=on";
  b.bodies[0].nodes[2].lane = 0;
  b.bodies[0].lanes = 1;
  b.bodies[0].predicted_us = 6;
  b.bodies[0].nodes[1].ops.pop_back();
  b.breaks.pop_back();
  b.arena_bytes = 2048;
  const report::Diff d = report::diff(a, b);
  CHECK(d.different());
  CHECK(report::to_text(d) ==
        R"(A parts   streams=4
B parts   streams=1
  streams    2        ->  1        -1
  arena      3072 B   ->  2048 B   -1024 B (-33.3 %)
  predicted  8.50 us  ->  9.50 us  +1.00 us (+11.8 %)
outside graphs in A alone: keep (cast)
kernels (- in A alone, + in B alone, ~ in both)
  -    row_1          q (dot), q2 (add)
  +    row_1          q (dot)
  ~    stream 1 -> 0  k (dot)
)");
  const Json j = Json::parse(report::to_json(d));
  CHECK(j["schema"] == "braid.diff/1");
  CHECK(j["different"] == true);
  CHECK(j["kernels"].size() == 3);
  CHECK(j["quantities"].size() == 22);
  CHECK(j["a"]["outside_graphs"] == Json{"keep (cast)"});
}

TEST_CASE("diff: the copies of a repeat are one row") {
  const Program a = chain(8);
  Program b = a;
  for (Node& n : b.bodies[0].nodes) n.lane = 1;
  const report::Diff d = report::diff(a, b);
  REQUIRE(d.kernels.size() == 2);
  CHECK(d.kernels[0].count == 8);
  CHECK(d.kernels[0].ops == std::vector<std::string>{"b*/a (exp)"});
}

TEST_CASE("dot: folded copies are one box, edges to the next copy do not shape the layout") {
  const Program p = chain(8);
  const std::string whole = to_dot(p, Fold::off);
  CHECK(count(whole, "fillcolor") == 16);
  CHECK(count(whole, " -> ") == 15);
  const std::string folded = to_dot(p, Fold::on);
  CHECK(count(folded, "fillcolor") == 2);
  CHECK(folded.find("label=\"n0 (8x) row_0\\nstream 0, 1.00 us\\nb*/a (exp)\"") != folded.npos);
  CHECK(folded.find("g0n0 -> g0n1 [label=\"raw b*/a (exp) (8x)\"];") != folded.npos);
  CHECK(folded.find("g0n1 -> g0n0 [label=\"raw b*/y (tanh) (7x)\", constraint=false];") !=
        folded.npos);
  CHECK(to_dot(p) == whole);
  const Program large = chain(200);
  CHECK(to_dot(large) == to_dot(large, Fold::on));
}

TEST_CASE("dot: host calls stand between graphs, with what crosses") {
  const std::string dot = to_dot(made_of_parts());
  CHECK(dot.find("label=\"graph g0\"") != dot.npos);
  CHECK(dot.find("label=\"kernels without a graph s1\"") != dot.npos);
  CHECK(dot.find("c0 [shape=hexagon") != dot.npos);
  CHECK(dot.find("g0n3 -> c0 [label=\"d\", style=dotted];") != dot.npos);
  CHECK(dot.find("c0 -> g2n0 [label=\"e\", style=dotted];") != dot.npos);
  CHECK(dot.find("g0n3 -> s1n0 [label=\"d\", style=dotted];") != dot.npos);
  CHECK(dot.find("g0n0 -> g0n2 [label=\"raw a\", style=dashed];") != dot.npos);
  CHECK(count(dot, "style=dotted") == 4);
}

TEST_CASE("inspect --show, explain NODE and diff as commands") {
  const Bench b;
  Bench::Result r = b.braid("inspect m.toml");
  expect(r, 0);
  CHECK(has(r.out, "breaks: none\nstreams\n"));
  CHECK(!has(r.out, "edges\n"));
  r = b.braid("inspect m.toml --show=memory");
  expect(r, 0);
  CHECK(r.out.rfind("memory\n  arena", 0) == 0);
  CHECK(has(b.braid("inspect m.toml --show edges,kernels").out, "kernels\n"));
  CHECK(has(b.braid("inspect m.toml --show all").out, "arguments\n"));
  CHECK(Json::parse(b.braid("inspect m.toml --format=json --show=edges").out).contains("edges"));
  expect(b.braid("inspect m.toml --show=edgse"), 2, "did you mean 'edges'?");
  expect(b.braid("inspect m.toml --show=edges --format=dot"), 2, "--show chooses");
  expect(b.braid("inspect m.toml --source --format=dot"), 2, "--source goes with");
  expect(b.braid("inspect m.toml --fold"), 2, "--format=dot");
  CHECK(b.braid("inspect m.toml --format=dot --no-fold").out ==
        b.braid("inspect m.toml --format=dot").out);

  // In the model's order the call cuts what can be one kernel before it.
  write_text(b.at("cut.bir"), R"(bir 1
graph "cut" {
  %0: f32[8] = input "x"
  %1: f32[8] = exp %0 "a"
  %2: i8[0] = host %1 "log" {function="log"}
  %3: f32[8] = tanh %1 "b"
  output "y" %3
}
)");
  r = b.braid("inspect cut.bir --compare --show=partitions,breaks");
  expect(r, 0);
  CHECK(has(r.out, "  this plan                             1       2\n"));
  CHECK(has(r.out, "  the model's order, as vLLM cuts       2       3\n"));
  CHECK(has(r.out, "  host ops first, as Inductor reorders  "));
  CHECK(
      has(r.out, "breaks: 1 op outside graphs\n  BREAK   after g0  log (host): the host function"));
  CHECK(has(b.braid("explain log cut.bir").out,
            "not earlier: log needs a (g0.n0), which is in g0, run 0\n"));
  expect(b.braid("inspect m.toml --compare --format=dot"), 2, "--compare goes with");

  r = b.braid("explain n1 m.toml");
  expect(r, 0);
  CHECK(has(r.out, "g0.n1  row_"));
  CHECK(has(r.out, "one kernel cannot do both: it reduces what its last matrix product gives"));
  CHECK(has(b.braid("explain h m.toml").out, "g0.n0  dot_"));
  CHECK(has(b.braid("explain w m.toml").out, "w  param f32[8,5]"));
  CHECK(has(b.braid("explain h m.toml --no-fuse").out, "fusion is off"));
  expect(b.braid("explain hh m.toml"), 2, "did you mean 'h'");
  expect(b.braid("explain n7 m.toml"), 2, "no part, node, region, op, kernel or buffer 'n7'");
  expect(b.braid("explain h"), 2, "'braid explain h MODEL'");

  write_text(b.at("n.toml"), text_of(b.at("m.toml")) + "z = \"x\"\n");
  r = b.braid("diff m.toml m.toml");
  expect(r, 0);
  CHECK(r.out == "m and m: the plans are the same\n");
  r = b.braid("diff m.toml n.toml");
  expect(r, 5);
  CHECK(has(r.out, "outputs"));
  CHECK(Json::parse(b.braid("diff m.toml n.toml --format=json").out)["schema"] == "braid.diff/1");
  expect(b.braid("diff m.toml"), 2, "other is required");
  expect(b.braid("diff - -"), 2, "not both");
  if (!nvrtc_is_there(b)) return;
  expect(b.braid("compile m.toml -o m.braid"), 0);
  expect(b.braid("diff m.toml m.braid"), 0);
  expect(b.braid("diff m.toml m.braid --no-fuse"), 5);
  expect(b.braid("diff m.braid m.braid --no-fuse"), 2, "compiled already");
  CHECK(has(b.braid("explain n1 m.braid").out, "a .braid file cannot"));
}
