// Graphs with branches and loops, as the control pass leaves them, through lanes, memory and edges.
#include <doctest/doctest.h>

#include "passes/node_costs.hpp"
#include "passes_help.hpp"
#include "region_oracle.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using ir::Lowering;

const Extents kMatrix{32, 32};

ValueId variable(Maker& m, const std::string& name, const Extents& s, DType dtype = DType::f32) {
  return m.g.add({OpKind::param, ir::LocalAttr{}, {}, Maker::type(s, dtype), m.str(name)});
}
/// What decides, as state that is given a value before a branch or loop of this lowering.
ValueId decider(Maker& m, Lowering lowering, const std::string& name, DType dtype) {
  if (lowering != Lowering::node) return variable(m, name, {}, dtype);
  return m.g.add({OpKind::param, ir::HandleAttr{}, {}, Maker::type({}, dtype), m.str(name)});
}
/// An argument of a body that is a version of state outside.
ValueId argument(Maker& m, const Maker& outside, ValueId state, const std::string& name) {
  ir::Attrs attrs = outside.g.op(outside.g.value(state).param).attrs;
  return m.g.add({OpKind::param, attrs, {}, outside.g.type(state), m.str(name)});
}
ValueId chain(Maker& m, ValueId x, ValueId w, int length) {
  for (int i = 0; i < length; ++i) x = m.map(Fn::tanh, {m.dot(x, w)});
  return x;
}

/// y = x @ w .. so many times, by a loop of this lowering, whose body has `width` chains of three
/// products. Gives the version of y after it.
ValueId add_loop(Maker& m, ValueId x, ValueId w, int times, int width, Lowering lowering) {
  const auto i32 = DType::i32;
  const ValueId y = m.assign(variable(m, "rows", kMatrix), x);
  const ValueId i = m.assign(variable(m, "i", {}, i32), m.splat({}, 0, i32));
  const ValueId go =
      m.assign(decider(m, lowering, "go", DType::b1), m.splat({}, times > 0 ? 1 : 0, DType::b1));
  Maker b;
  const ValueId b_go = argument(b, m, go, "go"), b_y = argument(b, m, y, "y"),
                b_i = argument(b, m, i, "i"), b_w = b.input("w", kMatrix);
  ValueId sum = b.read(b_y);
  const ValueId from = sum;
  for (int c = 0; c < width; ++c) {
    sum = b.add(sum, chain(b, b.map(Fn::mul, {from, b.splat(kMatrix, 1.0 / (c + 2))}), b_w, 3));
  }
  b.assign(b_y, b.map(Fn::tanh, {sum}));
  const ValueId next = b.add(b.read(b_i), b.splat({}, 1, i32));
  b.assign(b_i, next);
  b.assign(b_go, b.map(Fn::lt, {next, b.splat({}, times, i32)}));
  const auto body = static_cast<uint32_t>(m.g.bodies.size());
  m.g.bodies.push_back(std::move(b.g));
  const ValueId first =
      m.g.add({OpKind::loop, ir::LoopAttr{body, ir::kNoBody, 0, {}, lowering, 1}, {go, y, i, w}});
  return ValueId{first.index + 1};
}

/// A branch on whether the sum of x is positive: one product, or a loop and two chains.
ir::Graph model(Lowering branch, Lowering loop) {
  Maker m;
  const ValueId x = m.input("x", kMatrix), w = m.input("w", kMatrix);
  const ValueId positive = m.map(Fn::gt, {m.reduce(Fn::add, x, 3), m.splat({}, 0)});
  const ValueId y = variable(m, "y", kMatrix);
  ValueId selects = positive;
  if (branch == Lowering::node) selects = m.assign(decider(m, branch, "if", DType::b1), positive);
  std::vector<uint32_t> bodies;
  for (int side = 0; side < 2; ++side) {
    Maker b;
    const ValueId b_y = argument(b, m, y, "y"), b_x = b.input("x", kMatrix),
                  b_w = b.input("w", kMatrix);
    ValueId made = chain(b, b_x, b_w, side + 1);
    if (side == 1 && branch != Lowering::predicate) {
      made = b.add(b.read(add_loop(b, made, b_w, 5, 2, loop)), chain(b, b_x, b_w, 2));
    }
    b.assign(b_y, made);
    bodies.push_back(static_cast<uint32_t>(m.g.bodies.size()));
    m.g.bodies.push_back(std::move(b.g));
  }
  const ValueId beside = chain(m, m.map(Fn::sin, {x}), w, 4);
  const ValueId after =
      m.g.add({OpKind::branch, ir::BranchAttr{bodies, branch}, {selects, y, x, w}});
  m.output("out", m.map(Fn::relu, {m.add(m.read(after), beside)}));
  return std::move(m.g);
}

Program planned(const ir::Graph& graph, const Options& o) {
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  REQUIRE_MESSAGE(wrong.empty(), wrong[0].message);
  return run_passes(graph, o, "edges").program;
}

}  // namespace

TEST_CASE("branches and loops become regions that are right in lanes, memory and edges") {
  using L = Lowering;
  for (const auto& [branch, loop] :
       {std::pair(L::node, L::node), std::pair(L::host, L::node), std::pair(L::host, L::host),
        std::pair(L::predicate, L::node)}) {
    for (const int streams : {1, 2, 8}) {
      for (const bool reuse : {true, false}) {
        Options o;
        o.streams = streams;
        o.reuse = reuse;
        o.simplify = false;
        const Program p = planned(model(branch, loop), o);
        check_regions(p, reuse ? Sharing::by_data : Sharing::none);
        for (const Body& body : p.bodies) {
          const Relation made = closure(edges_of(body));
          REQUIRE(made == closure(must_order(p, body, true)));
          REQUIRE(made == closure(must_order(p, body, false)));
        }
        for (uint32_t width : widths_of(p)) CHECK(width <= static_cast<uint32_t>(streams));
        REQUIRE(p.regions.size() == (branch == L::predicate ? 1 : 2));
        for (const Region& r : p.regions) CHECK(r.estimate_us > 1);
        CHECK(predicted_us(p) > p.regions[0].estimate_us);
      }
    }
  }
}
