// Branches, loops and messages of the builder: what they compute, against loops written here, and
// how closures get at what is outside.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "ir/interpret.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

using Tensors = std::vector<Tensor>;

/// Runs a graph, which must be well formed and survive being printed and parsed.
struct Run {
  ir::TensorMap inputs, params, outputs;
  ir::Observed observed;

  void go(const Graph& g) {
    REQUIRE(ir::verify(g.ir()).empty());
    const std::string text = ir::print(g.ir());
    const ir::Graph again = ir::parse(text, "again.bir");
    CHECK(ir::print(again) == text);
    observed = {};
    outputs = ir::interpret(g.ir(), inputs, params, ir::Rounding::wide, {}, &observed);
  }
  const std::vector<double>& f(const std::string& name) { return outputs.at(name).f; }
  double one(const std::string& name) { return f(name).at(0); }
};

WideTensor floats(std::vector<double> values, std::vector<int64_t> shape) {
  WideTensor t;
  t.type = {f32, Shape::of(shape)};
  t.f = std::move(values);
  return t;
}

WideTensor ints(std::vector<int64_t> values, std::vector<int64_t> shape) {
  WideTensor t;
  t.type = {i32, Shape::of(shape)};
  t.i = std::move(values);
  return t;
}

const ir::Op& only(const ir::Graph& g, ir::OpKind kind) {
  const ir::Op* found = nullptr;
  for (const ir::Op& op : g.ops()) {
    if (op.kind != kind) continue;
    REQUIRE(found == nullptr);
    found = &op;
  }
  REQUIRE(found != nullptr);
  return *found;
}

size_t states(const ir::Graph& g, const ir::Op& op) {
  size_t n = 0;
  for (const ir::ValueId v : op.operands) n += g.value(v).state;
  return n;
}

}  // namespace

TEST_CASE("if: outer values by use, on both sides") {
  Graph g;
  const Tensor x = g.input("x", {f32, {3}}), y = g.input("y", {f32, {3}});
  const Tensor t = x * 2.0;
  const Tensor z = g.if_(greater(sum(x), 0), [&] { return t + y; }, [&] { return exp(y); });
  g.output("z", z - t);
  Run run;
  for (const double sign : {1.0, -1.0}) {
    run.inputs = {{"x", floats({sign * 0.5, sign * 2, 0.25}, {3})},
                  {"y", floats({3, -1, 0.75}, {3})}};
    run.go(g);
    for (size_t i = 0; i < 3; ++i) {
      const double a = run.inputs["x"].f[i] * 2, b = run.inputs["y"].f[i];
      CHECK(run.f("z")[i] == doctest::Approx((sign > 0 ? a + b : std::exp(b)) - a));
    }
  }
  const ir::Op& op = only(g.ir(), ir::OpKind::branch);
  CHECK(op.operands.size() == 3);  // the predicate, t and y, each once
  CHECK(g.ir().strings[op.name] == "if");
  CHECK(g.ir().bodies[0].name == "else");
  CHECK(g.ir().bodies[1].name == "then");
}

TEST_CASE("if: vectors, outer tensors and params as results, one-element predicates") {
  Graph g;
  const Tensor x = g.input("x", {f32, {1, 1}}), p = g.param("p", {f32, {1, 1}});
  const Tensors r =
      g.if_(less(x, 0.5), [&] { return Tensors{x, p}; }, [&] { return Tensors{p, neg(p)}; });
  REQUIRE(r.size() == 2);
  g.output("a", r[0]);
  g.output("b", r[1]);
  Run run;
  run.params["p"] = floats({7}, {1, 1});
  for (const double v : {0.25, 0.75}) {
    run.inputs["x"] = floats({v}, {1, 1});
    run.go(g);
    CHECK(run.one("a") == (v < 0.5 ? v : 7));
    CHECK(run.one("b") == (v < 0.5 ? 7 : -7));
  }
  // Nobody changes p, so its value goes in.
  CHECK(states(g.ir(), only(g.ir(), ir::OpKind::branch)) == 0);
}

TEST_CASE("switch: the index is clamped") {
  Graph g;
  const Tensor i = g.scalar("i", i32), x = g.input("x", {f32, {2}});
  g.output("y",
           g.switch_(i, {[&] { return x; }, [&] { return x * 10.0; }, [&] { return x + 5.0; }}));
  const Tensors two =
      g.switch_(i, {[&] { return Tensors{x, -x}; }, [&] { return Tensors{-x, x}; }});
  g.output("z", two[0] - two[1]);
  Run run;
  run.inputs["x"] = floats({1.5, -2}, {2});
  for (const int64_t at : {-4, 0, 1, 2, 3, 99}) {
    run.inputs["i"] = ints({at}, {});
    run.go(g);
    CHECK(run.f("y")[0] == (at <= 0 ? 1.5 : at == 1 ? 15 : 6.5));
    CHECK(run.f("z")[1] == (at <= 0 ? -4 : 4));
  }
}

TEST_CASE("while: to convergence, to a limit, and not at all") {
  Graph g;
  const Tensor a = g.input("a", {f32, {}}), begin = g.input("begin", {f32, {}});
  const auto newton = [&](Tensor x) { return (x + a / x) * 0.5; };
  const auto far = [&](Tensor x) { return greater(abs(x * x - a), 1e-9); };
  g.output("root", g.while_(begin, far, newton));
  g.output("two", g.while_(begin, far, newton, {.limit = 2}));
  Run run;
  run.inputs = {{"a", floats({7}, {})}, {"begin", floats({3}, {})}};
  run.go(g);
  CHECK(run.one("root") == doctest::Approx(std::sqrt(7.0)).epsilon(1e-9));
  const auto next = [](double x) { return (x + 7 / x) * 0.5; };
  CHECK(run.one("two") == doctest::Approx(next(next(3))).epsilon(1e-15));
  run.inputs["begin"] = floats({std::sqrt(7.0)}, {});
  run.go(g);
  CHECK(run.one("root") == std::sqrt(7.0));
}

TEST_CASE("while: carried values that change places, rows, and the number of the iteration") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2}}), y = g.input("y", {f32, {2}});
  const LoopValues r = g.while_(
      {x, y}, [&](Tensor i, const Tensors&) { return less(i, 3); },
      [&](Tensor i, const Tensors& c) {
        const Tensor row = c[0] + cast(i, f32);
        return LoopValues{{c[1], row}, {row, i}};
      },
      {.limit = 5});
  REQUIRE(r.carried.size() == 2);
  REQUIRE(r.stacked.size() == 2);
  g.output("a", r.carried[0]);
  g.output("b", r.carried[1]);
  g.output("rows", r.stacked[0]);
  g.output("numbers", r.stacked[1]);
  Run run;
  run.inputs = {{"x", floats({1, 10}, {2})}, {"y", floats({-2, 20}, {2})}};
  run.go(g);
  double a = 1, b = -2;
  for (int i = 0; i < 5; ++i) {
    const double row = a + i;
    if (i < 3) {
      a = b;
      b = row;
    }
    CHECK(run.f("rows")[static_cast<size_t>(2 * i)] == (i < 3 ? row : 0));
    CHECK(run.outputs.at("numbers").i[static_cast<size_t>(i)] == (i < 3 ? i : 0));
  }
  CHECK(run.one("a") == a);
  CHECK(run.one("b") == b);
}

TEST_CASE("loop: a number or a dim of iterations, single values, no values") {
  Graph g;
  const Tensor x = g.input("x", {f32, {"B"}});
  g.output("y", g.loop("B", x, [&](Tensor i, Tensor v) { return v * 2.0 + cast(i, f32); }));
  const LoopValues rows =
      g.loop(3, {}, [&](Tensor i, const Tensors&) { return LoopValues{{}, {x * cast(i, f32)}}; });
  g.output("rows", rows.stacked.at(0));
  CHECK(rows.stacked.at(0).type().shape[0] == Dim(3));
  ir::Graph bound = g.ir();
  bound.bind_dims({{"B", 4}});
  ir::TensorMap params;
  const ir::TensorMap out = ir::interpret(bound, {{"x", floats({1, 2, 3, 4}, {4})}}, params);
  double expected = 3;
  for (int i = 0; i < 4; ++i) expected = expected * 2 + i;
  CHECK(out.at("y").f[2] == expected);
  CHECK(out.at("rows").f[2 * 4 + 1] == 4);
}

TEST_CASE("closures in closures: values and params through several levels") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2}}), n = g.scalar("n", i32);
  const Tensor count = g.param("count", {i32, {}}), w = g.param("w", {f32, {2}});
  const Tensor scaled = x * w;
  const Tensor y = g.loop(4, x, [&](Tensor i, Tensor v) {
    g.if_(less(i, n), [&] {
      g.loop(2, {}, [&](Tensor j, const Tensors&) {
        g.assign(count, count + i * 10 + j);
        return LoopValues{};
      });
    });
    return g.if_(less(i, n), [&] { return v + scaled + w; }, [&] { return v - cast(count, f32); });
  });
  g.output("y", y);
  g.output("count", count);
  Run run;
  run.inputs = {{"x", floats({1, 2}, {2})}, {"n", ints({3}, {})}};
  run.params = {{"count", ints({5}, {})}, {"w", floats({0.5, 4}, {2})}};
  run.go(g);
  double v = 1;
  int64_t c = 5;
  for (int i = 0; i < 4; ++i) {
    if (i < 3) {
      for (int j = 0; j < 2; ++j) c += i * 10 + j;
      v += 0.5 + 0.5;
    } else {
      v -= static_cast<double>(c);
    }
  }
  CHECK(run.one("y") == v);
  CHECK(run.outputs.at("count").i[0] == c);
  CHECK(run.params.at("count").i[0] == c);
  const ir::Op& loop = only(g.ir(), ir::OpKind::loop);
  CHECK(states(g.ir(), loop) == 1);  // count, not w
}

TEST_CASE("params in closures: read before and after a change, on one side alone") {
  Graph g;
  const Tensor yes = g.input("yes", {b1, {}}), p = g.param("p", {f32, {}}),
               q = g.param("q", {f32, {}});
  const Tensors r = g.if_(
      yes,
      [&] {
        const Tensor before = g.read(p);
        g.assign(p, before * 2.0);
        const Tensor between = p + q;
        g.assign(p, p + 1.0);
        return Tensors{before, between};
      },
      [&] { return Tensors{p + 100.0, q}; });
  g.output("a", r[0]);
  g.output("b", r[1]);
  g.output("p", p);
  Run run;
  for (const bool side : {true, false}) {
    WideTensor flag;
    flag.type = {b1, {}};
    flag.i = {side};
    run.inputs["yes"] = flag;
    run.params = {{"p", floats({3}, {})}, {"q", floats({50}, {})}};
    run.go(g);
    CHECK(run.one("a") == (side ? 3 : 103));
    CHECK(run.one("b") == (side ? 56 : 50));
    CHECK(run.one("p") == (side ? 7 : 3));
    CHECK(run.params.at("p").f[0] == (side ? 7 : 3));
  }
}

TEST_CASE("params that closures declare are the graph's") {
  Graph g;
  const Tensor x = g.input("x", {f32, {1, 4}});
  const Tensor y = g.if_(
      greater(sum(x, {.axes = {}}), 0),
      [&] {
        const Scope scope = g.scope("tower");
        return linear(g, "l", x, 4);
      },
      [&] { return x; });
  g.output("y", y);
  g.output("u", g.loop(3, x, [&](Tensor, Tensor v) {
    return v + random_uniform(g, "noise", {f32, {1, 4}});
  }));
  std::vector<std::string> names;
  for (const ir::Op& op : g.ir().ops()) {
    if (op.kind == ir::OpKind::param) names.emplace_back(g.ir().strings[op.name]);
  }
  CHECK(names == std::vector<std::string>{"tower/l/w", "tower/l/b", "noise/launches"});
  Run run;
  run.inputs["x"] = floats({1, 2, 3, 4}, {1, 4});
  run.params["tower/l/w"] =
      widen(random_tensor({f32, Shape::of(std::vector<int64_t>{4, 4})}, 3, "w"));
  run.params["tower/l/b"] = floats({1, 2, 3, 4}, {4});
  WideTensor launches;
  launches.type = {i64, {}};
  launches.i = {8};
  run.params["noise/launches"] = launches;
  run.go(g);
  double expected = 3;
  for (size_t k = 0; k < 4; ++k) {
    expected += run.inputs["x"].f[k] * run.params["tower/l/w"].f[4 * k + 2];
  }
  CHECK(run.f("y")[2] == doctest::Approx(expected));
  CHECK(run.params.at("noise/launches").i[0] == 11);
}

TEST_CASE("messages: in order, with labels, places and iterations") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2}});
  g.print(x);
  const Tensor y = g.loop(2, x, [&](Tensor, Tensor v) {
    const Tensor w = v * 2.0;
    g.loop(2, {}, [&](Tensor j, const Tensors&) {
      g.if_(greater(j, 0), [&] { g.item(sum(w), "total"); });
      return LoopValues{};
    });
    g.print(w, "doubled");
    return w;
  });
  const uint32_t line = __LINE__ + 1;
  g.check(y / 0.0, Check::finite, "quotient");
  g.check_range(y, 0, 6);
  g.check_range(y, -INFINITY, 3, "low enough");
  g.output("y", y);
  Run run;
  run.inputs["x"] = floats({1.5, -1}, {2});
  run.go(g);
  struct Expected {
    std::string text;
    std::vector<int64_t> iterations;
    double value;
  };
  const std::vector<Expected> expected{
      {"x", {}, 1.5},      {"total", {0, 1}, 1}, {"doubled", {0}, 3},  {"total", {1, 1}, 2},
      {"doubled", {1}, 6}, {"finite", {}, 2},    {"in 0 .. 6", {}, 1}, {"at most 3", {}, 1}};
  REQUIRE(run.observed.messages.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const ir::Message& m = run.observed.messages[i];
    CAPTURE(i);
    CHECK(m.text == expected[i].text);
    CHECK(m.iterations == expected[i].iterations);
    CHECK((m.value.f.empty() ? static_cast<double>(m.value.i.at(0)) : m.value.f[0]) ==
          expected[i].value);
  }
  CHECK(run.observed.messages[5].op == "quotient");
  CHECK(run.observed.messages[5].place.line == line);
  CHECK(run.observed.messages[5].kind == ir::MessageKind::check);
  size_t rings = 0;
  for (const ir::Op& op : g.ir().ops()) rings += std::holds_alternative<ir::RingAttr>(op.attrs);
  CHECK(rings == 1);
}

TEST_CASE("a NaN is in no range and not finite; good values send nothing") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4}});
  g.check(x, Check::finite);
  g.check_range(x, -2, 2);
  g.output("x", x);
  Run run;
  run.inputs["x"] = floats({2, -2, 0.5, 0}, {4});
  run.go(g);
  CHECK(run.observed.messages.empty());
  run.inputs["x"] = floats({NAN, INFINITY, -INFINITY, 0}, {4});
  run.go(g);
  REQUIRE(run.observed.messages.size() == 2);
  CHECK(run.observed.messages[0].value.i[0] == 3);
  CHECK(run.observed.messages[1].value.i[0] == 3);
}

TEST_CASE("the ring's name gives way to a param's") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2}}), taken = g.param("ring.1", {f32, {2}});
  g.if_(greater(sum(x), 0), [&] { g.print(x); });
  const Tensor p = g.param("ring", {f32, {2}});
  g.if_(greater(sum(x), 0), [&] {
    g.print(p);
    g.assign(p, x + taken);
  });
  g.output("p", p);
  Run run;
  run.inputs["x"] = floats({1, 2}, {2});
  run.params = {{"ring", floats({3, 4}, {2})}, {"ring.1", floats({10, 20}, {2})}};
  run.go(g);
  CHECK(run.f("p")[1] == 22);
  CHECK(run.observed.messages.at(1).value.f[0] == 3);
}

TEST_CASE("symbols of bodies are the graph's") {
  Graph g;
  g.dim("B", 3);
  const Tensor x = g.input("x", {f32, {"B", 2}});
  const Tensor y = g.if_(
      greater(sum(x, {.axes = {}}), 0), [&] { return concat({x, g.full({f32, {"Q", 2}}, 2)}); },
      [&] { return reshape(g.full({f32, {2, "B + Q"}}, 3), {-1, 2}); });
  g.output("y", y);
  CHECK(ir::verify(g.ir()).empty());
  CHECK(y.type().shape.rank() == 2);
  ir::Graph bound = g.ir();
  bound.bind_dims({{"Q", 2}});
  ir::TensorMap params;
  const ir::TensorMap out =
      ir::interpret(bound, {{"x", floats({1, 2, 3, 4, 5, 6}, {3, 2})}}, params);
  CHECK(out.at("y").f == std::vector<double>{1, 2, 3, 4, 5, 6, 2, 2, 2, 2});
}

TEST_CASE("names, types and places reach across closures") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4}});
  const Tensor h = relu(x);
  const Tensor y = g.if_(
      less(sum(x), 1),
      [&] {
        CHECK(h.type() == x.type());
        h.named("hidden");
        const Scope scope = g.scope("side");
        return exp(h).named("e");
      },
      [&] { return h; });
  y.named("result");
  g.output("y", y);
  const ir::Op& op = only(g.ir(), ir::OpKind::branch);
  CHECK(g.ir().strings[op.name] == "result");
  CHECK(g.ir().place(op.loc).file == __FILE__);
  const ir::Graph& then = g.ir().bodies[1];
  CHECK(then.strings[then.ops()[0].name] == "hidden");
  CHECK(then.place(then.ops()[0].loc).file == __FILE__);
  CHECK(then.strings[then.ops().back().name] == "side/e");
}

TEST_CASE("lowerings are asked for by op") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2}});
  const Tensor y =
      g.if_(less(sum(x), 1), [&] { return x; }, [&] { return -x; }, {ir::Lowering::predicate});
  g.output("y", g.loop(4, y, [](Tensor, Tensor v) { return v * v; },
                       {.lowering = ir::Lowering::node, .unroll = 2}));
  const ir::Op& branch = only(g.ir(), ir::OpKind::branch);
  CHECK(std::get<ir::BranchAttr>(branch.attrs).lowering == ir::Lowering::predicate);
  const auto& loop = std::get<ir::LoopAttr>(only(g.ir(), ir::OpKind::loop).attrs);
  CHECK(loop.lowering == ir::Lowering::node);
  CHECK(loop.unroll == 2);
}
