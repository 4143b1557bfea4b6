// Breaks: what stands outside graphs and why, and whether the caller allows it.
// needs: levels, chosen kernels. breaks: nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/region.hpp"
#include "passes/certificate.hpp"
#include "passes/free_ops.hpp"
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

/// An op outside graphs in the bodies of a branch or loop, however deep.
const ir::Op* outside_in(const ir::Graph& graph, const ir::Op& op, const ir::Graph** in) {
  for (uint32_t b : ir::bodies_of(op)) {
    const ir::Graph& body = graph.bodies[b];
    for (const ir::Op& inner : body.ops()) {
      if (!ir::bodies_of(inner).empty()) {
        if (const ir::Op* found = outside_in(body, inner, in)) return found;
      } else if (colour_of(inner) == Colour::host) {
        *in = &body;
        return &inner;
      }
    }
  }
  return nullptr;
}

/// By op: calls with side effects whose results are used, so that they could be pure.
std::vector<bool> could_be_pure(const Compilation& c) {
  const std::vector<ir::Op>& ops = c.graph.ops();
  const std::vector<bool> needed = needed_ops(c.graph);
  std::vector<bool> used(ops.size(), false);
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (!needed[i]) continue;
    for (ir::ValueId v : ops[i].operands) used[c.graph.value(v).def.index] = true;
  }
  for (const ir::Output& o : c.graph.outputs) used[c.graph.value(o.value).def.index] = true;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    used[i] = used[i] && needed[i] && ordered(ops[i]) && c.graph.type(ops[i].result).bytes() > 0;
  }
  return used;
}

/// The DAG of the levels pass, asked for the graphs that others like it take.
class Variants {
 public:
  explicit Variants(const Compilation& c)
      : all_(c.graph.ops()), dag_(levelled_dag(c.graph, c.homes, ops_)) {}

  /// How many graphs it takes if the calls of `pure` keep no order.
  uint32_t with_pure(const std::vector<bool>& pure) const {
    ColouredDag dag{dag_.colours, dag_.edges};
    for (auto [from, to] : dag_.order_edges) {
      if (!ordered(all_[ops_[from]]) || !ordered(all_[ops_[to]])) dag.edges.emplace_back(from, to);
    }
    uint32_t last = UINT32_MAX;
    for (uint32_t v = 0; v < ops_.size(); ++v) {
      if (!ordered(all_[ops_[v]]) || pure[ops_[v]]) continue;
      if (last != UINT32_MAX) dag.edges.emplace_back(last, v);
      last = v;
    }
    return minimal_levels(dag).graphs;
  }

  /// How many graphs it takes if `op` is work of a graph.
  uint32_t with_graphable(uint32_t op) const {
    ColouredDag dag = all();
    dag.colours[node(op)] = Colour::graph;
    return minimal_levels(dag).graphs;
  }

  /// How many graphs it takes without `op`. What it only keeps in order stays so.
  uint32_t without(uint32_t op) const {
    const uint32_t gone = node(op);
    ColouredDag dag = all();
    std::vector<uint32_t> before, after;
    for (auto [from, to] : dag_.order_edges) {
      if (to == gone) before.push_back(from);
      if (from == gone) after.push_back(to);
    }
    std::erase_if(dag.edges, [&](const auto& e) { return e.first == gone || e.second == gone; });
    for (uint32_t from : before) {
      for (uint32_t to : after) dag.edges.emplace_back(from, to);
    }
    // A lone host node would still be a run, which changes no number of graphs.
    return minimal_levels(dag).graphs;
  }

 private:
  ColouredDag all() const {
    ColouredDag dag{dag_.colours, dag_.edges};
    dag.edges.insert(dag.edges.end(), dag_.order_edges.begin(), dag_.order_edges.end());
    return dag;
  }
  uint32_t node(uint32_t op) const {
    return static_cast<uint32_t>(std::lower_bound(ops_.begin(), ops_.end(), op) - ops_.begin());
  }

  const std::vector<ir::Op>& all_;
  std::vector<uint32_t> ops_;
  const LevelledDag dag_;
};

/// Remedies of more breaks say nothing of the graphs that would be left: each takes a levelling.
constexpr size_t kCounted = 100;

/// Says after each remedy what it alone does for the number of graphs.
void count_graphs(const Compilation& c, const Sides& sides, const std::vector<uint32_t>& ops,
                  std::vector<Break>& breaks) {
  const uint32_t graphs = c.levels.graphs;
  if (graphs < 2) return;
  const Variants variants(c);
  for (size_t i = 0; i < ops.size() && ops.size() <= kCounted; ++i) {
    const uint32_t op = ops[i];
    const bool host = c.graph.ops()[op].kind == ir::OpKind::host;
    const bool moves = host && (!sides.before[op] || !sides.after[op]);
    const uint32_t left = moves ? variants.without(op) : variants.with_graphable(op);
    breaks[i].remedy += left < graphs ? fmt::format("; that leaves {} of {} graphs", left, graphs)
                                      : fmt::format("; that alone leaves all {} graphs", graphs);
  }
  const std::vector<bool> pure = could_be_pure(c);
  if (std::none_of(pure.begin(), pure.end(), [](bool b) { return b; })) return;
  const uint32_t fewer = graphs - std::min(graphs, variants.with_pure(pure));
  if (fewer == 0) return;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!pure[ops[i]]) continue;
    breaks[i].remedy += fmt::format(
        "; or mark it pure if it has no side effects: the order of the calls makes {} more",
        fewer == 1 ? "1 graph" : fmt::format("{} graphs", fewer));
  }
}

/// What spares a host function a break.
constexpr std::string_view kHandshake =
    "let the graph call it: way = \"handshake\" in TOML, .way in C++";

Break break_of(const Compilation& c, const Sides& sides, uint32_t index) {
  const ir::Graph& g = c.graph;
  const ir::Op& op = g.ops()[index];
  Break b{op_label(g, op), place_label(g, op.loc), c.levels.run[index], {}, {}};
  if (!ir::bodies_of(op).empty()) {
    const ir::Graph* in = nullptr;
    const ir::Op* inner = outside_in(g, op, &in);
    b.reason = inner ? fmt::format("the host drives it, because '{}' in it stands outside graphs",
                                   op_label(*in, *inner))
                     : "the host drives it, as its lowering asks for";
    const bool calls = inner && inner->kind == ir::OpKind::host;
    b.remedy = calls   ? kHandshake
               : inner ? fmt::format("take '{}' out of it, or do it with ops of the graph",
                                     op_label(*in, *inner))
                       : "leave its lowering to the compiler: lower = \"auto\"";
    return b;
  }
  const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
  if (!host) {
    b.reason = "it is marked to stay out of graphs";
    b.remedy = "remove the mark: graph = false in TOML, outside_graphs() in C++";
    return b;
  }
  const bool returns = g.type(op.result).bytes() > 0;
  b.reason = fmt::format("the host function '{}' {}", g.strings[host->function],
                         returns ? "returns tensors" : "runs between graphs");
  if (host->why.valid()) b.reason += fmt::format("; {}", g.strings[host->why]);
  b.remedy = kHandshake;
  if (!returns || !sides.after[index]) {
    b.remedy += ", or make its arguments outputs of the model and call it after the launch";
  } else if (!sides.before[index]) {
    b.remedy += ", or call it before the launch and make its results inputs of the model";
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

/// Not one graph alone: why, with the op to change.
[[noreturn]] void refuse_graphs(const Compilation& c, const std::vector<uint32_t>& ops) {
  const Program& p = c.program;
  // The first on the path that stands between two graphs.
  size_t at = 0;
  const std::vector<uint32_t>& path = c.levels.certificate;
  for (size_t i = path.size(); p.graphs > 1 && i-- > 2;) {
    const auto op = std::find(ops.begin(), ops.end(), path[i - 1]);
    if (op != ops.end()) at = static_cast<size_t>(op - ops.begin());
  }
  const Break& b = p.breaks[at];
  const std::string what =
      p.graphs == 0
          ? fmt::format("'{}' has no graph, and one is required: '{}' stands outside", p.name, b.op)
      : p.graphs == 1 ? fmt::format("'{}' must be one graph and nothing else: '{}' stands outside",
                                    p.name, b.op)
                      : fmt::format(
                            "'{}' needs {} graphs, and one is required: '{}' stands between "
                            "them",
                            p.name, p.graphs, b.op);
  Diagnostic d = refusal(c.graph, c.graph.ops()[ops[at]], b, "E0708",
                         fmt::format("{}, because {}", what, b.reason));
  if (ops.size() > 1) {
    d.details.push_back(fmt::format("{} ops stand outside graphs in all", ops.size()));
  }
  if (p.graphs > 1) {
    d.details.push_back(fmt::format(
        "{} ops force {} graphs, each runs after the one before:", p.certificate.size(), p.graphs));
    d.details.push_back(fmt::format("{}", fmt::join(p.certificate, " -> ")));
  }
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
    count_graphs(c, sides, ops, p.breaks);
  }
  if (c.levels.runs > 1) {
    p.certificate = path_labels(g, c.homes, c.levels.certificate);
    p.second_certificate = path_labels(g, c.homes, c.levels.second);
  }
  if (o.on_break == OnBreak::error && !ops.empty()) refuse_breaks(c, ops);
  // Several graphs, or none, are never without ops outside.
  if (o.require_single_graph && !ops.empty()) refuse_graphs(c, ops);
}

}  // namespace braid
