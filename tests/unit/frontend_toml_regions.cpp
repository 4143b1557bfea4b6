// Branches, loops and messages in model files: the same IR as from the builder, names of bodies,
// warnings. Mistakes are in tests/errors.
#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

using Tensors = std::vector<Tensor>;

std::string without_names(const ir::Graph& g) {
  // Names of ops and graphs, and what hold texts of messages, are the only strings.
  return std::regex_replace(ir::print(g), std::regex(" \"[^\"]*\""), "");
}

TomlModel read(const std::string& body) {
  TomlModel m = read_toml("format = 1\nname = \"m\"\n" + body, "m.toml");
  REQUIRE(ir::verify(m.graph->ir()).empty());
  const std::string text = ir::print(m.graph->ir());
  CHECK(ir::print(ir::parse(text, "again.bir")) == text);
  return m;
}

std::vector<std::string> param_names(const ir::Graph& g) {
  std::vector<std::string> names;
  for (const ir::Op& op : g.ops()) {
    if (std::holds_alternative<ir::ParamAttr>(op.attrs)) names.emplace_back(g.strings[op.name]);
  }
  return names;
}

constexpr const char* kBlocks = R"(
[block.double]
in    = ["x", "w"]
out   = ["y"]
nodes = [ { out = "y", op = "mul", in = ["x", "w"] } ]

[block.keep]
in    = ["x"]
out   = ["x"]
nodes = []

[block.small]
in    = ["x"]
out   = ["more"]
nodes = [
  { out = "s",    op = "reduce_sum", in = ["x"] },
  { out = "more", op = "lt", in = ["s", 50] },
]

[block.turn]
in    = ["i", "x", "w"]
out   = ["next", "x"]
nodes = [
  { out = "n",    op = "cast", in = ["i"], dtype = "f32" },
  { out = "a",    op = "mul", in = ["x", "w"] },
  { out = "next", op = "add", in = ["a", "n"] },
  { print = "next", label = "now" },
]
)";

}  // namespace

TEST_CASE("toml: branches are those of the builder") {
  const TomlModel m = read(std::string(R"(
[inputs]
x = { dtype = "f32", shape = [3] }
i = { dtype = "i32", shape = [1] }
[params]
w = { dtype = "f32", shape = [3] }
[graph]
nodes = [
  { out = "s", op = "reduce_sum", in = ["x"] },
  { out = "yes", op = "gt", in = ["s", 0] },
  { out = "y", if = "yes", then = "double", else = "keep", in = ["x", "w"], lower = "node" },
  { out = "z", switch = "i", cases = ["keep", "double", "keep"], in = ["y", "w"] },
]
[outputs]
z = "z"
)") + kBlocks);
  Graph g{"m"};
  const Tensor x = g.input("x", {f32, {3}}), i = g.input("i", {i32, {1}}),
               w = g.param("w", {f32, {3}});
  const Tensor y =
      g.if_(greater(sum(x), 0), [&] { return x * w; }, [&] { return x; }, {ir::Lowering::node});
  g.output("z", g.switch_(i, {[&] { return y; }, [&] { return y * w; }, [&] { return y; }}));
  CHECK(without_names(m.graph->ir()) == without_names(g.ir()));
}

TEST_CASE("toml: loops and messages are those of the builder") {
  const TomlModel m = read(std::string(R"(
[dims]
N = { default = 3 }
[inputs]
x = { dtype = "f32", shape = [3] }
[params]
w = { dtype = "f32", shape = [3] }
[graph]
nodes = [
  { out = "a", stacked = "rows", while = "small", body = "turn", in = ["x", "w"], limit = "N", unroll = 2 },
  { out = "b", stacked = "more", loop = "2*N", body = "turn", in = ["a", "w"] },
  { out = "c", while = "small", body = "double", in = ["b", "w"], lower = "host" },
  { check = "finite", in = ["c"], label = "end" },
  { check = "range", in = ["c"], low = -1, high = 2.5 },
  { out = "t", op = "reduce_sum", in = ["c"] },
  { item = "t", label = "total" },
]
[outputs]
c = "c"
rows = "rows"
more = "more"
)") + kBlocks);
  Graph g{"m"};
  g.dim("N", 3);
  const Tensor x = g.input("x", {f32, {3}}), w = g.param("w", {f32, {3}});
  const auto turn = [&](Tensor i, const Tensors& c) {
    const Tensor n = cast(i, f32);
    const Tensor next = c[0] * w + n;
    g.print(next, "now");
    return LoopValues{{next}, {c[0]}};
  };
  const LoopValues a = g.while_({x}, [&](Tensor, const Tensors& c) { return less(sum(c[0]), 50); },
                                turn, {.limit = "N", .unroll = 2});
  const LoopValues b = g.loop("2*N", {a.carried[0]}, turn);
  const Tensor c = g.while_(
      b.carried[0], [&](Tensor v) { return less(sum(v), 50); }, [&](Tensor v) { return v * w; },
      {.lowering = ir::Lowering::host});
  g.check(c, Check::finite, "end");
  g.check_range(c, -1, 2.5);
  g.item(sum(c), "total");
  g.output("c", c);
  g.output("rows", a.stacked[0]);
  g.output("more", b.stacked[0]);
  CHECK(without_names(m.graph->ir()) == without_names(g.ir()));
}

TEST_CASE("toml: params of bodies have the scopes of their sides") {
  const TomlModel m = read(R"(
[inputs]
x = { dtype = "f32", shape = [2] }
[block.count]
in    = ["x"]
out   = ["y"]
params.n = { dtype = "f32", shape = [], init = "zeros" }
nodes = [
  { out = "more", op = "add", in = ["n", 1] },
  { assign = "n", in = ["more"], out = "now" },
  { out = "y", op = "add", in = ["x", "now"] },
]
[block.both]
in    = ["x"]
out   = ["y"]
nodes = [
  { out = "s", op = "reduce_sum", in = ["x"] },
  { out = "yes", op = "gt", in = ["s", 0] },
  { out = "y", if = "yes", then = "count", else = "count", in = ["x"] },
]
[graph]
nodes = [
  { out = "a", loop = 2, body = "both", in = ["x"], name = "turns" },
  { out = "b", block = "both", in = ["a"], repeat = 2 },
]
[outputs]
b = "b"
)");
  CHECK(param_names(m.graph->ir()) ==
        std::vector<std::string>{"turns/body/y/then/n", "turns/body/y/else/n", "b0/y/then/n",
                                 "b0/y/else/n", "b1/y/then/n", "b1/y/else/n"});
  CHECK(m.warnings.empty());
  ir::TensorMap params;
  for (const std::string& name : param_names(m.graph->ir())) {
    params[name] = {{f32, {}}, {10}, {}};
  }
  const ir::TensorMap out = ir::interpret(
      m.graph->ir(), {{"x", {{f32, Shape::of(std::vector<int64_t>{2})}, {-30, 1}, {}}}}, params);
  // -29, then else (11), then: -30 + 11 = -19; 1 + 11 = 12: -7; else (12): -7, 24: 17
  CHECK(out.at("b").f == std::vector<double>{-30 + 11 + 12 + 11 + 11, 1 + 11 + 12 + 11 + 11});
  CHECK(params.at("turns/body/y/else/n").f[0] == 12);
  CHECK(params.at("b0/y/then/n").f[0] == 11);
}

TEST_CASE("toml: an if without an else, and messages in the order of the file") {
  const TomlModel m = read(R"(
[inputs]
x = { dtype = "f32", shape = [2] }
yes = { dtype = "b1", shape = [] }
[block.tell]
in    = ["x"]
out   = []
nodes = [
  { print = "x", label = "twice" },
  { out = "s", op = "reduce_sum", in = ["x"] },
  { print = "s" },
]
[graph]
nodes = [
  { print = "x" },
  { if = "yes", then = "tell", in = "x" },
  { out = "y", op = "neg", in = ["x"] },
  { print = "y", label = "last" },
]
[outputs]
y = "y"
)");
  CHECK(m.warnings.empty());
  for (const bool yes : {true, false}) {
    ir::TensorMap params;
    ir::Observed observed;
    ir::interpret(m.graph->ir(),
                  {{"x", {{f32, Shape::of(std::vector<int64_t>{2})}, {3, 4}, {}}},
                   {"yes", {{b1, {}}, {}, {yes}}}},
                  params, ir::Rounding::wide, {}, &observed);
    std::vector<std::string> texts;
    for (const ir::Message& msg : observed.messages) texts.push_back(msg.text);
    CHECK(texts == (yes ? std::vector<std::string>{"x", "twice", "tell/then/s", "last"}
                        : std::vector<std::string>{"x", "last"}));
  }
}

TEST_CASE("toml: warnings know bodies") {
  const TomlModel m = read(std::string(R"(
[inputs]
x = { dtype = "f32", shape = [3] }
w = { dtype = "f32", shape = [3] }
[block.second]
in    = ["x", "w"]
out   = ["w"]
nodes = []
[graph]
nodes = [
  { out = "s", op = "reduce_sum", in = ["x"] },
  { out = "yes", op = "gt", in = ["s", 0] },
  { out = "y", if = "yes", then = "second", else = "double", in = ["x", "w"] },
  { out = "unused", if = "yes", then = "second", else = "double", in = ["x", "w"] },
  { out = ["u"], stacked = ["v"], loop = 3, body = "turn", in = ["x", "w"] },
]
[outputs]
y = "y"
)") + kBlocks);
  std::vector<std::string> messages;
  for (const Diagnostic& d : m.warnings) messages.push_back(d.message);
  // The loop prints, and a body takes what comes before what it needs.
  CHECK(messages == std::vector<std::string>{
                        "nothing uses 'unused', the result of the branch or loop 'yes'",
                        "nothing uses the block 'keep'", "nothing uses the block 'small'"});
}
