// explain of a whole part: a graph, a stretch of kernels without one, or a call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/report/explain_node.hpp"
#include "frontend/report/report.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

class PartExplainer {
 public:
  PartExplainer(const Program& p, const PlanIndex& index, const WhyApart& why)
      : p_(p), index_(index), why_(why), report_(make_report(p)) {}

  std::string run(const std::string& name) {
    const auto named = [&](const Fragment& f) { return f.name == name; };
    const auto& parts = report_.fragments;
    const auto it = std::find_if(parts.begin(), parts.end(), named);
    if (it == parts.end()) {
      const auto body = std::find_if(report_.bodies.begin(), report_.bodies.end(), named);
      if (body == report_.bodies.end()) return {};
      return heading(*body) + around(*body) + streams(*body);
    }
    if (it->kind == Fragment::Kind::call) {
      return explain_node(p_, index_, {true, it->index, 0}, why_) + script(*it);
    }
    if (it->region != UINT32_MAX) return heading(*it) + around(*it) + script(*it) + streams(*it);
    return heading(*it) + reasons(*it) + script(*it) + streams(*it);
  }

 private:
  static std::string what(const Fragment& f) {
    if (f.kind == Fragment::Kind::call) return "a call of the host";
    return fmt::format("{} of {}",
                       f.kind == Fragment::Kind::graph ? "a graph" : "a stretch without a graph",
                       counted(f.kernels, "kernel"));
  }

  std::string heading(const Fragment& f) const {
    return fmt::format(
        "{}  {}, run {} of {}\n  computes {}{}\n  at most {} of the arena are live\n", f.name,
        what(f), f.run, p_.runs, counted(f.ops, "op"),
        f.from.empty() ? "" : fmt::format(", from {}", fmt::join(f.from, ", ")),
        human_bytes(f.live_bytes));
  }

  /// Which branch or loop runs it.
  std::string around(const Fragment& f) const {
    const Region& r = p_.regions[f.region];
    return fmt::format("why it is a part of its own\n  it is side {} of r{}, {} for {}{}{}\n",
                       name_of_side(p_, r, f.side), f.region, name_of_region(p_, r), r.op,
                       r.place.empty() ? "" : ", " + r.place, r.why.empty() ? "" : ": " + r.why);
  }

  bool inside(const Fragment& f, Ref r) const { return !r.call && r.body == f.index; }

  /// A tensor that crosses between the part and one of the other kind: "needs e of c0 (pick)".
  std::string crossing(const Fragment& f, bool into) const {
    for (Ref r : index_.order()) {
      if (!inside(f, r)) continue;
      for (const PlanIndex::Value& v : into ? index_.reads(r) : index_.writes(r)) {
        std::vector<Ref> others;
        if (!into) others = index_.users(v.value);
        if (const Ref* maker = into ? index_.maker(v.value) : nullptr) others.push_back(*maker);
        for (Ref other : others) {
          if (inside(f, other) || index_.on_host(other) == index_.on_host(r)) continue;
          const std::string_view tensor = op_name(p_.buffers[p_.views[v.view].buffer].name);
          return fmt::format(
              "{} {} {} {} ({}), {}\n", into ? "needs" : "makes", tensor, into ? "of" : "for",
              index_.name(other), index_.title(other),
              index_.on_host(other) ? "which stands outside graphs" : "which is in a graph");
        }
      }
    }
    return {};
  }

  std::string reasons(const Fragment& f) const {
    std::string out = "why it is a part of its own\n";
    size_t lines = 0;
    const auto add = [&](const std::string& text) {
      if (text.empty()) return;
      out += "  " + text;
      ++lines;
    };
    for (const Break& b : p_.breaks) {
      if (f.kind != Fragment::Kind::stream || b.level != f.run || !computes(f, b.op)) continue;
      add(fmt::format("{}: {}{}{}\n", b.op, b.reason, b.remedy.empty() ? "" : "; fix: ", b.remedy));
    }
    add(crossing(f, true));
    add(crossing(f, false));
    if (p_.runs <= 1) add("everything is in this one part\n");
    if (lines == 0) add("what stands between it and the next part keeps its place in the order\n");
    return out;
  }

  bool computes(const Fragment& f, const std::string& op) const {
    const std::vector<Node>& nodes = p_.bodies[f.index].nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) {
      return std::find(n.ops.begin(), n.ops.end(), op) != n.ops.end();
    });
  }

  std::string script(const Fragment& f) const {
    const auto& parts = report_.fragments;
    const size_t at = static_cast<size_t>(&f - parts.data());
    const auto side = [&](bool before) {
      const bool none = before ? at == 0 : at + 1 == parts.size();
      if (none) return std::string("nothing");
      const Fragment& other = parts[before ? at - 1 : at + 1];
      return fmt::format("{}, {}, run {}", other.name, what(other), other.run);
    };
    std::string out =
        fmt::format("script\n  before it: {}\n  after it: {}\n", side(true), side(false));
    if (f.kind == Fragment::Kind::call) {
      out += "  the host copies its arguments from the device, waits for them, and calls it\n";
    }
    return out;
  }

  std::string streams(const Fragment& f) const {
    if (f.kind == Fragment::Kind::stream) {
      return "streams\n  one: the host launches its kernels one after another\n";
    }
    return fmt::format("streams\n  {}; {}\n", counted(f.streams.size(), "stream"),
                       streams_verdict(report_, f));
  }

  const Program& p_;
  const PlanIndex& index_;
  const WhyApart& why_;
  const Report report_;
};

}  // namespace

std::string explain_part(const Program& p, const PlanIndex& index, const std::string& name,
                         const WhyApart& why) {
  return PartExplainer(p, index, why).run(name);
}

}  // namespace braid::report
