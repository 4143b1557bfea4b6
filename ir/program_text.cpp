// The dumps that people read: text and DOT.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/program.hpp"

namespace braid {
namespace {

std::string human_bytes(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  if (bytes < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", b / 1024);
  return fmt::format("{:.1f} MiB", b / (1024 * 1024));
}

std::string human_count(int64_t n) {
  const auto x = static_cast<double>(n);
  if (n < 10'000) return fmt::format("{} ", n);
  if (n < 10'000'000) return fmt::format("{:.1f} k", x / 1e3);
  if (n < 10'000'000'000) return fmt::format("{:.1f} M", x / 1e6);
  return fmt::format("{:.1f} G", x / 1e9);
}

std::string plural(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

/// Nodes on the longest path.
size_t critical_path(const Body& body) {
  std::vector<size_t> depth(body.nodes.size(), 1);
  size_t longest = 0;
  std::vector<std::vector<uint32_t>> sources(body.nodes.size());
  for (const Edge& e : body.edges) sources[e.to].push_back(e.from);
  for (size_t n = 0; n < depth.size(); ++n) {
    for (uint32_t s : sources[n]) depth[n] = std::max(depth[n], depth[s] + 1);
    longest = std::max(longest, depth[n]);
  }
  return longest;
}

size_t lanes_used(const Body& body) {
  std::set<uint32_t> lanes;
  for (const Node& n : body.nodes) lanes.insert(n.lane);
  return lanes.size();
}

/// Rows of cells, padded to columns; the last column is left as it is.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string str() const {
    std::vector<size_t> width;
    for (const auto& r : rows_) {
      width.resize(std::max(width.size(), r.size()));
      for (size_t c = 0; c + 1 < r.size(); ++c) width[c] = std::max(width[c], r[c].size());
    }
    std::string out;
    for (const auto& r : rows_) {
      std::string line = " ";
      for (size_t c = 0; c < r.size(); ++c) {
        line += c + 1 < r.size() ? fmt::format(" {:<{}} ", r[c], width[c]) : " " + r[c];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string dims3(const std::array<uint32_t, 3>& d) {
  if (d[2] != 1) return fmt::format("{}x{}x{}", d[0], d[1], d[2]);
  if (d[1] != 1) return fmt::format("{}x{}", d[0], d[1]);
  return fmt::format("{}", d[0]);
}

std::string argument(const Program& p, const Node& node, size_t slot) {
  const View& v = p.views[node.args[slot]];
  const ArgSlot& s = p.kernels[node.kernel].args[slot];
  std::string text = fmt::format("{}:{}", s.name, p.buffers[v.buffer].name);
  if (v.type != p.buffers[v.buffer].type) text += fmt::format(" as {}", to_string(v.type));
  return text;
}

std::string arguments(const Program& p, const Node& node, bool written) {
  const Kernel& k = p.kernels[node.kernel];
  const size_t slots = std::max<size_t>(node.args.size() / std::max(k.parts, 1u), 1);
  std::string text, gap;
  for (size_t s = 0; s < node.args.size(); ++s) {
    if (!text.empty() && s % slots == 0) gap = " | ";
    if (written ? k.args[s].role == Role::in : k.args[s].role == Role::out) continue;
    text += gap + argument(p, node, s);
    gap = ", ";
  }
  return text;
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string to_text(const Program& p) {
  size_t nodes = 0;
  for (const Body& b : p.bodies) nodes += b.nodes.size();
  std::string out = fmt::format("{}   {} -> {} ({} distinct)   {}   target {}\n", p.name,
                                plural(p.source_ops, "op"), plural(nodes, "kernel"),
                                p.kernels.size(), plural(p.bodies.size(), "graph"), p.target.arch);
  if (!p.options.empty()) out += fmt::format("options {}\n", p.options);
  for (const auto& [name, value] : p.dims) out += fmt::format("dim {} = {}\n", name, value);
  for (const ir::Repeat& r : p.repeats) {
    if (r.count < 1) continue;
    out += fmt::format("repeat {}0 .. {}{}\n", r.prefix, r.prefix, r.count - 1);
  }

  for (size_t b = 0; b < p.bodies.size(); ++b) {
    const Body& body = p.bodies[b];
    double estimate = 0;
    for (const Node& n : body.nodes) estimate += n.estimate_us;
    // A lane is a chain of edges, so there is one for every node that does not begin a lane.
    const bool planned = !body.edges.empty() || body.nodes.size() <= body.lanes;
    out += fmt::format("\ngraph g{}: {}, {}, {} used, kernels {:.1f} us estimated without edges\n",
                       b, plural(body.nodes.size(), "node"),
                       planned ? fmt::format("{}, critical path {}",
                                             plural(body.edges.size(), "edge"), critical_path(body))
                               : "edges not planned yet",
                       plural(lanes_used(body), "stream"), estimate);
    Table t;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      t.row({fmt::format("n{}", n), fmt::format("stream {}", node.lane),
             p.kernels[node.kernel].symbol, fmt::format("{:.2f} us", node.estimate_us), node.place,
             fmt::format("{}", fmt::join(node.ops, ", "))});
    }
    out += t.str();
    if (!body.nodes.empty()) out += "arguments\n";
    Table a;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      a.row({fmt::format("n{}", n), arguments(p, body.nodes[n], false),
             "-> " + arguments(p, body.nodes[n], true)});
    }
    out += a.str();
    if (!body.edges.empty()) out += "edges\n";
    Table e;
    for (const Edge& edge : body.edges) {
      e.row({fmt::format("n{} -> n{}", edge.from, edge.to), std::string(name_of(edge.reason)),
             edge.kind == EdgeKind::programmatic ? "programmatic" : "full",
             edge.buffer < p.buffers.size() ? p.buffers[edge.buffer].name : ""});
    }
    out += e.str();
  }

  out += "\nkernels\n";
  Table k;
  std::map<uint32_t, size_t> uses;
  for (const Body& b : p.bodies) {
    for (const Node& n : b.nodes) ++uses[n.kernel];
  }
  for (uint32_t i = 0; i < p.kernels.size(); ++i) {
    const Kernel& kernel = p.kernels[i];
    k.row({kernel.symbol, kernel.family, fmt::format("{} use{}", uses[i], uses[i] == 1 ? "" : "s"),
           fmt::format("grid {}", dims3(kernel.launch.grid)),
           fmt::format("block {}", dims3(kernel.launch.block)),
           fmt::format("{}flop", human_count(kernel.flops)), human_bytes(kernel.bytes_moved)});
  }
  out += k.str();

  out += "\nbuffers\n";
  Table t;
  std::map<Segment, int64_t> total;
  for (const Buffer& b : p.buffers) {
    // A file may claim any sizes; their sum stays at the largest number.
    int64_t& sum = total[b.segment];
    if (__builtin_add_overflow(sum, b.bytes, &sum)) sum = INT64_MAX;
    const bool placed = b.segment == Segment::temp || b.segment == Segment::constant ||
                        b.segment == Segment::scalar;
    t.row({std::string(name_of(b.segment)), placed ? fmt::format("@{}", b.offset) : "",
           fmt::format("{} B", b.bytes), to_string(b.type), b.name});
  }
  out += t.str();
  out += fmt::format(
      "total params {}, constants {}, inputs {}, outputs {}\n"
      "arena {} (lower bound {}, without sharing {})\n",
      human_bytes(total[Segment::param]), human_bytes(total[Segment::constant]),
      human_bytes(total[Segment::input]), human_bytes(total[Segment::output]),
      human_bytes(p.arena_bytes), human_bytes(p.arena_lower_bound),
      human_bytes(p.temp_bytes_unshared));
  return out;
}

std::string to_dot(const Program& p) {
  static constexpr std::array<std::string_view, 8> kFill{
      "#cfe8ff", "#ffe3c2", "#d7f5d0", "#f7d3e3", "#e5dcff", "#fff4b8", "#d0f2ef", "#e4e4e4"};
  std::string out = fmt::format("digraph {} {{\n", quoted(p.name));
  out += "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  out += "  edge [fontname=\"sans-serif\", fontsize=8];\n";
  for (size_t b = 0; b < p.bodies.size(); ++b) {
    const Body& body = p.bodies[b];
    out += fmt::format("  subgraph cluster_g{} {{\n    label=\"graph g{}\";\n", b, b);
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      out += fmt::format("    g{}n{} [fillcolor=\"{}\", label=", b, n,
                         kFill[node.lane % kFill.size()]);
      out += quoted(fmt::format("n{} {}", n, p.kernels[node.kernel].symbol));
      out.pop_back();  // the closing quote; more lines follow
      out += fmt::format("\\nstream {}, {:.2f} us", node.lane, node.estimate_us);
      for (const std::string& op : node.ops) {
        const std::string q = quoted(op);
        out += "\\n" + q.substr(1, q.size() - 2);
      }
      out += "\"];\n";
    }
    out += "  }\n";
    for (const Edge& e : body.edges) {
      const std::string label =
          e.buffer < p.buffers.size()
              ? fmt::format("{} {}", name_of(e.reason), p.buffers[e.buffer].name)
              : std::string(name_of(e.reason));
      out += fmt::format("  g{}n{} -> g{}n{} [label={}{}];\n", b, e.from, b, e.to, quoted(label),
                         e.kind == EdgeKind::programmatic ? ", style=dashed" : "");
    }
  }
  out += "}\n";
  return out;
}

}  // namespace braid
