// What a node with `host` or `library` says beyond its operands: the types of its results, whether
// it is pure, how it is called, and what memory and reference it has.
#include <fmt/format.h>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

constexpr const char* kResults =
    "as in results = [{ dtype = \"i32\", shape = [1] }], one for each name in 'out'";

std::optional<TypeArg> read_type(const Item& item, Types& types, Report& report) {
  constexpr const char* kWhere = "a result of a host node";
  if (!report.expect(item, Item::Kind::table, kWhere, kResults) ||
      !report.check_keys(item, {"dtype", "shape"}, kWhere)) {
    return std::nullopt;
  }
  const Entry* dtype = report.need(item, "dtype", kWhere);
  const Entry* shape = report.need(item, "shape", kWhere);
  if (!dtype || !shape) return std::nullopt;
  const std::optional<DType> t = types.dtypes.read(dtype->value, "'dtype'");
  const auto s = types.dims.shape(shape->value, "'shape'");
  if (!t || !s) return std::nullopt;
  return TypeArg{*t, *s};
}

bool read_result_types(const Item& item, Types& types, Report& report, Node& node) {
  const Entry* e = item.find("results");
  if (e && !report.expect(e->value, Item::Kind::array, "'results'", kResults)) return false;
  if (!e) return true;
  for (const Item& r : e->value.items) {
    const std::optional<TypeArg> type = read_type(r, types, report);
    if (!type) return false;
    node.results.push_back(*type);
  }
  return true;
}

bool read_way(const Item& item, Report& report, Node& node) {
  const Entry* e = item.find("way");
  if (!e) return true;
  if (!report.expect(e->value, Item::Kind::string, "'way'")) return false;
  for (size_t i = 0; i < ir::kHostWayNames.size(); ++i) {
    if (e->value.text != ir::kHostWayNames[i]) continue;
    node.way = static_cast<ir::HostWay>(i);
    return true;
  }
  report.error("E0107", e->value.place,
               fmt::format("'way' of a host node is auto, handshake, break or node, not '{}'",
                           e->value.text),
               suggest(e->value.text, {ir::kHostWayNames.begin(), ir::kHostWayNames.end()}));
  return false;
}

}  // namespace

bool read_host_attrs(const Item& item, Types& types, Report& report, Node& node) {
  bool good = true;
  if (const Entry* e = item.find("pure")) {
    good = report.expect(e->value, Item::Kind::boolean, "'pure'");
    node.pure = e->value.boolean;
  }
  good = read_way(item, report, node) && good;
  if (!read_result_types(item, types, report, node)) return false;
  if (node.results.size() != node.out.size()) {
    report.error("E0504", node.place,
                 fmt::format("host '{}' names {} in 'out', but {} in 'results'", node.target,
                             node.out.size(), node.results.size()),
                 kResults);
    return false;
  }
  return good;
}

bool read_library_attrs(const Item& item, Types& types, Report& report, Node& node) {
  bool good = read_result_types(item, types, report, node);
  if (const Entry* e = item.find("workspace")) {
    const auto bytes = types.dims.extent(e->value);
    if (bytes) node.workspace = *bytes;
    good = good && bytes.has_value();
  }
  if (const Entry* e = item.find("reference")) {
    good = report.expect(e->value, Item::Kind::string, "'reference'") && good;
    node.reference = e->value.text;
  }
  if (!good) return false;
  const size_t fewest = node.results.size(), most = fewest + node.inout;
  if (node.out.size() >= fewest && node.out.size() <= most) return true;
  report.error("E0333", node.place,
               fmt::format("library '{}' names {} in 'out', but has {} in 'results' and {} in "
                           "'inout'",
                           node.target, node.out.size(), node.results.size(), node.inout),
               "'out' names the results, and behind them, if they are used, the new values of what "
               "'inout' changes");
  return false;
}

}  // namespace braid::toml_reader
