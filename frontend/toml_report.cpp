#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

std::string_view kind_name(Item::Kind kind) {
  switch (kind) {
    case Item::Kind::string:
      return "a string";
    case Item::Kind::integer:
      return "an integer";
    case Item::Kind::real:
      return "a number";
    case Item::Kind::boolean:
      return "true or false";
    case Item::Kind::array:
      return "a list";
    case Item::Kind::table:
      return "a table";
    case Item::Kind::other:
      return "a date or time";
  }
  return "a value";
}

}  // namespace

Diagnostic& Report::error(std::string_view code, const Place& place, std::string message,
                          std::string suggestion) {
  Diagnostic d;
  d.code = code;
  d.place = place;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return list.emplace_back(std::move(d));
}

bool Report::expect(const Item& item, Item::Kind kind, std::string_view what,
                    std::string suggestion) {
  if (item.kind == kind) return true;
  if (kind == Item::Kind::real && item.kind == Item::Kind::integer) return true;
  error("E0104", item.place,
        fmt::format("{} must be {}, not {}", what, kind_name(kind), kind_name(item.kind)),
        std::move(suggestion));
  return false;
}

void Report::unknown_name(const Text& name, std::string_view user,
                          const std::vector<std::string>& known) {
  std::string advice = suggest(name.text, known);
  if (outer.count(name.text) > 0) {
    advice =
        "a block sees only its own names: pass it in through 'in' of the block and of the node";
  }
  error("E0204", name.place, fmt::format("unknown name '{}' {}", name.text, user),
        std::move(advice));
}

bool Report::check_keys(const Item& table, std::initializer_list<std::string_view> allowed,
                        std::string_view where) {
  bool good = true;
  for (const Entry& e : table.entries) {
    if (std::find(allowed.begin(), allowed.end(), e.key) != allowed.end()) continue;
    error("E0102", e.place, fmt::format("unknown key '{}' in {}", e.key, where),
          suggest_key(e.key, {allowed.begin(), allowed.end()}));
    good = false;
  }
  return good;
}

const Entry* Report::need(const Item& table, std::string_view key, std::string_view where) {
  const Entry* e = table.find(key);
  if (!e) error("E0103", table.place, fmt::format("{} needs the key '{}'", where, key));
  return e;
}

bool Report::check_name(std::string_view name, const Place& place, std::string_view what) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  };
  if (!name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_') &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return true;
  }
  std::string advice;
  if (name.find(',') != std::string_view::npos) {  // "a, b" for ["a", "b"]
    for (size_t at = 0; at <= name.size();) {
      const size_t end = std::min(name.find(',', at), name.size());
      size_t begin = at;
      while (begin < end && name[begin] == ' ') ++begin;
      advice += fmt::format("{}\"{}\"", advice.empty() ? "several names are a list: [" : ", ",
                            name.substr(begin, end - begin));
      at = end + 1;
    }
    advice += "]";
  }
  error("E0206", place,
        fmt::format("'{}' cannot name {}: use letters, digits, '_', '.' and '-', and begin with "
                    "a letter",
                    name, what),
        std::move(advice));
  return false;
}

void define(Names& names, const Text& name, Report& report) {
  const auto [it, added] = names.emplace(name.text, name.place);
  if (added) return;
  Diagnostic note;
  note.severity = Severity::note;
  note.message = "first defined here";
  note.place = it->second;
  report
      .error("E0201", name.place, fmt::format("the name '{}' is defined twice", name.text),
             "every name stands for one value: choose another")
      .notes.push_back(std::move(note));
}

}  // namespace braid::toml_reader
