#include "frontend/report/diff.hpp"

#include "frontend/cli/cli.hpp"

namespace braid::cli {

int diff_command(const DiffArgs& a, const GlobalArgs& g) {
  if (a.plan.file == "-" && a.other == "-") {
    throw UsageError("diff: standard input can be one of the plans, not both");
  }
  PlanArgs other = a.plan;
  other.file = a.other;
  // Flags shape what is not compiled yet.
  const auto load = [&](const PlanArgs& plan) {
    if (!is_program_file(plan.file)) return load_program(plan, g).program;
    PlanArgs alone;
    alone.file = plan.file;
    return load_program(alone, g).program;
  };
  if (is_program_file(a.plan.file) && is_program_file(a.other)) load_program(a.plan, g);
  const report::Diff d = report::diff(load(a.plan), load(other));
  print_out(a.format == "json" ? report::to_json(d) : report::to_text(d));
  return d.different() ? kMismatch : kOk;
}

}  // namespace braid::cli
