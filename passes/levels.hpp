// Levels: the fewest runs of graphable and host ops, with the path that forces them.
// needs: homes. breaks: nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "passes/home.hpp"

namespace braid {

/// The colour of a node in the levelling: it can live inside a CUDA graph, or only the host runs
/// it.
enum class Colour : uint8_t { graph, host };

/// The one place that says what a CUDA graph can hold. A host op it can by HostAttr::way.
Colour colour_of(const ir::Op& op);

/// A coloured DAG with edges from lower to higher index or in any acyclic order.
struct ColouredDag {
  std::vector<Colour> colours;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
};

struct Levels {
  /// run[v]: 0-based; all nodes of a run have one colour, edges never go to an earlier run.
  std::vector<uint32_t> run;
  /// The first and last run that each node can belong to, while the others may move as well.
  std::vector<uint32_t> earliest, latest;
  uint32_t runs = 0;
  uint32_t graphs = 0;
  /// The alternating path that forces this many graphs: nodes of changing colour, first to last,
  /// each reachable from the one before. It has `runs` nodes, or one less (see `second`).
  std::vector<uint32_t> certificate;
  /// Where the longest alternating paths that begin with either colour are equally long, no order
  /// can serve both in as many runs as they have nodes: this is the one that begins on the host.
  /// Otherwise empty.
  std::vector<uint32_t> second;
  std::string print(const ir::Graph& graph) const;
};

/// l_s(v) = max([colour(v) != s], max over u->v of l_s(u) + [colour(u) != colour(v)]); starting
/// with the colour that gives fewer runs, host on a tie, attains the minimum of runs and of graphs
/// together. Every node stands in its earliest run. O(V+E). Throws InternalError on a cycle.
Levels minimal_levels(const ColouredDag& dag);

struct LevelledDag {
  std::vector<Colour> colours;
  std::vector<int64_t> bytes;                                     // that each node gives its users
  std::vector<std::pair<uint32_t, uint32_t>> edges, order_edges;  // by data, and without
  std::vector<bool> late{};  // by node: must stand in the last run that it can; may be empty
};

/// The same runs and graphs, every node within its window, in one sweep from the last to the first:
/// a host node as late as those after it allow, so that the graphs before it run meanwhile; any
/// other as late as that where its result takes at least the bytes of the operands that then live
/// longer, so that less stays live between graphs, and what is made for one later graph is made in
/// it. One without users stays early. O(V+E).
Levels place_levels(const LevelledDag& dag);

/// The ops of a graph that are not free and are needed, in op order: free ones are evaluated where
/// they are used. `ops` receives the op of each node.
LevelledDag levelled_dag(const ir::Graph& graph, const HomePlan& homes, std::vector<uint32_t>& ops);

/// place_levels() of that DAG. By op; UINT32_MAX for all others.
Levels assign_levels(const ir::Graph& graph, const HomePlan& homes);

}  // namespace braid
