#include "frontend/codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace braid {
namespace {

constexpr size_t kWidth = 80;

/// The text in lines of at most kWidth characters.
std::string wrapped(std::string_view text) {
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column > 0 && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    if (column > 0) out += ' ';
    column += word.size() + (column > 0);
    out += word;
  }
  return out + '\n';
}

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    out += fmt::format("    {}\n", line);
  }
  return out;
}

}  // namespace

const std::vector<CodeInfo>& codes() {
  static const std::vector<CodeInfo> table = [] {
    std::vector<CodeInfo> all = codes_of_files();
    for (const auto& part : {codes_of_models(), codes_of_runs()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

const CodeInfo* find_code(std::string_view code) {
  std::string upper(code);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto it = std::find_if(codes().begin(), codes().end(),
                               [&](const CodeInfo& i) { return i.code == upper; });
  return it == codes().end() ? nullptr : &*it;
}

std::string explain(const CodeInfo& i) {
  std::string out = fmt::format("{}: {}\n\n{}", i.code, i.means, wrapped(i.details));
  if (!i.wrong.empty()) out += fmt::format("\nWrong:\n{}", indented(i.wrong));
  if (!i.right.empty()) out += fmt::format("\nRight:\n{}", indented(i.right));
  if (!i.fix.empty()) out += fmt::format("\n{}", wrapped(fmt::format("What to do: {}.", i.fix)));
  return out;
}

std::string codes_table() {
  std::string out = "| code | means | what to do |\n| --- | --- | --- |\n";
  for (const CodeInfo& i : codes()) {
    out += fmt::format("| {} | {} | {} |\n", i.code, i.means, i.fix);
  }
  return out;
}

}  // namespace braid
