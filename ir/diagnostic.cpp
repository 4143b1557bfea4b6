#include "ir/diagnostic.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace braid {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kGreen = "\x1b[1;32m";
constexpr std::string_view kReset = "\x1b[0m";

std::string_view name_of(Severity s) {
  switch (s) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  return "note";
}

std::string_view colour_of(Severity s) {
  switch (s) {
    case Severity::error:
      return "\x1b[1;31m";
    case Severity::warning:
      return "\x1b[1;35m";
    case Severity::note:
      return "\x1b[1;36m";
  }
  return kBold;
}

std::optional<std::string> read_from_disk(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};  // never wait for a pipe
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Names from a file may hold anything: control characters must not reach the terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (is_control(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<std::string> line_of(const std::string& text, uint32_t line) {
  size_t begin = 0;
  for (uint32_t i = 1; i < line; ++i) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) return {};
    begin = end + 1;
  }
  std::string s = text.substr(begin, text.find('\n', begin) - begin);
  if (!s.empty() && s.back() == '\r') s.pop_back();
  for (char& c : s) {
    if (is_control(c) && c != '\t') c = ' ';
  }
  return s;
}

/// The byte where code point `column` (from 1) starts; the line's size beyond its end.
size_t byte_of_column(std::string_view line, uint32_t column) {
  size_t i = 0;
  for (uint32_t c = 1; c < column && i < line.size(); ++c) {
    ++i;
    while (i < line.size() && is_continuation(line[i])) ++i;
  }
  return i;
}

/// The end of the token that starts at byte `begin`: a word, a quoted string, or one character.
size_t token_end(std::string_view line, size_t begin) {
  if (begin >= line.size()) return begin;
  const char first = line[begin];
  size_t end = begin + 1;
  if (first == '"' || first == '\'') {
    while (end < line.size() && line[end] != first) end += line[end] == '\\' ? 2 : 1;
    return std::min(end + 1, line.size());
  }
  if (is_word(first)) {
    while (end < line.size() && is_word(line[end])) ++end;
  }
  return end;
}

size_t count_code_points(std::string_view s) {
  return static_cast<size_t>(
      std::count_if(s.begin(), s.end(), [](char c) { return !is_continuation(c); }));
}

class Renderer {
 public:
  explicit Renderer(const RenderOptions& options)
      : colour_(options.colour), source_(options.source ? options.source : read_from_disk) {}

  void diagnostic(const Diagnostic& d) {
    head(d);
    const std::optional<std::string> line = source_line(d.place);
    std::string gutter = "  ";
    if (line) {
      const std::string number = std::to_string(d.place.line);
      gutter = "  " + std::string(std::max<size_t>(2, number.size()), ' ') + " | ";
      out_ += fmt::format("  {:>2} | {}\n", number, *line);
    }
    if (line && d.place.column != 0) {
      out_ += gutter + caret(*line, d.place, d.suggestion) + "\n";
    } else if (!d.suggestion.empty()) {
      out_ += gutter + printable(d.suggestion) + "\n";
    }
    for (const std::string& detail : d.details) {
      out_ += gutter + (line ? "  " : "") + printable(detail) + "\n";
    }
    for (const Diagnostic& n : d.notes) diagnostic(n);
  }

  void line(std::string_view text) { out_ += std::string(text) + "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string paint(std::string_view code, std::string text) const {
    return colour_ ? std::string(code) + text + std::string(kReset) : text;
  }

  void head(const Diagnostic& d) {
    std::string where = printable(d.place.file);
    if (d.place.known()) {
      where += fmt::format(":{}", d.place.line);
      if (d.place.column != 0) where += fmt::format(":{}", d.place.column);
    }
    if (!where.empty()) out_ += paint(kBold, where + ":") + " ";
    std::string kind(name_of(d.severity));
    if (!d.code.empty()) kind += "[" + d.code + "]";
    out_ += paint(colour_of(d.severity), kind + ":") + " " + printable(d.message) + "\n";
  }

  std::optional<std::string> source_line(const Place& place) {
    if (!place.known() || place.file.empty()) return {};
    auto it = texts_.find(place.file);
    if (it == texts_.end()) it = texts_.emplace(place.file, source_(place.file)).first;
    if (!it->second) return {};
    return line_of(*it->second, place.line);
  }

  std::string caret(std::string_view line, const Place& place, const std::string& suggestion) {
    const size_t begin = byte_of_column(line, place.column);
    const size_t end = place.end_column > place.column ? byte_of_column(line, place.end_column)
                                                       : token_end(line, begin);
    std::string lead;
    for (char c : line.substr(0, begin)) {
      if (!is_continuation(c)) lead += c == '\t' ? '\t' : ' ';
    }
    std::string marks(std::max<size_t>(1, count_code_points(line.substr(begin, end - begin))), '^');
    if (!suggestion.empty()) marks += " " + printable(suggestion);
    return lead + paint(kGreen, marks);
  }

  bool colour_;
  SourceText source_;
  std::map<std::string, std::optional<std::string>> texts_;
  std::string out_;
};

std::vector<Diagnostic> sorted(std::vector<Diagnostic> ds) {
  auto key = [](const Diagnostic& d) {
    return std::tie(d.place.file, d.place.line, d.place.column);
  };
  std::stable_sort(ds.begin(), ds.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
  return ds;
}

std::string plain(const std::vector<Diagnostic>& ds) {
  std::string text = ds.size() == 1 ? render(ds.front()) : render(ds);
  if (!text.empty()) text.pop_back();
  return text;
}

nlohmann::ordered_json to_json(const Diagnostic& d) {
  nlohmann::ordered_json notes = nlohmann::ordered_json::array();
  for (const Diagnostic& n : d.notes) notes.push_back(to_json(n));
  return {{"file", d.place.file},
          {"line", d.place.line},
          {"col", d.place.column},
          {"end_col", d.place.end_column},
          {"severity", name_of(d.severity)},
          {"code", d.code},
          {"message", d.message},
          {"details", d.details},
          {"notes", std::move(notes)},
          {"suggestion", d.suggestion}};
}

/// Optimal string alignment: insert, delete, replace, swap two neighbours.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string render(const Diagnostic& d, const RenderOptions& options) {
  Renderer r(options);
  r.diagnostic(d);
  return r.take();
}

std::string render(const std::vector<Diagnostic>& ds, const RenderOptions& options) {
  if (ds.empty()) return "";
  Renderer r(options);
  size_t errors = 0, warnings = 0;
  for (const Diagnostic& d : sorted(ds)) {
    r.diagnostic(d);
    errors += d.severity == Severity::error;
    warnings += d.severity == Severity::warning;
  }
  r.line(fmt::format("{}: {} error{}, {} warning{}", errors > 0 ? "error" : "warning", errors,
                     errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s"));
  return r.take();
}

std::string render_json(const std::vector<Diagnostic>& ds) {
  std::string out;
  for (const Diagnostic& d : sorted(ds)) {
    // Invalid UTF-8 in a name must not lose the diagnostic.
    out += to_json(d).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return out;
}

Error::Error(std::vector<Diagnostic> ds)
    : std::runtime_error(plain(ds)), diagnostics_(std::move(ds)) {}

std::vector<std::string> did_you_mean(std::string_view word,
                                      const std::vector<std::string>& candidates) {
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& c : candidates) {
    if (c.size() > word.size() + limit || word.size() > c.size() + limit) continue;
    const size_t d = distance(word, c);
    const bool unlike = d >= std::max(word.size(), c.size());  // no letter in common
    if (d <= limit && d > 0 && !unlike) near.emplace_back(d, c);
  }
  std::stable_sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i) out.push_back(near[i].second);
  return out;
}

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = did_you_mean(word, candidates);
  std::string out;
  for (size_t i = 0; i < near.size(); ++i) {
    out += i == 0 ? "did you mean '" : (i + 1 == near.size() ? "' or '" : "', '");
    out += near[i];
  }
  return near.empty() ? "" : out + "'?";
}

}  // namespace braid
