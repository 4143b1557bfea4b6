#include "passes/levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Successors of every node in one array.
struct Successors {
  std::vector<uint32_t> first, to;

  Successors(size_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& edges)
      : first(nodes + 1, 0), to(edges.size()) {
    for (auto [from, target] : edges) {
      ensure(from < nodes && target < nodes, "levels: an edge names a node that does not exist");
      ++first[from + 1];
    }
    for (size_t v = 0; v < nodes; ++v) first[v + 1] += first[v];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (auto [from, target] : edges) to[next[from]++] = target;
  }
};

std::vector<uint32_t> topological_order(const Successors& successors,
                                        const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
  const size_t nodes = successors.first.size() - 1;
  std::vector<uint32_t> waiting(nodes, 0), order;
  for (auto [from, target] : edges) ++waiting[target];
  order.reserve(nodes);
  for (uint32_t v = 0; v < nodes; ++v) {
    if (waiting[v] == 0) order.push_back(v);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t u = order[i];
    for (uint32_t e = successors.first[u]; e < successors.first[u + 1]; ++e) {
      if (--waiting[successors.to[e]] == 0) order.push_back(successors.to[e]);
    }
  }
  ensure(order.size() == nodes, "levels: the edges form a cycle");
  return order;
}

/// l_s of the header.
std::vector<uint32_t> label(const ColouredDag& dag, const Successors& successors,
                            const std::vector<uint32_t>& order, Colour start) {
  std::vector<uint32_t> level(dag.colours.size());
  for (uint32_t v = 0; v < level.size(); ++v) level[v] = dag.colours[v] != start;
  for (uint32_t u : order) {
    for (uint32_t e = successors.first[u]; e < successors.first[u + 1]; ++e) {
      const uint32_t v = successors.to[e];
      level[v] = std::max(level[v], level[u] + (dag.colours[u] != dag.colours[v]));
    }
  }
  return level;
}

/// The most nodes, each reachable from the one before and of the other colour, beginning with
/// colour `start`.
std::vector<uint32_t> longest_alternation(const ColouredDag& dag, const Successors& successors,
                                          const std::vector<uint32_t>& order, Colour start) {
  const size_t nodes = dag.colours.size();
  std::vector<uint32_t> length(nodes, 0), before(nodes, kNone);
  uint32_t last = kNone;
  for (uint32_t u : order) {
    if (length[u] == 0 && dag.colours[u] == start) length[u] = 1;
    if (length[u] == 0) continue;
    if (last == kNone || length[u] > length[last]) last = u;
    for (uint32_t e = successors.first[u]; e < successors.first[u + 1]; ++e) {
      const uint32_t v = successors.to[e];
      const uint32_t through = length[u] + (dag.colours[u] != dag.colours[v]);
      if (through > length[v]) {
        length[v] = through;
        before[v] = u;
      }
    }
  }
  std::vector<uint32_t> path;
  for (uint32_t v = last; v != kNone; v = before[v]) {
    if (path.empty() || dag.colours[path.back()] != dag.colours[v]) path.push_back(v);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

uint32_t runs_of(const std::vector<uint32_t>& level) {
  return level.empty() ? 0 : *std::max_element(level.begin(), level.end()) + 1;
}

}  // namespace

Colour colour_of(ir::OpKind kind) {
  switch (kind) {
    case ir::OpKind::input:
    case ir::OpKind::param:
    case ir::OpKind::read:
    case ir::OpKind::assign:
    case ir::OpKind::update:
    case ir::OpKind::constant:
    case ir::OpKind::iota:
    case ir::OpKind::map:
    case ir::OpKind::reduce:
    case ir::OpKind::dot:
    case ir::OpKind::view:
    case ir::OpKind::concat:
    case ir::OpKind::gather:
    case ir::OpKind::scatter:
      return Colour::graph;
  }
  return Colour::host;
}

Levels minimal_levels(const ColouredDag& dag) {
  const Successors successors(dag.colours.size(), dag.edges);
  const std::vector<uint32_t> order = topological_order(successors, dag.edges);
  std::vector<uint32_t> by_graph = label(dag, successors, order, Colour::graph);
  std::vector<uint32_t> by_host = label(dag, successors, order, Colour::host);
  const bool host_first = runs_of(by_host) <= runs_of(by_graph);

  Levels out;
  out.run = std::move(host_first ? by_host : by_graph);
  out.runs = runs_of(out.run);
  out.graphs = host_first ? out.runs / 2 : (out.runs + 1) / 2;
  // Equally long paths from both colours make a tie: then the one from a graph node has one graph
  // node per graph needed, and both together need one run more than either has nodes.
  out.certificate = longest_alternation(dag, successors, order, Colour::graph);
  std::vector<uint32_t> second = longest_alternation(dag, successors, order, Colour::host);
  if (second.size() > out.certificate.size()) {
    out.certificate = std::move(second);
  } else if (second.size() == out.certificate.size()) {
    out.second = std::move(second);
  }
  return out;
}

Levels assign_levels(const ir::Graph& graph, const HomePlan& homes) {
  ColouredDag dag;
  dag.colours.reserve(graph.ops().size());
  dag.edges.reserve(2 * graph.ops().size() + homes.order.size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    dag.colours.push_back(colour_of(op.kind));
    for (ir::ValueId v : op.operands) dag.edges.emplace_back(graph.value(v).def.index, i);
  }
  for (const OrderEdge& e : homes.order) dag.edges.emplace_back(e.from.index, e.to.index);
  return minimal_levels(dag);
}

std::string Levels::print(const ir::Graph& graph) const {
  std::vector<uint32_t> sizes(runs, 0);
  std::vector<Colour> colours(runs, Colour::graph);
  for (uint32_t i = 0; i < run.size(); ++i) {
    ++sizes[run[i]];
    colours[run[i]] = colour_of(graph.ops()[i].kind);
  }
  std::string text = fmt::format("levels: {} run{}, {} graph{}\n", runs, runs == 1 ? "" : "s",
                                 graphs, graphs == 1 ? "" : "s");
  for (uint32_t r = 0; r < runs; ++r) {
    text += fmt::format("run {} {}: {} op{}\n", r, colours[r] == Colour::host ? "host" : "graph",
                        sizes[r], sizes[r] == 1 ? "" : "s");
  }
  const auto path = [&](std::string_view what, const std::vector<uint32_t>& nodes) {
    if (nodes.empty()) return;
    text += what;
    for (uint32_t v : nodes) {
      const ir::Op& op = graph.ops()[v];
      const std::string_view name = graph.name_of(ir::OpId{v});
      text += fmt::format(" {}{}{}", ir::info(op.kind).name, name.empty() ? "" : " ", name);
      if (v != nodes.back()) text += " ->";
    }
    text += '\n';
  };
  if (runs > 1) {
    path("forced by:", certificate);
    path("and by:", second);
  }
  return text;
}

}  // namespace braid
