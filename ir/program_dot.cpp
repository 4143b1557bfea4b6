#include "ir/program_dot.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "ir/naming.hpp"

namespace braid {
namespace {

/// Inside a label.
std::string escaped(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string quoted(std::string_view s) { return "\"" + escaped(s) + "\""; }

struct Box {
  std::vector<uint32_t> nodes;  // first: the one that is drawn
};

class Drawing {
 public:
  Drawing(const Program& p, bool fold) : p_(p), repeats_(p.repeats), fold_(fold) {}

  std::string run() {
    out_ = fmt::format("digraph {} {{\n", quoted(p_.name));
    if (!p_.regions.empty()) out_ += "  compound=true;\n";
    out_ += "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=8];\n";
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
      const uint32_t r = p_.bodies[b].region;
      // The bodies of conditional nodes are drawn in the boxes around those.
      if (r != UINT32_MAX && p_.regions[r].kind == Region::Kind::node) continue;
      cluster(b, b, 2);
      out_ += lines_;
      lines_.clear();
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      if (p_.regions[r].kind == Region::Kind::host) host_region(r);
    }
    for (uint32_t c = 0; c < p_.calls.size(); ++c) call(c);
    crossings();
    return out_ + "}\n";
  }

 private:
  /// Nodes that are one box, by their first ones.
  std::vector<Box> boxes_of(const Body& body) const {
    std::vector<Box> boxes;
    std::map<std::string, size_t> box_of;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      // What belongs to regions is drawn whole.
      const bool plain = body.nodes[n].region == UINT32_MAX;
      const std::string key = fold_ && plain ? form_of(body.nodes[n]) : "";
      const auto [it, added] =
          key.empty() ? std::pair(box_of.end(), true) : box_of.try_emplace(key, boxes.size());
      if (added) boxes.emplace_back();
      (added ? boxes.back() : boxes[it->second]).nodes.push_back(n);
    }
    return boxes;
  }

  /// What the copies of a node have in common; empty outside repeats.
  std::string form_of(const Node& node) const {
    std::optional<int64_t> first;
    for (const std::string& op : node.ops) {
      const auto copy = repeats_.outermost(op);
      if (copy) first = std::min(first.value_or(copy->copy), copy->copy);
    }
    if (!first) return {};
    std::string form = fmt::format("{}", node.kernel);
    for (const std::string& op : node.ops) form += "\n" + repeats_.relative(op, *first);
    return form;
  }

  /// The box around a body, in which the regions of its conditional nodes have boxes too. `part`:
  /// the body that stands in a script around it.
  void cluster(uint32_t b, uint32_t part, size_t indent) {
    static constexpr std::array<std::string_view, 8> kFill{
        "#cfe8ff", "#ffe3c2", "#d7f5d0", "#f7d3e3", "#e5dcff", "#fff4b8", "#d0f2ef", "#e4e4e4"};
    const Body& body = p_.bodies[b];
    const std::string name = name_of_body(p_, b), space(indent, ' ');
    const std::vector<Box> boxes = boxes_of(body);
    std::vector<uint32_t> drawn(body.nodes.size());
    for (const Box& box : boxes) {
      for (uint32_t n : box.nodes) drawn[n] = box.nodes[0];
    }
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      remember(body.nodes[n], fmt::format("{}n{}", name, drawn[n]), part);
    }
    out_ += fmt::format("{0}subgraph cluster_{1} {{\n{0}  label=\"{2} {1}{3}\";\n", space, name,
                        body.stream ? "kernels without a graph" : "graph", side_of(body));
    for (const Box& box : boxes) {
      const uint32_t n = box.nodes[0];
      const Node& node = body.nodes[n];
      std::set<uint32_t> lanes;
      for (uint32_t other : box.nodes) lanes.insert(body.nodes[other].lane);
      out_ += fmt::format("{}  {}n{} [{}fillcolor=\"{}\", label=\"", space, name, n, shape_of(node),
                          kFill[node.lane % kFill.size()]);
      out_ += fmt::format("n{}{} {}\\nstream{} {}, {:.2f} us", n,
                          box.nodes.size() > 1 ? fmt::format(" ({}x)", box.nodes.size()) : "",
                          escaped(what_of(node)), lanes.size() > 1 ? "s" : "",
                          fmt::join(lanes, " "), node.estimate_us);
      for (const std::string& op : node.ops) {
        out_ += "\\n" + escaped(box.nodes.size() > 1 ? repeats_.folded(op) : op);
      }
      out_ += "\"];\n";
      if (node.kernel != kNoKernel) continue;
      const Region& r = p_.regions[node.region];
      for (uint32_t s = 0; s < r.bodies.size(); ++s) {
        if (p_.bodies[r.bodies[s]].nodes.empty()) continue;
        cluster(r.bodies[s], part, indent + 2);
        const std::string inner = name_of_body(p_, r.bodies[s]);
        lines_ +=
            fmt::format("  {}n{} -> {}n0 [label={}, style=bold, lhead=cluster_{}];\n", name, n,
                        inner, quoted(r.loop ? "while true" : name_of_side(p_, r, s)), inner);
      }
    }
    out_ += space + "}\n";
    edges(body, name, drawn);
  }

  /// What the host decides, and the bodies that it launches then.
  void host_region(uint32_t index) {
    const Region& r = p_.regions[index];
    const std::string id = fmt::format("r{}", index);
    out_ += fmt::format("  {0} [shape=hexagon, fillcolor=\"#f4b6b6\", label=\"{0} {1}\\n{2}\"];\n",
                        id, name_of_region(p_, r), escaped(r.op));
    for (const Region::State& s : r.states) makers_[s.after] = {id, kHost};
    uses_.push_back({p_.views[r.flag].value, p_.views[r.flag].buffer, id, kHost});
    for (const std::vector<Step>& script : r.scripts) {
      for (const Step& s : script) {
        if (s.kind != Step::Kind::launch) continue;
        const Body& body = p_.bodies[s.index];
        if (body.nodes.empty()) continue;
        const std::string name = name_of_body(p_, s.index);
        out_ += fmt::format("  {} -> {}n0 [label={}, style=bold, lhead=cluster_{}];\n", id, name,
                            quoted(r.loop ? "while true" : name_of_side(p_, r, body.branch)), name);
        break;
      }
    }
  }

  std::string side_of(const Body& body) const {
    if (body.region == UINT32_MAX) return {};
    const Region& r = p_.regions[body.region];
    if (r.loop) return fmt::format(": body of r{}", body.region);
    return fmt::format(": r{} is {}", body.region, name_of_side(p_, r, body.branch));
  }
  std::string what_of(const Node& node) const {
    if (node.kernel == kNoKernel) {
      return fmt::format("{} r{}", name_of_region(p_, p_.regions[node.region]), node.region);
    }
    const std::string& symbol = p_.kernels[node.kernel].symbol;
    if (const Exchange* e = exchange_of(p_, node)) {
      return fmt::format("{}\ncalls {} by a {}", symbol, e->function, ir::name_of(e->way));
    }
    if (node.region == UINT32_MAX) return symbol;
    return fmt::format("{}\nif r{} is {}", symbol, node.region,
                       name_of_side(p_, p_.regions[node.region], node.branch));
  }
  std::string_view shape_of(const Node& node) const {
    if (node.kernel == kNoKernel) return "shape=diamond, ";
    if (p_.kernels[node.kernel].exchanges) return "shape=hexagon, ";
    return node.region == UINT32_MAX ? "" : "style=\"filled,dashed\", ";
  }

  void edges(const Body& body, const std::string& name, const std::vector<uint32_t>& drawn) {
    struct Line {
      uint32_t from, to;
      const Edge* edge;
      size_t count;
    };
    std::vector<Line> lines;
    std::map<std::array<uint32_t, 4>, size_t> line_of;
    for (const Edge& e : body.edges) {
      const std::array<uint32_t, 4> key{drawn[e.from], drawn[e.to], static_cast<uint32_t>(e.reason),
                                        static_cast<uint32_t>(e.kind)};
      const auto [it, added] = line_of.try_emplace(key, lines.size());
      if (added) {
        lines.push_back({drawn[e.from], drawn[e.to], &e, 1});
      } else {
        ++lines[it->second].count;
      }
    }
    for (const Line& l : lines) {
      std::string label(name_of(l.edge->reason));
      if (l.edge->buffer < p_.buffers.size()) {
        const std::string& buffer = p_.buffers[l.edge->buffer].name;
        label += " " + (l.count > 1 ? repeats_.folded(buffer) : buffer);
      }
      if (l.count > 1) label += fmt::format(" ({}x)", l.count);
      lines_ +=
          fmt::format("  {0}n{1} -> {0}n{2} [label={3}{4}{5}];\n", name, l.from, l.to,
                      quoted(label), l.edge->kind == EdgeKind::programmatic ? ", style=dashed" : "",
                      l.to <= l.from ? ", constraint=false" : "");
    }
  }

  void call(uint32_t c) {
    const Call& call = p_.calls[c];
    out_ +=
        fmt::format("  c{} [shape=hexagon, fillcolor=\"#f4b6b6\", label=\"c{} call {}\\n{}\"];\n",
                    c, c, escaped(call.function), escaped(call.op));
    for (uint32_t v : call.result_values) makers_[v] = {fmt::format("c{}", c), kHost};
    for (size_t a = 0; a < call.args.size(); ++a) {
      uses_.push_back(
          {call.values[a], p_.views[call.args[a]].buffer, fmt::format("c{}", c), kHost});
    }
  }

  /// Who makes which value, and who in other parts may use it.
  void remember(const Node& node, const std::string& id, uint32_t body) {
    const std::vector<ArgSlot>& slots = slots_of(p_, node);
    for (size_t s = 0; s < slots.size(); ++s) {
      const uint32_t buffer = p_.views[node.args[s]].buffer;
      if (p_.buffers[buffer].segment == Segment::mailbox) continue;  // it holds no values
      if (slots[s].role == Role::in) uses_.push_back({node.values[s], buffer, id, body});
      if (slots[s].role == Role::inout) uses_.push_back({node.values_before[s], buffer, id, body});
      if (slots[s].role != Role::in) makers_[node.values[s]] = {id, body};
    }
  }

  void crossings() {
    std::set<std::string> seen;
    for (const Use& u : uses_) {
      const auto it = makers_.find(u.value);
      if (it == makers_.end() || (it->second.part == u.part && u.part != kHost)) continue;
      const std::string line = fmt::format("  {} -> {} [label={}, style=dotted];\n", it->second.id,
                                           u.id, quoted(p_.buffers[u.buffer].name));
      if (seen.insert(line).second) out_ += line;
    }
  }

  static constexpr uint32_t kHost = UINT32_MAX;
  struct Maker {
    std::string id;
    uint32_t part;  // a body, or kHost
  };
  struct Use {
    uint32_t value, buffer;
    std::string id;
    uint32_t part;
  };
  const Program& p_;
  const Repeats repeats_;
  const bool fold_;
  std::string out_, lines_;  // lines_: edges that follow the box that is being drawn
  std::unordered_map<uint32_t, Maker> makers_;  // by value
  std::vector<Use> uses_;
};

}  // namespace

std::string to_dot(const Program& p, Fold fold) {
  size_t nodes = 0;
  for (const Body& b : p.bodies) nodes += b.nodes.size();
  return Drawing(p, fold == Fold::on || (fold == Fold::automatic && nodes > kFoldAbove)).run();
}

std::string to_dot(const Program& p) { return to_dot(p, Fold::automatic); }

}  // namespace braid
