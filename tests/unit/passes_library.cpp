// Library kernels in plans: products for cuBLASLt, calls of functions, workspaces, the checker's
// rules, and taking one out of its graph.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "ir/break_out.hpp"
#include "ir/matmul_body.hpp"
#include "passes/check.hpp"
#include "passes/library_dots.hpp"
#include "passes/pipeline.hpp"
#include "passes_help.hpp"
#include "random_program.hpp"

using namespace braid;
using namespace braid::test;

namespace {

Options with(Dots dots) {
  Options o;
  o.verify = true;
  o.dots = dots;
  return o;
}

Program plan(Maker& m, const Options& o) { return run_passes(m.g, o).program; }

const Kernel* library_kernel(const Program& p) {
  const auto at = std::find_if(p.kernels.begin(), p.kernels.end(),
                               [](const Kernel& k) { return k.code == Code::library; });
  return at == p.kernels.end() ? nullptr : &*at;
}

std::string complaints(const Program& p) {
  std::string text;
  for (const std::string& s : check(p)) text += s + "\n";
  return text;
}

ValueId call(Maker& m, const std::string& function, std::vector<ValueId> in, const Extents& s,
             int64_t workspace) {
  const ir::LibraryAttr attr{m.str(function), Dim(workspace), m.str(function + "_reference")};
  return m.g.add({OpKind::library, attr, std::move(in), Maker::type(s)});
}

/// Two calls in parallel lanes, between kernels of ours.
Program two_calls(int64_t workspace, bool lanes = true) {
  Maker m;
  const Extents s{64, 48};
  const ValueId x = m.input("x", s), y = m.input("y", s);
  const ValueId a = call(m, "fft", {m.map(Fn::tanh, {x})}, s, workspace);
  const ValueId b = call(m, "fft", {m.map(Fn::exp, {y})}, s, workspace);
  m.output("z", m.add(a, b));
  Options o = with(Dots::automatic);
  o.force_lanes = lanes;
  if (!lanes) o.streams = 1;
  return plan(m, o);
}

}  // namespace

TEST_CASE("a product with the epilogue that cuBLASLt has is one library kernel") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool bias : {false, true}) {
      for (const std::optional<Fn> act :
           {std::optional<Fn>(), std::optional(Fn::relu), std::optional(Fn::gelu_tanh)}) {
        for (const bool ta : {false, true}) {
          Maker m;
          const ValueId x = m.input("x", ta ? Extents{24, 40} : Extents{40, 24}, dtype);
          const ValueId w = m.input("w", {24, 56}, dtype), c = m.input("c", {56}, dtype);
          ValueId y = m.dot(x, w, ta);
          if (bias) y = m.bias(y, c);
          if (act) y = m.map(*act, {y});
          m.output("y", y);
          const Program p = plan(m, with(Dots::cublaslt));
          CAPTURE(to_text(p));
          REQUIRE(p.kernels.size() == 1);
          const Kernel& k = p.kernels[0];
          CHECK(k.code == Code::library);
          CHECK(k.function == kCublasLtMatmul);
          CHECK(k.args.size() == (bias ? 5 : 4));
          CHECK(k.workspace > 0);
          CHECK(p.modules.empty());
          const auto body = matmul_body(k.body);
          REQUIRE(body);
          CHECK(body->m == 40);
          CHECK(body->n == 56);
          CHECK(body->k == 24);
          CHECK(body->ta == ta);
          CHECK(body->bias.has_value() == bias);
          CHECK(check(p).empty());
          CHECK(plan(m, with(Dots::braid)).kernels[0].code == Code::generated);
        }
      }
    }
  }
}

TEST_CASE("what cuBLASLt does not compute stays out of its kernels") {
  const auto kernels = [](auto&& make) {
    Maker m;
    const ValueId x = m.input("x", {40, 24}), w = m.input("w", {24, 56});
    make(m, m.dot(x, w));
    const Program p = plan(m, with(Dots::cublaslt));
    CHECK(check(p).empty());
    std::vector<bool> library;
    for (const Node& n : p.bodies[0].nodes) {
      library.push_back(p.kernels[n.kernel].code == Code::library);
    }
    return library;
  };
  using Kinds = std::vector<bool>;
  CHECK(kernels([](Maker& m, ValueId y) { m.output("y", m.map(Fn::tanh, {y})); }) ==
        Kinds{true, false});
  // A bias for each column, and a residual.
  CHECK(kernels([](Maker& m, ValueId y) {
          m.output("y", m.add(y, m.broadcast(m.input("c", {40}), {40, 56}, {0})));
        }) == Kinds{true, false});
  CHECK(kernels([](Maker& m, ValueId y) { m.output("y", m.add(y, m.input("r", {40, 56}))); }) ==
        Kinds{true, false});
  // What somebody else needs is in memory, and relu comes before no bias.
  CHECK(kernels([](Maker& m, ValueId y) {
          m.output("p", y);
          m.output("y", m.map(Fn::relu, {y}));
        }) == Kinds{true, false});
  CHECK(kernels([](Maker& m, ValueId y) {
          m.output("y", m.bias(m.map(Fn::relu, {y}), m.input("c", {56})));
        }) == Kinds{true, false});
  CHECK(kernels([](Maker& m, ValueId y) { m.output("y", m.add(y, y)); }) == Kinds{true, false});
  Maker wide;
  wide.output("y",
              wide.dot(wide.input("x", {8, 8}, DType::f64), wide.input("w", {8, 8}, DType::f64)));
  CHECK(library_kernel(plan(wide, with(Dots::cublaslt))) == nullptr);
}

TEST_CASE("by itself the table of sizes decides, and says why") {
  const auto of = [](int64_t m_extent, int64_t k, int64_t n, DType dtype, Math math) {
    Maker m;
    m.output("y", m.dot(m.input("x", {m_extent, k}, dtype), m.input("w", {k, n}, dtype)));
    Options o = with(Dots::automatic);
    o.math = math;
    return plan(m, o);
  };
  for (const auto& [dtype, math] : {std::pair(DType::f32, Math::strict),
                                    {DType::f32, Math::tf32},
                                    {DType::f16, Math::strict},
                                    {DType::bf16, Math::strict}}) {
    const LibraryFrom from = library_from(dtype, math == Math::tf32);
    const int64_t rows = std::max<int64_t>(from.rows, 128);
    // 2 m n k around the size in the table.
    const auto k = static_cast<int64_t>(from.flops / (2.0 * static_cast<double>(rows) * 1024));
    CHECK(library_kernel(of(rows, k + 1, 1024, dtype, math)) != nullptr);
    CHECK(library_kernel(of(rows, k - 1, 1024, dtype, math)) == nullptr);
    const int64_t few = from.rows - 1;
    CHECK(library_kernel(of(few, 2 * k, 4096, dtype, math)) == nullptr);
  }
  const Program p = of(2048, 1024, 2048, DType::f32, Math::strict);
  REQUIRE(library_kernel(p));
  CHECK(why_library(*library_kernel(p), p.options) ==
        "cuBLASLt: 8.6 GFLOP of work, from 805.3 MFLOP on it is faster");
}

TEST_CASE("workspaces of calls in parallel lanes lie apart, and of calls in a row need not") {
  const auto places = [](const Program& p) {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const Node& n : p.bodies[0].nodes) {
      const Kernel& k = p.kernels[n.kernel];
      if (k.workspace == 0) continue;
      const Buffer& b = p.buffers[p.views[n.args.back()].buffer];
      CHECK(b.bytes == 70000);
      found.emplace_back(b.offset, b.offset + b.bytes);
    }
    return found;
  };
  const Program p = two_calls(70000);
  REQUIRE(p.bodies[0].lanes == 2);
  CHECK(check(p).empty());
  const auto at = places(p);
  REQUIRE(at.size() == 2);
  CHECK((at[0].second <= at[1].first || at[1].second <= at[0].first));
  const auto row = places(two_calls(70000, false));
  REQUIRE(row.size() == 2);
  CHECK(row[0].first < row[1].second);
  CHECK(row[1].first < row[0].second);
  CHECK(p.kernels.size() == 4);  // one for both calls
  CHECK(two_calls(0).kernels[1].args.size() == 2);
}

TEST_CASE("a library kernel that a pass garbled is refused") {
  const Program good = two_calls(512);
  REQUIRE(complaints(good).empty());
  const auto at = static_cast<size_t>(library_kernel(good) - good.kernels.data());
  const auto refused = [&](const char* why, auto&& change) {
    Program p = good;
    change(p, p.kernels[at]);
    CAPTURE(why);
    CHECK(complaints(p).find(why) != std::string::npos);
  };
  refused("has a library op in its body", [](Program&, Kernel& k) { k.code = Code::generated; });
  refused("is not its body's one op", [](Program&, Kernel& k) { k.function = "dct"; });
  refused("is not its body's one op", [](Program& p, Kernel& k) {
    k.workspace = 256;
    k.args.back().type.shape = Shape{256};
    static_cast<void>(p);
  });
  refused("the workspace of library kernel",
          [](Program&, Kernel& k) { k.args.back().role = Role::inout; });
  refused("has a guard, parts, a wait", [](Program&, Kernel& k) { k.waits = true; });
  refused("arguments, but its body needs", [](Program&, Kernel& k) { k.workspace = 0; });
  refused("of a library kernel is programmatic", [](Program& p, Kernel&) {
    for (Kernel& k : p.kernels) k.waits = true;
    for (Edge& e : p.bodies[0].edges) e.kind = EdgeKind::programmatic;
  });
  // Both calls write one workspace at once.
  Program p = good;
  std::vector<Node*> calls;
  for (Node& n : p.bodies[0].nodes) {
    if (p.kernels[n.kernel].code == Code::library) calls.push_back(&n);
  }
  REQUIRE(calls.size() == 2);
  p.buffers[p.views[calls[1]->args.back()].buffer].offset =
      p.buffers[p.views[calls[0]->args.back()].buffer].offset;
  CHECK_FALSE(complaints(p).empty());
}

TEST_CASE("library kernels survive a file") {
  const Program p = two_calls(512);
  const Program back = read_program(write_program(p));
  CHECK(to_json(back) == to_json(p));
  REQUIRE(library_kernel(back));
  CHECK(library_kernel(back)->workspace == 512);
}

TEST_CASE("breaking a node out of a random program leaves one that is right") {
  std::mt19937 random(2024);
  int done = 0, whole = 0;
  for (int i = 0; i < 400; ++i) {
    RandomProgramOptions options{.nodes = 7, .lanes = 4};
    options.runs = 1 + static_cast<uint32_t>(i % 4);
    const Program before = random_program(random, options);
    REQUIRE(check(before).empty());
    Program p = before;
    for (int twice = 0; twice < 2; ++twice) {
      std::vector<std::pair<uint32_t, uint32_t>> nodes;
      for (uint32_t b = 0; b < p.bodies.size(); ++b) {
        for (uint32_t n = 0; n < p.bodies[b].nodes.size(); ++n) {
          if (!p.bodies[b].stream) nodes.emplace_back(b, n);
        }
      }
      if (nodes.empty()) break;
      const auto [body, node] = nodes[below(random, nodes.size())];
      const size_t kept = p.bodies[body].nodes.size();
      break_out(p, body, node, "it cannot", "do not");
      ++done;
      whole += kept == 1 ? 1 : 0;
      CAPTURE(i);
      CAPTURE(to_text(before));
      CAPTURE(to_text(p));
      REQUIRE_MESSAGE(check(p).empty(), complaints(p));
    }
    // Each node once, by its arguments, and what must come before it still does.
    std::multiset<std::vector<uint32_t>> had, has;
    for (const Body& b : before.bodies) {
      for (const Node& n : b.nodes) had.insert(n.args);
    }
    for (const Body& b : p.bodies) {
      for (const Node& n : b.nodes) has.insert(n.args);
    }
    CHECK(had == has);
    CHECK(p.breaks.size() >= 1);
  }
  CHECK(done > 500);
  CHECK(whole > 20);
}

TEST_CASE("breaking out splits a body in three, and runs follow") {
  Program p = two_calls(512);
  REQUIRE(p.graphs == 1);
  REQUIRE(p.runs == 1);
  const auto& nodes = p.bodies[0].nodes;
  const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) {
    return p.kernels[n.kernel].code == Code::library;
  });
  break_out(p, 0, static_cast<uint32_t>(at - nodes.begin()), "it waits", "let it not");
  REQUIRE(check(p).empty());
  REQUIRE(p.bodies.size() == 3);
  CHECK(p.graphs == 2);
  CHECK(p.runs == 3);
  CHECK(p.bodies[0].nodes.size() == 3);  // with the other lane, which does not depend on it
  CHECK(p.bodies[1].stream);
  CHECK(p.bodies[1].lanes == 1);
  CHECK(p.bodies[2].nodes.size() == 1);
  REQUIRE(p.breaks.size() == 1);
  CHECK(p.breaks[0].op.find("library") != std::string::npos);
  CHECK(p.breaks[0].level == 1);
  CHECK(p.breaks[0].reason == "it waits");
  CHECK(read_program(write_program(p)).breaks.size() == 1);
}
