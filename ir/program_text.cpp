// The dump that people read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/naming.hpp"
#include "ir/program.hpp"

namespace braid {
namespace {

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

/// "2 graphs, 1 stretch without a graph, 3 host calls".
std::string parts_text(const Program& p) {
  size_t stretches = 0;
  for (const Body& b : p.bodies) stretches += b.stream;
  std::string text = counted(p.bodies.size() - stretches, "graph");
  if (stretches > 0) {
    text += fmt::format(", {} stretch{} without a graph", stretches, stretches == 1 ? "" : "es");
  }
  if (!p.calls.empty()) text += ", " + counted(p.calls.size(), "host call");
  return text;
}

std::string views_text(const Program& p, const std::vector<uint32_t>& views) {
  std::vector<std::string_view> names;
  for (uint32_t v : views) names.push_back(p.buffers[p.views[v].buffer].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What the host does, a line a step.
std::string script_text(const Program& p) {
  TextTable t;
  for (const Step& s : p.script) {
    const std::string step(name_of(s.kind));
    if (s.kind == Step::Kind::launch) {
      t.row({step, name_of_body(p, s.index)});
      continue;
    }
    const Call& c = p.calls[s.index];
    const bool results = s.kind == Step::Kind::write;
    t.row({step, fmt::format("c{}", s.index),
           s.kind == Step::Kind::call   ? fmt::format("{}  {}  {}", c.function, c.op, c.place)
           : s.kind == Step::Kind::wait ? ""
                                        : views_text(p, results ? c.results : c.args)});
  }
  return "\nscript\n" + t.str();
}

}  // namespace

std::string to_text(const Program& p) {
  size_t nodes = 0;
  for (const Body& b : p.bodies) nodes += b.nodes.size();
  std::string out = fmt::format("{}   {} -> {} ({} distinct)   {}   target {}\n", p.name,
                                counted(p.source_ops, "op"), counted(nodes, "kernel"),
                                p.kernels.size(), parts_text(p), p.target.arch);
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
    out +=
        fmt::format("\n{} {}: {}, {}, {} used, kernels {:.1f} us estimated without edges\n",
                    body.stream ? "kernels without a graph" : "graph", name_of_body(p, b),
                    counted(body.nodes.size(), "node"),
                    planned ? fmt::format("{}, critical path {}",
                                          counted(body.edges.size(), "edge"), critical_path(body))
                            : "edges not planned yet",
                    counted(lanes_used(body), "stream"), estimate);
    TextTable t;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      t.row({fmt::format("n{}", n), fmt::format("stream {}", node.lane),
             p.kernels[node.kernel].symbol, fmt::format("{:.2f} us", node.estimate_us), node.place,
             fmt::format("{}", fmt::join(node.ops, ", "))});
    }
    out += t.str();
    if (!body.nodes.empty()) out += "arguments\n";
    TextTable a;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      a.row({fmt::format("n{}", n), arguments(p, body.nodes[n], false),
             "-> " + arguments(p, body.nodes[n], true)});
    }
    out += a.str();
    if (!body.edges.empty()) out += "edges\n";
    TextTable e;
    for (const Edge& edge : body.edges) {
      e.row({fmt::format("n{} -> n{}", edge.from, edge.to), std::string(name_of(edge.reason)),
             edge.kind == EdgeKind::programmatic ? "programmatic" : "full",
             edge.buffer < p.buffers.size() ? p.buffers[edge.buffer].name : ""});
    }
    out += e.str();
  }

  if (!p.calls.empty() || p.bodies.size() > 1) out += script_text(p);
  out += "\nkernels\n";
  TextTable k;
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
  TextTable t;
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

}  // namespace braid
