// The partitioners of others, on the graphs where they are known to miss, beside minimal_levels.
#include <doctest/doctest.h>

#include <random>

#include "passes/reference_partitions.hpp"

using namespace braid;

namespace {

constexpr Colour G = Colour::graph, N = Colour::host;

struct Both {
  uint32_t graphs, runs;
  bool operator==(const Both&) const = default;
};
template <class Runs>
Both of(const Runs& r) {
  return {r.graphs, r.runs};
}

}  // namespace

TEST_CASE("in order cuts wherever the colour changes") {
  const ColouredDag dag{{G, N, N, G, G, N}, {{0, 1}, {3, 5}}};
  const ReferencePartition p = in_order(dag);
  CHECK(p.run == std::vector<uint32_t>{0, 1, 1, 2, 2, 3});
  CHECK(of(p) == Both{2, 4});
  CHECK(!p.reordered);
  CHECK(in_order({}).runs == 0);
  CHECK(drain_host_first({}).runs == 0);
  CHECK_THROWS_AS(in_order({{G, G}, {{1, 0}}}), InternalError);
  CHECK_THROWS_AS(drain_host_first({{G, G}, {{0, 2}}}), InternalError);
}

TEST_CASE("host first: fewest graphs, but one run more where a lone host node waits for nobody") {
  // An isolated host node and a graph node before another: N | G | N against G | N N.
  const ColouredDag lone{{G, N, N}, {{0, 1}}};
  CHECK(of(drain_host_first(lone)) == Both{1, 3});
  CHECK(of(minimal_levels(lone)) == Both{1, 2});
  CHECK(of(in_order(lone)) == Both{1, 2});
  // Beginning with graphs can cost one: G0 -> N1, N2 -> G3, G0 -> G3.
  const ColouredDag late{{G, N, N, G}, {{0, 1}, {2, 3}, {0, 3}}};
  CHECK(of(drain_host_first(late)) == Both{1, 3});
  CHECK(of(minimal_levels(late)) == Both{1, 3});
  CHECK(of(in_order(late)) == Both{2, 3});
}

TEST_CASE("towers written one by one: in order has a graph for each and one for the join") {
  for (uint32_t towers : {2u, 4u, 9u}) {
    ColouredDag dag;
    for (uint32_t t = 0; t < towers; ++t) {
      dag.colours.insert(dag.colours.end(), {G, N, G});
      dag.edges.insert(dag.edges.end(), {{3 * t, 3 * t + 1}, {3 * t + 1, 3 * t + 2}});
    }
    dag.colours.push_back(G);
    for (uint32_t t = 0; t < towers; ++t) dag.edges.emplace_back(3 * t + 2, 3 * towers);
    CHECK(in_order(dag).graphs == towers + 1);
    CHECK(of(drain_host_first(dag)) == Both{2, 3});
    CHECK(of(minimal_levels(dag)) == Both{2, 3});
  }
}

TEST_CASE("a log after each layer cuts nothing but the program order") {
  ColouredDag dag;
  for (uint32_t layer = 0; layer < 4; ++layer) {
    dag.colours.insert(dag.colours.end(), {G, N});
    dag.edges.emplace_back(2 * layer, 2 * layer + 1);
    if (layer > 0) dag.edges.emplace_back(2 * layer - 2, 2 * layer);
  }
  CHECK(of(in_order(dag)) == Both{4, 8});
  CHECK(of(drain_host_first(dag)) == Both{1, 2});
  CHECK(of(minimal_levels(dag)) == Both{1, 2});
}

TEST_CASE("the memory gate drops every saving because of one large result") {
  // Towers whose first kernels give much: all of them first, and all results live at once.
  ColouredDag dag;
  std::vector<int64_t> bytes;
  constexpr uint32_t kTowers = 4;
  for (uint32_t t = 0; t < kTowers; ++t) {
    dag.colours.insert(dag.colours.end(), {G, N, G});
    dag.edges.insert(dag.edges.end(), {{3 * t, 3 * t + 1}, {3 * t + 1, 3 * t + 2}});
    bytes.insert(bytes.end(), {100, 1, 1});
  }
  // In order: one large result, and the small ones before it and beside it: 3 + 100 + 1 bytes.
  // Host first: four large ones and what the first host node adds.
  CHECK(of(drain_host_first(dag)) == Both{2, 3});
  const ReferencePartition gated = drain_host_first(dag, bytes);
  CHECK(of(gated) == Both{5, 9});
  CHECK(!gated.reordered);
  CHECK(gated.run == in_order(dag).run);
  CHECK(of(minimal_levels(dag)) == Both{2, 3});

  // The gate by its number: a and b before their host nodes, where program order has one at a time.
  const ColouredDag two{{G, N, G, N}, {{0, 1}, {2, 3}}};
  const auto kept = [&](int64_t a, int64_t b) {
    return drain_host_first(two, std::vector<int64_t>{a, 0, b, 0}).reordered;
  };
  CHECK(kept(100, 9));  // 109 against 100
  CHECK(!kept(100, 10));
  CHECK(!kept(100, 11));
  CHECK(kept(10, 100) == false);
  CHECK(kept(0, 0));
  // A result that nobody takes is live to the end, in any order.
  const ColouredDag sinks{{G, N, G}, {{0, 1}}};
  CHECK(drain_host_first(sinks, std::vector<int64_t>{100, 0, 100}).graphs == 2);
  CHECK(drain_host_first(sinks, std::vector<int64_t>{0, 100, 100}).graphs == 1);
  CHECK_THROWS_AS(drain_host_first(two, std::vector<int64_t>{1, 2}), InternalError);
}

TEST_CASE("2000 layers of 50 ops, 5 % of them on the host") {
  constexpr uint32_t kLayers = 2000, kWidth = 50;
  std::mt19937 random(1);
  ColouredDag dag;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t i = 0; i < kWidth; ++i) {
      const uint32_t v = layer * kWidth + i;
      dag.colours.push_back(random() % 20 ? G : N);
      if (layer == 0) continue;
      for (int e = 0; e < 2; ++e) {
        dag.edges.emplace_back((layer - 1) * kWidth + random() % kWidth, v);
      }
    }
  }
  const std::vector<int64_t> bytes(dag.colours.size(), 4096);
  const Levels ours = minimal_levels(dag);
  CHECK(of(ours) == Both{583, 1167});
  CHECK(of(in_order(dag)) == Both{4818, 9635});
  // With results of one size the gate has nothing against it.
  CHECK(of(drain_host_first(dag)) == Both{583, 1167});
  CHECK(of(drain_host_first(dag, bytes)) == Both{583, 1167});
  CHECK(ours.certificate.size() + !ours.second.empty() == ours.runs);
}
