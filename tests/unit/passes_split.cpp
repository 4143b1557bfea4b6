#include <doctest/doctest.h>

#include <cmath>

#include "ir/text.hpp"
#include "passes/pipeline.hpp"
#include "passes/split_reductions.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// "[16,65536] 10 -> [16,64] 10": operand and axes of every reduction.
std::string reductions(const ir::Graph& g) {
  std::string text;
  for (const ir::Op& op : g.ops()) {
    if (op.kind != OpKind::reduce) continue;
    text += text.empty() ? "" : " -> ";
    text += to_string(g.type(op.operands[0])) + " ";
    for (uint32_t axes = std::get<ir::ReduceAttr>(op.attrs).axes; axes != 0; axes /= 2) {
      text += axes % 2 != 0 ? '1' : '0';
    }
  }
  return text;
}

/// Splits a reduction, which must not change what is computed but for the order of sums.
std::string split(Fn fn, const Extents& shape, uint32_t axes, DType dtype = DType::f32) {
  Maker m;
  const ValueId x = m.input("x", shape, dtype);
  m.output("y", m.reduce(fn, fn == Fn::mul ? m.map(Fn::sign, {x}) : x, axes));
  ir::Graph g = m.g;
  split_reductions(g, Target{});
  CHECK(ir::verify(g).empty());
  const WideTensor was = run_whole(m.g, 5).outputs.at("y"), is = run_whole(g, 5).outputs.at("y");
  CHECK(was.type == is.type);
  CHECK(was.i == is.i);
  REQUIRE(was.f.size() == is.f.size());
  double most = 0;
  for (size_t i = 0; i < was.f.size(); ++i) most = std::max(most, std::abs(was.f[i]));
  for (size_t i = 0; i < was.f.size(); ++i) CHECK(std::abs(was.f[i] - is.f[i]) <= 1e-5 * most);
  return reductions(g);
}

}  // namespace

TEST_CASE("split: long rows are cut into parts, so that many blocks reduce them") {
  CHECK(split(Fn::add, {1024, 1024}, 0b11) == "f32[1,256,4096,1] 001 -> f32[1,256,1] 01");
  CHECK(split(Fn::max, {1 << 20}, 0b1) == "f32[1,256,4096,1] 001 -> f32[1,256,1] 01");
  CHECK(split(Fn::add, {3, 1 << 17}, 0b10) == "f32[3,64,2048,1] 001 -> f32[3,64,1] 01");
  CHECK(split(Fn::add, {1 << 17, 2}, 0b1) == "f32[1,4096,32,2] 001 -> f32[1,4096,2] 01");
  CHECK(split(Fn::min, {2, 400, 100, 2}, 0b110) == "f32[2,1250,32,2] 001 -> f32[2,1250,2] 01");
  // Columns: a block takes 32 neighbouring ones.
  CHECK(split(Fn::add, {1 << 15, 128}, 0b1) == "f32[1,64,512,128] 001 -> f32[1,64,128] 01");
  CHECK(split(Fn::add, {1 << 18}, 0b1, DType::i32) == "i32[1,256,1024,1] 001 -> i32[1,256,1] 01");
  CHECK(split(Fn::mul, {1 << 18}, 0b1) == "f32[1,256,1024,1] 001 -> f32[1,256,1] 01");
}

TEST_CASE("split: parts of narrow floats stay f32") {
  CHECK(split(Fn::add, {1 << 18}, 0b1, DType::bf16) == "f32[1,256,1024,1] 001 -> f32[1,256,1] 01");
  CHECK(split(Fn::add, {1 << 18}, 0b1, DType::f16) == "f32[1,256,1024,1] 001 -> f32[1,256,1] 01");
}

TEST_CASE("split: short rows, many rows, rows without divisors and axes apart stay whole") {
  CHECK(split(Fn::add, {1 << 15}, 0b1) == "f32[32768] 1");
  CHECK(split(Fn::add, {34, 1 << 16}, 0b10) == "f32[34,65536] 01");
  CHECK(split(Fn::add, {1024, 64}, 0b1) == "f32[1024,64] 1");
  CHECK(split(Fn::add, {4096, 2048}, 0b1) == "f32[4096,2048] 1");
  CHECK(split(Fn::add, {65537}, 0b1) == "f32[65537] 1");
  CHECK(split(Fn::add, {512, 2, 512}, 0b101) == "f32[512,2,512] 101");
  CHECK(split(Fn::add, {0, 1 << 17}, 0b11) == "f32[0,131072] 11");
}

TEST_CASE("split: off where asked, and where memory is scarce") {
  Maker m;
  m.output("y", m.reduce(Fn::add, m.input("x", {1 << 18}), 0b1));
  const auto kernels = [&](const std::function<void(Options&)>& set) {
    Options o;
    set(o);
    return run_passes(m.g, o).program.bodies[0].nodes.size();
  };
  CHECK(kernels([](Options&) {}) == 2);
  CHECK(kernels([](Options& o) { o.split = false; }) == 1);
  CHECK(kernels([](Options& o) { o.memory_limit = 1 << 20; }) == 1);
}

TEST_CASE("split: bodies too, before they are priced") {
  const ir::Graph g = ir::parse(R"(bir 2
graph "g" {
  %0: f32[1048576] = input "x"
  %1: b1[] = input "c"
  %2: f32[] = branch %1, %0 "pick" {
    body "else" {
      %0: f32[1048576] = input "x"
      %1: f32[] = reduce_max %0 {axes=[0]}
      output "y" %1
    }
    body "then" {
      %0: f32[1048576] = input "x"
      %1: f32[] = reduce_add %0 {axes=[0]}
      output "y" %1
    }
  }
  output "y" %2
}
)",
                                "g.bir");
  const Program p = run_passes(g, Options{}).program;
  double us = 0;
  for (const Body& body : p.bodies) us += body.predicted_us;
  CHECK(us < 20);
}

TEST_CASE("split: what makes the elements and what uses the result stay in the two kernels") {
  Maker m;
  const ValueId x = m.input("x", {1 << 18}, DType::f16);
  const ValueId square = m.mul(x, x);
  m.output("y", m.map(Fn::sqrt, {m.reduce(Fn::add, square, 0b1)}));
  Options o;
  o.verify = true;
  const Program p = run_passes(m.g, o).program;
  REQUIRE(p.bodies.size() == 1);
  REQUIRE(p.bodies[0].nodes.size() == 2);
  CHECK(p.kernels[0].launch.grid[0] >= 128);
}
