#include <doctest/doctest.h>

#include <chrono>

#include "ir/text.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

size_t count(const ir::Graph& g, OpKind kind) {
  return static_cast<size_t>(std::count_if(g.ops().begin(), g.ops().end(),
                                           [&](const ir::Op& o) { return o.kind == kind; }));
}

/// Simplifies, and checks what must hold for every graph.
ir::Graph checked(const ir::Graph& g) {
  ir::Graph simple = simplify(g);
  CHECK(ir::verify(simple).empty());
  const auto before = run_whole(g, 11);
  CHECK(same(before, run_whole(simple, 11)));
  CHECK(ir::print(simplify(simple)) == ir::print(simple));
  return simple;
}

/// The graph of one function of one input, simplified.
ir::Graph of_input(ValueId (*make)(Maker&, ValueId), DType dtype = DType::f32) {
  Maker m;
  m.output("y", make(m, m.input("x", {3, 4}, dtype)));
  return checked(m.g);
}

bool is_input_itself(const ir::Graph& g) { return g.def(g.outputs[0].value).kind == OpKind::input; }

}  // namespace

TEST_CASE("simplify removes what changes nothing") {
  const auto gone = [](ValueId (*make)(Maker&, ValueId), DType dtype = DType::f32) {
    return is_input_itself(of_input(make, dtype));
  };
  CHECK(gone([](Maker& m, ValueId x) { return m.mul(x, m.splat({3, 4}, 1)); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.mul(m.splat({3, 4}, 1), x); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.map(Fn::div, {x, m.splat({3, 4}, 1)}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.map(Fn::sub, {x, m.splat({3, 4}, 0)}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.add(x, m.splat({3, 4}, -0.0)); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.map(Fn::neg, {m.map(Fn::neg, {x})}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.cast(x, DType::f32); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.cast(m.cast(x, DType::f32), DType::f16); },
             DType::f16));
  CHECK(gone([](Maker& m, ValueId x) { return m.cast(m.cast(x, DType::f64), DType::i32); },
             DType::i32));
  CHECK(
      gone([](Maker& m, ValueId x) { return m.map(Fn::not_, {m.map(Fn::not_, {x})}); }, DType::b1));
  CHECK(gone([](Maker& m, ValueId x) { return m.add(x, m.splat({3, 4}, 0, DType::i32)); },
             DType::i32));
  CHECK(gone([](Maker& m, ValueId x) { return m.transpose(m.transpose(x, {1, 0}), {1, 0}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.reshape(m.reshape(x, {2, 6}), {3, 4}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.slice(x, 1, 0, 4); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.broadcast(x, {3, 4}, {0, 1}); }));
  CHECK(gone([](Maker& m, ValueId x) { return m.concat({x}, 1); }));
  CHECK(gone([](Maker& m, ValueId x) {
    return m.map(Fn::select, {m.splat({3, 4}, 1, DType::b1), x, m.map(Fn::exp, {x})});
  }));
  CHECK(gone([](Maker& m, ValueId x) {
    return m.map(Fn::select, {m.splat({3, 4}, 0, DType::b1), m.map(Fn::exp, {x}), x});
  }));
  CHECK(gone([](Maker& m, ValueId x) {
    return m.reshape(m.reduce(Fn::add, m.reshape(x, {3, 1, 4}), 2), {3, 4});
  }));
}

TEST_CASE("simplify keeps what changes a bit") {
  const auto kept = [](ValueId (*make)(Maker&, ValueId), DType dtype = DType::f32) {
    return count(of_input(make, dtype), OpKind::map) > 0;
  };
  CHECK(kept([](Maker& m, ValueId x) { return m.add(x, m.splat({3, 4}, 0)); }));
  CHECK(kept([](Maker& m, ValueId x) { return m.map(Fn::sub, {x, m.splat({3, 4}, -0.0)}); }));
  CHECK(kept([](Maker& m, ValueId x) { return m.mul(x, m.splat({3, 4}, 2)); }));
  CHECK(kept([](Maker& m, ValueId x) { return m.cast(m.cast(x, DType::f16), DType::f32); }));
  CHECK(kept([](Maker& m, ValueId x) { return m.cast(m.cast(x, DType::f32), DType::i64); },
             DType::i64));
  // By way of f64 an integer is clamped to i8, straight it is cut off.
  const ir::Graph casts = of_input(
      [](Maker& m, ValueId x) { return m.cast(m.cast(x, DType::f64), DType::i8); }, DType::i32);
  CHECK(count(casts, OpKind::map) == 2);
}

TEST_CASE("simplify composes views") {
  const auto one_view = [](ValueId (*make)(Maker&, ValueId)) {
    return count(of_input(make), OpKind::view) == 1;
  };
  CHECK(one_view([](Maker& m, ValueId x) {
    return m.transpose(m.transpose(m.transpose(x, {1, 0}), {1, 0}), {1, 0});
  }));
  CHECK(one_view([](Maker& m, ValueId x) { return m.slice(m.slice(x, 1, 1, 3), 1, 0, 2, 2); }));
  CHECK(one_view([](Maker& m, ValueId x) {
    return m.slice(m.slice(m.slice(x, 1, 0, 2, 2), 0, 1, 2), 1, 1, 1);
  }));
  CHECK(one_view([](Maker& m, ValueId x) {
    return m.broadcast(m.broadcast(x, {3, 5, 4}, {0, 2}), {2, 3, 5, 4}, {1, 2, 3});
  }));
  // A transpose that only moves extents of one is a reshape.
  CHECK(is_input_itself(of_input([](Maker& m, ValueId x) {
    return m.reshape(m.transpose(m.reshape(x, {3, 1, 4}), {1, 0, 2}), {3, 4});
  })));
  // The operand's axes go through both: {1,0} after {2,0,1} is not the identity.
  Maker m;
  const ValueId x = m.input("x", {2, 3, 4});
  m.output("y", m.transpose(m.transpose(x, {2, 0, 1}), {1, 0, 2}));
  const ir::Graph g = checked(m.g);
  CHECK(count(g, OpKind::view) == 1);
  const auto& view = std::get<ir::ViewAttr>(g.def(g.outputs[0].value).attrs);
  CHECK(view.a[0] == 0);
  CHECK(view.a[1] == 2);
  CHECK(view.a[2] == 1);
}

TEST_CASE("simplify composes slices of nothing, of one element and by large steps") {
  Maker m;
  const ValueId x = m.input("x", {9}), wide = m.input("wide", {int64_t{1} << 40}, DType::i8);
  // 4, 7; then nothing from behind them, where 10 is not in x.
  m.output("none", m.slice(m.slice(x, 0, 4, 2, 3), 0, 2, 0, 2));
  m.output("one", m.slice(m.slice(x, 0, 0, 1, 1 << 20), 0, 0, 1, 1 << 20));
  m.output("far", m.slice(m.slice(wide, 0, 0, 1 << 16, 1 << 24), 0, 0, 1 << 8, 1 << 8));
  const ir::Graph g = simplify(m.g);
  CHECK(ir::verify(g).empty());
  CHECK(count(g, OpKind::view) == 4);
}

TEST_CASE("simplify folds splats with the dtype's rounding") {
  Maker m;
  const ValueId third =
      m.map(Fn::div, {m.splat({2, 5}, 1, DType::f16), m.splat({2, 5}, 3, DType::f16)});
  m.output("third", m.transpose(third, {1, 0}));
  m.output("wrapped", m.add(m.splat({2}, 100, DType::i8), m.splat({2}, 100, DType::i8)));
  m.output("less", m.map(Fn::lt, {m.splat({2}, 1.5), m.splat({2}, 2)}));
  m.output("clamped", m.cast(m.splat({2}, 1e10), DType::i32));
  const ir::Graph g = checked(m.g);
  CHECK(g.ops().size() == 4);
  CHECK(*g.splat_value(g.outputs[0].value) == f16_to_f32(f64_to_f16(1.0 / 3.0)));
  CHECK(*g.splat_value(g.outputs[1].value) == -56);
  CHECK(*g.splat_value(g.outputs[2].value) == 1);
  CHECK(*g.splat_value(g.outputs[3].value) == 2147483647);
}

TEST_CASE("simplify merges equal ops and keeps the first's name") {
  Maker m;
  const ValueId x = m.input("x", {4}), z = m.input("z", {4});
  const ValueId a = m.g.add({OpKind::map, ir::MapAttr{Fn::exp}, {x}, {}, m.str("first")});
  const ValueId b = m.g.add({OpKind::map, ir::MapAttr{Fn::exp}, {x}, {}, m.str("second")});
  const ValueId c = m.map(Fn::exp, {z});
  m.output("y", m.add(m.mul(a, m.splat({4}, 2)), m.mul(b, m.splat({4}, 2))));
  m.output("c", c);
  const ir::Graph g = checked(m.g);
  CHECK(count(g, OpKind::map) == 4);
  const ir::Op& exp = g.def(g.def(g.def(g.outputs[0].value).operands[0]).operands[0]);
  CHECK(g.strings[exp.name] == "first");
}

TEST_CASE("simplify drops dead ops but no input, param or last version") {
  Maker m;
  const ValueId x = m.input("x", {4});
  m.input("unused", {4});
  const ValueId p = m.param("p", {4}), q = m.param("q", {4});
  m.param("untouched", {4});
  m.map(Fn::exp, {x});
  const ValueId p1 = m.assign(p, m.mul(x, x));
  const ValueId v = m.read(p1);
  m.assign(p1, m.add(v, x));  // makes the first assign of p dead
  m.assign(q, m.read(q));     // no change at all
  m.output("y", m.map(Fn::neg, {v}));
  const ir::Graph g = checked(m.g);
  CHECK(count(g, OpKind::input) == 2);
  CHECK(count(g, OpKind::param) == 3);
  CHECK(count(g, OpKind::assign) == 1);
  CHECK(count(g, OpKind::read) == 0);
  CHECK(count(g, OpKind::map) == 3);
}

TEST_CASE("simplify keeps reads of updates, and turns a full update into an assign") {
  Maker m;
  const ValueId at = m.input("at", {}, DType::i32);
  const ValueId zero = m.splat({}, 0, DType::i32);
  const ValueId p = m.param("p", {4, 3}), q = m.param("q", {4, 3});
  const ValueId p1 = m.update(p, m.input("row", {1, 3}), {at, zero});
  m.output("y", m.map(Fn::exp, {m.read(p1)}));
  m.update(q, m.input("all", {4, 3}), {at, at});
  const ir::Graph g = checked(m.g);
  CHECK(count(g, OpKind::read) == 1);
  CHECK(count(g, OpKind::update) == 1);
  CHECK(count(g, OpKind::assign) == 1);
}

TEST_CASE("simplify keeps the meaning of random graphs") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const ir::Graph g = random_graph(random, 5 + static_cast<int>(below(random, 40)));
    REQUIRE(ir::verify(g).empty());
    const ir::Graph simple = checked(g);
    CHECK(simple.ops().size() <= g.ops().size());
  }
}
