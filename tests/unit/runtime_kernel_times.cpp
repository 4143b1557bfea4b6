// Each kernel in a chain of its own: which launches those are, and that they run.
#include <doctest/doctest.h>

#include "runtime/kernel_times.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// diamond() whose sum is computed once more, from other arguments.
Program two_sums() {
  Program p = diamond();
  add_node(
      p, 2,
      {p.bodies[0].nodes[0].args[0], p.bodies[0].nodes[1].args[2], p.bodies[0].nodes[2].args[2]});
  p.bodies[0].edges.push_back({2, 4, EdgeKind::full, EdgeReason::waw, 0});
  return p;
}

std::string left_out(const Program& p, uint32_t kernel) {
  std::vector<KernelTime> times;
  chains_of(p, 8, times);
  return times.at(kernel).left_out;
}

}  // namespace

TEST_CASE("a chain goes through the nodes of its kernel in turn, each as often") {
  const Program p = two_sums();
  std::vector<KernelTime> times;
  const Program chains = chains_of(p, 5, times);
  REQUIRE(times.size() == 4);
  REQUIRE(chains.bodies.size() == 4);
  CHECK(times[0].uses == 1);
  CHECK(times[0].launches == 5);
  CHECK(times[2].uses == 2);
  CHECK(times[2].launches == 6);  // 5 are not as many for both
  const Body& sums = chains.bodies[2];
  REQUIRE(sums.nodes.size() == 6);
  REQUIRE(sums.edges.size() == 5);
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK(sums.nodes[i].kernel == 2);
    CHECK(sums.nodes[i].args == p.bodies[0].nodes[i % 2 == 0 ? 2 : 4].args);
    if (i == 0) continue;
    CHECK(sums.edges[i - 1].from == i - 1);
    CHECK(sums.edges[i - 1].to == i);
    CHECK(sums.edges[i - 1].kind == EdgeKind::full);
  }
}

TEST_CASE("kernels that a chain would tell nothing true of are left out, and why") {
  Program p = diamond();
  CHECK(left_out(p, 0).empty());
  p.kernels[0].guard = 1;
  CHECK(contains(left_out(p, 0), "branch"));
  p.kernels[0].guard = {};
  p.kernels[0].exchanges = true;
  CHECK(contains(left_out(p, 0), "host"));
  p.kernels[0].exchanges = false;
  p.kernels[0].code = Code::library;
  CHECK(contains(left_out(p, 0), "library"));
  p.kernels[0].code = Code::generated;
  p.buffers[p.views[p.bodies[0].nodes[0].args[0]].buffer].segment = Segment::ring;
  CHECK(contains(left_out(p, 0), "messages"));
  p.buffers[p.views[p.bodies[0].nodes[0].args[0]].buffer].segment = Segment::handle;
  CHECK(contains(left_out(p, 0), "conditional"));
}

TEST_CASE("code of the user's is timed where its arguments keep what it expects") {
  Program p = diamond();
  for (const uint32_t k : {2U, 3U}) p.kernels[k].code = Code::user;
  CHECK(left_out(p, 2).empty());                // t0 and t1 have bytes of their own
  CHECK(contains(left_out(p, 3), "no-reuse"));  // it changes `total`
  p.buffers[p.bodies[0].nodes[1].args[2]].offset = 0;
  CHECK(contains(left_out(p, 2), "no-reuse"));
}

TEST_CASE("every chain runs once on the simulator, on the executable's memory, without races") {
  Bench bench;
  Executable e(diamond(), bench.store);
  const auto in = diamond_inputs(3);
  const auto before = e.run(in);
  const std::vector<KernelTime> times = time_kernels(e, 0.01);
  REQUIRE(times.size() == 4);
  for (const KernelTime& t : times) {
    CHECK(t.launches == 1);
    CHECK(t.us == 0);
  }
  // One launch before, one of the timer's, and one of the chain of the kernel that adds t0 up.
  const HostTensor w = bench.store.get("w"), total = bench.store.get("total");
  for (int64_t i = 0; i < kCount; ++i) {
    const auto t0 = static_cast<float>(in.at("x").at(i)) * static_cast<float>(w.at(i));
    CHECK(static_cast<float>(total.at(i)) == t0 + t0 + t0);
  }
  CHECK(e.run(in).at("y").bytes == before.at("y").bytes);
  CHECK(bench.simulator->take_reports().empty());
}
