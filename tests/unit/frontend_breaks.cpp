// What breaks say: their remedies, what forces the graphs, and what settings refuse.
#include <doctest/doctest.h>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"

namespace braid {
namespace {

const std::vector<TypeArg> kOne = {{f32, {4, 8}}};

std::string text_of(const Graph& g, const Options& o) {
  try {
    compile(ir::Graph(g.ir()), o);
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().at(0);
    std::string text = d.code + " " + d.message;
    for (const std::string& line : d.details) text += "\n" + line;
    return text;
  }
  return "none";
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

const Break& break_of(const Program& p, std::string_view op) {
  for (const Break& b : p.breaks) {
    if (has(b.op, op)) return b;
  }
  FAIL("no break " << op);
  return p.breaks.front();
}

/// Host functions are called between graphs.
Options breaking() {
  Options o;
  o.host = ir::HostWay::script;
  return o;
}

/// a = exp(x), print a, b = identity(x), w = a + b: the order of the calls alone forces two graphs.
void build_ordered(Graph& g) {
  const Tensor x = g.input("x", {f32, {4, 8}});
  const Tensor a = exp(x).named("a");
  g.host("print", {a});
  const Tensor b = g.host("identity", {x}, kOne)[0].named("b");
  g.output("w", (a + b).named("w"));
}

}  // namespace

TEST_CASE("breaks: what call order forces is not said to need the op before") {
  Graph g("ordered");
  build_ordered(g);
  const Program p = compile(g, breaking());
  CHECK(p.graphs == 2);
  REQUIRE(p.certificate.size() == 3);
  CHECK(p.certificate[0] == "a (exp)");
  CHECK(has(p.certificate[1], "b (host), which runs after "));
  CHECK(has(p.certificate[1], "host"));
  CHECK(p.certificate[2] == "w (add)");
  Options o = breaking();
  o.require_single_graph = true;
  const std::string text = text_of(g, o);
  CHECK(has(text, "each runs after the one before"));
  CHECK(has(text, "b (host), which runs after"));

  // Not where data alone leads from one to the next.
  Graph chain("chain");
  const Tensor x = chain.input("x", {f32, {4, 8}});
  const Tensor a = exp(x);
  chain.host("print", {a});
  chain.output("w", chain.host("identity", {a}, kOne)[0] * 2.0);
  for (const std::string& op : compile(chain, breaking()).certificate) CHECK(!has(op, "after"));

  // On the way: c is data of the call, which runs after print.
  Graph way("way");
  const Tensor y = way.input("y", {f32, {4, 8}});
  const Tensor first = exp(y).named("first");
  way.host("print", {first});
  const Tensor one = way.host("identity", {y}, kOne)[0].named("one");
  const Tensor two = way.host("identity", {one}, kOne, {.pure = true})[0].named("two");
  way.output("w", (first + two).named("w"));
  const Program q = compile(way, breaking());
  REQUIRE(q.certificate.size() == 3);
  CHECK(has(q.certificate[1] + q.certificate[2], "runs after"));
}

TEST_CASE("breaks: pure is advised only for calls whose results somebody uses") {
  Graph g("ordered");
  build_ordered(g);
  const Program p = compile(g, breaking());
  CHECK(has(break_of(p, "b (host)").remedy, "mark it pure"));
  for (const Break& b : p.breaks) {
    if (b.op != "b (host)") CHECK(!has(b.remedy, "pure"));
  }
  // The call's results are not used: pure would delete it.
  Graph unused("unused");
  const Tensor x = unused.input("x", {f32, {4, 8}});
  const Tensor a = exp(x);
  unused.host("print", {a});
  unused.host("identity", {x}, kOne);
  const Tensor b = unused.host("identity", {x}, kOne)[0].named("b");
  unused.output("w", a + b);
  int pure = 0;
  for (const Break& each : compile(unused, breaking()).breaks) pure += has(each.remedy, "pure");
  CHECK(pure == 1);
}

TEST_CASE("breaks: a remedy says how many graphs it alone leaves") {
  // b2 is marked beside a call that forces the two graphs anyway.
  Graph g("both");
  const Tensor x = g.input("x", {f32, {4, 8}});
  const Tensor a = exp(x);
  Tensor b2 = a;
  {
    const Outside outside = g.outside_graphs();
    b2 = tanh(a).named("b2");
  }
  const Tensor ch = g.host("identity", {a}, kOne)[0].named("ch");
  g.output("y", matmul(transpose(b2, {1, 0}), ch));
  const Program both = compile(g, breaking());
  CHECK(both.graphs == 2);
  CHECK(has(break_of(both, "b2").remedy, "; that alone leaves all 2 graphs"));

  Graph one("one");
  const Tensor in = one.input("x", {f32, {4, 8}});
  const Tensor got = one.host("identity", {exp(in)}, kOne)[0];
  one.output("y", got * 2.0);
  CHECK(has(compile(one, breaking()).breaks.at(0).remedy, "; that leaves 1 of 2 graphs"));

  // A call that only keeps two others in order: without it they are still in order.
  Graph order("order");
  const Tensor z = order.input("x", {f32, {4, 8}});
  const Tensor e = exp(z);
  order.host("print", {e});
  order.host("log", {z});
  const Tensor got2 = order.host("identity", {z}, kOne)[0];
  order.output("y", e + got2);
  const Program p = compile(order, breaking());
  CHECK(p.graphs == 2);
  for (const Break& b : p.breaks) {
    const bool log = has(b.reason, "'log'");
    CHECK(has(b.remedy, "; that alone leaves all 2 graphs") == log);
  }
}

TEST_CASE("breaks: one graph is required, and nothing outside it") {
  Options o = breaking();
  o.require_single_graph = true;
  Graph after("after");
  const Tensor x = after.input("x", {f32, {4, 8}});
  const Tensor a = exp(x);
  after.host("print", {a});
  after.output("y", a);
  CHECK(compile(ir::Graph(after.ir()), breaking()).graphs == 1);
  CHECK(has(text_of(after, o), "E0708 'after' must be one graph and nothing else: '"));
  // The graph itself can call it.
  Options inside = o;
  inside.host = ir::HostWay::automatic;
  CHECK(text_of(after, inside) == "none");

  Graph none("none");
  const Tensor z = none.input("x", {f32, {4, 8}});
  {
    const Outside outside = none.outside_graphs();
    none.output("y", exp(z).named("e"));
  }
  CHECK(compile(ir::Graph(none.ir()), {}).graphs == 0);
  CHECK(has(text_of(none, o), "E0708 'none' has no graph, and one is required: 'e (exp)' stands"));

  // The op that is named stands between graphs, not before all of them.
  Graph two("two");
  Tensor h = two.input("x", {f32, {4, 8}});
  for (int i = 0; i < 3; ++i) {
    h = exp(two.host("identity", {h}, kOne)[0].named("h" + std::to_string(i)));
  }
  two.output("y", h);
  CHECK(
      has(text_of(two, o), "E0708 'two' needs 3 graphs, and one is required: 'h1 (host)' stands"));

  Graph fine("fine");
  fine.output("y", exp(fine.input("x", {f32, {4, 8}})));
  CHECK(text_of(fine, o) == "none");
}

TEST_CASE("TOML: a mark that nothing can carry is warned of, once") {
  const TomlModel m = read_toml(R"(
format = 1
name = "m"
[inputs]
x = { dtype = "f32", shape = [4, 4] }
[block.v]
in = ["x"]
out = ["y"]
nodes = [ { op = "transpose", perm = [1, 0], in = ["x"], out = "y", graph = false } ]
[block.w]
in = ["x"]
out = ["y"]
nodes = [ { op = "transpose", perm = [1, 0], in = ["x"], out = "t" }, { op = "exp", in = ["t"], out = "y" } ]
[graph]
nodes = [
  { block = "v", in = ["x"], out = ["a"], repeat = 3 },
  { block = "v", in = ["a"], out = ["b"], graph = false },
  { block = "w", in = ["b"], out = ["c"], graph = false },
  { op = "reshape", in = ["c"], out = "d", shape = [16], graph = false },
  { op = "relu", in = ["d"], out = "e", graph = false },
  { host = "print", in = ["e"] },
]
[outputs]
y = "e"
)",
                                "m.toml");
  std::vector<std::string> found;
  for (const Diagnostic& d : m.warnings) {
    found.push_back(d.code + " " + std::to_string(d.place.line));
    CHECK(d.severity == Severity::warning);
  }
  CHECK(found == std::vector<std::string>{"E0509 9", "E0509 17", "E0509 19"});
}

}  // namespace braid
