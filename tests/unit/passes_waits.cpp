#include <doctest/doctest.h>

#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// "dot: a0 a1!", a line for each kernel that waits: its slots, fixed ones marked.
std::string waits(const Program& p) {
  std::string text;
  for (const Kernel& k : p.kernels) {
    if (!k.waits) continue;
    text += k.family + ":";
    for (const ArgSlot& s : k.args) text += " " + s.name + (s.fixed ? "!" : "");
    text += "\n";
  }
  return text;
}

Program planned(const ir::Graph& g, const std::function<void(Options&)>& set = {}) {
  Options o;
  o.verify = true;
  o.chain = false;
  o.streams = 1;
  if (set) set(o);
  return run_passes(g, o).program;
}

/// relu(x @ w) @ v, where w is a weight.
Maker two_products(const std::function<ValueId(Maker&)>& v) {
  Maker m;
  const ValueId h = m.map(Fn::relu, {m.dot(m.input("x", {16, 8}), m.weight("w", {8, 24}))});
  m.output("y", m.dot(h, v(m)));
  return m;
}

std::string first_complaint(const Program& p) {
  const std::vector<std::string> found = check(p);
  return found.empty() ? "" : found[0];
}

}  // namespace

TEST_CASE("waits: what nothing writes is fixed: weights, and no inputs, temporaries or state") {
  const auto of = [](const std::function<ValueId(Maker&)>& v) {
    return waits(planned(two_products(v).g));
  };
  CHECK(of([](Maker& m) { return m.weight("v", {24, 4}); }) == "dot: a0 a1! r0\ndot: a0 a1! r0\n");
  CHECK(of([](Maker& m) { return m.input("v", {24, 4}); }) == "dot: a0 a1! r0\ndot: a0 a1 r0\n");
  // A param that the program writes later.
  const std::string text = of([](Maker& m) {
    const ValueId before = m.param("v", {24, 4});
    const ValueId v = m.read(before);
    m.assign(before, m.map(Fn::exp, {v}));
    return v;
  });
  CHECK(text.find("dot: a0 a1! r0\ndot: a0 a1 r0\n") == 0);
}

TEST_CASE("waits: a slot is fixed if it is for all nodes of the kernel, and all its parts") {
  Maker m;
  const ValueId x = m.input("x", {16, 16});
  const ValueId a = m.map(Fn::exp, {m.dot(x, m.weight("w", {16, 16}))});
  m.output("y", m.map(Fn::exp, {m.dot(x, a)}));
  CHECK(waits(planned(m.g)) == "dot: a0 a1 r0\n");

  Maker side_by_side;
  const ValueId s = side_by_side.input("x", {16, 16});
  for (const char* name : {"u", "v"}) {
    side_by_side.output(name,
                        side_by_side.dot(s, side_by_side.weight(name + std::string("w"), {16, 4})));
  }
  CHECK(waits(planned(side_by_side.g)) == "dot: a0 a1! r0 a0 a1! r0\n");
  const ValueId other = side_by_side.input("other", {16, 4});
  side_by_side.output("o", side_by_side.dot(s, other));
  CHECK(waits(planned(side_by_side.g)) == "dot: a0 a1 r0 a0 a1 r0 a0 a1 r0\n");
}

TEST_CASE("waits: below sm_90 nothing waits, and every edge is full") {
  const Maker m = two_products([](Maker& of) { return of.weight("v", {24, 4}); });
  const auto kinds = [&](std::string_view arch, bool pdl) {
    const Program p = planned(m.g, [&](Options& o) {
      o.target = *target_from_name(arch);
      o.pdl = pdl;
    });
    REQUIRE(p.bodies[0].edges.size() == 1);
    CHECK(p.kernels[0].waits == (arch != "sm_80"));
    const bool waits_in_text =
        p.modules[0].source.rfind("  braid_wait_for_others();") != std::string::npos;
    CHECK(waits_in_text == (arch != "sm_80"));
    return p.bodies[0].edges[0].kind;
  };
  CHECK(kinds("sm_80", true) == EdgeKind::full);
  CHECK(kinds("sm_90", true) == EdgeKind::programmatic);
  CHECK(kinds("sm_90", false) == EdgeKind::full);
  CHECK(kinds("sm_120", true) == EdgeKind::programmatic);
}

TEST_CASE("waits: the text is the same whatever the edges, so the bits are too") {
  const Maker m = two_products([](Maker& of) { return of.weight("v", {24, 4}); });
  const auto text = [&](bool pdl) {
    return planned(m.g, [&](Options& o) { o.pdl = pdl; }).modules[0].source;
  };
  CHECK(text(true) == text(false));
}

TEST_CASE("waits: fixed operands are on their way first, and nothing else is read before") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Maker m;
    const ValueId x = m.input("x", {32, 64}, dtype);
    const ValueId h = m.map(Fn::relu, {m.dot(x, m.read(m.param("w", {64, 64}, dtype)))});
    m.output("y", m.add(m.dot(h, m.read(m.param("v", {64, 64}, dtype))), x));
    const Program p = planned(m.g);
    REQUIRE(p.kernels.size() == 2);
    const std::string& source = p.modules[0].source;
    const std::string text = source.substr(source.rfind("extern \"C\" __global__"));
    const size_t wait = text.find("braid_wait_for_others();");
    REQUIRE(wait != std::string::npos);
    CHECK(text.find("fetch_b(") < wait);
    const std::string call = dtype == DType::f32 ? "fetch_a(0)" : "fetch_a(chunk * BK";
    CHECK(text.find(call) > wait);
    CHECK(text.find("braid_wait_for_others();", wait + 1) == std::string::npos);
    // The compiler may load what is restrict and constant whenever it likes.
    CHECK(text.find("* __restrict__ a1") != std::string::npos);
    CHECK(text.find("* __restrict__ a0") == std::string::npos);
    CHECK(text.find("* __restrict__ a2") == std::string::npos);
    CHECK(text.find("* __restrict__ r0") != std::string::npos);
  }
}

TEST_CASE("waits: kernels of several waves have full edges on both sides") {
  Maker m;
  const ValueId x = m.input("x", {4096, 2048});
  const ValueId rows = m.reduce(Fn::add, m.map(Fn::exp, {x}), 0b10);
  const ValueId few = m.softmax(m.reshape(rows, {1, 4096}));
  m.output("y", m.map(Fn::tanh, {m.softmax(m.broadcast(few, {4096, 4096}, {0, 1}))}));
  const Program p = planned(m.g);
  std::string kinds;
  for (const Edge& e : p.bodies[0].edges) {
    const uint32_t from = p.kernels[p.bodies[0].nodes[e.from].kernel].launch.grid[0];
    const uint32_t to = p.kernels[p.bodies[0].nodes[e.to].kernel].launch.grid[0];
    const bool wide = from > 2048 || to > 2048;
    CHECK((e.kind == EdgeKind::full) == wide);
    kinds += wide ? "-" : "~";
  }
  CHECK(kinds.find('-') != std::string::npos);
}

TEST_CASE("waits: the checker takes nothing as fixed that is written") {
  const Maker m = two_products([](Maker& of) { return of.weight("v", {24, 4}); });
  const Program good = planned(m.g);
  const auto refused = [&](const std::function<void(Program&)>& spoil) {
    Program p = good;
    spoil(p);
    return first_complaint(p);
  };
  CHECK(refused([](Program&) {}).empty());
  CHECK(refused([](Program& p) {
          p.kernels[1].args[0].fixed = true;
        }).find("may read argument 0 before it waits, but buffer ") != std::string::npos);
  CHECK(refused([](Program& p) {
          p.kernels[0].args[0].fixed = true;
        }).find("may read argument 0 before it waits, but buffer ") != std::string::npos);
  CHECK(refused([](Program& p) {
          p.kernels[1].args[2].fixed = true;
        }).find("is fixed, but not an operand of a kernel that waits") != std::string::npos);
  CHECK(refused([](Program& p) {
          p.kernels[1].waits = false;
        }).find("is fixed, but not an operand of a kernel that waits") != std::string::npos);
  CHECK(refused([](Program& p) {
          p.target.arch = "sm_80";
        }).find("waits by itself, which sm_80 cannot") != std::string::npos);
  CHECK(refused([](Program& p) {
          p.params[1].written = true;
        }).find("may read argument 1 before it waits, but buffer ") != std::string::npos);
}
