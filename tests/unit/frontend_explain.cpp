// explain NODE: every kind of question, and the reasons that keep kernels apart.
#include <doctest/doctest.h>

#include <stdexcept>

#include "frontend/compile.hpp"
#include "frontend/report/explain.hpp"
#include "made_plan.hpp"
#include "passes/pipeline.hpp"
#include "passes/why_apart.hpp"
#include "random_graph.hpp"

using namespace braid;
using namespace braid::testing;
using report::explain;

namespace {

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != text.npos;
}

/// The reason between the groups of the ops with these names.
std::string reason(const Graph& g, std::string_view maker, std::string_view user,
                   const Options& o = {}, std::string_view after = "fuse") {
  const Compilation c = run_passes(g.ir(), o, after);
  uint32_t from = UINT32_MAX, to = UINT32_MAX;
  ir::ValueId value;
  for (uint32_t i = 0; i < c.graph.ops().size(); ++i) {
    const std::string_view name = c.graph.name_of(ir::OpId{i});
    const uint32_t group = c.fusion.group_of[i];
    if (group == UINT32_MAX) continue;
    if (name == maker) {
      from = group;
      value = c.graph.ops()[i].result;
    }
    if (name == user) to = group;
  }
  REQUIRE(from != UINT32_MAX);
  REQUIRE(to != UINT32_MAX);
  return why_apart(c.graph, c.homes, c.fusion, from, to, value, o);
}

}  // namespace

TEST_CASE("explain: a node says its part, stream, kernel, memory and edges") {
  const Program p = made_of_parts();
  CHECK(explain(p, "g0.n3", [](report::Ref, report::Ref, uint32_t) { return "a reason"; }) ==
        R"(g0.n3  row_3   m.toml:14:3
  computes 1 op: o (add)
part
  graph g0, run 0 of 3
  it can be in no other run
  not later: o is needed by pick (c0), which stands outside graphs, run 1
stream
  stream 0, number 3 of 3 there; predicted from 4.00 to 5.00 us
  follows n1 (q2), whose result it reads
  waits for n1, n2; n1 ends last, at 3.50 us
kernel
  row, grid 1x1x1, block 1x1x1; 100 flop, 2048 B, 1.00 us estimated
  next to it and why they are kernels of their own
    g0.n1  makes b      a reason
    g0.n2  makes c      a reason
    c0     reads its d  a call of the host is no kernel
    s1.n0  reads its d  it is in another part
memory
  reads   b  f32[256]  temp @1024, 1024 B  from g0.n1
  reads   c  f32[256]  temp @2048, 1024 B  from g0.n2
  writes  d  f32[256]  temp @0, 1024 B     held a until g0.n2; will hold f from g2.n0
edges
  from  n1  q2  raw  full  b  (this reads what it writes)
  from  n2  k   raw  full  c  (this reads what it writes)
)");
}

TEST_CASE("explain: what forces a run, from both sides, with its window") {
  Program p = made_of_parts();
  std::string text = explain(p, "block1/u");
  CHECK(has(text,
            "not earlier: block1/u needs f (g2.n0) needs e (c0), which stands outside "
            "graphs, run 1\n"));
  CHECK(!has(text, "not later"));
  p.bodies[0].nodes[1].latest = 2;
  p.bodies[0].nodes[1].level = 2;
  CHECK(has(explain(p, "q"),
            "it could be in any of the runs 0 to 2; later than it must, so that less stays live "
            "between graphs"));
  text = explain(p, "pick");
  CHECK(has(text, "c0  call of 'sample'   m.toml:40:3\n  calls 1 op: pick (host)\n"));
  CHECK(has(text,
            "  the host runs it, in run 1 of 3\n"
            "  outside graphs: the host function 'sample' returns tensors\n"
            "  fix: write it as ops, or call it after the last graph\n"));
  CHECK(has(text, "not earlier: pick needs d (g0.n3), which is in g0, run 0\n"));
  CHECK(has(text, "not later: pick is needed by block0/u (g2.n0), which is in g2, run 2\n"));
  text = explain(p, "keep");
  CHECK(has(
      text,
      "kernels without a graph, s1, run 1 of 3\n  outside graphs: it is marked graph = false\n"));
  CHECK(has(text, "a .braid file cannot"));
}

TEST_CASE("explain: streams that were free, and in place") {
  MadePlan m("s");
  const uint32_t x = m.tensor("x", Segment::input, 64);
  const uint32_t a = m.tensor("a", Segment::temp, 64, 0), b = m.tensor("b", Segment::temp, 64, 0);
  const uint32_t y = m.tensor("y", Segment::output, 64);
  m.body(0);
  m.node(0, {"a"}, {x}, {a});
  m.node(0, {"b"}, {a}, {b});
  m.node(0, {"y"}, {x}, {y});
  m.edge(0, 1, EdgeReason::raw, a);
  m.edge(1, 2, EdgeReason::lane);
  CHECK(has(explain(m.p, "n1"), "in place over a\n"));
  CHECK(has(explain(m.p, "n0"), "will hold b from g0.n1\n"));
  const std::string text = explain(m.p, "y");
  CHECK(
      has(text, "follows n1 (b), whose result it does not need: that was the stream to be free\n"));
  CHECK(has(text, "(keeps the stream in order)"));
  CHECK(has(text, "everything is in this one graph"));
  CHECK(has(text, "bytes of its own"));
}

TEST_CASE("explain: scopes, kernels and buffers") {
  MadePlan m("s");
  const uint32_t x = m.tensor("x", Segment::input, 64), y = m.tensor("y", Segment::output, 64);
  const uint32_t a = m.tensor("mid (exp)", Segment::temp, 64);
  m.body(0);
  m.node(0, {"mlp/a (exp)"}, {x}, {a});
  m.node(0, {"mlp/b (exp)"}, {a}, {y});
  CHECK(explain(m.p, "mlp") ==
        "'mlp': ops in 2 kernels\n"
        "  g0.n0  stream 0  row_0  1.00 us  m.toml:11:3  mlp/a (exp)\n"
        "  g0.n1  stream 0  row_1  1.00 us  m.toml:12:3  mlp/b (exp)\n"
        "ask for one of them, as in 'braid explain g0.n0 MODEL'\n");
  CHECK(has(explain(m.p, "row_1"), "row_1: a row kernel, 1 node\n"));
  CHECK(explain(m.p, "mid") ==
        "mid (exp)  temp f32[64], 256 B, at 0 of the arena\n"
        "  written by g0.n0 (mlp/a)\n"
        "  read by g0.n1 (mlp/b)\n"
        "  needed from g0.n0 to g0.n1\n"
        "  shares bytes with nobody\n");
  CHECK(has(explain(m.p, "x"), "no kernel writes it: its values come from outside\n"));
  const Program parts = made_of_parts();
  CHECK(has(explain(parts, "a"), "shares bytes with d (g0.n3 to s1.n0), f (g2.n0 to g2.n1)\n"));
}

TEST_CASE("explain: parts, and ops of the same name") {
  Program p = made_of_parts();
  CHECK(explain(p, "g2") == R"(g2  a graph of 2 kernels, run 2 of 3
  computes 2 ops, from block0 .. block1 (2x)
  at most 3072 B of the arena are live
why it is a part of its own
  needs e of c0 (pick), which stands outside graphs
script
  before it: s1, a stretch without a graph of 1 kernel, run 1
  after it: nothing
streams
  1 stream; 3.5 us predicted; every kernel needs the one before, so more streams would change nothing
)");
  CHECK(explain(p, "s1") == R"(s1  a stretch without a graph of 1 kernel, run 1 of 3
  computes 1 op, from keep
  at most 3072 B of the arena are live
why it is a part of its own
  keep (cast): it is marked graph = false; fix: remove the mark
  needs d of g0.n3 (o), which is in a graph
  makes h for g2.n0 (block0/u), which is in a graph
script
  before it: c0, a call of the host, run 1
  after it: g2, a graph of 2 kernels, run 2
streams
  one: the host launches its kernels one after another
)");
  CHECK(has(explain(p, "g0"), "makes d for c0 (pick), which stands outside graphs\n"));
  const std::string call = explain(p, "c0");
  CHECK(has(call, "c0  call of 'sample'   m.toml:40:3\n"));
  CHECK(has(call, "  before it: g0, a graph of 4 kernels, run 0\n"));
  for (Node& n : p.bodies[2].nodes) {
    for (std::string& op : n.ops) {
      if (op == "block1/u (exp)") op = "s1 (exp)";
    }
  }
  const std::string both = explain(p, "s1");
  CHECK(both.rfind("'s1' is a part of the plan, and an op; the part:\ns1  a stretch", 0) == 0);
  CHECK(has(both, "the op:\ng2.n1  row_6"));
}

TEST_CASE("explain: kernels launched one by one wait for the host") {
  MadePlan m("s");
  const uint32_t x = m.tensor("x", Segment::input, 64), y = m.tensor("y", Segment::output, 64);
  const uint32_t a = m.tensor("a", Segment::temp, 64);
  m.body(0);
  m.p.bodies[0].stream = true;
  m.p.bodies[0].predicted_us = 5;
  m.node(0, {"a (exp)"}, {x}, {a});
  m.node(0, {"b (exp)"}, {a}, {y});
  m.edge(0, 1, EdgeReason::raw, a);
  m.p.bodies[0].nodes[1].start_us = 4;
  CHECK(has(explain(m.p, "n1"),
            "n0 ends last, at 1.00 us; the host takes longer to launch this one"));
}

TEST_CASE("explain: a name of calls, or of calls and kernels, counts both") {
  Graph g("calls");
  Tensor h = g.input("x", {f32, {4}});
  const auto calls = [&](const char* scope, bool kernel) {
    const Scope s = g.scope(scope);
    if (kernel) h = exp(h).named("e");
    for (int i = 0; i < 2; ++i) g.host("see", {h});
  };
  calls("a", false);
  calls("b", true);
  g.output("y", h);
  Options o;
  o.host = ir::HostWay::script;
  const Program p = compile(g, o);
  CHECK(has(explain(p, "a"), "'a': ops in 2 host calls\n"));
  CHECK(has(explain(p, "b"), "'b': ops in 1 kernel and 2 host calls\n"));
}

TEST_CASE("explain: what the plan lacks, with suggestions") {
  const Program p = made_of_parts();
  CHECK_THROWS_WITH_AS(explain(p, "n0"), "there are 3 nodes 'n0': 'g0.n0', 's1.n0', 'g2.n0'",
                       std::invalid_argument);
  CHECK(has(explain(p, "n3"), "g0.n3"));  // only one graph has so many
  CHECK_THROWS_WITH_AS(
      explain(p, "embd"),
      "the plan has no part, node, region, op, kernel or buffer 'embd'; did you mean "
      "'embed'? what a block gives goes by the op that makes it, as 'block1/u' does",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      explain(p, "g3"),
      "the plan has no part, node, region, op, kernel or buffer 'g3'; did you mean 'g0' or "
      "'g2'? what a block gives goes by the op that makes it, as 'block1/u' does",
      std::invalid_argument);
  CHECK_THROWS_AS(explain(p, "nonsense_at_all"), std::invalid_argument);
}

TEST_CASE("why apart: each of fusion's rules") {
  {
    Graph g("dots");
    const Tensor x = g.input("x", {f32, {8, 16}});
    const Tensor a = exp(x).named("a");
    const Tensor d = matmul(a, g.param("w", {f32, {16, 8}})).named("d");
    const Tensor e = matmul(d, g.param("v", {f32, {8, 4}})).named("e");
    const Tensor s = sum(e, {.axes = {1}}).named("s");
    g.output("y", s);
    CHECK(reason(g, "a", "d") ==
          "'d' (dot) reads its operands from memory, each element many times");
    CHECK(has(reason(g, "e", "s"), "a dot takes only ops element by element on its result"));
    Options off;
    off.fuse = false;
    CHECK(reason(g, "a", "d", off) == "fusion is off");
  }
  {
    Graph g("index");
    const Tensor x = g.input("x", {f32, {8, 8}});
    const Tensor a = exp(x).named("a");
    g.output("y", tanh(transpose(a, {1, 0})).named("b"));
    CHECK(reason(g, "a", "b") ==
          "'b' (tanh) reads it at another index than its own, through transpose");
  }
  {
    Graph g("rows");
    const Tensor x = g.input("x", {f32, {8, 16}});
    const Tensor m = sum(exp(x), {.axes = {1}}).named("m");
    const Tensor k = (x * reshape(m, {8, 1})).named("k");
    g.output("y", sum(k, {.axes = {0}}).named("n"));
    CHECK(has(reason(g, "k", "n"), "reduces other axes than its operand's kernel"));
  }
  {
    Graph g("gather");
    const Tensor t = exp(g.input("x", {f32, {8, 16}})).named("t");
    g.output("y", gather(t, g.input("i", {i32, {3}})).named("p"));
    CHECK(has(reason(g, "t", "p"), "reads from memory: the index decides which element"));
  }
  {
    Graph g("sizes");
    const Tensor x = g.input("x", {f32, {8, 16}});
    const Tensor a = exp(x).named("a");
    g.output("y", tanh(slice(a, {.axis = 0, .start = 0, .stop = 4})).named("b"));
    CHECK(reason(g, "a", "b") == "'b' (tanh) works on 64 elements and its operand's kernel on 128");
  }
}

TEST_CASE("why apart: what the chain pass found, or that it is off") {
  Graph g;
  const Tensor x = g.input("x", {f32, {1024, 1024}});
  const Tensor w = g.input("w", {f32, {1024, 1024}}), v = g.input("v", {f32, {1024, 1024}});
  const Tensor a = matmul(x, w).named("a");
  const Tensor b = matmul(a, v).named("b");
  const Tensor e = exp(g.input("z", {f32, {6, 30}})).named("e");
  const Tensor c = concat({e, g.input("f", {f32, {6, 5}})}, 1).named("c");
  g.output("y", b);
  g.output("c", c);
  g.output("e", e);
  Options ours;
  ours.dots = Dots::braid;
  const std::string large = reason(g, "a", "b", ours, "chain");
  CAPTURE(large);
  CHECK((has(large, "one kernel of both is estimated at") ||
         has(large, "one kernel cannot do both")));
  CHECK(has(reason(g, "e", "c", {}, "chain"), "and nobody else reads"));
  Options off;
  off.chain = false;
  CHECK(reason(g, "a", "b", off, "chain") ==
        "products are joined by the pass chain alone, which is off");
  CHECK(reason(g, "e", "c", off, "chain") ==
        "'c' (concat) computes no operands, since the pass chain is off");
}

TEST_CASE("why apart: there is a reason for every two kernels that hand on a value") {
  size_t pairs = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    test::RandomGraphOptions options;
    options.ops = 40;
    if (seed % 2 == 0) options.compact = 8;
    const Compilation c = run_passes(test::random_graph(seed, options), Options{}, "chain");
    const std::vector<ir::ValueId> source = memory_sources(c.graph);
    for (uint32_t i = 0; i < c.graph.ops().size(); ++i) {
      const uint32_t to = c.fusion.group_of[i];
      for (ir::ValueId v : c.graph.ops()[i].operands) {
        const ir::ValueId value = source[v.index];
        const uint32_t from = c.fusion.group_of[c.graph.value(value).def.index];
        if (to == UINT32_MAX || from == UINT32_MAX) continue;
        const std::string text = why_apart(c.graph, c.homes, c.fusion, from, to, value, {});
        CAPTURE(seed);
        CHECK(text.empty() == (from == to));
        pairs += from != to;
      }
    }
  }
  CHECK(pairs > 300);
}
