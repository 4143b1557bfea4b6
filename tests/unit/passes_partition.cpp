// Whole plans of graphs with host ops and marked ops: as few graphs and runs as any order of the
// ops allows, with fusion and without, beside what the partitioners of others make of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "ir/text.hpp"
#include "judge_program.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"
#include "passes/reference_partitions.hpp"
#include "passes_help.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

struct Made {
  ir::Graph graph;
  ColouredDag dag;  // what must come before what, told by the maker
};

/// Up to `most` ops that work, each a map of up to three before it; some marked, some of the
/// host's, of which every third is called by its graph.
Made random_ops(std::mt19937& random, uint32_t most) {
  Made made;
  Maker m;
  const ValueId x = m.input("x", {4});
  std::vector<ValueId> values;
  std::vector<bool> used;
  const uint32_t n = 1 + below(random, most), hosts = below(random, 4), marks = below(random, 4);
  uint32_t last_call = UINT32_MAX;
  for (uint32_t v = 0; v < n; ++v) {
    std::vector<ValueId> in;
    for (uint32_t u = 0; u < v; ++u) {
      if (in.size() == 3 || below(random, 3) != 0) continue;
      ValueId operand = values[u];
      if (below(random, 4) == 0) operand = m.reshape(m.reshape(operand, {2, 2}), {4});
      in.push_back(operand);
      used[u] = true;
      made.dag.edges.emplace_back(u, v);
    }
    if (in.empty()) in.push_back(x);
    const bool host = below(random, 8) < hosts;
    const bool outside = !host && below(random, 8) < marks;
    ir::HostWay way = ir::HostWay::script;
    if (host && below(random, 3) == 0) {
      way = below(random, 3) == 0 ? ir::HostWay::node : ir::HostWay::handshake;
    }
    ir::Graph::NewOp op{OpKind::map, ir::MapAttr{}, in};
    op.outside = outside;
    if (host) {
      const bool pure = below(random, 2) == 0;
      op.kind = OpKind::host;
      op.attrs = ir::HostAttr{m.str("f"), pure, way};
      op.type = Maker::type({4});
      // What has effects stays in order.
      if (!pure && last_call != UINT32_MAX) made.dag.edges.emplace_back(last_call, v);
      if (!pure) last_call = v;
    } else {
      const Fn fns[] = {Fn::tanh, Fn::add, Fn::clamp};
      op.attrs = ir::MapAttr{fns[in.size() - 1]};
    }
    values.push_back(m.g.add(std::move(op)));
    used.push_back(false);
    const bool by_host = host && way == ir::HostWay::script;
    made.dag.colours.push_back(by_host || outside ? Colour::host : Colour::graph);
  }
  for (uint32_t v = 0; v < n; ++v) {
    if (!used[v]) m.output("y" + std::to_string(v), values[v]);
  }
  made.graph = std::move(m.g);
  return made;
}

/// The fewest runs and graphs over all orders, by dynamic programming over the sets of ops that may
/// be over.
std::pair<uint32_t, uint32_t> by_all_orders(const ColouredDag& dag) {
  const auto n = static_cast<uint32_t>(dag.colours.size());
  std::vector<uint32_t> needs(n, 0);
  for (auto [from, to] : dag.edges) needs[to] |= 1u << from;
  const auto fewest = [&](uint32_t graph_price, uint32_t host_price) {
    constexpr uint32_t kFar = 1000;
    std::vector<std::array<uint32_t, 3>> cost(size_t{1} << n, {kFar, kFar, kFar});
    cost[0][2] = 0;  // nothing was done yet
    for (uint32_t set = 0; set < (1u << n); ++set) {
      for (uint32_t v = 0; v < n; ++v) {
        if ((set >> v & 1) || (needs[v] & ~set)) continue;
        const uint32_t colour = dag.colours[v] == Colour::host;
        for (uint32_t last = 0; last < 3; ++last) {
          const uint32_t price = colour == last ? 0 : colour ? host_price : graph_price;
          uint32_t& to = cost[set | 1u << v][colour];
          to = std::min(to, cost[set][last] + price);
        }
      }
    }
    return std::min(cost.back()[0], cost.back()[1]);
  };
  return {fewest(1, 1), fewest(1, 0)};
}

std::string first_of(const std::vector<std::string>& found) {
  return found.empty() ? std::string() : found[0];
}

}  // namespace

TEST_CASE("10,000 graphs with ops that cut: whole plans have the fewest graphs and runs") {
  std::mt19937 random(80);
  size_t several = 0, calls = 0, exchanges = 0, streams = 0, in_order_graphs = 0, drained_runs = 0,
         ours = 0;
  for (int round = 0; round < test::rounds(10'000); ++round) {
    const Made made = random_ops(random, 9);
    const auto [runs, graphs] = by_all_orders(made.dag);
    Options o;
    o.simplify = false;
    o.fuse = round % 2 == 0;
    o.reuse = below(random, 4) != 0;
    o.reduce = below(random, 4) != 0;
    o.group = below(random, 4) != 0;
    o.force_lanes = below(random, 2) == 0;
    o.streams = 1 + static_cast<int>(below(random, 8));
    CAPTURE(ir::print(made.graph));
    CAPTURE(to_string(o));
    Program p = run_passes(made.graph, o, "edges").program;
    for (Kernel& k : p.kernels) k.launch.grid[1] = k.parts;  // no text was written
    REQUIRE(p.runs == runs);
    REQUIRE(p.graphs == graphs);
    const auto launched =
        std::count_if(p.bodies.begin(), p.bodies.end(), [](const Body& b) { return !b.stream; });
    REQUIRE(static_cast<uint32_t>(launched) == graphs);
    const std::vector<std::string> found = check(p);
    REQUIRE_MESSAGE(found.empty(), first_of(found));
    REQUIRE(judge(p).good());
    if (runs > 1) {
      REQUIRE(p.certificate.size() + !p.second_certificate.empty() == runs);
    }

    several += graphs > 1;
    calls += p.calls.size();
    exchanges += p.exchanges.size();
    streams += p.bodies.size() - static_cast<size_t>(launched);
    const ReferencePartition program_order = in_order(made.dag),
                             drained = drain_host_first(made.dag);
    REQUIRE(program_order.graphs >= graphs);
    REQUIRE(drained.graphs == graphs);
    in_order_graphs += program_order.graphs;
    drained_runs += drained.runs - runs;
    ours += graphs;
  }
  CHECK(several > test::rounds<size_t>(1'000));
  CHECK(calls > test::rounds<size_t>(5'000));
  CHECK(exchanges > test::rounds<size_t>(2'000));
  CHECK(streams > test::rounds<size_t>(2'000));
  CHECK(in_order_graphs > ours + ours / 4);
  CHECK(drained_runs > test::rounds<size_t>(500));
}
