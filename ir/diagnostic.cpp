#include "ir/diagnostic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace braid {
namespace {

std::optional<std::string> read_from_disk(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;  // a pipe would block
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Names in a model may hold anything, but control characters must not reach the terminal.
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

/// Line `number` (from 1) of a text, without its end.
std::optional<std::string> line_of(const std::string& text, uint32_t number) {
  size_t begin = 0;
  for (uint32_t n = 1; n < number; ++n) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return std::nullopt;
    ++begin;
  }
  size_t end = std::min(text.find('\n', begin), text.size());
  if (end > begin && text[end - 1] == '\r') --end;
  std::string line = text.substr(begin, end - begin);
  // One for one, so that columns stay.
  std::replace_if(line.begin(), line.end(), [](char c) { return is_control(c) && c != '\t'; }, ' ');
  return line;
}

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// Byte offset of a 1-based column in code points; the line's length if it is shorter.
size_t offset_of(const std::string& line, uint32_t column) {
  size_t at = 0;
  for (uint32_t c = 1; c < column && at < line.size(); ++c) {
    ++at;
    while (at < line.size() && !starts_code_point(line[at])) ++at;
  }
  return at;
}

/// Where the token at `at` ends: a quoted string, a word, or one character.
size_t token_end(const std::string& line, size_t at) {
  const auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' || c == '.';
  };
  if (at < line.size() && line[at] == '"') {
    const size_t close = line.find('"', at + 1);
    return close == std::string::npos ? line.size() : close + 1;
  }
  size_t end = at;
  while (end < line.size() && word(line[end])) ++end;
  return std::max(end, at + 1);
}

class Renderer {
 public:
  explicit Renderer(const RenderOptions& o) : options_(o) {
    if (!options_.source) options_.source = read_from_disk;
  }

  std::string one(const Diagnostic& d) {
    std::string out = heading(d);
    const std::optional<std::string> line = source_line(d.place);
    std::string below = printable(d.suggestion);
    if (line) out += fmt::format("{:>5} | {}\n", d.place.line, *line);
    if (line && d.place.column != 0) {
      below = marks(*line, d.place) + (below.empty() ? "" : " " + below);
    }
    if (!below.empty()) out += fmt::format("{:>5} | {}\n", "", below);
    for (const std::string& detail : d.details) {
      out += fmt::format("{:>5} | {}\n", "", printable(detail));
    }
    for (const Diagnostic& n : d.notes) out += one(n);
    return out;
  }

 private:
  std::string paint(std::string_view text, std::string_view code) const {
    return options_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }

  std::string heading(const Diagnostic& d) const {
    std::string out;
    std::string where = printable(d.place.file);
    if (d.place.known()) where += fmt::format(":{}", d.place.line);
    if (d.place.known() && d.place.column != 0) where += fmt::format(":{}", d.place.column);
    if (!where.empty()) out += paint(where + ":", "1") + " ";
    switch (d.severity) {
      case Severity::error:
        out += paint("error", "1;31");
        break;
      case Severity::warning:
        out += paint("warning", "1;35");
        break;
      case Severity::note:
        out += paint("note", "1;36");
        break;
    }
    if (!d.code.empty()) out += "[" + d.code + "]";
    return out + ": " + printable(d.message) + "\n";
  }

  std::optional<std::string> source_line(const Place& p) {
    if (!p.known()) return {};
    const auto [it, added] = files_.try_emplace(p.file);
    if (added) it->second = options_.source(p.file);
    if (!it->second) return {};
    return line_of(*it->second, p.line);
  }

  /// Spaces (tabs kept) up to the place, then one ^ per code point under it.
  std::string marks(const std::string& line, const Place& p) const {
    const size_t begin = offset_of(line, p.column);
    const size_t end = p.end_line > p.line       ? line.size()
                       : p.end_column > p.column ? offset_of(line, p.end_column)
                                                 : token_end(line, begin);
    std::string out, carets;
    for (size_t i = 0; i < begin; ++i) {
      if (starts_code_point(line[i])) out += line[i] == '\t' ? '\t' : ' ';
    }
    for (size_t i = begin; i < std::max(end, begin + 1); ++i) {
      if (i >= line.size() || starts_code_point(line[i])) carets += '^';
    }
    return out + paint(carets, "1;32");
  }

  RenderOptions options_;
  std::map<std::string, std::optional<std::string>> files_;
};

std::vector<Diagnostic> sorted(std::vector<Diagnostic> ds) {
  std::stable_sort(ds.begin(), ds.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.place.file, a.place.line, a.place.column) <
           std::tie(b.place.file, b.place.line, b.place.column);
  });
  return ds;
}

std::string plural(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

nlohmann::ordered_json json_of(const Diagnostic& d) {
  static constexpr std::array<std::string_view, 3> kSeverity{"error", "warning", "note"};
  nlohmann::ordered_json notes = nlohmann::ordered_json::array();
  for (const Diagnostic& n : d.notes) notes.push_back(json_of(n));
  return {{"file", d.place.file},
          {"line", d.place.line},
          {"col", d.place.column},
          {"end_line", d.place.end_line ? d.place.end_line : d.place.line},
          {"end_col", d.place.end_column},
          {"severity", kSeverity[static_cast<size_t>(d.severity)]},
          {"code", d.code},
          {"message", d.message},
          {"details", d.details},
          {"notes", notes},
          {"suggestion", d.suggestion}};
}

}  // namespace

std::string render(const Diagnostic& d, const RenderOptions& options) {
  return Renderer(options).one(d);
}

std::string render(const std::vector<Diagnostic>& ds, const RenderOptions& options) {
  Renderer renderer(options);
  std::string out;
  size_t errors = 0, shown = 0, warnings = 0;
  for (const Diagnostic& d : sorted(ds)) {
    errors += d.severity == Severity::error;
    warnings += d.severity == Severity::warning;
    if (d.severity == Severity::error && options.max_errors != 0 && errors > options.max_errors) {
      continue;
    }
    shown += d.severity == Severity::error;
    out += renderer.one(d);
  }
  if (errors == 0) return out + plural(warnings, "warning") + "\n";
  const std::string some = shown < errors ? fmt::format(" ({} shown)", shown) : std::string();
  return out + fmt::format("error: {}{}, {}\n", plural(errors, "error"), some,
                           plural(warnings, "warning"));
}

std::string render_json(const std::vector<Diagnostic>& ds, size_t max_errors) {
  std::string out;
  size_t errors = 0;
  const auto add = [&](const Diagnostic& d) {
    // A file name or source text need not be UTF-8.
    out += json_of(d).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  };
  for (const Diagnostic& d : sorted(ds)) {
    errors += d.severity == Severity::error;
    if (d.severity != Severity::error || max_errors == 0 || errors <= max_errors) add(d);
  }
  if (max_errors != 0 && errors > max_errors) {
    Diagnostic rest;
    rest.severity = Severity::note;
    rest.message = fmt::format("{} errors, {} shown", errors, max_errors);
    add(rest);
  }
  return out;
}

Error::Error(std::vector<Diagnostic> ds)
    : std::runtime_error(render(ds)), diagnostics_(std::move(ds)) {}

std::vector<std::string> did_you_mean(std::string_view word,
                                      const std::vector<std::string>& candidates) {
  // Damerau-Levenshtein distance, optimal string alignment.
  const auto distance = [&](std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        d[i][j] =
            std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
      }
    }
    return d[a.size()][b.size()];
  };
  const auto lower = [](std::string_view s) {
    std::string out(s);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
  };
  if (word.size() > 100) return {};
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& c : candidates) {
    if (c.size() > word.size() + limit || word.size() > c.size() + limit) continue;
    if (c == word) continue;
    if (lower(c) == lower(word)) {
      near.emplace_back(0, c);
    } else if (word.size() == 1 && c.size() == 1) {
      continue;  // all letters are one change apart
    } else if (const size_t d = distance(word, c); d <= limit) {
      near.emplace_back(d, c);
    }
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> out;
  for (const auto& [d, name] : near) {
    if (out.size() == 3 || (d > 0 && near[0].first == 0)) break;  // only its case was wrong
    out.push_back(name);
  }
  return out;
}

std::string suggest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = did_you_mean(word, candidates);
  std::string out;
  for (size_t i = 0; i < near.size(); ++i) {
    out += i == 0 ? "did you mean " : i + 1 == near.size() ? " or " : ", ";
    out += "'" + near[i] + "'";
  }
  return out.empty() ? out : out + "?";
}

std::string suggest_or_list(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kFew = 12;
  const std::string near = suggest(word, candidates);
  if (!near.empty() || candidates.empty() || candidates.size() > kFew) return near;
  std::string all;
  for (const std::string& c : candidates) all += fmt::format("{}'{}'", all.empty() ? "" : ", ", c);
  return "it has " + all;
}

void throw_error(std::string_view code, std::string message, std::string suggestion) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  throw Error(std::move(d));
}

}  // namespace braid
