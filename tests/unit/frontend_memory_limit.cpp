// A limit on the arena, over whole compilations.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/compile.hpp"

namespace braid {
namespace {

/// Branches of matmuls, side by side and never joined.
void build_branches(Graph& g, int branches, int length, int64_t size) {
  const Tensor w = g.param("w", {f32, {size, size}});
  for (int b = 0; b < branches; ++b) {
    Tensor h = g.input(fmt::format("x{}", b), {f32, {size, size}});
    for (int i = 0; i < length; ++i) h = matmul(h, w);
    g.output(fmt::format("y{}", b), h);
  }
}

double us_of(const Program& p) {
  double us = 0;
  for (const Body& body : p.bodies) us += body.predicted_us;
  return us;
}

}  // namespace

TEST_CASE("memory limit: never slower than a plan of fewer streams that fits") {
  Graph g("branches");
  build_branches(g, 12, 5, 256);
  Options o;
  o.group = false;
  std::vector<std::pair<int64_t, double>> plain;
  for (int streams = 1; streams <= o.streams; ++streams) {
    Options fewer = o;
    fewer.streams = streams;
    const Program p = compile(ir::Graph(g.ir()), fewer);
    plain.emplace_back(p.arena_bytes, us_of(p));
  }
  const int64_t most = compile(ir::Graph(g.ir()), o).arena_bytes;
  int below = 0;
  for (const auto& [limit, us] : plain) {
    if (limit >= most) continue;
    ++below;
    o.memory_limit = limit;
    const Program p = compile(ir::Graph(g.ir()), o);
    CHECK(p.arena_bytes <= limit);
    CHECK(p.memory_cut.limit == limit);
    for (const auto& [bytes, fewer_us] : plain) {
      if (bytes <= limit) CHECK(us_of(p) <= fewer_us + 0.01);
    }
  }
  CHECK(below > 1);
}

TEST_CASE("memory limit: the error names what is in use where most bytes are") {
  Graph g("peak");
  const Tensor x = g.input("x", {f32, {64, 64}});
  const Tensor w = g.param("w", {f32, {64, 64}});
  // `early` is the largest, and long gone where two others and a copy for the host are in use.
  const Tensor wide = g.param("wide", {f32, {64, 192}});
  const Tensor back = g.param("back", {f32, {192, 64}});
  const Tensor a = matmul(matmul(x, wide).named("early"), back).named("a");
  Tensor sum = a;
  std::vector<Tensor> many;
  for (int i = 0; i < 6; ++i) {
    const Tensor wi = g.param(fmt::format("w{}", i), {f32, {64, 64}});
    many.push_back(matmul(a, wi).named(fmt::format("m{}", i)));
  }
  const std::vector<Tensor> got = g.host("f", {many.begin(), many.end()}, {{f32, {64, 64}}});
  for (const Tensor& m : many) sum = sum + m;
  g.output("y", matmul(sum + got[0], w));
  Options o;
  o.memory_limit = 1000;
  o.group = false;
  o.host = ir::HostWay::script;
  try {
    compile(g, o);
    FAIL("there is no such plan");
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().at(0);
    CHECK(d.code == "E0706");
    REQUIRE(d.details.size() == 5);
    CHECK(d.details[0].find("early") == std::string::npos);
    CHECK(d.details[0].find("in use at once: ") == 0);
    CHECK(d.details[0].find("16384 bytes") != std::string::npos);
    CHECK(d.details[4].find("more at that time") != std::string::npos);
  }
}

}  // namespace braid
