#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "passes/levels.hpp"
#include "passes/reference_partitions.hpp"

using namespace braid;

namespace {

struct Counts {
  uint32_t runs, graphs;
};

/// The fewest runs and the fewest graphs over all orders of the nodes: shortest paths over
/// (set of nodes done, colour of the last one).
Counts by_all_orders(const ColouredDag& dag) {
  const uint32_t n = static_cast<uint32_t>(dag.colours.size());
  std::vector<uint32_t> needs(n, 0);
  for (auto [from, to] : dag.edges) needs[to] |= 1u << from;
  constexpr uint32_t kFar = 1000;
  const auto fewest = [&](uint32_t graph_price, uint32_t host_price) {
    std::vector<std::array<uint32_t, 3>> cost(1u << n, {kFar, kFar, kFar});
    cost[0][2] = 0;  // nothing was done yet
    for (uint32_t set = 0; set < (1u << n); ++set) {
      for (uint32_t last = 0; last < 3; ++last) {
        if (cost[set][last] == kFar) continue;
        for (uint32_t v = 0; v < n; ++v) {
          if ((set >> v & 1) || (needs[v] & ~set)) continue;
          const bool host = dag.colours[v] == Colour::host;
          const uint32_t colour = host ? 1 : 0;
          const uint32_t price = colour == last ? 0 : host ? host_price : graph_price;
          uint32_t& to = cost[set | 1u << v][colour];
          to = std::min(to, cost[set][last] + price);
        }
      }
    }
    const auto& all = cost[(1u << n) - 1];
    return *std::min_element(all.begin(), all.end());
  };
  return {fewest(1, 1), fewest(1, 0)};
}

uint32_t below(std::mt19937& random, uint32_t bound) {
  return static_cast<uint32_t>(random() % bound);
}

/// Edges in any acyclic order, or, for those who go by it, in the order of the indices.
ColouredDag random_dag(std::mt19937& random, uint32_t max_nodes, bool in_order = false) {
  ColouredDag dag;
  const uint32_t n = 1 + below(random, max_nodes);
  const uint32_t density = 5 + below(random, 60);
  std::vector<uint32_t> position(n);
  for (uint32_t v = 0; v < n; ++v) position[v] = v;
  if (!in_order) std::shuffle(position.begin(), position.end(), random);
  for (uint32_t v = 0; v < n; ++v) {
    dag.colours.push_back(random() % 2 ? Colour::host : Colour::graph);
    for (uint32_t u = 0; u < v; ++u) {
      if (random() % 100 < density) dag.edges.emplace_back(position[u], position[v]);
    }
  }
  return dag;
}

bool reaches(const ColouredDag& dag, uint32_t from, uint32_t to) {
  std::vector<uint32_t> todo{from};
  std::vector<bool> seen(dag.colours.size(), false);
  while (!todo.empty()) {
    const uint32_t u = todo.back();
    todo.pop_back();
    if (u == to) return true;
    if (seen[u]) continue;
    seen[u] = true;
    for (auto [a, b] : dag.edges) {
      if (a == u) todo.push_back(b);
    }
  }
  return false;
}

/// One colour a run, every run of something, edges never back: an order exists.
template <class Runs>
void check_runs(const ColouredDag& dag, const Runs& made) {
  std::vector<std::vector<Colour>> colours(made.runs);
  for (uint32_t v = 0; v < dag.colours.size(); ++v) {
    colours.at(made.run[v]).push_back(dag.colours[v]);
  }
  uint32_t graphs = 0;
  for (size_t r = 0; r < colours.size(); ++r) {
    REQUIRE(!colours[r].empty());
    REQUIRE(std::count(colours[r].begin(), colours[r].end(), colours[r][0]) ==
            static_cast<long>(colours[r].size()));
    if (r > 0) REQUIRE(colours[r][0] != colours[r - 1][0]);
    graphs += colours[r][0] == Colour::graph;
  }
  CHECK(graphs == made.graphs);
  for (auto [from, to] : dag.edges) REQUIRE(made.run[from] <= made.run[to]);
}

void check_alternates(const ColouredDag& dag, const std::vector<uint32_t>& path) {
  for (size_t i = 1; i < path.size(); ++i) {
    CHECK(dag.colours[path[i - 1]] != dag.colours[path[i]]);
    CHECK(reaches(dag, path[i - 1], path[i]));
  }
}

}  // namespace

TEST_CASE("levels are the fewest runs and graphs over all orders") {
  std::mt19937 random(20240611);
  int ties = 0, several = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    const ColouredDag dag = random_dag(random, 9);
    const Levels levels = minimal_levels(dag);
    const Counts best = by_all_orders(dag);
    REQUIRE(levels.runs == best.runs);
    REQUIRE(levels.graphs == best.graphs);
    check_runs(dag, levels);

    // The certificate is a proof from below.
    check_alternates(dag, levels.certificate);
    check_alternates(dag, levels.second);
    const auto on_path = std::count_if(levels.certificate.begin(), levels.certificate.end(),
                                       [&](uint32_t v) { return dag.colours[v] == Colour::graph; });
    CHECK(on_path == levels.graphs);
    if (levels.second.empty()) {
      CHECK(levels.certificate.size() == levels.runs);
    } else {
      ++ties;
      CHECK(levels.certificate.size() == levels.runs - 1);
      CHECK(levels.second.size() == levels.runs - 1);
      CHECK(dag.colours[levels.certificate[0]] == Colour::graph);
      CHECK(dag.colours[levels.second[0]] == Colour::host);
    }
    several += levels.runs > 3;
  }
  CHECK(ties > 200);
  CHECK(several > 200);
}

TEST_CASE("windows hold every run that some order in as few runs gives a node") {
  std::mt19937 random(20241);
  int wide = 0;
  for (int trial = 0; trial < 1'500; ++trial) {
    const ColouredDag dag = random_dag(random, 6);
    const auto n = static_cast<uint32_t>(dag.colours.size());
    const Levels levels = minimal_levels(dag);
    std::vector<uint32_t> first(n, UINT32_MAX), last(n, 0), run(n, 0);
    uint32_t zero = 0;  // a node of the first run
    while (levels.run[zero] != 0) ++zero;
    const auto fits = [&] {
      for (auto [from, to] : dag.edges) {
        if (run[from] > run[to]) return false;
      }
      return true;
    };
    // All numbers of `n` digits to the base `runs`.
    for (bool more = true; more;) {
      bool right = fits();
      for (uint32_t v = 0; v < n && right; ++v) {
        right = (run[v] % 2 == 0) == (dag.colours[v] == dag.colours[zero]);
      }
      for (uint32_t v = 0; v < n && right; ++v) {
        first[v] = std::min(first[v], run[v]);
        last[v] = std::max(last[v], run[v]);
      }
      more = false;
      for (uint32_t v = 0; v < n && !more; ++v) {
        run[v] = run[v] + 1 == levels.runs ? 0 : run[v] + 1;
        more = run[v] != 0;
      }
    }
    REQUIRE(levels.earliest == first);
    REQUIRE(levels.latest == last);
    for (uint32_t v = 0; v < n; ++v) wide += first[v] < last[v];
  }
  CHECK(wide > 50);
}

TEST_CASE("placed levels keep runs, graphs and windows; host nodes are late") {
  std::mt19937 random(20242);
  int moved = 0, kept = 0;
  for (int trial = 0; trial < 5'000; ++trial) {
    const ColouredDag dag = random_dag(random, 14);
    LevelledDag levelled{dag.colours, {}, {}, {}};
    for (size_t v = 0; v < dag.colours.size(); ++v) levelled.bytes.push_back(below(random, 100));
    for (const auto& e : dag.edges) {
      (below(random, 4) ? levelled.edges : levelled.order_edges).push_back(e);
    }
    const Levels least = minimal_levels(dag), placed = place_levels(levelled);
    REQUIRE(placed.runs == least.runs);
    REQUIRE(placed.graphs == least.graphs);
    REQUIRE(placed.earliest == least.earliest);
    REQUIRE(placed.latest == least.latest);
    check_runs(dag, placed);
    for (uint32_t v = 0; v < dag.colours.size(); ++v) {
      REQUIRE(placed.run[v] >= placed.earliest[v]);
      REQUIRE(placed.run[v] <= placed.latest[v]);
      uint32_t room = placed.latest[v];
      for (auto [from, to] : dag.edges) {
        if (from == v) room = std::min(room, placed.run[to] - (dag.colours[v] != dag.colours[to]));
      }
      if (dag.colours[v] == Colour::host) REQUIRE(placed.run[v] == room);
      if (dag.colours[v] == Colour::graph && room > placed.earliest[v]) {
        ++(placed.run[v] == room ? moved : kept);
      }
    }
  }
  CHECK(moved > 200);
  CHECK(kept > 200);
}

TEST_CASE("levels of no node, of one colour, and of a cycle") {
  CHECK(minimal_levels({}).runs == 0);
  CHECK(minimal_levels({}).certificate.empty());
  const ColouredDag one{{Colour::graph, Colour::graph}, {{1, 0}}};
  CHECK(minimal_levels(one).runs == 1);
  CHECK(minimal_levels(one).graphs == 1);
  const ColouredDag cycle{{Colour::graph, Colour::host, Colour::graph}, {{0, 1}, {1, 2}, {2, 1}}};
  CHECK_THROWS_AS(minimal_levels(cycle), InternalError);
}

TEST_CASE("levels are linear in nodes and edges") {
  std::mt19937 random(7);
  ColouredDag dag;
  constexpr uint32_t kNodes = 200'000;
  for (uint32_t v = 0; v < kNodes; ++v) {
    dag.colours.push_back(random() % 50 ? Colour::graph : Colour::host);
    for (uint32_t e = 0; v > 0 && e < 2; ++e) {
      dag.edges.emplace_back(v - 1 - below(random, std::min(v, 64u)), v);
    }
  }
  const Levels levels = minimal_levels(dag);
  CHECK(levels.runs == levels.certificate.size() + !levels.second.empty());
}

TEST_CASE("beside the partitioners of others: never more graphs or runs, often fewer") {
  std::mt19937 random(20260);
  std::vector<uint32_t> graphs(3, 0), runs(3, 0), worse(3, 0);
  for (int trial = 0; trial < 10'000; ++trial) {
    const ColouredDag dag = random_dag(random, 9, true);
    std::vector<int64_t> bytes;
    for (size_t v = 0; v < dag.colours.size(); ++v) bytes.push_back(below(random, 1000));
    const Counts best = by_all_orders(dag);
    const Levels ours = minimal_levels(dag);
    REQUIRE(ours.runs == best.runs);
    REQUIRE(ours.graphs == best.graphs);
    const ReferencePartition theirs[] = {in_order(dag), drain_host_first(dag),
                                         drain_host_first(dag, bytes)};
    for (size_t i = 0; i < 3; ++i) {
      check_runs(dag, theirs[i]);
      REQUIRE(theirs[i].graphs >= ours.graphs);
      REQUIRE(theirs[i].runs >= ours.runs);
      graphs[i] += theirs[i].graphs - ours.graphs;
      runs[i] += theirs[i].runs - ours.runs;
      worse[i] += theirs[i].graphs > ours.graphs || theirs[i].runs > ours.runs;
    }
    // Draining reaches the fewest graphs, and at most one run too many.
    REQUIRE(theirs[1].graphs == ours.graphs);
    REQUIRE(theirs[1].runs <= ours.runs + 1);
    // The gate gives the one or the other.
    const auto& chosen = theirs[2].reordered ? theirs[1] : theirs[0];
    REQUIRE(theirs[2].run == chosen.run);
  }
  // In order, host first, host first with the gate: graphs and runs too many, and in how many DAGs.
  CHECK(graphs == std::vector<uint32_t>{4124, 0, 771});
  CHECK(runs == std::vector<uint32_t>{7902, 1484, 2617});
  CHECK(worse == std::vector<uint32_t>{4255, 1484, 1913});
}
