#include <stdexcept>

#include "frontend/cli/cli.hpp"
#include "frontend/report/cpp.hpp"
#include "frontend/report/html.hpp"
#include "frontend/report/report.hpp"
#include "ir/program_dot.hpp"
#include "passes/pipeline.hpp"
#include "passes/reference_breaks.hpp"
#include "passes/reference_partitions.hpp"

namespace braid::cli {
namespace {

std::vector<report::Section> sections_of(const std::string& show) {
  try {
    return report::sections_from(show.empty() ? report::kUsualSections : std::string_view(show));
  } catch (const std::invalid_argument& e) {
    throw UsageError(std::string("--show: ") + e.what());
  }
}

Fold fold_of(const std::optional<bool>& fold) {
  if (!fold) return Fold::automatic;
  return *fold ? Fold::on : Fold::off;
}

Compilation passes_of(const Model& model, std::string_view until) {
  Options o = model.settings.options;
  o.dump_dir.clear();
  return run_passes(model.graph, o, until);
}

report::Reference reference_of(const Model& model) {
  const ReferenceGraphs found = reference_breaks(passes_of(model, "simplify").graph);
  report::Reference out{found.graphs, found.breaks, found.each_iteration, {}};
  for (const ReferenceBreak& b : found.where) {
    out.where.push_back({std::string(text_of(b.rule)), b.op, b.place, b.times, b.each_iteration});
  }
  return out;
}

report::Comparison comparison_of(const Model& model) {
  const Compilation c = passes_of(model, "home");
  std::vector<uint32_t> ops;
  const LevelledDag dag = levelled_dag(c.graph, c.homes, ops);
  ColouredDag all{dag.colours, dag.edges};
  all.edges.insert(all.edges.end(), dag.order_edges.begin(), dag.order_edges.end());
  const ReferencePartition in_order = braid::in_order(all);
  const ReferencePartition host_first = drain_host_first(all, dag.bytes);
  return {
      {in_order.graphs, in_order.runs}, {host_first.graphs, host_first.runs}, host_first.reordered};
}

/// The report; with --show all the plan's nodes, arguments, kernels and buffers as well.
std::string text_of(const InspectArgs& a, const report::Report& r, const Program& p,
                    const std::vector<report::Section>& sections) {
  std::string text = report::to_text(r, p, sections);
  if (a.show == "all") text += "\n" + to_text(p);
  if (a.source) {
    for (const Module& m : p.modules) text += "\n" + m.source;
  }
  return text;
}

}  // namespace

int inspect_command(const InspectArgs& a, const GlobalArgs& g) {
  const std::vector<report::Section> sections = sections_of(a.show);
  const bool report = a.format == "text" || a.format == "json";
  if (!a.show.empty() && !report) {
    throw UsageError("--show chooses among the sections of --format=text and json");
  }
  if (a.source && a.format != "text" && a.format != "program") {
    throw UsageError("--source goes with --format=text and program");
  }
  if (a.fold && a.format != "dot") throw UsageError("--fold and --no-fold go with --format=dot");
  if (a.compare && (!report || is_program_file(a.plan.file))) {
    throw UsageError("--compare goes with the report of a model: a .braid file has no ops to cut");
  }
  std::optional<report::Comparison> comparison;
  std::optional<report::Reference> reference;
  Plan plan;
  if (report && !is_program_file(a.plan.file)) {
    const Model model = load_graph(a.plan, g);
    plan = plan_of(model, g);
    reference = reference_of(model);
    if (a.compare) comparison = comparison_of(model);
  } else {
    plan = load_program(a.plan, g);
  }
  const Program& p = plan.program;
  if (!plan.origins.empty()) note(g, "settings: " + plan.origins);
  if (a.format == "program") print_out(to_json(p, a.source));
  if (a.format == "dot") print_out(to_dot(p, fold_of(a.fold)));
  if (a.format == "html") print_out(to_html(p));
  if (a.format == "cpp") {
    compile_kernels(plan.program, g);
    print_out(to_cpp(p));
  }
  if (!report) return kOk;
  report::Report r = report::make_report(p);
  r.comparison = comparison;
  r.reference = reference;
  print_out(a.format == "json" ? report::to_json(r, p, sections) : text_of(a, r, p, sections));
  return kOk;
}

}  // namespace braid::cli
