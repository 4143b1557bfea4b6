#include "passes/levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ir/region.hpp"
#include "passes/free_ops.hpp"
#include "passes/labels.hpp"

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

/// The latest run of every node in `runs` runs, of which the first has the colour `start`.
std::vector<uint32_t> latest_levels(const ColouredDag& dag, const Successors& successors,
                                    const std::vector<uint32_t>& order, Colour start,
                                    uint32_t runs) {
  std::vector<uint32_t> level(dag.colours.size());
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t u = order[i];
    const bool last = (dag.colours[u] == start) == (runs % 2 == 1);  // the last run has its colour
    uint32_t& latest = level[u] = last ? runs - 1 : runs - 2;
    for (uint32_t e = successors.first[u]; e < successors.first[u + 1]; ++e) {
      const uint32_t v = successors.to[e];
      latest = std::min(latest, level[v] - (dag.colours[u] != dag.colours[v]));
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

Colour colour_of(const ir::Op& op) {
  if (op.outside) return Colour::host;
  if (const auto* host = std::get_if<ir::HostAttr>(&op.attrs)) {
    const bool inside = host->way == ir::HostWay::handshake || host->way == ir::HostWay::node;
    return inside ? Colour::graph : Colour::host;
  }
  const auto* branch = std::get_if<ir::BranchAttr>(&op.attrs);
  const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
  const bool driven = (branch && branch->lowering == ir::Lowering::host) ||
                      (loop && loop->lowering == ir::Lowering::host);
  return driven ? Colour::host : Colour::graph;
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
  out.earliest = out.run;
  out.latest =
      latest_levels(dag, successors, order, host_first ? Colour::host : Colour::graph, out.runs);
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

Levels place_levels(const LevelledDag& dag) {
  ColouredDag all{dag.colours, dag.edges};
  all.edges.insert(all.edges.end(), dag.order_edges.begin(), dag.order_edges.end());
  Levels levels = minimal_levels(all);
  if (levels.runs < 3) return levels;  // every window is one run

  const size_t nodes = dag.colours.size();
  const Successors successors(nodes, all.edges);
  std::vector<std::vector<uint32_t>> operands(nodes);
  std::vector<bool> used(nodes, false);
  for (auto [from, to] : dag.edges) {
    operands[to].push_back(from);
    used[from] = true;
  }
  // Of each node's result, among the users placed so far. All users of a node come before it.
  std::vector<uint32_t> last_use(nodes, 0);
  const std::vector<uint32_t> order = topological_order(successors, all.edges);
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t v = order[i];
    uint32_t latest = levels.latest[v];
    for (uint32_t e = successors.first[v]; e < successors.first[v + 1]; ++e) {
      const uint32_t to = successors.to[e];
      latest = std::min(latest, levels.run[to] - (dag.colours[v] != dag.colours[to]));
    }
    int64_t grows = 0;
    for (uint32_t from : operands[v]) {
      if (std::max(last_use[from], levels.run[from]) < latest) grows += dag.bytes[from];
    }
    // What a host op takes is copied to the host as soon as it is there, so one that waits holds
    // nothing back, and the graphs before it run while it works.
    const bool host = dag.colours[v] == Colour::host;
    const bool late = !dag.late.empty() && dag.late[v];
    if (host || late || (used[v] && grows <= dag.bytes[v])) levels.run[v] = latest;
    for (uint32_t from : operands[v]) last_use[from] = std::max(last_use[from], levels.run[v]);
  }
  return levels;
}

namespace {

/// The same levels by op, of which `ops` are the nodes.
Levels by_op(Levels levels, const std::vector<uint32_t>& ops, size_t count) {
  const auto spread = [&](std::vector<uint32_t>& by_node) {
    std::vector<uint32_t> all(count, kNone);
    for (size_t v = 0; v < ops.size(); ++v) all[ops[v]] = by_node[v];
    by_node = std::move(all);
  };
  spread(levels.run);
  spread(levels.earliest);
  spread(levels.latest);
  for (uint32_t& v : levels.certificate) v = ops[v];
  for (uint32_t& v : levels.second) v = ops[v];
  return levels;
}

/// The conditional node of a handle that this op sets, if it stands in the same graph, or kNone.
uint32_t decided_by(const ir::Graph& graph, ir::OpId sets) {
  const ir::ValueId handle = graph.op(sets).result;
  for (uint32_t i = sets.index + 1; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    if (!op.operands.empty() && op.operands[0] == handle) return i;
  }
  return kNone;
}

}  // namespace

LevelledDag levelled_dag(const ir::Graph& graph, const HomePlan& homes,
                         std::vector<uint32_t>& ops) {
  const std::vector<ir::ValueId> source = memory_sources(graph);
  const std::vector<bool> needed = needed_ops(graph);
  std::vector<uint32_t> node_of(graph.ops().size(), kNone);
  ops.clear();
  LevelledDag dag;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    if (!is_work(op) || !needed[i]) continue;
    node_of[i] = static_cast<uint32_t>(ops.size());
    ops.push_back(i);
    dag.colours.push_back(colour_of(op));
    int64_t bytes = 0;
    for (uint32_t r = 0; r < op.results; ++r) {
      // A version of a param stays in its buffer, wherever its op runs.
      const ir::Value& v = graph.value(op.result_at(r));
      if (!v.state) bytes += v.type.bytes();
    }
    dag.bytes.push_back(bytes);
    // A handle is a thing of one graph: what sets it stands in that of its conditional node.
    dag.late.push_back(op.kind == ir::OpKind::assign &&
                       std::holds_alternative<ir::HandleAttr>(
                           graph.op(ir::param_of(graph, op.operands[0])).attrs));
  }
  const auto edge = [&](uint32_t from, uint32_t to) {
    if (node_of[from] != kNone) dag.edges.emplace_back(node_of[from], node_of[to]);
  };
  for (uint32_t i : ops) {
    for (ir::ValueId v : graph.ops()[i].operands) {
      edge(graph.value(source[v.index]).def.index, i);
    }
  }
  for (const OrderEdge& e : homes.order) {
    const uint32_t from = node_of[e.from.index], to = node_of[e.to.index];
    if (from == kNone || to == kNone) continue;
    dag.order_edges.emplace_back(from, to);
    // What waits for a handle to be set waits for its conditional node as well, which stands next
    // to it: else it would hold the one in an earlier graph than the other.
    const uint32_t decides = dag.late[from] ? decided_by(graph, e.from) : kNone;
    if (decides < e.to.index && node_of[decides] != kNone) {
      dag.order_edges.emplace_back(node_of[decides], to);
    }
  }
  return dag;
}

Levels assign_levels(const ir::Graph& graph, const HomePlan& homes) {
  std::vector<uint32_t> ops;
  const LevelledDag dag = levelled_dag(graph, homes, ops);
  return by_op(place_levels(dag), ops, graph.ops().size());
}

std::string Levels::print(const ir::Graph& graph) const {
  std::vector<uint32_t> sizes(runs, 0);
  std::vector<Colour> colours(runs, Colour::graph);
  for (uint32_t i = 0; i < run.size(); ++i) {
    if (run[i] == kNone) continue;
    ++sizes[run[i]];
    colours[run[i]] = colour_of(graph.ops()[i]);
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
      text += fmt::format(" {}", op_label(graph, graph.ops()[v]));
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
