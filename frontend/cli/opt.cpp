#include <fmt/format.h>

#include <algorithm>

#include "frontend/cli/cli.hpp"
#include "passes/pipeline.hpp"

namespace braid::cli {
namespace {

void require_pass(const std::string& name, std::string_view flag) {
  std::vector<std::string> known;
  for (const Pass& p : passes()) known.emplace_back(p.name);
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string hint = suggest(name, known);
  throw UsageError(fmt::format("{}: no pass '{}'; {}", flag, name,
                               hint.empty() ? "--list-passes shows them" : hint));
}

}  // namespace

int opt_command(const OptArgs& a, const GlobalArgs& g) {
  if (a.list) {
    for (const Pass& p : passes()) print_out(fmt::format("{:<10} {}\n", p.name, p.what));
    return kOk;
  }
  if (a.plan.file.empty()) throw UsageError("opt: which model? (a .toml or .bir file, or -)");
  if (is_program_file(a.plan.file)) {
    throw UsageError(fmt::format("{} is compiled already", a.plan.file));
  }
  require_pass(a.until, "--until");
  if (a.print_after != "all") require_pass(a.print_after, "--print-after");

  const Model model = load_graph(a.plan, g);
  const ir::Graph& graph = model.graph;
  const Options& o = model.settings.options;
  const std::string last = a.until.empty() ? std::string(passes().back().name) : a.until;
  // Passes up to each printed one run from the start again: dumps are for people, and a pass may
  // not see that it is watched.
  for (const Pass& p : passes()) {
    const bool wanted = p.name == last || a.print_after == "all" || a.print_after == p.name;
    if (wanted) {
      const bool alone = p.name == last && a.print_after.empty();
      PassTimes times;
      const Compilation c = run_passes(graph, o, p.name, p.name == last ? &times : nullptr);
      if (!alone) print_out(fmt::format("; after {}\n", p.name));
      print_out(p.print(c));
      if (a.time && p.name == last) {
        for (const auto& [name, ms] : times) say(fmt::format("{:<10} {:8.3f} ms\n", name, ms));
      }
    }
    if (p.name == last) break;
  }
  return kOk;
}

}  // namespace braid::cli
