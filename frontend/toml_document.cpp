#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "frontend/toml_internal.hpp"

// The only file that includes toml++, which takes seconds to compile. toml++ asserts that the
// parser never meets what a faulty file may hold, as in "[=", although it reports that well.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

namespace braid::toml_reader {
namespace {

Place place_of(const toml::source_region& region, const std::string& file) {
  Place p{file, region.begin.line, region.begin.column, 0};
  if (region.end.line == region.begin.line && region.end.column > region.begin.column) {
    p.end_column = region.end.column;
  }
  return p;
}

Item convert(const toml::node& node, const std::string& file) {
  Item item;
  item.place = place_of(node.source(), file);
  switch (node.type()) {
    case toml::node_type::string:
      item.kind = Item::Kind::string;
      item.text = node.ref<std::string>();
      break;
    case toml::node_type::integer:
      item.kind = Item::Kind::integer;
      item.integer = node.ref<int64_t>();
      item.real = static_cast<double>(item.integer);
      break;
    case toml::node_type::floating_point:
      item.kind = Item::Kind::real;
      item.real = node.ref<double>();
      break;
    case toml::node_type::boolean:
      item.kind = Item::Kind::boolean;
      item.boolean = node.ref<bool>();
      break;
    case toml::node_type::array:
      item.kind = Item::Kind::array;
      for (const toml::node& n : *node.as_array()) item.items.push_back(convert(n, file));
      break;
    case toml::node_type::table:
      item.kind = Item::Kind::table;
      for (const auto& [key, value] : *node.as_table()) {
        item.entries.push_back(
            {std::string(key.str()), place_of(key.source(), file), convert(value, file)});
      }
      // toml++ sorts by key; people expect the order of the file.
      std::stable_sort(item.entries.begin(), item.entries.end(),
                       [](const Entry& a, const Entry& b) {
                         return std::pair(a.place.line, a.place.column) <
                                std::pair(b.place.line, b.place.column);
                       });
      break;
    default:
      break;
  }
  return item;
}

/// The parser's complaint as ours: "Error while parsing string: x" -> "not valid TOML: x (string)".
/// Where it hides a common mistake, the suggestion says so.
Diagnostic diagnostic(std::string_view description, Place place) {
  constexpr std::string_view kPrefix = "Error while parsing ";
  std::string what(description);
  while (!what.empty() && (what.back() == '.' || what.back() == '\n')) what.pop_back();
  const size_t colon = what.find(": ");
  std::string context;
  if (what.compare(0, kPrefix.size(), kPrefix) == 0 && colon != std::string::npos) {
    context = what.substr(kPrefix.size(), colon - kPrefix.size());
    what = what.substr(colon + 2);
  }
  if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));

  Diagnostic d;
  d.code = "E0101";
  d.place = std::move(place);
  const auto has = [&](std::string_view s) { return what.find(s) != std::string::npos; };
  if (context == "inline table" && has("'\\n'")) {
    d.suggestion = "a table in braces stands on one line";
  } else if (has("dangling comma")) {
    d.suggestion = "remove the comma before it";
  } else if (has("control characters")) {
    d.suggestion = "is a quotation mark missing?";
  }
  d.message = fmt::format("not valid TOML: {}{}", what,
                          context.empty() ? "" : fmt::format(" ({})", context));
  return d;
}

}  // namespace

const Entry* Item::find(std::string_view key) const {
  for (const Entry& e : entries) {
    if (e.key == key) return &e;
  }
  return nullptr;
}

Item parse_document(std::string_view text, std::string_view file) {
  const std::string name(file);
  try {
    const toml::table table = toml::parse(text, name);
    Item root = convert(table, name);
    root.place = Place{name, 1, 1, 0};
    return root;
  } catch (const toml::parse_error& e) {
    throw Error(diagnostic(e.description(), place_of(e.source(), name)));
  }
}

}  // namespace braid::toml_reader
