#include <doctest/doctest.h>

#include "ir/text.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// Plans homes and proves them: the values are those of before, the order edges agree with the op
/// order, and writing in place gives the same in every order that the edges allow.
HomePlan checked(ir::Graph& g, int orders = 20) {
  const Results before = run_whole(g, 3);
  const std::vector<std::string> names = [&] {
    std::vector<std::string> out;
    for (const auto& o : g.outputs) out.push_back(o.name);
    return out;
  }();
  HomePlan plan = plan_homes(g);
  CHECK(ir::verify(g).empty());
  CHECK(same(before, run_whole(g, 3)));
  for (size_t i = 0; i < names.size(); ++i) CHECK(g.outputs[i].name == names[i]);
  CHECK(std::is_sorted(plan.order.begin(), plan.order.end()));
  CHECK(std::adjacent_find(plan.order.begin(), plan.order.end()) == plan.order.end());
  for (const OrderEdge& e : plan.order) {
    CHECK(e.from.index < e.to.index);
    CHECK(is_work(g.op(e.from)));
    CHECK(is_work(g.op(e.to)));
  }
  for (OpId id : plan.copies) CHECK(g.op(id).kind == OpKind::map);

  const Fusion single = fuse(g, plan, assign_levels(g, plan), false);
  const auto edges = group_edges(g, single, plan);
  std::mt19937 random(17);
  for (int i = 0; i < orders; ++i) {
    const auto order = random_order(single.groups.size(), edges, random);
    REQUIRE(order.size() == single.groups.size());
    CHECK(same(before, run_groups(g, single, order, 3)));
  }
  return plan;
}

}  // namespace

TEST_CASE("home: a param that is computed from its old value needs no copy") {
  Maker m;
  const ValueId p = m.param("p", {4}), x = m.input("x", {4});
  const ValueId p1 = m.assign(p, m.add(m.read(p), x));
  m.output("y", m.map(Fn::exp, {m.read(p1)}));
  const HomePlan plan = checked(m.g);
  CHECK(plan.copies.empty());
  CHECK(plan.output_copies.empty());
  CHECK(plan.order.size() == 1);
}

TEST_CASE("home: a swap needs one copy, also a rotation of three") {
  Maker m;
  const ValueId a = m.param("a", {4}), b = m.param("b", {4});
  const ValueId old_a = m.read(a), old_b = m.read(b);
  m.assign(a, old_b);
  m.assign(b, old_a);
  CHECK(checked(m.g).copies.size() == 1);

  Maker r;
  const ValueId p = r.param("p", {4}), q = r.param("q", {4}), s = r.param("s", {4});
  const ValueId v = r.read(p), w = r.read(q), u = r.read(s);
  r.assign(p, w);
  r.assign(q, u);
  r.assign(s, v);
  CHECK(checked(r.g).copies.size() == 1);
}

TEST_CASE("home: a swap of computed values needs none") {
  Maker m;
  const ValueId a = m.param("a", {4}), b = m.param("b", {4});
  const ValueId new_a = m.map(Fn::tanh, {m.read(b)}), new_b = m.map(Fn::neg, {m.read(a)});
  m.assign(a, new_a);
  m.assign(b, new_b);
  CHECK(checked(m.g).copies.empty());
}

TEST_CASE("home: a late reader of the old value moves before the write if it can") {
  Maker m;
  const ValueId p = m.param("p", {4}), x = m.input("x", {4});
  const ValueId old = m.read(p);
  m.assign(p, x);
  m.output("y", m.map(Fn::exp, {old}));
  const HomePlan plan = checked(m.g);
  CHECK(plan.copies.empty());
  CHECK(plan.order.size() == 1);
}

TEST_CASE("home: a reader that needs both versions takes a copy") {
  Maker m;
  const ValueId p = m.param("p", {2, 3}), x = m.input("x", {2, 3});
  const ValueId old = m.read(p);
  const ValueId early = m.map(Fn::exp, {old});
  const ValueId p1 = m.assign(p, m.add(early, x));
  const ValueId both = m.map(Fn::sub, {m.read(p1), m.reshape(old, {2, 3})});
  m.output("y", both);
  m.output("z", m.mul(m.transpose(old, {1, 0}), m.transpose(both, {1, 0})));
  const HomePlan plan = checked(m.g);
  CHECK(plan.copies.size() == 1);
}

TEST_CASE("home: the op that writes reads the old version at its own index only") {
  Maker m;
  const ValueId p = m.param("p", {3, 3});
  m.assign(p, m.transpose(m.read(p), {1, 0}));
  CHECK(checked(m.g).copies.size() == 1);

  Maker u;
  const ValueId q = u.param("q", {4, 3}), at = u.input("at", {}, DType::i32);
  u.update(q, u.slice(u.read(q), 0, 1, 2), {at, u.splat({}, 0, DType::i32)});
  CHECK(checked(u.g).copies.size() == 1);

  Maker s;  // where to write stands in the param itself
  const ValueId r = s.param("r", {3}, DType::i32);
  const ValueId start = s.reshape(s.slice(s.read(r), 0, 2, 1), {});
  s.update(r, s.input("x", {1}, DType::i32), {start});
  CHECK(checked(s.g).copies.size() == 1);
}

TEST_CASE("home: a chain of updates") {
  Maker m;
  const ValueId at = m.input("at", {}, DType::i32), zero = m.splat({}, 0, DType::i32);
  ValueId cache = m.param("cache", {6, 3});
  for (int i = 0; i < 3; ++i) {
    const ValueId seen = m.map(Fn::tanh, {m.read(cache)});
    m.output("y" + std::to_string(i), m.reduce(Fn::add, seen, 1));
    const ValueId row = m.slice(seen, 0, i, 1);
    cache = m.update(cache, m.map(Fn::exp, {row}), {m.add(at, m.splat({}, i, DType::i32)), zero});
  }
  m.assign(cache, m.map(Fn::neg, {m.read(cache)}));
  CHECK(checked(m.g).copies.empty());
}

TEST_CASE("home: outputs get memory of their own") {
  Maker m;
  const ValueId p = m.param("p", {2, 3}), q = m.param("q", {2, 3}), x = m.input("x", {2, 3});
  const ValueId u = m.map(Fn::exp, {x});
  m.output("old", m.read(p));
  m.output("old_turned", m.transpose(m.read(p), {1, 0}));
  m.assign(p, u);
  m.output("weight", m.reshape(m.read(q), {6}));
  m.output("x", x);
  m.output("u", u);
  m.output("u_again", m.reshape(u, {3, 2}));
  m.output("turned", m.transpose(u, {1, 0}));
  m.output("seven", m.splat({2}, 7));
  const HomePlan plan = checked(m.g);
  CHECK(plan.copies.empty());
  CHECK(plan.output_copies.size() == 7);
  std::vector<ValueId> roots;
  for (const auto& o : m.g.outputs) roots.push_back(memory_root(m.g, o.value));
  std::sort(roots.begin(), roots.end());
  CHECK(std::adjacent_find(roots.begin(), roots.end()) == roots.end());
  for (ValueId v : roots) CHECK(is_work(m.g.def(v)));
}

TEST_CASE("home: random graphs") {
  std::mt19937 random(8);
  size_t copies = 0, edges = 0;
  for (int trial = 0; trial < 250; ++trial) {
    ir::Graph g = random_graph(random, 5 + static_cast<int>(below(random, 40)));
    const HomePlan plan = checked(g, 6);
    copies += plan.copies.size();
    edges += plan.order.size();
  }
  CHECK(copies > 20);
  CHECK(edges > 200);
}
