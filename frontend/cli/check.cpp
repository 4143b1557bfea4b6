#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/cli/cli.hpp"
#include "ir/region.hpp"
#include "passes/kernels/user.hpp"

namespace braid::cli {
namespace {

/// Gives every dim its value. Those that have none come back, and the graph stays symbolic then.
std::vector<std::string> bind(ir::Graph& graph, const Options& o) {
  std::vector<std::string> open;
  for (const DimTable::Symbol& s : graph.dims.symbols()) {
    const bool given =
        std::any_of(o.dims.begin(), o.dims.end(), [&](const auto& d) { return d.first == s.name; });
    if (!given && !s.default_value) open.push_back(s.name);
  }
  try {
    graph.bind_dims(o.dims);
  } catch (const Error& e) {
    std::vector<Diagnostic> others;
    for (const Diagnostic& d : e.diagnostics()) {
      if (d.code != "E0602") others.push_back(d);
    }
    if (!others.empty()) throw Error(std::move(others));
  }
  return open;
}

std::string weights_text(const std::optional<WeightsFrom>& weights) {
  return weights ? fmt::format(", weights fit {}", weights->path) : std::string();
}

}  // namespace

int check_command(const PlanArgs& a, const GlobalArgs& g) {
  if (is_program_file(a.file)) {
    const auto [p, weights, origins] = load_program(a, g);
    if (weights) check_weights(weight_specs(p), *weights);
    print_out(fmt::format("{}: ok, a plan of {} kernels for {}{}\n", a.file, p.kernels.size(),
                          p.target.arch, weights_text(weights)));
    return kOk;
  }
  auto [graph, weights, settings] = load_graph(a, g);
  const Options& o = settings.options;
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  if (!wrong.empty()) throw Error(wrong);
  const std::vector<std::string> open = bind(graph, o);
  kernels::check_launches(graph, o.target);
  if (weights) check_weights(weight_specs(graph), *weights);
  size_t inputs = 0, scalars = 0, params = 0;
  for (const ir::Op& op : graph.ops()) {
    const bool scalar = std::holds_alternative<ir::ScalarAttr>(op.attrs);
    scalars += scalar;
    inputs += op.kind == ir::OpKind::input && !scalar;
    params += std::holds_alternative<ir::ParamAttr>(op.attrs);
  }
  size_t ops = 0;  // those of branches and loops too, but not their arguments
  ir::for_each_graph(graph, [&](const ir::Graph& body) {
    for (const ir::Op& op : body.ops()) {
      const bool argument = op.kind == ir::OpKind::input || op.kind == ir::OpKind::param;
      ops += &body == &graph || !argument;
    }
  });
  std::string text = fmt::format("{}: ok, {} ops, {} inputs, {}{} params, {} outputs{}\n", a.file,
                                 ops, inputs, scalars ? fmt::format("{} scalars, ", scalars) : "",
                                 params, graph.outputs.size(), weights_text(weights));
  if (!open.empty()) {
    text += fmt::format(
        "{}: not checked: what depends on the values of {}, which have no default; "
        "give them as --dim {}=N\n",
        a.file, fmt::join(open, ", "), fmt::join(open, "=N --dim "));
  }
  print_out(text);
  return kOk;
}

}  // namespace braid::cli
