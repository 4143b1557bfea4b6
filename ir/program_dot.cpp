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
    out += c;
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
    out_ += "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=8];\n";
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) body(b);
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
      const std::string key = fold_ ? form_of(body.nodes[n]) : "";
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

  void body(uint32_t b) {
    static constexpr std::array<std::string_view, 8> kFill{
        "#cfe8ff", "#ffe3c2", "#d7f5d0", "#f7d3e3", "#e5dcff", "#fff4b8", "#d0f2ef", "#e4e4e4"};
    const Body& body = p_.bodies[b];
    const std::string name = name_of_body(p_, b);
    const std::vector<Box> boxes = boxes_of(body);
    std::vector<uint32_t> drawn(body.nodes.size());
    for (const Box& box : boxes) {
      for (uint32_t n : box.nodes) drawn[n] = box.nodes[0];
    }
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      remember(body.nodes[n], fmt::format("{}n{}", name, drawn[n]), b);
    }
    out_ += fmt::format("  subgraph cluster_{} {{\n    label=\"{} {}\";\n", name,
                        body.stream ? "kernels without a graph" : "graph", name);
    for (const Box& box : boxes) {
      const uint32_t n = box.nodes[0];
      const Node& node = body.nodes[n];
      std::set<uint32_t> lanes;
      for (uint32_t other : box.nodes) lanes.insert(body.nodes[other].lane);
      out_ += fmt::format("    {}n{} [fillcolor=\"{}\", label=\"", name, n,
                          kFill[node.lane % kFill.size()]);
      out_ += fmt::format("n{}{} {}\\nstream{} {}, {:.2f} us", n,
                          box.nodes.size() > 1 ? fmt::format(" ({}x)", box.nodes.size()) : "",
                          escaped(p_.kernels[node.kernel].symbol), lanes.size() > 1 ? "s" : "",
                          fmt::join(lanes, " "), node.estimate_us);
      for (const std::string& op : node.ops) {
        out_ += "\\n" + escaped(box.nodes.size() > 1 ? repeats_.folded(op) : op);
      }
      out_ += "\"];\n";
    }
    out_ += "  }\n";
    edges(body, name, drawn);
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
      out_ +=
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
    const std::vector<ArgSlot>& slots = p_.kernels[node.kernel].args;
    for (size_t s = 0; s < slots.size(); ++s) {
      const uint32_t buffer = p_.views[node.args[s]].buffer;
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
  std::string out_;
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
