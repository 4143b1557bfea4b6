#include "frontend/cli/cli.hpp"
#include "frontend/report/html.hpp"

namespace braid::cli {

int inspect_command(const InspectArgs& a, const GlobalArgs& g) {
  const Plan plan = load_program(a.plan, g);
  const Program& p = plan.program;
  if (!plan.origins.empty()) note(g, "settings: " + plan.origins);
  if (a.format == "json") {
    print_out(to_json(p, a.source));
  } else if (a.format == "dot") {
    print_out(to_dot(p));
  } else if (a.format == "html") {
    print_out(to_html(p));
  } else {
    std::string text = to_text(p);
    if (a.source) {
      for (const Module& m : p.modules) text += "\n" + m.source;
    }
    print_out(text);
  }
  return kOk;
}

}  // namespace braid::cli
