#include "frontend/report/diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "frontend/report/report.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

using Unit = Quantity::Unit;

std::vector<Quantity> quantities_of(const Program& p, const Report& r) {
  size_t calls = 0, stretches = 0, edges = 0, programmatic = 0;
  double predicted = 0, kernels = 0;
  size_t conditional = 0, driven = 0, predicated = 0;
  for (const Region& region : p.regions) {
    conditional += region.kind == Region::Kind::node;
    driven += region.kind == Region::Kind::host;
    predicated += region.kind == Region::Kind::predicate;
  }
  for (const Fragment& f : r.bodies) {
    edges += f.edges.all();
    programmatic += f.edges.programmatic;
  }
  for (const Fragment& f : r.fragments) {
    calls += f.kind == Fragment::Kind::call;
    stretches += f.kind == Fragment::Kind::stream;
    edges += f.edges.all();
    programmatic += f.edges.programmatic;
    predicted += f.region == UINT32_MAX ? f.predicted_us : 0;
    kernels += f.kernel_us;
  }
  predicted += r.launch.regions_us;
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"graphs", number(r.graphs), 0},
          {"runs", number(r.runs), 0},
          {"parts without a graph", number(stretches), 0},
          {"host calls", number(calls), 0},
          {"host calls inside graphs", number(p.exchanges.size()), 0},
          {"ops of the model", number(r.source_ops), 0},
          {"kernels", number(r.kernels), 0},
          {"distinct kernels", number(r.distinct), 0},
          {"streams", number(r.streams_used), 0},
          {"conditional nodes", number(conditional), 0},
          {"regions driven by the host", number(driven), 0},
          {"predicated branches", number(predicated), 0},
          {"edges", number(edges), 0},
          {"programmatic edges", number(programmatic), 0},
          {"arena", number(p.arena_bytes), 0, Unit::bytes},
          {"without sharing", number(p.temp_bytes_unshared), 0, Unit::bytes},
          {"params", number(r.memory.params), 0, Unit::bytes},
          {"constants", number(r.memory.constants), 0, Unit::bytes},
          {"inputs", number(r.memory.inputs), 0, Unit::bytes},
          {"outputs", number(r.memory.outputs), 0, Unit::bytes},
          {"kernel time", kernels, 0, Unit::us},
          {"predicted", predicted, 0, Unit::us}};
}

struct Place {
  std::string symbol, part;
  uint32_t stream = 0;
  bool operator==(const Place&) const = default;
};

/// Nodes by their ops; equal ones in launch order.
std::map<std::vector<std::string>, std::vector<Place>> places_of(const Program& p) {
  std::map<std::vector<std::string>, std::vector<Place>> out;
  for (size_t b = 0; b < p.bodies.size(); ++b) {
    for (const Node& n : p.bodies[b].nodes) {
      const std::string symbol = n.kernel == kNoKernel ? name_of_region(p, p.regions[n.region])
                                                       : p.kernels[n.kernel].symbol;
      out[n.ops].push_back({symbol, name_of_body(p, b), n.lane});
    }
  }
  return out;
}

std::string change_of(const Place& a, const Place& b) {
  std::vector<std::string> parts;
  if (a.part != b.part) parts.push_back(fmt::format("{} -> {}", a.part, b.part));
  if (a.stream != b.stream) parts.push_back(fmt::format("stream {} -> {}", a.stream, b.stream));
  if (a.symbol != b.symbol) parts.push_back(fmt::format("{} -> {}", a.symbol, b.symbol));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<KernelChange> kernel_changes(const Program& a, const Program& b) {
  const auto in_a = places_of(a), in_b = places_of(b);
  std::vector<std::vector<std::string>> all;
  for (const auto& [ops, places] : in_a) all.push_back(ops);
  for (const auto& [ops, places] : in_b) {
    if (!in_a.contains(ops)) all.push_back(ops);
  }
  const Repeats repeats(a.repeats.empty() ? b.repeats : a.repeats);
  std::vector<KernelChange> out;
  std::map<std::tuple<KernelChange::Kind, std::vector<std::string>, std::string>, size_t> row_of;
  const auto add = [&](KernelChange::Kind kind, const std::vector<std::string>& ops,
                       const std::string& what) {
    std::vector<std::string> folded;
    for (const std::string& op : ops) folded.push_back(repeats.folded(op));
    const auto [it, added] = row_of.try_emplace({kind, folded, what}, out.size());
    if (added) {
      out.push_back({kind, ops, 1, what});
    } else {
      out[it->second].ops = folded;
      ++out[it->second].count;
    }
  };
  static const std::vector<Place> none;
  for (const auto& ops : all) {
    const auto x = in_a.find(ops);
    const auto y = in_b.find(ops);
    const std::vector<Place>& pa = x == in_a.end() ? none : x->second;
    const std::vector<Place>& pb = y == in_b.end() ? none : y->second;
    for (size_t i = 0; i < std::max(pa.size(), pb.size()); ++i) {
      if (i >= pb.size()) {
        add(KernelChange::Kind::removed, ops, pa[i].symbol);
      } else if (i >= pa.size()) {
        add(KernelChange::Kind::added, ops, pb[i].symbol);
      } else if (pa[i] != pb[i]) {
        add(KernelChange::Kind::changed, ops, change_of(pa[i], pb[i]));
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& l, const auto& r) { return l.kind < r.kind; });
  return out;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// Those of `from` that `other` lacks.
std::vector<std::string> without(const std::vector<std::string>& from,
                                 const std::vector<std::string>& other) {
  std::vector<std::string> out;
  for (const std::string& s : from) {
    if (std::find(other.begin(), other.end(), s) == other.end()) out.push_back(s);
  }
  return out;
}

std::vector<std::string> settings_of(const Program& p) {
  std::vector<std::string> out = words(p.options);
  for (const auto& [name, value] : p.dims) out.push_back(fmt::format("dim:{}={}", name, value));
  return out;
}

/// "y (branch): IF", "r (host): handshake", for every branch and loop and call inside a graph.
std::vector<std::string> lowerings_of(const Program& p) {
  std::vector<std::string> out;
  for (const Dissolved& d : p.dissolved) {
    out.push_back(
        fmt::format("{}: {}", d.op, d.lowering == ir::Lowering::unroll ? "unrolled" : "selected"));
  }
  for (const Region& r : p.regions) {
    const std::string copies = r.unrolled > 1 ? fmt::format(" of {} copies", r.unrolled) : "";
    out.push_back(fmt::format("{}: {}{}", r.op, name_of_region(p, r), copies));
  }
  for (const Exchange& e : p.exchanges) {
    out.push_back(fmt::format("{}: {}", e.op, ir::name_of(e.way)));
  }
  return out;
}

std::vector<std::string> breaks_of(const Program& p) {
  std::vector<std::string> out;
  for (const Break& b : p.breaks) out.push_back(b.op);
  return out;
}

std::string text_of(double x, Unit unit) {
  if (unit == Unit::us) return fmt::format("{:.2f} us", x);
  if (unit == Unit::bytes) return human_bytes(static_cast<int64_t>(std::clamp(x, -9e18, 9e18)));
  return fmt::format("{:.0f}", x);
}

std::string delta_text(const Quantity& q) {
  const double d = q.b - q.a;
  const std::string percent = q.a > 0 ? fmt::format(" ({:+.1f} %)", 100 * d / q.a) : "";
  if (q.unit == Unit::us) return fmt::format("{:+.2f} us{}", d, percent);
  if (q.unit == Unit::bytes) {
    return fmt::format("{}{}{}", d < 0 ? "-" : "+", text_of(std::abs(d), q.unit), percent);
  }
  return fmt::format("{:+.0f}", d);
}

std::string_view name_of(KernelChange::Kind k) {
  constexpr std::string_view kNames[] = {"removed", "added", "changed"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(Unit u) {
  constexpr std::string_view kNames[] = {"count", "bytes", "us"};
  return kNames[static_cast<size_t>(u)];
}

}  // namespace

bool Diff::different() const {
  return !kernels.empty() || !options_a.empty() || !options_b.empty() || !breaks_a.empty() ||
         !breaks_b.empty() || !lowered_a.empty() || !lowered_b.empty() ||
         std::any_of(quantities.begin(), quantities.end(),
                     [](const Quantity& q) { return q.a != q.b; });
}

Diff diff(const Program& a, const Program& b) {
  Diff d;
  d.a = a.name;
  d.b = b.name;
  d.quantities = quantities_of(a, make_report(a));
  const std::vector<Quantity> other = quantities_of(b, make_report(b));
  for (size_t i = 0; i < other.size(); ++i) d.quantities[i].b = other[i].a;
  d.kernels = kernel_changes(a, b);
  d.options_a = without(settings_of(a), settings_of(b));
  d.options_b = without(settings_of(b), settings_of(a));
  d.breaks_a = without(breaks_of(a), breaks_of(b));
  d.breaks_b = without(breaks_of(b), breaks_of(a));
  d.lowered_a = without(lowerings_of(a), lowerings_of(b));
  d.lowered_b = without(lowerings_of(b), lowerings_of(a));
  return d;
}

std::string to_text(const Diff& d) {
  if (!d.different()) return fmt::format("{} and {}: the plans are the same\n", d.a, d.b);
  std::string out = fmt::format("A {}   {}\nB {}   {}\n", d.a, fmt::join(d.options_a, " "), d.b,
                                fmt::join(d.options_b, " "));
  for (size_t at = out.find("   \n"); at != out.npos; at = out.find("   \n")) out.erase(at, 3);
  TextTable t;
  for (const Quantity& q : d.quantities) {
    if (q.a == q.b) continue;
    t.row({q.name, text_of(q.a, q.unit), "->", text_of(q.b, q.unit), delta_text(q)});
  }
  out += t.str();
  const auto alone = [&](std::string_view what, std::string_view where,
                         const std::vector<std::string>& ops) {
    if (!ops.empty()) out += fmt::format("{} {} alone: {}\n", what, where, fmt::join(ops, ", "));
  };
  alone("outside graphs in", "A", d.breaks_a);
  alone("outside graphs in", "B", d.breaks_b);
  alone("branches, loops and host calls in", "A", d.lowered_a);
  alone("branches, loops and host calls in", "B", d.lowered_b);
  constexpr size_t kRows = 40;
  if (!d.kernels.empty()) out += "kernels (- in A alone, + in B alone, ~ in both)\n";
  TextTable k;
  for (size_t i = 0; i < d.kernels.size() && i < kRows; ++i) {
    const KernelChange& c = d.kernels[i];
    static constexpr const char* kMarks[] = {"-", "+", "~"};
    k.row({kMarks[static_cast<size_t>(c.kind)], c.count > 1 ? fmt::format("{}x", c.count) : "",
           c.what, fmt::format("{}", fmt::join(c.ops, ", "))});
  }
  out += k.str();
  if (d.kernels.size() > kRows) {
    out += fmt::format("  and {} more; --format=json has all\n", d.kernels.size() - kRows);
  }
  return out;
}

std::string to_json(const Diff& d) {
  using Json = nlohmann::ordered_json;
  Json j;
  j["schema"] = "braid.diff/1";
  j["different"] = d.different();
  j["a"] = {{"name", d.a},
            {"settings", d.options_a},
            {"outside_graphs", d.breaks_a},
            {"control", d.lowered_a}};
  j["b"] = {{"name", d.b},
            {"settings", d.options_b},
            {"outside_graphs", d.breaks_b},
            {"control", d.lowered_b}};
  j["quantities"] = Json::array();
  for (const Quantity& q : d.quantities) {
    j["quantities"].push_back(
        {{"name", q.name}, {"unit", name_of(q.unit)}, {"a", q.a}, {"b", q.b}});
  }
  j["kernels"] = Json::array();
  for (const KernelChange& c : d.kernels) {
    j["kernels"].push_back(
        {{"change", name_of(c.kind)}, {"count", c.count}, {"ops", c.ops}, {"what", c.what}});
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace braid::report
