#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "ir/text.hpp"
#include "passes/align_concats.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"
#include "passes/recompute_rows.hpp"
#include "passes_help.hpp"

namespace braid::test {
namespace {

using ir::ValueId;

Program planned(const ir::Graph& g, bool chain = true) {
  Options o;
  o.chain = chain;
  o.verify = true;
  return run_passes(g, o).program;
}

/// The families of the nodes in launch order, "row dot chain".
std::string families(const Program& p) {
  std::string text;
  for (const Node& n : p.bodies.at(0).nodes) {
    text += (text.empty() ? "" : " ") + p.kernels[n.kernel].family;
  }
  return text;
}

ValueId weight(Maker& m, const std::string& name, int64_t k, int64_t n) {
  return m.weight(name, {k, n});
}

/// The mean is taken from every row.
ValueId centred(Maker& m, ValueId x, int64_t rows, int64_t columns) {
  const ValueId mean = m.map(Fn::mul, {m.reduce(Fn::add, x, m.last_axis(x)),
                                       m.splat({rows}, 1.0 / static_cast<double>(columns))});
  return m.map(Fn::sub, {x, m.broadcast(mean, {rows, columns}, {0})});
}

}  // namespace

TEST_CASE("chain: products, and reductions in front of them, become one kernel") {
  Maker m;
  const ValueId x = m.input("x", {4, 64});
  const ValueId h = m.map(Fn::relu, {m.dot(centred(m, x, 4, 64), weight(m, "w", 64, 64))});
  m.output("y", m.dot(h, weight(m, "v", 64, 32)));
  CHECK(families(planned(m.g)) == "chain");
  CHECK(families(planned(m.g, false)) == "row dot dot");
  CHECK(check(planned(m.g)).empty());
}

TEST_CASE("chain: what others need of the first kernel is stored by the joined one") {
  Maker m;
  const ValueId x = m.input("x", {4, 64});
  const ValueId norm = centred(m, x, 4, 64);
  const ValueId y = m.dot(norm, weight(m, "w", 64, 64));
  m.output("y", y);
  m.output("norm", norm);
  const Program p = planned(m.g);
  CHECK(families(p) == "chain");
  CHECK(check(p).empty());
  CHECK(p.kernels[0].args.size() == 4);
}

TEST_CASE("chain: nobody waits longer than before") {
  // The second product could start with the first one.
  Maker m;
  const ValueId x = m.input("x", {32, 64});
  const ValueId norm = centred(m, x, 32, 64);
  m.output("y", m.dot(norm, weight(m, "w", 64, 64)));
  m.output("z", m.dot(m.map(Fn::exp, {norm}), weight(m, "v", 64, 48)));
  CHECK(families(planned(m.g)).find("row") == 0);
}

TEST_CASE("chain: a product whose results alone meet another's runs beside it") {
  Maker m;
  const ValueId x = m.input("x", {32, 64}), z = m.input("z", {32, 64});
  const ValueId a = m.dot(x, weight(m, "w", 64, 64));
  const ValueId b = m.map(Fn::exp, {m.dot(z, weight(m, "v", 64, 64))});
  m.output("y", m.add(a, b));
  CHECK(families(planned(m.g)) == "dot dot");
}

TEST_CASE("chain: large products stay apart") {
  Maker m;
  const ValueId x = m.input("x", {512, 512});
  const ValueId h = m.dot(x, weight(m, "w", 512, 512));
  m.output("y", m.dot(h, weight(m, "v", 512, 512)));
  CHECK(families(planned(m.g)) == "dot dot");
}

TEST_CASE("chain: a group is never joined around another") {
  // softmax(h) is between the products, and reads what the first one makes.
  Maker m;
  const ValueId x = m.input("x", {4, 32});
  const ValueId h = m.dot(x, weight(m, "w", 32, 32));
  const ValueId beside = m.reshape(m.reduce(Fn::max, h, 1), {1, 32});
  const ValueId g = m.map(Fn::mul, {h, m.broadcast(m.reshape(beside, {32}), {4, 32}, {1})});
  m.output("y", m.dot(g, weight(m, "v", 32, 32)));
  const Program p = planned(m.g);
  CHECK(check(p).empty());
}

TEST_CASE("chain: a concat computes the elements of its operands where it is their only reader") {
  for (const bool read_twice : {false, true}) {
    Maker m;
    const ValueId x = m.input("x", {6, 30}), at = m.input("at", {11}, DType::i32);
    const ValueId picked = m.map(Fn::exp, {m.gather(x, at, 1)});
    m.output("y", m.map(Fn::neg, {m.concat({m.input("z", {6, 5}), picked}, 1)}));
    if (read_twice) m.output("w", m.reduce(Fn::add, picked, m.last_axis(picked)));
    CHECK(families(planned(m.g)) == (read_twice ? "row row" : "row"));
    CHECK(families(planned(m.g, false)) == "row row");
    CHECK(check(planned(m.g)).empty());
  }
}

TEST_CASE("chain: concats do not compute concats, nor what holds much memory or breaks a limit") {
  // Through views from level to level the text of one kernel grew by 5.6 times.
  Maker m;
  ValueId x = m.input("x", {2, 3, 5, 7});
  for (int i = 0; i < 12; ++i) {
    x = m.reshape(m.transpose(x, {2, 0, 3, 1}), {7, 3, 2, 5});
    x = m.reshape(m.transpose(x, {2, 1, 0, 3}), {2, 3, 5, 7});
    const ValueId z = m.input("z" + std::to_string(i), {1, 3, 5, 7});
    x = m.map(Fn::sin, {m.concat({z, m.slice(x, 0, 1, 1)}, 0)});
  }
  m.output("y", x);
  CHECK(planned(m.g).bodies[0].nodes.size() == 12);

  Maker large;
  const ValueId t = large.dot(large.input("a", {64, 64}), large.weight("w", {64, 512}));
  const ValueId part = large.map(Fn::tanh, {large.slice(t, 1, 3, 8)});
  large.output("y", large.concat({part, large.input("b", {64, 4})}, 1));
  CHECK(families(planned(large.g)) == "dot row row");

  Maker huge;  // four times whose bytes are no int64_t
  const ValueId turned = huge.transpose(
      huge.map(Fn::exp, {huge.input("x", {int64_t{1} << 30, int64_t{1} << 29})}), {1, 0});
  huge.output("y", huge.concat({huge.map(Fn::tanh, {turned}), huge.input("z", {1, 1 << 30})}, 0));
  CHECK(run_passes(huge.g, {}, "chain").fusion.groups.size() == 2);

  Maker small;
  const ValueId e = small.map(Fn::exp, {small.input("x", {6, 30})});
  small.output("y", small.concat({e, small.input("z", {6, 5})}, 1));
  Options limited;
  limited.memory_limit = 1 << 20;
  CHECK(families(planned(small.g)) == "row");
  CHECK(families(run_passes(small.g, limited).program) == "row row");
}

TEST_CASE("chain: a product reads the operands of a concat of few") {
  for (const int parts : {8, 9}) {
    Maker m;
    std::vector<ValueId> xs;
    for (int i = 0; i < parts; ++i) xs.push_back(m.input("x" + std::to_string(i), {32, 24}));
    m.output("y", m.dot(m.concat(xs, 1), m.weight("w", {24 * parts, 16})));
    CHECK(families(planned(m.g)) == (parts == 8 ? "dot" : "row dot"));
  }
}

TEST_CASE("chain: a product reads a concat's operands, unless it writes over them") {
  for (const bool writes : {false, true}) {
    Maker m;
    const ValueId state = m.param("s", {64, 64});
    const ValueId x = m.concat({m.read(state), m.input("z", {64, 16})}, 1);
    const ValueId y = m.dot(x, m.weight("w", {80, 64}));
    if (writes) m.assign(state, y);
    if (!writes) m.output("y", y);
    CHECK(families(planned(m.g)) == (writes ? "row dot" : "dot"));
    CHECK(families(planned(m.g, false)) == "row dot");
    CHECK(check(planned(m.g)).empty());
  }
}

TEST_CASE("views: a concat whose rows are no packs is made transposed for its product") {
  const auto transposes = [](int64_t rows, int64_t columns, int64_t readers, bool other_reader) {
    Maker m;
    const ValueId x = m.concat({m.input("x", {rows, columns - 3}), m.input("z", {rows, 3})}, 1);
    m.output("y", m.dot(x, m.weight("w", {columns, readers})));
    if (other_reader) m.output("r", m.reduce(Fn::max, x, m.last_axis(x)));
    ir::Graph g = m.g;
    align_concats(g);
    CHECK(ir::verify(g).empty());
    const bool turned = std::any_of(g.ops().begin(), g.ops().end(), [](const ir::Op& op) {
      return op.kind == OpKind::dot && std::get<ir::DotAttr>(op.attrs).ta;
    });
    if (!turned) CHECK(ir::print(g) == ir::print(m.g));
    return turned;
  };
  CHECK(transposes(128, 479, 1024, false));
  CHECK_FALSE(transposes(128, 480, 1024, false));  // packs as they are
  CHECK_FALSE(transposes(127, 479, 1024, false));  // none the other way either
  CHECK_FALSE(transposes(128, 479, 16, false));    // read too few times
  CHECK_FALSE(transposes(128, 479, 1024, true));   // somebody else reads it
}

TEST_CASE("views: transposed concats are the same numbers, along every axis and on both sides") {
  for (const int axis : {0, 1, 2}) {
    for (const bool right : {false, true}) {
      for (const bool flag : {false, true}) {
        Maker m;
        // In all [2, 8, 13]: rows are no packs.
        Extents a{2, 8, 13}, b{2, 8, 13};
        const int64_t whole = a[static_cast<size_t>(axis)];
        a[static_cast<size_t>(axis)] = whole / 2;
        b[static_cast<size_t>(axis)] = whole - whole / 2;
        const ValueId x = m.concat({m.input("x", a), m.input("z", b)}, axis);
        const int64_t terms = flag ? 8 : 13;
        const ValueId w = m.input("w", right ? Extents{2, 64, terms} : Extents{2, terms, 64});
        m.output("y", right ? m.dot(w, x, false, !flag) : m.dot(x, w, flag, false));
        ir::Graph g = m.g;
        align_concats(g);
        CHECK(ir::print(g) != ir::print(m.g));
        CHECK(ir::verify(g).empty());
        CHECK(same(run_whole(m.g, 12), run_whole(g, 12)));
      }
    }
  }
}

TEST_CASE("recompute: a norm of few rows in front of several products is one for each") {
  const auto dots_behind = [](int64_t rows) {
    Maker m;
    const ValueId x = m.input("x", {rows, 64});
    const ValueId norm = centred(m, x, rows, 64);
    for (const char* name : {"q", "k", "v"}) m.output(name, m.dot(norm, weight(m, name, 64, 64)));
    ir::Graph g = m.g;
    repeat_rows(g);
    return std::count_if(g.ops().begin(), g.ops().end(),
                         [](const ir::Op& op) { return op.kind == ir::OpKind::reduce; });
  };
  CHECK(dots_behind(1) == 3);
  CHECK(dots_behind(kMostRowsRepeated) == 3);
  CHECK(dots_behind(kMostRowsRepeated + 1) == 1);
}

TEST_CASE("recompute: a norm that somebody else reads is computed once") {
  Maker m;
  const ValueId x = m.input("x", {1, 64});
  const ValueId norm = centred(m, x, 1, 64);
  for (const char* name : {"q", "k"}) m.output(name, m.dot(norm, weight(m, name, 64, 64)));
  m.output("n", m.map(Fn::exp, {norm}));
  ir::Graph g = m.g;
  repeat_rows(g);
  CHECK(g.ops().size() == m.g.ops().size());
}

}  // namespace braid::test
