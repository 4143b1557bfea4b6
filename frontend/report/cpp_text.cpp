#include "frontend/report/cpp_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace braid::cpp_text {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kLongestName = 64;

bool printable(unsigned char c) { return c >= 0x20 && c < 0x7f; }

bool alphanumeric(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Byte `i` of a literal. Octal digits must not run into a digit that follows, and ?? must begin no
/// trigraph.
std::string element(std::string_view bytes, size_t i) {
  const auto u = static_cast<unsigned char>(bytes[i]);
  if (printable(u) && u != '"' && u != '\\' && u != '?') return {bytes[i]};
  const bool digit_follows = i + 1 < bytes.size() && bytes[i + 1] >= '0' && bytes[i + 1] <= '7';
  return digit_follows ? fmt::format("\\{:03o}", u) : fmt::format("\\{:o}", u);
}

}  // namespace

std::string literal(std::string_view bytes) {
  std::string out = "\"";
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += element(bytes, i);
  }
  return out + "\"";
}

std::string literal_lines(std::span<const std::byte> data) {
  const std::string_view bytes(reinterpret_cast<const char*>(data.data()), data.size());
  std::string out, line;
  for (size_t i = 0; i < bytes.size(); ++i) {
    line += element(bytes, i);
    if (line.size() + 10 < kColumns && i + 1 < bytes.size()) continue;
    out += fmt::format("\n    \"{}\"", line);
    line.clear();
  }
  return out.empty() ? "\n    \"\"" : out;
}

std::string comment(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (printable(u) && c != '\\') {
      out += c;
    } else {
      out += fmt::format("<{:02x}>", u);
    }
  }
  return out;
}

std::string comment_lines(std::string_view indent, std::string_view text) {
  const std::string safe = comment(text);
  std::string out, line;
  const auto end_line = [&] {
    if (!line.empty()) out += fmt::format("{}//{}\n", indent, line);
    line.clear();
  };
  for (size_t at = 0; at < safe.size();) {
    const size_t space = std::min(safe.find(' ', at), safe.size());
    const std::string_view word = std::string_view(safe).substr(at, space - at);
    if (indent.size() + 3 + line.size() + word.size() > kColumns) end_line();
    line += ' ';
    line += word;
    at = space + 1;
  }
  end_line();
  return out;
}

std::string list_lines(std::string_view begin, std::span<const std::string> items,
                       std::string_view end, size_t group) {
  const std::string indent(std::min(begin.find_first_not_of(' '), begin.size()) + 4, ' ');
  const bool grouped = group > 0 && group < items.size();
  std::string out, line(begin);
  const auto end_line = [&] {
    if (line != indent) out += line + "\n";
    line = indent;
  };
  if (grouped) end_line();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : std::string(end));
    const bool begins = line == indent || line == begin;
    if (!begins && ((grouped && i % group == 0) || line.size() + 1 + item.size() > kColumns)) {
      end_line();
    }
    line += (line == indent || line == begin ? "" : " ") + item;
  }
  end_line();
  return out;
}

std::string identifier(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kLongestName)) {
    if (alphanumeric(static_cast<unsigned char>(c))) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

std::string FileNames::take(std::string_view name, std::string_view ending) {
  std::string path;
  for (size_t at = 0; at <= name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    std::string part(name.substr(at, slash - at));
    std::replace(part.begin(), part.end(), '\0', '_');
    if (part.empty() || part == "." || part == "..") part = "_";
    path += (at == 0 ? "" : "/") + part;
    at = slash + 1;
  }
  std::string file = path + std::string(ending);
  for (int i = 2; !taken_.insert(file).second; ++i) {
    file = fmt::format("{}_{}{}", path, i, ending);
  }
  return file;
}

}  // namespace braid::cpp_text
