// A wrong plan must not pass the simulator: every mutation is reported or computes something else.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "ir/diagnostic.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// node 0: t0 = x * w; node 1: t1 = t0 + b; node 2: t2 = t1 - x, in the bytes of t0;
/// node 3: y = t2 * t1.
Program reusing() {
  Program p = empty_program("reusing");
  p.kernels = {binary_kernel(Fn::mul, "row_mul", floats()),
               binary_kernel(Fn::add, "row_add", floats()),
               binary_kernel(Fn::sub, "row_sub", floats())};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(p, "b", Segment::input, floats());
  const uint32_t w = add_buffer(p, "w", Segment::param, floats());
  const uint32_t t0 = add_buffer(p, "t0", Segment::temp, floats(), 0);
  const uint32_t t1 = add_buffer(p, "t1", Segment::temp, floats(), 256);
  const uint32_t t2 = add_buffer(p, "t2", Segment::temp, floats(), 0);
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  p.arena_bytes = 512;
  add_node(p, 0, {x, w, t0});
  add_node(p, 1, {t0, b, t1});
  add_node(p, 2, {t1, x, t2});
  add_node(p, 0, {t2, t1, y});
  p.bodies[0].edges = {{0, 1, EdgeKind::full, EdgeReason::raw, t0},
                       {1, 2, EdgeKind::full, EdgeReason::raw, t1},
                       {2, 3, EdgeKind::full, EdgeReason::raw, t2}};
  return p;
}

std::vector<float> reusing_y(const std::map<std::string, HostTensor>& in, const HostTensor& w) {
  std::vector<float> y;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i));
    const float t0 = x * static_cast<float>(w.at(i));
    const float t1 = t0 + static_cast<float>(in.at("b").at(i));
    y.push_back((t1 - x) * t1);
  }
  return y;
}

struct Outcome {
  bool right = false;
  std::vector<std::string> reports;
};

Outcome outcome(const Program& p, const SimOptions& options) {
  Bench bench(options);
  Outcome result;
  const auto in = diamond_inputs(options.seed + 100);
  try {
    Executable e(p, bench.store);
    const HostTensor w = bench.store.get("w");
    const auto y = values(e.run(in).at("y"));
    result.right = y == (p.name == "reusing" ? reusing_y(in, w) : diamond_y(in, w));
  } catch (const CudaError& error) {
    CHECK(error.code() == CUDA_ERROR_LAUNCH_FAILED);
  }
  result.reports = bench.simulator->take_reports();
  return result;
}

std::string first_report(const Program& p) {
  const Outcome result = outcome(p, {});
  CHECK_FALSE(result.right);
  REQUIRE(!result.reports.empty());
  return result.reports[0];
}

}  // namespace

TEST_CASE("a right plan passes under every order") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SimOptions options;
    options.seed = seed;
    for (const Program& p : {diamond(), reusing()}) {
      const Outcome result = outcome(p, options);
      CHECK(result.right);
      CHECK(result.reports.empty());
    }
  }
}

TEST_CASE("each missing edge is a race that names both kernels and the bytes") {
  for (const Program& good : {diamond(), reusing()}) {
    for (size_t i = 0; i < good.bodies[0].edges.size(); ++i) {
      Program p = good;
      const Edge edge = p.bodies[0].edges[i];
      p.bodies[0].edges.erase(p.bodies[0].edges.begin() + static_cast<int64_t>(i));
      const Outcome result = outcome(p, {});
      CHECK_FALSE(result.right);
      const auto text = [&](uint32_t n) {
        return "node " + std::to_string(n) + " (" + p.kernels[p.bodies[0].nodes[n].kernel].symbol +
               ") ";
      };
      CAPTURE(edge.from);
      CAPTURE(edge.to);
      CHECK(std::any_of(result.reports.begin(), result.reports.end(), [&](const std::string& r) {
        return contains(r, "race: " + text(edge.from)) && contains(r, " and " + text(edge.to)) &&
               contains(r, "bytes 0x") && contains(r, "no path of edges orders them");
      }));
    }
  }
}

TEST_CASE("without race reports some order shows the missing edge as a wrong or unwritten value") {
  Program p = reusing();
  p.bodies[0].edges.pop_back();  // node 3 may run before node 2, or before all
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimOptions options;
    options.seed = seed;
    options.report_races = false;
    wrong += outcome(p, options).right ? 0 : 1;
  }
  CHECK(wrong > 0);
  CHECK(wrong < 20);
}

TEST_CASE("two live buffers in the same bytes do not pass") {
  Program p = diamond();
  p.buffers[5].offset = 0;  // t1 over t0
  CHECK(contains(first_report(p), "race: node 0 (row_mul) writes and node 1 (row_sub) writes"));

  // Ordered, so no race: then the value is wrong.
  p.bodies[0].edges.insert(p.bodies[0].edges.begin(), {0, 1});
  std::sort(p.bodies[0].edges.begin(), p.bodies[0].edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.to, a.from) < std::tie(b.to, b.from);
  });
  p.bodies[0].edges.push_back({1, 3});
  p.bodies[0].edges.erase(std::find_if(p.bodies[0].edges.begin(), p.bodies[0].edges.end(),
                                       [](const Edge& e) { return e.from == 0 && e.to == 2; }));
  const Outcome result = outcome(p, {});
  CHECK(result.reports.empty());
  CHECK_FALSE(result.right);

  p = diamond();
  p.buffers[5].offset = 128;  // partly
  CHECK(contains(first_report(p), "race"));
}

TEST_CASE("swapped arguments do not pass") {
  Program p = diamond();
  std::swap(p.bodies[0].nodes[1].args[0], p.bodies[0].nodes[1].args[1]);  // b - x
  Outcome result = outcome(p, {});
  CHECK_FALSE(result.right);
  CHECK(result.reports.empty());

  p = diamond();
  std::swap(p.bodies[0].nodes[0].args[0], p.bodies[0].nodes[0].args[2]);  // writes x from t0
  CHECK(contains(first_report(p), "race"));
  SimOptions options;
  options.report_races = false;
  result = outcome(p, options);
  REQUIRE(result.reports.size() == 1);
  CHECK(contains(result.reports[0], "reads bytes that nothing has written"));
}

TEST_CASE("a node that runs before what it reads was written is reported") {
  // Nodes 0 and 1 of the diamond moved behind node 2, edges reversed.
  Program p = diamond();
  std::vector<Node>& nodes = p.bodies[0].nodes;
  std::rotate(nodes.begin(), nodes.begin() + 2, nodes.begin() + 3);
  p.bodies[0].edges = {{0, 1}, {0, 2}, {1, 3}};
  const std::string report = first_report(p);
  CHECK(
      contains(report, "node 0 (row_add): argument 0 ('a0') reads bytes that nothing has written"));
}

TEST_CASE("a kernel behind a programmatic edge is ordered only if it waits") {
  for (const bool waits : {true, false}) {
    Program p = reusing();
    for (Edge& e : p.bodies[0].edges) e.kind = EdgeKind::programmatic;
    for (Kernel& k : p.kernels) k.waits = waits;
    const Outcome result = outcome(p, {});
    CHECK(result.right == waits);
    CHECK(result.reports.empty() == waits);
  }
}

TEST_CASE("poison shows in every launch, not only in the first") {
  Bench bench;
  Program p = diamond();
  Executable good(p, bench.store);
  for (const auto& [name, value] : diamond_inputs(9)) good.write(name, value);
  good.launch().wait();
  good.launch().wait();
  good.poison();
  const HostTensor y = good.read("y");
  CHECK(std::all_of(y.bytes.begin(), y.bytes.end(),
                    [](std::byte b) { return b == std::byte{0xFF}; }));
  good.launch().wait();
  CHECK(values(good.read("y")) == diamond_y(diamond_inputs(9), bench.store.get("w")));
}
