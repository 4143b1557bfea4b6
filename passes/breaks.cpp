// Breaks: what stands outside graphs and why, and whether the caller allows it.
// needs: levels, chosen kernels. breaks: nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "passes/labels.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

/// By op: whether it needs work of some graph, and whether work of some graph needs it.
struct Sides {
  std::vector<bool> before, after;
};

Sides sides_of(const Compilation& c) {
  const std::vector<ir::Op>& ops = c.graph.ops();
  Sides sides{std::vector<bool>(ops.size(), false), std::vector<bool>(ops.size(), false)};
  const auto in_graph = [&](uint32_t op) {
    return c.levels.run[op] != UINT32_MAX && colour_of(ops[op]) == Colour::graph;
  };
  const auto operands = [&](uint32_t op, const auto& visit) {
    for (ir::ValueId v : ops[op].operands) visit(c.graph.value(v).def.index);
  };
  for (uint32_t i = 0; i < ops.size(); ++i) {
    operands(i, [&](uint32_t from) {
      if (sides.before[from] || in_graph(from)) sides.before[i] = true;
    });
  }
  for (auto i = static_cast<uint32_t>(ops.size()); i-- > 0;) {
    if (!sides.after[i] && !in_graph(i)) continue;
    operands(i, [&](uint32_t from) { sides.after[from] = true; });
  }
  return sides;
}

bool ordered(const ir::Op& op) {
  const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
  return host && !host->pure;
}

/// How many graphs fewer it would be if calls with side effects could change places.
uint32_t graphs_by_order_of_calls(const Compilation& c) {
  const std::vector<ir::Op>& all = c.graph.ops();
  if (std::count_if(all.begin(), all.end(), ordered) < 2) return 0;
  std::vector<uint32_t> ops;
  LevelledDag dag = levelled_dag(c.graph, c.homes, ops);
  ColouredDag free{std::move(dag.colours), std::move(dag.edges)};
  for (auto [from, to] : dag.order_edges) {
    if (!ordered(all[ops[from]]) || !ordered(all[ops[to]])) free.edges.emplace_back(from, to);
  }
  return c.levels.graphs - std::min(c.levels.graphs, minimal_levels(free).graphs);
}

Break break_of(const Compilation& c, const Sides& sides, uint32_t index) {
  const ir::Graph& g = c.graph;
  const ir::Op& op = g.ops()[index];
  Break b{op_label(g, op), place_label(g, op.loc), c.levels.run[index], {}, {}};
  const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
  if (!host) {
    b.reason = "it is marked to stay out of graphs";
    b.remedy = "remove the mark: graph = false in TOML, outside_graphs() in C++";
    return b;
  }
  const bool returns = g.type(op.result).bytes() > 0;
  b.reason = fmt::format("the host function '{}' {}", g.strings[host->function],
                         returns ? "returns tensors" : "runs between graphs");
  if (!returns || !sides.after[index]) {
    b.remedy = "make its arguments outputs of the model, and call it after the launch";
  } else if (!sides.before[index]) {
    b.remedy = "call it before the launch, and make its results inputs of the model";
  } else {
    b.remedy = "do it with ops of the graph: it can move neither before the launch nor after it";
  }
  return b;
}

Diagnostic refusal(const ir::Graph& g, const ir::Op& op, const Break& b, const char* code,
                   std::string message) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.place = g.place(op.loc);
  d.suggestion = b.remedy;
  return d;
}

/// All breaks, one error each.
[[noreturn]] void refuse_breaks(const Compilation& c, const std::vector<uint32_t>& ops) {
  std::vector<Diagnostic> errors;
  for (size_t i = 0; i < ops.size(); ++i) {
    const Break& b = c.program.breaks[i];
    errors.push_back(refusal(c.graph, c.graph.ops()[ops[i]], b, "E0707",
                             fmt::format("'{}' stands outside graphs: {}", b.op, b.reason)));
  }
  throw Error(std::move(errors));
}

[[noreturn]] void refuse_graphs(const Compilation& c, const std::vector<uint32_t>& ops) {
  const Program& p = c.program;
  const auto forced = std::find_if(ops.begin(), ops.end(), [&](uint32_t op) {
    const auto& path = c.levels.certificate;
    return std::find(path.begin(), path.end(), op) != path.end();
  });
  const size_t at = forced == ops.end() ? 0 : static_cast<size_t>(forced - ops.begin());
  Diagnostic d = refusal(c.graph, c.graph.ops()[ops[at]], p.breaks[at], "E0708",
                         fmt::format("'{}' needs {} graphs, and one is required: '{}' stands "
                                     "between them, because {}",
                                     p.name, p.graphs, p.breaks[at].op, p.breaks[at].reason));
  d.details.push_back(fmt::format(
      "{} ops force {} graphs, each needs the one before:", p.certificate.size(), p.graphs));
  d.details.push_back(fmt::format("{}", fmt::join(p.certificate, " -> ")));
  throw Error(std::move(d));
}

}  // namespace

void find_breaks(Compilation& c, const Options& o) {
  const ir::Graph& g = c.graph;
  Program& p = c.program;
  std::vector<uint32_t> ops;
  for (uint32_t i = 0; i < g.ops().size(); ++i) {
    if (c.levels.run[i] == UINT32_MAX || colour_of(g.ops()[i]) == Colour::graph) continue;
    ops.push_back(i);
  }
  if (!ops.empty()) {
    const Sides sides = sides_of(c);
    for (uint32_t op : ops) p.breaks.push_back(break_of(c, sides, op));
    if (const uint32_t graphs = graphs_by_order_of_calls(c)) {
      for (size_t i = 0; i < ops.size(); ++i) {
        if (!ordered(g.ops()[ops[i]])) continue;
        p.breaks[i].remedy += fmt::format(
            "; or mark it pure if it has no side effects: the order of the calls makes {} graph{} "
            "more",
            graphs, graphs == 1 ? "" : "s");
      }
    }
  }
  const auto labels = [&](const std::vector<uint32_t>& path) {
    std::vector<std::string> text;
    for (uint32_t op : path) text.push_back(op_label(g, g.ops()[op]));
    return text;
  };
  if (c.levels.runs > 1) {
    p.certificate = labels(c.levels.certificate);
    p.second_certificate = labels(c.levels.second);
  }
  if (o.on_break == OnBreak::error && !ops.empty()) refuse_breaks(c, ops);
  if (o.require_single_graph && p.graphs > 1) refuse_graphs(c, ops);
}

}  // namespace braid
