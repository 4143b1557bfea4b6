// What NVRTC's log says of a user's code, as diagnostics.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include "runtime/nvrtc_user.hpp"

namespace braid::runtime {
namespace {

/// The first word of each of our own parts of a source, and NVRTC's of its list of functions.
constexpr std::string_view kOurs = "<braid", kList = "__nv_name_map";

/// One message of the log: "FILE(LINE): error: TEXT", further lines, the source line, a caret.
struct Message {
  std::string file;
  uint32_t line = 0, column = 0;
  std::string text;
  std::vector<std::string> details;
};

/// Nothing for a line that begins no error.
std::optional<Message> begin_of(const std::string& line) {
  for (const std::string_view kind : {"): error: ", "): catastrophic error: "}) {
    const size_t close = line.find(kind);
    if (close == std::string::npos) continue;
    const size_t open = line.rfind('(', close);
    if (open == std::string::npos) continue;
    Message m;
    const char* first = line.data() + open + 1;
    const auto parsed = std::from_chars(first, line.data() + close, m.line);
    if (parsed.ec != std::errc() || parsed.ptr != line.data() + close) continue;
    m.file = line.substr(0, open);
    m.text = line.substr(close + kind.size());
    return m;
  }
  return std::nullopt;
}

std::vector<Message> messages_of(std::string_view log) {
  std::vector<Message> all;
  std::istringstream lines{std::string(log)};
  bool open = false;
  for (std::string line; std::getline(lines, line);) {
    if (std::optional<Message> m = begin_of(line)) {
      all.push_back(std::move(*m));
      open = true;
    } else if (line.empty()) {
      open = false;
    } else if (open) {
      all.back().details.push_back(line);
    }
  }
  for (Message& m : all) {
    std::vector<std::string>& d = m.details;
    const auto caret = std::find_if(d.begin(), d.end(), [](const std::string& l) {
      return !l.empty() && l.back() == '^' && l.find_first_not_of(" \t") == l.size() - 1;
    });
    if (caret != d.end()) {
      // Source lines are indented by two.
      if (caret->size() > 2) m.column = static_cast<uint32_t>(caret->size() - 2);
      d.erase(caret == d.begin() ? caret : caret - 1, caret + 1);
    }
    for (std::string& line : d) line.erase(0, line.find_first_not_of(' '));
  }
  return all;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// "rope" of "my::rope<64>".
std::string base_name(std::string_view function) {
  function = function.substr(0, function.find('<'));
  while (!function.empty() && !is_word(function.back())) function.remove_suffix(1);
  size_t begin = function.size();
  while (begin > 0 && is_word(function[begin - 1])) --begin;
  return std::string(function.substr(begin));
}

/// The user's own text of the module: without its first line, up to where ours begins.
std::string_view code_of(const Module& m) {
  std::string_view code = m.source;
  code.remove_prefix(std::min(code.find('\n') + 1, code.size()));
  return code.substr(0, code.find("\n#line 1 \"<braid"));
}

uint32_t first_line(const Module& m) {
  constexpr std::string_view kLine = "#line ";
  uint32_t line = 1;
  if (m.source.starts_with(kLine)) {
    std::from_chars(m.source.data() + kLine.size(), m.source.data() + m.source.size(), line);
  }
  return line;
}

/// The names that stand before a "(" somewhere behind a __global__.
std::vector<std::string> kernels_in(std::string_view code) {
  std::vector<std::string> names;
  constexpr std::string_view kGlobal = "__global__";
  for (size_t at = code.find(kGlobal); at != std::string_view::npos;
       at = code.find(kGlobal, at + 1)) {
    size_t open = code.find('(', at);
    // An attribute with an argument of its own stands between.
    constexpr std::string_view kBounds = "__launch_bounds__";
    if (const size_t bounds = code.find(kBounds, at); bounds < open) {
      open = code.find('(', std::min(code.find(')', bounds), code.size()));
    }
    if (open == std::string_view::npos) continue;
    const std::string name = base_name(code.substr(at, open - at));
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

/// Where the code first has the function's name before a "(".
Place place_of(const Module& m, const std::string& name) {
  const std::string_view code = code_of(m);
  Place place{m.file, first_line(m), 1, 0};
  for (size_t at = code.find(name); at != std::string_view::npos; at = code.find(name, at + 1)) {
    size_t end = at + name.size();
    if ((at > 0 && is_word(code[at - 1])) || (end < code.size() && is_word(code[end]))) continue;
    while (end < code.size() && std::isspace(static_cast<unsigned char>(code[end]))) ++end;
    if (end >= code.size() || code[end] != '(') continue;
    const std::string_view before = code.substr(0, at);
    place.line += static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n'));
    const size_t line = before.rfind('\n');
    place.column = static_cast<uint32_t>(at - (line == std::string_view::npos ? 0 : line + 1) + 1);
    place.end_column = place.column + static_cast<uint32_t>(name.size());
    break;
  }
  return place;
}

Diagnostic of_code(const Message& m) {
  Diagnostic d;
  d.code = "E0880";
  d.message = m.text;
  d.place = {m.file, m.line, m.column, 0};
  d.details = m.details;
  if (m.text.find("cannot open source file") != std::string::npos) {
    const bool cuda = m.text.find("\"cuda") != std::string::npos;
    d.suggestion = cuda ? "install the CUDA toolkit's headers, or set CUDA_HOME"
                        : "name its folder in the kernel's 'include'";
  }
  return d;
}

/// Of a static_assert of ours, or a name that our text uses.
Diagnostic of_checks(const Message& m, const Module& module, const std::string& function) {
  const std::string name = base_name(function);
  Diagnostic d;
  d.place = place_of(module, name);
  const size_t open = m.text.find('"'), close = m.text.rfind('"');
  if (m.text.starts_with("static assertion failed") && open < close) {
    d.code = "E0881";
    d.message = m.text.substr(open + 1, close - open - 1);
    d.suggestion = "change the function, or the kernel's 'parameters' in the model";
    return d;
  }
  d.code = "E0882";
  d.message = fmt::format("there is no __global__ function '{}' in {}", function, module.file);
  d.details.push_back("the compiler says: " + m.text);
  const std::vector<std::string> known = kernels_in(code_of(module));
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    d.suggestion =
        "a template needs its arguments, as in function = \"rope<64>\", a name of a namespace its "
        "path, and an overloaded function another name";
  } else {
    d.suggestion = suggest_or_list(name, known);
  }
  return d;
}

}  // namespace

std::vector<Diagnostic> mistakes_in(std::string_view log, const Module& module,
                                    const std::vector<std::string>& functions) {
  std::vector<Diagnostic> code, checks, names;
  std::set<std::string> missing;  // functions of which nothing more is to be said
  for (const Message& m : messages_of(log)) {
    if (m.file.starts_with(kList)) {
      for (const std::string& f : functions) {
        if (m.text.find("non-__global__") == std::string::npos) continue;
        const size_t at = m.text.rfind(": \"");
        if (at == std::string::npos || m.text.find(base_name(f), at) == std::string::npos) continue;
        Diagnostic d;
        d.code = "E0882";
        d.message = fmt::format("'{}' is no __global__ function", f);
        d.place = place_of(module, base_name(f));
        d.suggestion = "declare it __global__";
        names.push_back(std::move(d));
        break;
      }
    } else if (m.file.starts_with(kOurs)) {
      const size_t at = m.file.find(": ");
      std::string function = at == std::string::npos ? "" : m.file.substr(at + 2);
      if (function.ends_with('>')) function.pop_back();
      if (missing.contains(function)) continue;
      checks.push_back(of_checks(m, module, function));
      if (checks.back().code == "E0882") missing.insert(function);
    } else {
      code.push_back(of_code(m));
    }
  }
  // What is wrong with the code makes the rest wrong.
  if (!code.empty()) return code;
  return checks.empty() ? names : checks;
}

}  // namespace braid::runtime
