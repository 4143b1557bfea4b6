#include <fmt/format.h>

#include "frontend/cli/cli.hpp"
#include "frontend/codes.hpp"

namespace braid::cli {

int explain_command(const ExplainArgs& a, const GlobalArgs&) {
  if (a.code.empty()) {
    for (const CodeInfo& i : codes()) print_out(fmt::format("{}  {}\n", i.code, i.means));
    return kOk;
  }
  const CodeInfo* info = find_code(a.code);
  if (!info) {
    std::vector<std::string> known;
    for (const CodeInfo& i : codes()) known.emplace_back(i.code);
    const std::string hint = suggest(a.code, known);
    throw UsageError(fmt::format("there is no code '{}'; {}", a.code,
                                 hint.empty() ? "'braid explain' lists them" : hint));
  }
  print_out(explain(*info));
  return kOk;
}

}  // namespace braid::cli
