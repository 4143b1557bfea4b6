// Every diagnostic code: what it means and how to mend it. The one source of `braid explain` and of
// the table in frontend/README.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid {

struct CodeInfo {
  std::string_view code;     // "E0301"
  std::string_view means;    // half a sentence
  std::string_view fix;      // likewise; may be empty
  std::string_view details;  // sentences: when it happens and why it is refused
  std::string_view wrong;    // what somebody wrote, and ...
  std::string_view right;    // ... what works
};

/// Sorted by code.
const std::vector<CodeInfo>& codes();
/// Nothing for an unknown code; lower case will do.
const CodeInfo* find_code(std::string_view code);
/// The long form, for a terminal.
std::string explain(const CodeInfo& info);
/// The Markdown table of frontend/README.md.
std::string codes_table();

/// The parts of the table.
std::vector<CodeInfo> codes_of_files();   // E01: files and their form
std::vector<CodeInfo> codes_of_models();  // E02 to E05: what a model says
std::vector<CodeInfo> codes_of_runs();    // E06 to E09: settings, running, the IR

}  // namespace braid
