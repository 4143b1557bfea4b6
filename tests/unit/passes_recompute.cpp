#include <doctest/doctest.h>

#include "ir/text.hpp"
#include "passes/pipeline.hpp"
#include "passes/recompute.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

size_t kernels(const ir::Graph& g) {
  Options o;
  o.verify = true;
  o.group = false;
  return run_passes(g, o).program.bodies[0].nodes.size();
}

/// Recomputes, and checks what must hold for every graph.
ir::Graph checked(const ir::Graph& g) {
  ir::Graph out = g;
  recompute_broadcasts(out);
  CHECK(ir::verify(out).empty());
  CHECK(same(run_whole(g, 12), run_whole(out, 12)));
  return out;
}

}  // namespace

TEST_CASE("a norm in half precision is one kernel, its casts in place") {
  Maker m;
  const ValueId x = m.cast(m.input("x", {6, 32}, DType::f16), DType::f32);
  const auto wide = [&](const char* name) {
    return m.cast(m.read(m.param(name, {32}, DType::f16)), DType::f32);
  };
  m.output("y", m.cast(m.layer_norm(x, wide("gamma"), wide("beta")), DType::f16));
  checked(m.g);
  CHECK(kernels(m.g) == 1);
}

TEST_CASE("a mask made of an input goes into each kernel that uses it, under any views") {
  Maker m;
  const ValueId mask = m.input("mask", {2, 5}, DType::i32);
  const ValueId real = m.map(Fn::ne, {mask, m.splat({2, 5}, 0, DType::i32)});
  const ValueId seen =
      m.transpose(m.broadcast(m.reshape(real, {2, 1, 5}), {2, 3, 5}, {0, 1, 2}), {0, 2, 1});
  for (const char* name : {"a", "b"}) {
    const ValueId x = m.input(name, {2, 5, 3});
    const ValueId y = m.map(Fn::select, {seen, x, m.splat({2, 5, 3}, -1)});
    m.output(name, m.dot(y, m.input(std::string("w") + name, {2, 3, 4})));
  }
  const ir::Graph g = checked(m.g);
  CHECK(std::count_if(g.ops().begin(), g.ops().end(), [](const ir::Op& op) {
          return op.kind == OpKind::map && std::get<ir::MapAttr>(op.attrs).fn == Fn::ne;
        }) == 2);
  CHECK(kernels(m.g) == 4);
}

TEST_CASE("nothing is recomputed for a product, where nothing grows, or for what is replaced") {
  Maker m;
  const ValueId x = m.input("x", {3, 4, 5}, DType::f32);
  const ValueId w = m.cast(m.input("w", {5, 6}, DType::f16), DType::f32);
  m.output("product", m.dot(x, m.broadcast(w, {3, 5, 6}, {1, 2})));
  const ValueId same_size = m.map(Fn::neg, {m.input("n", {4, 5})});
  m.output("sum", m.add(m.reshape(same_size, {20}), m.input("z", {20})));
  const ValueId state = m.param("s", {5}, DType::f16);
  const ValueId old = m.cast(m.read(state), DType::f32);
  m.output("old", m.add(x, m.broadcast(old, {3, 4, 5}, {2})));
  m.assign(state, m.input("next", {5}, DType::f16));
  const ValueId costly = m.map(Fn::exp, {m.input("e", {5})});
  m.output("costly", m.mul(x, m.broadcast(costly, {3, 4, 5}, {2})));
  const std::string before = ir::print(m.g);
  CHECK(ir::print(checked(m.g)) == before);
}

TEST_CASE("recompute leaves long chains of views alone: every use would copy them") {
  for (const int views : {kMostViewsRecomputed - 1, kMostViewsRecomputed, 100'000}) {
    CAPTURE(views);
    Maker m;
    const ValueId row = m.cast(m.input("row", {4}, DType::f16), DType::f32);
    ValueId v = m.broadcast(row, {4, 3}, {0});
    for (int i = 0; i < views; ++i) v = m.transpose(v, {1, 0});
    m.output("y", m.add(v, v));
    ir::Graph out = m.g;
    recompute_broadcasts(out);
    CHECK((ir::print(out) != ir::print(m.g)) == (views < kMostViewsRecomputed));
  }
}

TEST_CASE("recompute keeps the meaning of random graphs") {
  std::mt19937 random(6);
  int changed = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const ir::Graph g = random_graph(random, 5 + static_cast<int>(below(random, 40)));
    const ir::Graph out = checked(g);
    changed += ir::print(out) != ir::print(g);
  }
  CHECK(changed > 10);
}
