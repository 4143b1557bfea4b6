// What a node with `host` says beyond its operands: the types of its results, whether it is pure,
// and how it is called.
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
  const Entry* e = item.find("results");
  if (e && !report.expect(e->value, Item::Kind::array, "'results'", kResults)) return false;
  if (e) {
    for (const Item& r : e->value.items) {
      const std::optional<TypeArg> type = read_type(r, types, report);
      if (!type) return false;
      node.results.push_back(*type);
    }
  }
  if (node.results.size() != node.out.size()) {
    report.error("E0504", node.place,
                 fmt::format("host '{}' names {} in 'out', but {} in 'results'", node.target,
                             node.out.size(), node.results.size()),
                 kResults);
    return false;
  }
  return good;
}

}  // namespace braid::toml_reader
