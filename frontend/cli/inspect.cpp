#include <stdexcept>

#include "frontend/cli/cli.hpp"
#include "frontend/report/report.hpp"
#include "ir/program_dot.hpp"

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

/// The report; with --show all the plan's nodes, arguments, kernels and buffers as well.
std::string text_of(const InspectArgs& a, const Program& p,
                    const std::vector<report::Section>& sections) {
  std::string text = report::to_text(report::make_report(p), p, sections);
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
  const Plan plan = load_program(a.plan, g);
  const Program& p = plan.program;
  if (!plan.origins.empty()) note(g, "settings: " + plan.origins);
  if (a.format == "text") print_out(text_of(a, p, sections));
  if (a.format == "json") print_out(report::to_json(report::make_report(p), p, sections));
  if (a.format == "program") print_out(to_json(p, a.source));
  if (a.format == "dot") print_out(to_dot(p, fold_of(a.fold)));
  return kOk;
}

}  // namespace braid::cli
