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
    {"argwhere", "nonzero"},
    {"astype", "cast"},
    {"bernoulli", "random_bernoulli"},
    {"boolean_mask", "compact"},
    {"compress", "compact"},
    {"concatenate", "concat"},
    {"dense", "linear"},
    {"dot", "matmul"},
    {"equal", "eq"},
    {"expand_dims", "unsqueeze"},
    {"extract", "masked_select"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"index_add", "scatter_add"},
    {"layernorm", "layer_norm"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"logical_and", "and"},
    {"logical_not", "not"},
    {"logical_or", "or"},
    {"masked_fill", "select"},
    {"maximum", "max"},
    {"mean", "reduce_mean"},
    {"minimum", "min"},
    {"multiply", "mul"},
    {"normalize", "l2_normalize"},
    {"not_equal", "ne"},
    {"permute", "transpose"},
    {"power", "pow"},
    {"prod", "reduce_prod"},
    {"rand", "random_uniform"},
    {"randn", "random_normal"},
    {"remainder", "mod"},
    {"rmsnorm", "rms_norm"},
    {"subtract", "sub"},
    {"sum", "reduce_sum"},
    {"swish", "silu"},
    {"view", "reshape"},
    {"where", "select"},
};

/// An integer operand travels as a double.
bool exact(const Item& item, Report& report) {
  constexpr int64_t kLimit = int64_t{1} << 53;
  if (item.kind != Item::Kind::integer || std::abs(item.integer) <= kLimit) return true;
  report.error("E0107", item.place, "integers beyond 2^53 are not supported here");
  return false;
}

std::optional<AttrValue> read_attr(const AttrSpec& spec, const Entry& e, Types& types,
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
      if (!report.expect_number(v, Item::Kind::integer, what)) return {};
      const bool narrow = spec.name == "axis" || spec.name == "heads" || spec.name == "kv_heads";
      if (narrow && !fits(v)) return {};
      return AttrValue(v.integer);
    }
    case K::number:
      if (!report.expect_number(v, Item::Kind::real, what) || !exact(v, report)) return {};
      return AttrValue(v.real);
    case K::boolean:
      if (!report.expect(v, Item::Kind::boolean, what)) return {};
      return AttrValue(v.boolean);
    case K::dtype: {
      const std::optional<DType> t = types.dtypes.read(v, what);
      return t ? std::optional<AttrValue>(*t) : std::nullopt;
    }
    case K::integers: {
      if (!report.expect(v, Item::Kind::array, what)) return {};
      std::vector<int> list;
      for (const Item& i : v.items) {
        if (!report.expect_number(i, Item::Kind::integer, "each of " + what) || !fits(i)) return {};
        list.push_back(static_cast<int>(i.integer));
      }
      return AttrValue(std::move(list));
    }
    case K::shape:
    case K::free_shape: {
      std::optional<std::vector<DimArg>> s = types.dims.shape(v, what, spec.kind == K::free_shape);
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

std::string suggest_op(std::string_view name, size_t operands) {
  if (name == "where" && operands == 1) return "did you mean 'nonzero'?";
  for (const auto& [theirs, ours] : kSynonyms) {
    if (theirs == name) return fmt::format("did you mean '{}'?", ours);
  }
  const std::string layer = suggest_layer(name);
  if (!layer.empty()) return layer;
  std::vector<std::string> names;
  for (const OpSpec& op : ops()) names.push_back(op.name);
  return suggest(name, names);
}

bool read_attrs(const OpSpec& spec, const Item& node, Types& types, Report& report, Attrs& attrs) {
  bool good = true;
  for (const Entry& e : node.entries) {
    if (e.key == "op" || e.key == "in" || e.key == "out" || e.key == "graph") continue;
    const auto it = std::find_if(spec.attrs.begin(), spec.attrs.end(),
                                 [&](const AttrSpec& a) { return a.name == e.key; });
    if (it == spec.attrs.end()) {
      std::vector<std::string> known{"in", "out", "graph"};
      for (const AttrSpec& a : spec.attrs) known.emplace_back(a.name);
      report.error("E0102", e.place, fmt::format("op '{}' has no attribute '{}'", spec.name, e.key),
                   suggest_key(e.key, known));
      good = false;
    } else if (std::optional<AttrValue> v = read_attr(*it, e, types, report)) {
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
