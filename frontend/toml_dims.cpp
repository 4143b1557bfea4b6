// Dims are constants, symbols or expressions over other dims, in any order. They are evaluated to
// polynomials over the symbols, in the canonical form that shapes are compared in.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "frontend/builder_impl.hpp"
#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

constexpr size_t kMaxExpression = 200;  // characters
constexpr int kMaxDepth = 64;           // parentheses

constexpr std::string_view kLater =
    "one that is chosen later is a dim with a default: [dims] B = { default = 8 }";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool is_dim_name(std::string_view s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(), is_word);
}

}  // namespace

struct Dims::Named {
  const Entry* entry = nullptr;
  enum class State : uint8_t { open, active, done } state = State::open;
  std::optional<Dim> dim{};  // nothing after a mistake
  bool symbol = false;
  std::optional<int64_t> default_value{}, max{};
};

/// sum := product { ('+'|'-') product }; product := atom { ('*'|'/') atom };
/// atom := integer | name | '(' sum ')'
struct Dims::Parser {
  Dims& dims;
  const Item& item;
  std::string_view text = item.text;
  size_t at = 0;
  int depth = 0;
  bool failed = false;

  std::optional<Dim> run() {
    std::optional<Dim> d = sum();
    skip();
    if (!failed && at < text.size()) unexpected();
    return failed ? std::nullopt : d;
  }

 private:
  /// The part of the string that the caret marks; the whole string if it holds escapes.
  Place part(size_t begin, size_t end) const {
    Place p = item.place;
    if (p.end_line > p.line || p.end_column != p.column + text.size() + 2) return p;
    p.column += static_cast<uint32_t>(begin) + 1;
    p.end_column = item.place.column + static_cast<uint32_t>(end) + 1;
    return p;
  }
  void fail(std::string_view code, const Place& place, std::string message,
            std::string suggestion = {}) {
    if (!failed) dims.report_.error(code, place, std::move(message), std::move(suggestion));
    failed = true;
  }
  void unexpected() {
    if (at >= text.size()) {
      fail("E0401", item.place, fmt::format("dim expression '{}' ends too early", text));
    } else {
      fail("E0401", part(at, at + 1),
           fmt::format("unexpected '{}' in a dim expression: it may hold integers, dims, + - * / "
                       "and parentheses",
                       text[at]),
           text == "?" || text == "*" ? std::string(kLater) : std::string());
    }
  }
  void skip() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool take(char c) {
    skip();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }

  std::optional<Dim> sum() {
    std::optional<Dim> a = product();
    while (!failed) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const std::optional<Dim> b = product();
      if (a && b) a = plus ? dims.table_.add(*a, *b) : dims.table_.sub(*a, *b);
      if (!b) a.reset();
    }
    return a;
  }

  std::optional<Dim> product() {
    std::optional<Dim> a = atom();
    while (!failed) {
      const bool times = take('*');
      if (!times && !take('/')) break;
      const std::optional<Dim> b = atom();
      if (a && b) {
        const Dim dividend = *a;
        a = times ? dims.table_.mul(*a, *b) : dims.table_.div(*a, *b);
        if (!a) {
          fail("E0405", item.place,
               fmt::format("{} is not divisible by {}", dims.table_.str(dividend),
                           dims.table_.str(*b)));
        }
      }
      if (!b) a.reset();
    }
    return a;
  }

  std::optional<Dim> atom() {
    if (failed) return {};
    if (take('(')) {
      if (++depth > kMaxDepth) {
        fail("E0401", item.place, "dim expression has too many parentheses");
        return {};
      }
      const std::optional<Dim> inner = sum();
      if (!failed && !take(')')) unexpected();
      --depth;
      return inner;
    }
    skip();
    const size_t begin = at;
    while (at < text.size() && is_word(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    if (word.empty()) {
      unexpected();
      return {};
    }
    if (is_dim_name(word)) return name(word, part(begin, at));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail("E0405", part(begin, at), fmt::format("{} does not fit into 64 bits", word));
    } else if (end != word.data() + word.size()) {
      fail("E0401", part(begin, at),
           fmt::format("'{}' is neither an integer nor the name of a dim", word));
    }
    return failed ? std::nullopt : std::optional<Dim>(Dim(value));
  }

  std::optional<Dim> name(std::string_view word, const Place& place) {
    const auto it = dims.index_.find(word);
    if (it != dims.index_.end()) return dims.resolve(it->second);
    if (dims.report_.section_lost) return {};
    std::vector<std::string> known;
    for (const Named& n : dims.named_) known.push_back(n.entry->key);
    const std::string near = suggest(word, known);
    fail("E0403", place, fmt::format("unknown dim '{}'", word),
         near.empty() ? fmt::format("declare it, as in [dims] {} = 8", word) : near);
    return {};
  }
};

Dims::~Dims() = default;

Dims::Dims(const Item* table, Report& report) : report_(report) {
  if (!table) return;
  for (const Entry& e : table->entries) {
    if (!is_dim_name(e.key)) {
      report_.error("E0206", e.place,
                    fmt::format("'{}' cannot name a dim: use letters, digits and '_', and begin "
                                "with a letter",
                                e.key));
      continue;
    }
    index_.emplace(e.key, named_.size());
    named_.push_back({&e});
  }
  for (size_t i = 0; i < named_.size(); ++i) resolve(i);
}

std::optional<Dim> Dims::resolve(size_t index) {
  Named& n = named_[index];
  if (n.state == Named::State::done) return n.dim;
  if (n.state == Named::State::active) {
    const auto begin = std::find(path_.begin(), path_.end(), index);
    std::vector<std::string> steps;
    for (auto it = begin; it != path_.end(); ++it) {
      const size_t next = it + 1 == path_.end() ? index : *(it + 1);
      steps.push_back(next == *it ? fmt::format("'{}' needs itself", named_[next].entry->key)
                                  : fmt::format("'{}' needs '{}'", named_[*it].entry->key,
                                                named_[next].entry->key));
      named_[*it].state = Named::State::done;
    }
    report_.error("E0404", n.entry->place,
                  fmt::format("dims depend on each other in a cycle: {}", fmt::join(steps, ", ")));
    return {};
  }
  n.state = Named::State::active;
  path_.push_back(index);
  const Item& value = n.entry->value;
  n.dim = value.kind == Item::Kind::table ? symbol(n) : evaluate(value);
  path_.pop_back();
  n.state = Named::State::done;
  return n.dim;
}

std::optional<Dim> Dims::symbol(Named& n) {
  const Item& table = n.entry->value;
  const std::string where = fmt::format("dim '{}'", n.entry->key);
  bool good = report_.check_keys(table, {"default", "max"}, where);
  const auto read = [&](std::string_view key) -> std::optional<int64_t> {
    const Entry* e = table.find(key);
    if (!e) return {};
    if (!report_.expect(e->value, Item::Kind::integer, fmt::format("'{}'", key))) {
      good = false;
    } else if (e->value.integer < 0) {
      report_.error("E0402", e->value.place, fmt::format("{}: {} is negative", where, key));
      good = false;
    } else {
      return e->value.integer;
    }
    return {};
  };
  n.default_value = read("default");
  n.max = read("max");
  if (n.default_value && n.max && *n.default_value > *n.max) {
    report_.error("E0402", table.find("default")->value.place,
                  fmt::format("{}: default {} is above max {}", where, *n.default_value, *n.max));
    good = false;
  }
  n.symbol = good;
  return good ? std::optional<Dim>(table_.symbol(n.entry->key)) : std::nullopt;
}

std::optional<Dim> Dims::evaluate(const Item& item) {
  if (item.kind == Item::Kind::integer) {
    if (item.integer >= 0) return Dim(item.integer);
    report_.error("E0405", item.place, fmt::format("an extent cannot be {}", item.integer),
                  std::string(kLater));
    return {};
  }
  if (item.kind != Item::Kind::string) {
    report_.error("E0104", item.place,
                  "an extent is an integer, the name of a dim, or an expression like \"4*D\"");
    return {};
  }
  if (item.text.size() > kMaxExpression) {
    report_.error("E0401", item.place,
                  fmt::format("dim expression is longer than {} characters", kMaxExpression));
    return {};
  }
  try {
    return Parser{*this, item}.run();
  } catch (const Error& e) {
    // Overflow or a negative extent: the table of dims knows no places.
    report_.error("E0405", item.place, e.diagnostics().front().message);
  }
  return {};
}

std::optional<DimArg> Dims::extent(const Item& item) {
  const std::optional<Dim> d = evaluate(item);
  if (!d) return {};
  DimArg arg = d->is_const() ? DimArg(d->value()) : DimArg(table_.str(*d));
  if (item.kind == Item::Kind::string) arg.label = item.text;
  return arg;
}

std::optional<std::vector<DimArg>> Dims::shape(const Item& item, std::string_view what,
                                               bool wildcard) {
  if (!report_.expect(item, Item::Kind::array, what, "as in [4, \"B\"]")) return {};
  std::vector<DimArg> shape;
  bool good = true;
  for (const Item& extent_item : item.items) {
    if (wildcard && extent_item.kind == Item::Kind::integer && extent_item.integer == -1) {
      shape.emplace_back(-1);
    } else if (const std::optional<DimArg> d = extent(extent_item)) {
      shape.push_back(*d);
    } else {
      good = false;
    }
  }
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    report_.error(
        "E0405", item.place,
        fmt::format("{} axes are more than the {} that a tensor may have", shape.size(), kMaxRank));
    good = false;
  }
  return good ? std::optional(std::move(shape)) : std::nullopt;
}

std::map<std::string, std::string, std::less<>> Dims::texts() const {
  std::map<std::string, std::string, std::less<>> texts;
  for (const Named& n : named_) {
    if (n.dim) texts.emplace(n.entry->key, table_.str(*n.dim));
  }
  return texts;
}

std::map<std::string, Place> Dims::constants() const {
  std::map<std::string, Place> names;
  for (const Named& n : named_) {
    if (!n.symbol) names.emplace(n.entry->key, n.entry->place);
  }
  return names;
}

void Dims::declare(Graph& graph) const {
  for (const Named& n : named_) {
    if (n.symbol) graph.dim(n.entry->key, n.default_value, n.max, Where(n.entry->place));
    if (!n.dim || !n.dim->is_const()) continue;
    // A number that two dims share names neither.
    const auto [it, added] = graph.impl().dim_names.emplace(n.dim->value(), n.entry->key);
    if (!added) it->second.clear();
  }
}

}  // namespace braid::toml_reader
