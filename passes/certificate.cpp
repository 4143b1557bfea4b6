#include "passes/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "passes/labels.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Edges into a node, with whether they only keep an order.
using Before = std::vector<std::vector<std::pair<uint32_t, bool>>>;

/// The last edge without data on the way from one node to a later one that has the fewest of them;
/// nothing if data alone leads there. Edges go to higher nodes.
std::optional<std::pair<uint32_t, uint32_t>> order_on_the_way(const Before& before, uint32_t from,
                                                              uint32_t to) {
  struct Way {
    uint32_t orders = kNone, by = kNone;
    bool order = false;
  };
  std::vector<Way> ways(to - from + 1);
  ways[0].orders = 0;
  for (uint32_t v = from + 1; v <= to; ++v) {
    Way& way = ways[v - from];
    for (auto [u, order] : before[v]) {
      if (u < from || ways[u - from].orders == kNone) continue;
      const uint32_t orders = ways[u - from].orders + order;
      if (orders < way.orders) way = {orders, u, order};
    }
  }
  for (uint32_t v = to; v != kNone && v > from; v = ways[v - from].by) {
    if (ways[v - from].order) return std::pair(ways[v - from].by, v);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> path_labels(const ir::Graph& graph, const HomePlan& homes,
                                     const std::vector<uint32_t>& path) {
  const auto label = [&](uint32_t op) { return op_label(graph, graph.ops()[op]); };
  std::vector<std::string> out;
  for (uint32_t op : path) out.push_back(label(op));
  std::vector<uint32_t> ops;
  const LevelledDag dag = levelled_dag(graph, homes, ops);
  if (dag.order_edges.empty()) return out;
  Before before(ops.size());
  for (auto [from, to] : dag.edges) before[to].emplace_back(from, false);
  for (auto [from, to] : dag.order_edges) before[to].emplace_back(from, true);
  const auto node = [&](uint32_t op) {
    return static_cast<uint32_t>(std::lower_bound(ops.begin(), ops.end(), op) - ops.begin());
  };
  for (size_t i = 1; i < path.size(); ++i) {
    const auto order = order_on_the_way(before, node(path[i - 1]), node(path[i]));
    if (!order) continue;
    const uint32_t first = ops[order->first], then = ops[order->second];
    out[i] += then == path[i]
                  ? ", which runs after " + label(first)
                  : fmt::format(", by way of {}, which runs after {}", label(then), label(first));
  }
  return out;
}

}  // namespace braid
