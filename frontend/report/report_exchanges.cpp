#include "frontend/report/report_exchanges.hpp"

#include <fmt/format.h>

#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr size_t kRows = 24;

bool by_node(const ExchangeRow& x) { return x.way == ir::name_of(ir::HostWay::node); }

}  // namespace

std::vector<ExchangeRow> exchange_rows(const Program& p) {
  std::vector<ExchangeRow> rows;
  std::vector<std::string> first(p.exchanges.size());
  for (size_t i = 0; i < p.exchanges.size(); ++i) {
    const Exchange& e = p.exchanges[i];
    rows.push_back({fmt::format("x{}", i), e.function, std::string(ir::name_of(e.way)), e.op,
                    e.place, e.why, "", e.pure, 0});
  }
  for (size_t b = 0; b < p.bodies.size(); ++b) {
    for (size_t n = 0; n < p.bodies[b].nodes.size(); ++n) {
      const Node& node = p.bodies[b].nodes[n];
      const Exchange* e = exchange_of(p, node);
      if (!e) continue;
      const auto i = static_cast<size_t>(e - p.exchanges.data());
      const std::string name = name_of_node(p, b, n);
      if (first[i].empty()) first[i] = name;
      rows[i].where = first[i] == name ? name : fmt::format("{} .. {}", first[i], name);
      rows[i].us += node.estimate_us;
    }
  }
  return rows;
}

std::string exchanges_text(const Report& r) {
  if (r.exchanges.empty()) return {};
  TextTable t;
  t.row({"host call", "at", "way", "predicted", "of", "why"});
  bool nodes = false, waits = false;
  for (size_t i = 0; i < r.exchanges.size(); ++i) {
    const ExchangeRow& x = r.exchanges[i];
    (by_node(x) ? nodes : waits) = true;
    if (i >= kRows) continue;
    t.row({fmt::format("{} {}", x.name, x.function), x.where, x.way, fmt::format("{:.1f} us", x.us),
           x.op + (x.place.empty() ? "" : "   " + x.place), x.why});
  }
  std::string out = t.str();
  if (r.exchanges.size() > kRows) {
    out += fmt::format("  and {} more calls; --format=json has all\n", r.exchanges.size() - kRows);
  }
  if (waits) {
    out +=
        "  by handshake: a kernel of one block hands the arguments over and waits for the results, "
        "while a thread of the host watches for it; other streams go on\n";
  }
  if (nodes) {
    out +=
        "  by node: a kernel hands the arguments over, a host node of the graph runs the function, "
        "a kernel takes the results\n";
  }
  return out;
}

std::string exchange_text(const Program& p, const Node& node) {
  const Exchange* e = exchange_of(p, node);
  if (!e) return {};
  const std::string& family = p.kernels[node.kernel].family;
  const std::string what = family == "post"        ? "hands over the arguments of"
                           : family == "fetch"     ? "takes the results of"
                           : family == "host_node" ? "is a host node that runs"
                                                   : "hands its arguments to, and waits for,";
  std::string out = fmt::format("host\n  it {} the host function '{}' (x{}{})\n", what, e->function,
                                e - p.exchanges.data(), e->pure ? ", pure" : "");
  if (e->way == ir::HostWay::handshake) {
    out += "  the GPU waits for it, a thread of the host watches; no graph ends\n";
  }
  if (!e->why.empty()) out += fmt::format("  why so: {}\n", e->why);
  return out;
}

}  // namespace braid::report
