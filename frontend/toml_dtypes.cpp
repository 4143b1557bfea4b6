// Dtypes: the known ones, and names for them that [dtypes] gives.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"float", "f32"}, {"float32", "f32"}, {"fp32", "f32"},   {"float16", "f16"},   {"fp16", "f16"},
    {"half", "f16"},  {"float64", "f64"}, {"double", "f64"}, {"bfloat16", "bf16"}, {"int", "i32"},
    {"int32", "i32"}, {"int64", "i64"},   {"long", "i64"},   {"int8", "i8"},       {"uint8", "u8"},
    {"bool", "b1"},   {"boolean", "b1"},
};

std::string suggest_dtype(const std::string& text, std::vector<std::string> names) {
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view prefix : {"torch.", "np.", "numpy."}) {
    if (lower.rfind(prefix, 0) == 0) lower.erase(0, prefix.size());
  }
  for (const auto& [theirs, ours] : kOthers) {
    if (theirs == lower) return fmt::format("did you mean '{}'?", ours);
  }
  std::string all;
  for (int i = 0; i < kNumDTypes; ++i) {
    names.emplace_back(name_of(static_cast<DType>(i)));
    if (names.back() == lower) return fmt::format("did you mean '{}'?", lower);
    all += fmt::format("{}{}", i ? " " : "", names.back());
  }
  const std::string near = suggest(text, names);
  return near.empty() ? "dtypes are " + all : near;
}

bool is_name(std::string_view s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) &&
         std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

DTypes::DTypes(const Item* table, const TomlDTypes& given, Report& report) : report_(report) {
  std::vector<std::string> names;
  for (const Entry& e : table ? table->entries : std::vector<Entry>{}) {
    if (!is_name(e.key) || dtype_from_name(e.key)) {
      report_.error("E0206", e.place,
                    dtype_from_name(e.key)
                        ? fmt::format("'{}' is a dtype, so it cannot name another", e.key)
                        : fmt::format("'{}' cannot name a dtype: use letters, digits and '_', and "
                                      "begin with a letter",
                                      e.key));
      continue;
    }
    names.push_back(e.key);
    std::optional<DType> t;
    if (report_.expect(e.value, Item::Kind::string, fmt::format("dtype '{}'", e.key))) {
      t = dtype_from_name(e.value.text);
      if (!t) {
        report_.error("E0205", e.value.place, fmt::format("unknown dtype '{}'", e.value.text),
                      suggest_dtype(e.value.text, {}));
      }
    }
    named_[e.key] = t;
  }
  for (const auto& [name, dtype] : given) {
    const auto it = named_.find(name);
    if (it != named_.end()) {
      it->second = dtype;
      continue;
    }
    Diagnostic d;
    d.code = "E0605";
    d.message = fmt::format("the model has no dtype '{}'", name);
    d.suggestion = names.empty() ? "it would stand in the section [dtypes] of the model"
                                 : suggest(name, names);
    throw Error(std::move(d));
  }
}

std::optional<DType> DTypes::read(const Item& item, std::string_view what) {
  if (!report_.expect(item, Item::Kind::string, what)) return {};
  if (const auto it = named_.find(item.text); it != named_.end()) return it->second;
  const std::optional<DType> t = dtype_from_name(item.text);
  if (t || report_.section_lost) return t;
  std::vector<std::string> names;
  for (const auto& [name, dtype] : named_) names.push_back(name);
  report_.error("E0205", item.place, fmt::format("unknown dtype '{}'", item.text),
                suggest_dtype(item.text, names));
  return {};
}

}  // namespace braid::toml_reader
