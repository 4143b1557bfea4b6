// The ops of a model file: how they are found by name, and how their attributes are read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using K = AttrKind;

/// What other libraries call our ops.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"all", "reduce_all"},
    {"any", "reduce_any"},
    {"arange", "iota"},
    {"bernoulli", "random_bernoulli"},
    {"concatenate", "concat"},
    {"dense", "linear"},
    {"dot", "matmul"},
    {"expand_dims", "unsqueeze"},
    {"equal", "eq"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"logical_and", "and"},
    {"logical_not", "not"},
    {"logical_or", "or"},
    {"maximum", "max"},
    {"mean", "reduce_mean"},
    {"minimum", "min"},
    {"multiply", "mul"},
    {"not_equal", "ne"},
    {"permute", "transpose"},
    {"power", "pow"},
    {"prod", "reduce_prod"},
    {"rand", "random_uniform"},
    {"randn", "random_normal"},
    {"index_add", "scatter_add"},
    {"layernorm", "layer_norm"},
    {"normalize", "l2_normalize"},
    {"rmsnorm", "rms_norm"},
    {"remainder", "mod"},
    {"subtract", "sub"},
    {"sum", "reduce_sum"},
    {"swish", "silu"},
    {"view", "reshape"},
    {"where", "select"},
};

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) {
    names.emplace_back(name_of(static_cast<DType>(i)));
  }
  return names;
}

/// An integer operand travels as a double.
bool exact(const Item& item, Report& report) {
  constexpr int64_t kLimit = int64_t{1} << 53;
  if (item.kind != Item::Kind::integer || std::abs(item.integer) <= kLimit) return true;
  report.error("E0107", item.place, "integers beyond 2^53 are not supported here");
  return false;
}

std::optional<AttrValue> read_attr(const AttrSpec& spec, const Entry& e, Dims& dims,
                                   Report& report) {
  const Item& v = e.value;
  const std::string what = fmt::format("'{}'", spec.name);
  const auto fits = [&](const Item& item) {
    if (item.integer >= INT32_MIN && item.integer <= INT32_MAX) return true;
    report.error("E0107", item.place, fmt::format("{}: {} is out of range", what, item.integer));
    return false;
  };
  switch (spec.kind) {
    case K::integer: {
      // Starts and stops of slices may be large, axes may not.
      if (!report.expect(v, Item::Kind::integer, what)) return {};
      const bool narrow = spec.name == "axis" || spec.name == "heads" || spec.name == "kv_heads";
      if (narrow && !fits(v)) return {};
      return AttrValue(v.integer);
    }
    case K::number:
      if (!report.expect(v, Item::Kind::real, what) || !exact(v, report)) return {};
      return AttrValue(v.real);
    case K::boolean:
      if (!report.expect(v, Item::Kind::boolean, what)) return {};
      return AttrValue(v.boolean);
    case K::dtype: {
      const std::optional<DType> t = read_dtype(v, what, report);
      return t ? std::optional<AttrValue>(*t) : std::nullopt;
    }
    case K::integers: {
      if (!report.expect(v, Item::Kind::array, what)) return {};
      std::vector<int> list;
      for (const Item& i : v.items) {
        if (!report.expect(i, Item::Kind::integer, "each of " + what) || !fits(i)) return {};
        list.push_back(static_cast<int>(i.integer));
      }
      return AttrValue(std::move(list));
    }
    case K::shape:
    case K::free_shape: {
      std::optional<std::vector<DimArg>> s = dims.shape(v, what, spec.kind == K::free_shape);
      return s ? std::optional<AttrValue>(std::move(*s)) : std::nullopt;
    }
  }
  return {};
}

}  // namespace

const std::vector<OpSpec>& ops() {
  static const std::vector<OpSpec> table = make_op_table();
  return table;
}

const OpSpec* find_op(std::string_view name) {
  const auto it =
      std::lower_bound(ops().begin(), ops().end(), name,
                       [](const OpSpec& op, std::string_view n) { return op.name < n; });
  return it != ops().end() && it->name == name ? &*it : nullptr;
}

std::string suggest_op(std::string_view name) {
  for (const auto& [theirs, ours] : kSynonyms) {
    if (theirs == name) return fmt::format("did you mean '{}'?", ours);
  }
  std::vector<std::string> names;
  for (const OpSpec& op : ops()) names.push_back(op.name);
  return suggest(name, names);
}

std::optional<DType> read_dtype(const Item& item, std::string_view what, Report& report) {
  if (!report.expect(item, Item::Kind::string, what)) return {};
  const std::optional<DType> t = dtype_from_name(item.text);
  if (t) return t;
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"float", "f32"},     {"float32", "f32"}, {"fp32", "f32"},    {"float16", "f16"},
      {"fp16", "f16"},      {"half", "f16"},    {"float64", "f64"}, {"double", "f64"},
      {"bfloat16", "bf16"}, {"int", "i32"},     {"int32", "i32"},   {"int64", "i64"},
      {"int8", "i8"},       {"uint8", "u8"},    {"bool", "b1"},
  };
  std::string suggestion = suggest(item.text, dtype_names());
  for (const auto& [theirs, ours] : kOthers) {
    if (theirs == item.text) suggestion = fmt::format("did you mean '{}'?", ours);
  }
  report.error("E0205", item.place, fmt::format("unknown dtype '{}'", item.text),
               std::move(suggestion));
  return {};
}

bool read_attrs(const OpSpec& spec, const Item& node, Dims& dims, Report& report, Attrs& attrs) {
  bool good = true;
  for (const Entry& e : node.entries) {
    if (e.key == "op" || e.key == "in" || e.key == "out") continue;
    const auto it = std::find_if(spec.attrs.begin(), spec.attrs.end(),
                                 [&](const AttrSpec& a) { return a.name == e.key; });
    if (it == spec.attrs.end()) {
      std::vector<std::string> known{"in", "out"};
      for (const AttrSpec& a : spec.attrs) known.emplace_back(a.name);
      report.error("E0102", e.place, fmt::format("op '{}' has no attribute '{}'", spec.name, e.key),
                   suggest(e.key, known));
      good = false;
    } else if (std::optional<AttrValue> v = read_attr(*it, e, dims, report)) {
      attrs.emplace(e.key, std::move(*v));
    } else {
      good = false;
    }
  }
  if (!good) return false;  // a misspelt attribute is not missing as well
  for (const AttrSpec& a : spec.attrs) {
    if (a.required && attrs.find(a.name) == attrs.end()) {
      const Entry* op = node.find("op");
      report.error("E0103", op->value.place,
                   fmt::format("op '{}' needs the attribute '{}'", spec.name, a.name));
      good = false;
    }
  }
  return good;
}

}  // namespace braid::toml_reader
