#include "frontend/report/explain.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "frontend/cli/cli.hpp"
#include "frontend/codes.hpp"
#include "passes/pipeline.hpp"
#include "passes/why_apart.hpp"

namespace braid::cli {
namespace {

int explain_code(const std::string& code) {
  const CodeInfo* info = find_code(code);
  if (!info) {
    std::vector<std::string> known;
    for (const CodeInfo& i : codes()) known.emplace_back(i.code);
    const std::string hint = suggest(code, known);
    throw UsageError(fmt::format(
        "there is no code '{}'; {}", code,
        hint.empty()
            ? fmt::format("'braid explain' lists them, and 'braid explain {} MODEL' asks a "
                          "model's plan for it",
                          code)
            : hint));
  }
  print_out(explain(*info));
  return kOk;
}

/// Why the group that makes a value and those of the node that reads it are not one. Nodes are
/// found by what they make: later passes reorder groups, and join some in one launch.
std::string why_two(const Compilation& c, const Options& options, const Program& p,
                    report::Ref user, uint32_t value) {
  const auto group_of = [&](uint32_t v) {
    return c.fusion.group_of[c.graph.value(ir::ValueId{v}).def.index];
  };
  const Node& n = p.bodies[user.body].nodes[user.node];
  // The fusion is that of the model without the bodies of its branches and loops.
  const size_t outermost = c.graph.values().size();
  if (user.call || p.bodies[user.body].region != UINT32_MAX || value >= outermost) return {};
  if (n.region != UINT32_MAX) return "a branch or loop is a kernel of its own, or several";
  const std::vector<ArgSlot>& slots = slots_of(p, n);
  for (size_t s = 0; s < n.args.size(); ++s) {
    if (slots[s].role == Role::in || n.values[s] >= outermost) continue;
    const std::string reason = why_apart(c.graph, c.homes, c.fusion, group_of(value),
                                         group_of(n.values[s]), ir::ValueId{value}, options);
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace

int explain_command(const ExplainArgs& a, const GlobalArgs& g) {
  if (a.what.empty()) {
    for (const CodeInfo& i : codes()) print_out(fmt::format("{}  {}\n", i.code, i.means));
    return kOk;
  }
  if (a.plan.file.empty()) return explain_code(a.what);
  const auto say_why = [&](const Program& p, const report::WhyApart& why) {
    try {
      print_out(report::explain(p, a.what, why));
    } catch (const std::invalid_argument& e) {
      throw UsageError(fmt::format("explain: {}", e.what()));
    }
    return kOk;
  };
  if (is_program_file(a.plan.file)) return say_why(load_program(a.plan, g).program, {});
  const Model model = load_graph(a.plan, g);
  const Options& o = model.settings.options;
  const Program p = plan_of(model, g).program;
  Options quiet = o;
  quiet.dump_dir.clear();
  const Compilation c = run_passes(model.graph, quiet, "chain");
  return say_why(p, [&](report::Ref, report::Ref user, uint32_t value) {
    return why_two(c, o, p, user, value);
  });
}

}  // namespace braid::cli
