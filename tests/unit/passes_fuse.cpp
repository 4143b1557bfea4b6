#include <doctest/doctest.h>

#include <chrono>
#include <set>

#include "ir/text.hpp"
#include "passes/kernels/family.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

struct Planned {
  HomePlan homes;
  Fusion fusion;
};

/// Homes, levels and fusion, with proofs: groups cover the ops that are needed, none is reached
/// from what it reaches, bodies are well formed, and running them gives the oracle's values.
Planned checked(ir::Graph& g, bool fuse_on = true, bool run = true) {
  const Results before = run ? run_whole(g, 5) : Results{};
  Planned p;
  p.homes = plan_homes(g);
  p.fusion = fuse(g, p.homes, assign_levels(g, p.homes), fuse_on);

  std::vector<uint32_t> in_order;
  for (uint32_t i = 0; i < p.fusion.groups.size(); ++i) {
    const Group& group = p.fusion.groups[i];
    in_order.push_back(i);
    CHECK(!group.ops.empty());
    CHECK(!group.outputs.empty());
    CHECK(std::is_sorted(group.ops.begin(), group.ops.end()));
    for (OpId id : group.ops) CHECK(p.fusion.group_of[id.index] == i);
    std::vector<ValueId> sources;
    const ir::Graph body = extract_body(g, group, &sources);
    CHECK(ir::verify(body).empty());
    const std::string refusal = kernels::family(name_of(group.family)).refuses(body);
    CHECK_MESSAGE(refusal.empty(), refusal << '\n' << ir::print(body));
    CHECK(sources.size() + group.outputs.size() <= kMaxGroupArguments + 1);
    CHECK(std::set<ValueId>(sources.begin(), sources.end()).size() == sources.size());
  }
  // An order in which every edge between groups goes forwards makes each group convex.
  for (auto [from, to] : group_edges(g, p.fusion, p.homes)) REQUIRE(from < to);
  if (run) CHECK(same(before, run_groups(g, p.fusion, in_order, 5)));
  return p;
}

/// Straight from the definition: no path from a group out of it and back.
bool is_convex(const ir::Graph& g, const Planned& p) {
  const size_t n = g.ops().size();
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n, false));
  const auto link = [&](uint32_t from, uint32_t to) {
    reaches[from][to] = true;
    for (size_t i = 0; i < n; ++i) {
      if (reaches[i][from]) reaches[i][to] = true;
    }
  };
  std::vector<std::vector<uint32_t>> before(n);
  for (const OrderEdge& e : p.homes.order) before[e.to.index].push_back(e.from.index);
  for (uint32_t i = 0; i < n; ++i) {
    if (is_work(g.ops()[i]) && p.fusion.group_of[i] == UINT32_MAX) continue;  // never runs
    for (ValueId v : g.ops()[i].operands) link(g.value(v).def.index, i);
    for (uint32_t from : before[i]) link(from, i);
  }
  for (const Group& group : p.fusion.groups) {
    for (uint32_t v = 0; v < n; ++v) {
      if (!is_work(g.ops()[v])) continue;
      if (std::find(group.ops.begin(), group.ops.end(), OpId{v}) != group.ops.end()) continue;
      const auto any = [&](auto test) {
        return std::any_of(group.ops.begin(), group.ops.end(), test);
      };
      if (any([&](OpId o) { return reaches[o.index][v]; }) &&
          any([&](OpId o) { return reaches[v][o.index]; })) {
        return false;
      }
    }
  }
  return true;
}

size_t count_kernels(ir::Graph& g) { return checked(g).fusion.groups.size(); }

}  // namespace

TEST_CASE("fuse: softmax and layer_norm are one kernel each") {
  Maker m;
  m.output("y", m.softmax(m.input("x", {2, 3, 8})));
  CHECK(count_kernels(m.g) == 1);

  Maker n;
  const ValueId x = n.input("x", {2, 3, 8});
  n.output("y", n.layer_norm(x, n.weight("gamma", {8}), n.weight("beta", {8})));
  const Planned p = checked(n.g);
  CHECK(p.fusion.groups.size() == 1);
  std::vector<ValueId> sources;
  const ir::Graph body = extract_body(n.g, p.fusion.groups[0], &sources);
  CHECK(sources.size() == 3);
  CHECK(n.g.value(sources[1]).state);
  for (const ir::Op& op : body.ops()) CHECK(op.kind != OpKind::read);
}

TEST_CASE("fuse: a dot takes bias, activation and residual") {
  Maker m;
  const ValueId x = m.input("x", {4, 8});
  const ValueId h = m.map(Fn::relu, {m.bias(m.dot(x, m.weight("w", {8, 8})), m.weight("b", {8}))});
  m.output("y", m.add(x, m.bias(m.dot(h, m.weight("w2", {8, 8})), m.weight("b2", {8}))));
  const Planned p = checked(m.g);
  REQUIRE(p.fusion.groups.size() == 2);
  CHECK(p.fusion.groups[0].family == FamilyId::dot);
  CHECK(p.fusion.groups[1].family == FamilyId::dot);
  CHECK(p.fusion.groups[1].ops.size() == 3);
}

TEST_CASE("fuse: a dot takes neither reductions nor a second dot") {
  Maker m;
  const ValueId d = m.dot(m.input("x", {4, 8}), m.weight("w", {8, 8}));
  m.output("s", m.reduce(Fn::add, d, 2));
  m.output("e", m.dot(d, m.weight("v", {8, 3})));
  m.output("t", m.map(Fn::exp, {m.transpose(d, {1, 0})}));
  CHECK(count_kernels(m.g) == 4);
}

TEST_CASE("fuse: independent parts of one domain become one kernel") {
  Maker m;
  const ValueId a = m.map(Fn::exp, {m.input("a", {4, 8})});
  const ValueId b = m.map(Fn::tanh, {m.input("b", {4, 8})});
  const ValueId c = m.reduce(Fn::add, m.input("c", {4, 8}), 2);
  m.output("y", m.add(m.mul(a, b), m.along_last(c, {4, 8})));
  CHECK(count_kernels(m.g) == 1);
}

TEST_CASE("fuse: another index starts another kernel") {
  Maker m;
  const ValueId x = m.map(Fn::exp, {m.input("x", {4, 4})});
  m.output("turned", m.add(x, m.transpose(x, {1, 0})));
  CHECK(count_kernels(m.g) == 2);

  Maker c;
  const ValueId u = c.map(Fn::exp, {c.input("x", {4, 4})});
  c.output("joined", c.map(Fn::neg, {c.concat({u, u}, 0)}));
  c.output("rows", c.gather(u, c.iota({3}, 0), 0));
  CHECK(count_kernels(c.g) == 3);

  Maker r;  // two reductions over different axes
  const ValueId v = r.map(Fn::exp, {r.input("x", {4, 6})});
  r.output("rows", r.reduce(Fn::add, v, 2));
  r.output("columns", r.reduce(Fn::add, v, 1));
  CHECK(count_kernels(r.g) == 2);
}

TEST_CASE("fuse: a scatter joins what is pointwise before and after, no reduction") {
  const auto rows = [](Maker& m) { return m.iota({3}, 0); };
  Maker m;  // the base is read at the own index
  const ValueId x = m.map(Fn::exp, {m.input("x", {4, 6})});
  const ValueId s = m.scatter(Fn::add, x, rows(m), m.input("u", {3, 6}), 0);
  m.output("y", m.map(Fn::neg, {s}));
  CHECK(count_kernels(m.g) == 1);

  Maker u;  // the rows are read at others
  const ValueId made = u.map(Fn::exp, {u.input("u", {3, 6})});
  u.output("y", u.scatter(Fn::add, u.input("x", {4, 6}), rows(u), made, 0));
  CHECK(count_kernels(u.g) == 2);

  Maker r;
  const ValueId wide = r.scatter({}, r.input("x", {4, 6}), rows(r), r.input("u", {3, 6}), 0);
  r.output("rows", r.reduce(Fn::add, wide, 2));
  r.output("y", r.map(Fn::neg, {wide}));
  CHECK(count_kernels(r.g) == 2);

  Maker b;  // a reduction before, whose row is spread over the scatter's domain
  const ValueId z = b.input("z", {4, 6});
  const ValueId spread = b.along_last(b.reduce(Fn::max, z, 2), {4, 6});
  const ValueId base = b.add(z, spread);
  b.output("base", base);
  b.output("y", b.scatter(Fn::add, base, rows(b), b.input("u", {3, 6}), 0));
  CHECK(count_kernels(b.g) == 2);
}

TEST_CASE("fuse: reductions over several axes and through reshapes of the domain") {
  Maker m;
  const ValueId x = m.map(Fn::exp, {m.input("x", {2, 3, 4, 5})});
  const ValueId all = m.reduce(Fn::add, x, 0b1100);
  const ValueId flat = m.reduce(Fn::max, m.reshape(x, {6, 20}), 0b10);
  const ValueId both = m.add(m.reshape(all, {6}), flat);
  m.output("y", m.mul(m.reshape(x, {6, 20}), m.along_last(both, {6, 20})));
  CHECK(count_kernels(m.g) == 1);
}

TEST_CASE("fuse: a softmax over the first axis is one kernel") {
  Maker m;
  const ValueId x = m.input("x", {5, 7});
  const auto down = [&](ValueId v) { return m.broadcast(v, {5, 7}, {1}); };
  const ValueId e = m.map(Fn::exp, {m.map(Fn::sub, {x, down(m.reduce(Fn::max, x, 1))})});
  m.output("y", m.map(Fn::div, {e, down(m.reduce(Fn::add, e, 1))}));
  CHECK(count_kernels(m.g) == 1);

  Maker n;  // the spread result has another shape than what was reduced
  const ValueId sum = n.reduce(Fn::add, n.input("x", {2, 2, 6}), 0b011);
  n.output("y", n.map(Fn::neg, {n.broadcast(sum, {4, 6}, {1})}));
  CHECK(count_kernels(n.g) == 2);
}

TEST_CASE("fuse: a group is left and entered again by no path") {
  // exp feeds a reduction of its own and the dot; the last add cannot join the first group.
  Maker m;
  const ValueId x = m.map(Fn::exp, {m.input("x", {4, 4})});
  const ValueId d = m.dot(x, m.weight("w", {4, 4}));
  const ValueId t = m.map(Fn::tanh, {m.transpose(d, {1, 0})});
  m.output("y", m.add(x, t));
  const Planned p = checked(m.g);
  CHECK(p.fusion.groups.size() == 3);
  CHECK(is_convex(m.g, p));
}

TEST_CASE("fuse: an encoder block is eleven kernels") {
  Maker m;
  const int64_t tokens = 6, width = 8, heads = 2, head = 4, hidden = 16;
  const ValueId x = m.input("x", {tokens, width});
  const auto linear = [&](const std::string& name, ValueId v, int64_t out) {
    return m.bias(m.dot(v, m.weight(name + "/w", {m.shape(v).back(), out})),
                  m.weight(name + "/b", {out}));
  };
  const auto split = [&](ValueId v) {
    return m.transpose(m.reshape(v, {tokens, heads, head}), {1, 0, 2});
  };
  const ValueId q = split(linear("q", x, width)), k = split(linear("k", x, width)),
                v = split(linear("v", x, width));
  const Extents square{heads, tokens, tokens};
  const ValueId scores = m.mul(m.dot(q, k, false, true), m.splat(square, 0.5));
  const ValueId causal = m.map(Fn::ge, {m.iota(square, 1), m.iota(square, 2)});
  const ValueId masked = m.map(Fn::select, {causal, scores, m.splat(square, -1e9)});
  const ValueId context = m.dot(m.softmax(masked), v);
  const ValueId joined = m.reshape(m.transpose(context, {1, 0, 2}), {tokens, width});
  const ValueId h = m.layer_norm(m.add(x, linear("o", joined, width)), m.weight("g1", {width}),
                                 m.weight("b1", {width}));
  const ValueId ff = m.map(Fn::gelu, {linear("ff1", h, hidden)});
  m.output("y", m.layer_norm(m.add(h, linear("ff2", ff, width)), m.weight("g2", {width}),
                             m.weight("b2", {width})));
  const Planned p = checked(m.g);
  CHECK_MESSAGE(p.fusion.groups.size() == 11, p.fusion.print(m.g));
  ir::Graph again = simplify(m.g);
  CHECK(count_kernels(again) == 11);
}

TEST_CASE("fuse: a group writes a param in place only under its own index") {
  Maker m;  // an optimiser's step
  const ValueId p = m.param("p", {4, 6}), moment = m.param("m", {4, 6});
  const ValueId grad = m.input("grad", {4, 6});
  const ValueId next = m.add(m.mul(m.read(moment), m.splat({4, 6}, 0.9)), grad);
  m.assign(moment, next);
  m.assign(p, m.map(Fn::sub, {m.read(p), m.mul(next, m.splat({4, 6}, 0.1))}));
  const Planned step = checked(m.g);
  REQUIRE(step.fusion.groups.size() == 1);
  std::vector<ValueId> sources;
  const ir::Graph body = extract_body(m.g, step.fusion.groups[0], &sources);
  CHECK(step.fusion.groups[0].outputs.size() == 2);
  CHECK(body.outputs.empty());
  size_t params = 0;
  for (const ir::Op& op : body.ops()) params += op.kind == OpKind::param;
  CHECK(params == 2);

  Maker t;  // the transposed old value would be overwritten under the reader
  const ValueId q = t.param("q", {4, 4});
  t.assign(q, t.map(Fn::exp, {t.transpose(t.read(q), {1, 0})}));
  CHECK(count_kernels(t.g) == 2);

  Maker s;  // a reduction reads what another thread writes
  const ValueId r = s.param("r", {4, 6});
  s.assign(r, s.softmax(s.read(r)));
  CHECK(count_kernels(s.g) == 2);

  Maker n;  // the new version is another kernel's
  const ValueId w = n.param("w", {4});
  const ValueId w1 = n.assign(w, n.map(Fn::exp, {n.input("x", {4})}));
  n.output("y", n.map(Fn::neg, {n.read(w1)}));
  CHECK(count_kernels(n.g) == 2);
}

TEST_CASE("fuse: a cache append joins the kernel that makes the row") {
  Maker m;
  const ValueId cache = m.param("cache", {8, 4}), at = m.input("at", {}, DType::i32);
  const ValueId row = m.map(Fn::tanh, {m.input("x", {1, 4})});
  const ValueId cache1 = m.update(cache, row, {at, m.splat({}, 0, DType::i32)});
  m.output("sum", m.reduce(Fn::add, m.read(cache1), 1));
  CHECK(count_kernels(m.g) == 2);
}

TEST_CASE("fuse: groups keep to their limits") {
  Maker m;
  ValueId sum = m.input("x", {4});
  for (int i = 0; i < 150; ++i) sum = m.add(sum, m.input("a" + std::to_string(i), {4}));
  m.output("y", sum);
  CHECK(count_kernels(m.g) == 3);  // 62 inputs or so each

  Maker n;
  ValueId v = n.input("x", {4});
  for (int i = 0; i < 450; ++i) v = n.map(Fn::tanh, {v});
  n.output("y", v);
  const Planned p = checked(n.g);
  CHECK(p.fusion.groups.size() == 3);

  Maker o;  // many results that others need
  const ValueId x = o.input("x", {4});
  std::vector<ValueId> results{x};
  for (int i = 0; i < 100; ++i) results.push_back(o.map(Fn::sin, {results.back()}));
  for (int i = 0; i < 100; ++i) o.output("y" + std::to_string(i), results[size_t(i) + 1]);
  CHECK(count_kernels(o.g) == 2);
}

TEST_CASE("fuse: equal groups have equal bodies") {
  Maker m;
  ValueId x = m.input("x", {4, 8});
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    x = m.layer_norm(m.bias(m.dot(x, m.weight("w" + n, {8, 8})), m.weight("b" + n, {8})),
                     m.weight("g" + n, {8}), m.weight("h" + n, {8}));
  }
  m.output("y", x);
  const Planned p = checked(m.g);
  REQUIRE(p.fusion.groups.size() == 6);
  std::set<std::string> texts;
  for (const Group& group : p.fusion.groups) {
    texts.insert(ir::print(extract_body(m.g, group, nullptr)));
  }
  CHECK(texts.size() == 2);
}

TEST_CASE("fuse: dead ops and empty tensors") {
  Maker m;
  const ValueId x = m.input("x", {0, 4});
  m.map(Fn::exp, {m.input("z", {4})});
  m.output("y", m.map(Fn::exp, {m.map(Fn::neg, {x})}));
  m.output("s", m.reduce(Fn::add, m.map(Fn::tanh, {x}), 1));
  checked(m.g);
}

TEST_CASE("fuse: random graphs, with and without fusion") {
  std::mt19937 random(31);
  size_t single = 0, fused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    ir::Graph g = random_graph(random, 5 + static_cast<int>(below(random, 60)));
    if (below(random, 2)) g = simplify(g);
    ir::Graph h = g;
    const Planned p = checked(g);
    REQUIRE(is_convex(g, p));
    fused += p.fusion.groups.size();
    const Planned q = checked(h, false);
    for (const Group& group : q.fusion.groups) CHECK(group.ops.size() == 1);
    single += q.fusion.groups.size();
  }
  CHECK(fused * 3 < single * 2);
}
