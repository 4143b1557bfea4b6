// Breaks: what stands outside graphs and why, and whether the caller allows it.
// needs: levels, chosen kernels. breaks: nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "passes/labels.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

Break break_of(const ir::Graph& g, const ir::Op& op, uint32_t level) {
  Break b{op_label(g, op), place_label(g, op.loc), level, {}, {}};
  const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
  if (!host) {
    b.reason = "it is marked to stay out of graphs";
    b.remedy = "remove the mark 'graph = false'";
  } else if (g.type(op.result).bytes() > 0) {
    b.reason = fmt::format("the host function '{}' returns tensors", g.strings[host->function]);
    b.remedy = "do it with ops of the graph, or call it before the inputs are given";
  } else {
    b.reason = fmt::format("the host function '{}' runs between graphs", g.strings[host->function]);
    b.remedy = "make its tensors outputs, and call it after the launch";
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
    const uint32_t level = c.levels.run[i];
    if (level == UINT32_MAX || colour_of(g.ops()[i]) == Colour::graph) continue;
    ops.push_back(i);
    p.breaks.push_back(break_of(g, g.ops()[i], level));
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
