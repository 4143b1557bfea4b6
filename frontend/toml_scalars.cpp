// [scalars]: numbers that the caller may change between launches.
#include <fmt/format.h>

#include <cmath>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

/// The values of an integer dtype that a double carries exactly.
std::pair<double, double> range_of(DType t) {
  switch (t) {
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::i32:
      return {-0x1p31, 0x1p31 - 1};
    default:
      return {-0x1p53, 0x1p53};
  }
}

void read_value(const Item& item, ScalarDeclaration& scalar, Report& report) {
  const DType t = *scalar.dtype;
  if (t == DType::b1) {
    if (report.expect(item, Item::Kind::boolean, "'value' of a b1")) scalar.value = item.boolean;
    return;
  }
  if (is_float(t)) {
    if (report.expect(item, Item::Kind::real, "'value'")) scalar.value = item.real;
    return;
  }
  const std::string what = fmt::format("'value' of an {}", name_of(t));
  if (!report.expect(item, Item::Kind::integer, what)) return;
  const auto [low, high] = range_of(t);
  if (item.real >= low && item.real <= high) {
    scalar.value = item.real;
  } else {
    report.error("E0107", item.place,
                 fmt::format("{} is from {:.0f} to {:.0f}, not {}", what, low, high, item.integer));
  }
}

}  // namespace

std::vector<ScalarDeclaration> read_scalars(const Item& root, Types& types, Report& report) {
  std::vector<ScalarDeclaration> list;
  const Entry* section = root.find("scalars");
  if (!section) return list;
  if (!report.expect(section->value, Item::Kind::table, "'scalars'")) {
    report.lose_section();
    return list;
  }
  for (const Entry& e : section->value.entries) {
    ScalarDeclaration scalar{{e.key, e.place}, {}};
    const std::string where = fmt::format("scalar '{}'", e.key);
    report.check_name(e.key, e.place, "a scalar");
    if (e.value.kind != Item::Kind::table) {
      report.error("E0104", e.value.place, fmt::format("{} must be a table", where),
                   fmt::format("as in {} = {{ dtype = \"i32\", value = 0 }}", e.key));
    } else if (const Entry* shape = e.value.find("shape")) {
      report.error("E0102", shape->place, fmt::format("{} has no shape: it is one number", where),
                   "a tensor that changes from launch to launch belongs into [inputs]");
    } else if (report.check_keys(e.value, {"dtype", "value"}, where)) {
      const Entry* dtype = report.need(e.value, "dtype", where);
      if (dtype) scalar.dtype = types.dtypes.read(dtype->value, "'dtype'");
      const Entry* value = e.value.find("value");
      if (value && scalar.dtype) read_value(value->value, scalar, report);
    }
    list.push_back(std::move(scalar));
  }
  return list;
}

}  // namespace braid::toml_reader
