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
  const ArgSlot& s = slots_of(p, node)[slot];
  std::string text = fmt::format("{}:{}", s.name, p.buffers[v.buffer].name);
  if (v.type != p.buffers[v.buffer].type) text += fmt::format(" as {}", to_string(v.type));
  return text;
}

std::string arguments(const Program& p, const Node& node, bool written) {
  const std::vector<ArgSlot>& all = slots_of(p, node);
  const uint32_t parts = node.kernel == kNoKernel ? 1 : std::max(p.kernels[node.kernel].parts, 1u);
  const size_t slots = std::max<size_t>(node.args.size() / parts, 1);
  std::string text, gap;
  for (size_t s = 0; s < node.args.size(); ++s) {
    if (!text.empty() && s % slots == 0) gap = " | ";
    if (written ? all[s].role == Role::in : all[s].role == Role::out) continue;
    text += gap + argument(p, node, s);
    gap = ", ";
  }
  return text;
}

/// "2 graphs, 1 stretch without a graph, 3 host calls". The body of a conditional node is part of
/// the graph around it.
std::string parts_text(const Program& p) {
  size_t stretches = 0, graphs = 0;
  for (const Body& b : p.bodies) {
    stretches += b.stream;
    const bool inside = b.region != UINT32_MAX && p.regions[b.region].kind == Region::Kind::node;
    graphs += !b.stream && !inside;
  }
  std::string text = counted(graphs, "graph");
  if (stretches > 0) {
    text += fmt::format(", {} stretch{} without a graph", stretches, stretches == 1 ? "" : "es");
  }
  if (!p.calls.empty()) text += ", " + counted(p.calls.size(), "host call");
  if (!p.exchanges.empty()) {
    text += fmt::format(", {} inside", counted(p.exchanges.size(), "host call"));
  }
  if (!p.regions.empty()) text += ", " + counted(p.regions.size(), "region");
  return text;
}

/// "row_add_12ab34cd", "row_add_12ab34cd if r1 is true", "IF r0".
std::string what_of_node(const Program& p, const Node& node) {
  if (node.kernel == kNoKernel) {
    return fmt::format("{} r{}", name_of_region(p, p.regions[node.region]), node.region);
  }
  const std::string& symbol = p.kernels[node.kernel].symbol;
  if (node.region == UINT32_MAX) return symbol;
  return fmt::format("{} if r{} is {}", symbol, node.region,
                     name_of_side(p, p.regions[node.region], node.branch));
}

std::string views_text(const Program& p, const std::vector<uint32_t>& views) {
  std::vector<std::string_view> names;
  for (uint32_t v : views) names.push_back(p.buffers[p.views[v].buffer].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// What the host does, a line a step.
std::string steps_text(const Program& p, const std::vector<Step>& script) {
  TextTable t;
  for (const Step& s : script) {
    const std::string step(name_of(s.kind));
    if (s.kind == Step::Kind::launch) {
      t.row({step, name_of_body(p, s.index)});
      continue;
    }
    if (s.kind == Step::Kind::region) {
      t.row({step, fmt::format("r{}", s.index),
             fmt::format("{}  {}", p.regions[s.index].op, p.regions[s.index].place)});
      continue;
    }
    const Call& c = p.calls[s.index];
    const bool results = s.kind == Step::Kind::write;
    t.row({step, fmt::format("c{}", s.index),
           s.kind == Step::Kind::call   ? fmt::format("{}  {}  {}", c.function, c.op, c.place)
           : s.kind == Step::Kind::wait ? ""
                                        : views_text(p, results ? c.results : c.args)});
  }
  return t.str();
}

std::string indented(const std::string& text, size_t by) {
  if (by == 0) return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end > at) out += std::string(by, ' ');
    out += text.substr(at, end + 1 - at);
    at = end + 1;
  }
  return out;
}

std::string body_text(const Program& p, size_t b) {
  const Body& body = p.bodies[b];
  double estimate = 0;
  for (const Node& n : body.nodes) estimate += n.estimate_us;
  // A lane is a chain of edges, so there is one for every node that does not begin a lane.
  const bool planned = !body.edges.empty() || body.nodes.size() <= body.lanes;
  std::string out =
      fmt::format("\n{} {}: {}, {}, {} used, kernels {:.1f} us estimated without edges\n",
                  body.stream ? "kernels without a graph" : "graph", name_of_body(p, b),
                  counted(body.nodes.size(), "node"),
                  planned ? fmt::format("{}, critical path {}", counted(body.edges.size(), "edge"),
                                        critical_path(body))
                          : "edges not planned yet",
                  counted(lanes_used(body), "stream"), estimate);
  TextTable t;
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    t.row({fmt::format("n{}", n), fmt::format("stream {}", node.lane), what_of_node(p, node),
           fmt::format("{:.2f} us", node.estimate_us), node.place,
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
  return out + e.str();
}

/// What is carried out where a branch or a loop was, with the bodies of its sides below.
class RegionsText {
 public:
  explicit RegionsText(const Program& p) : p_(p) {
    for (uint32_t b = 0; b < p.bodies.size(); ++b) {
      const Body& body = p.bodies[b];
      bodies_[{body.region, body.branch}].push_back(b);
      for (size_t n = 0; n < body.nodes.size(); ++n) {
        const Node& node = body.nodes[n];
        if (node.kernel == kNoKernel || node.region == UINT32_MAX) continue;
        guarded_[node.region][node.branch].push_back(name_of_node(p, b, n));
      }
    }
    for (uint32_t r = 0; r < p.regions.size(); ++r) {
      regions_[{p.regions[r].region, p.regions[r].branch}].push_back(r);
    }
  }

  /// The bodies and regions of one side, or of the outermost script.
  std::string side(uint32_t region, uint32_t branch) const {
    std::string out;
    const auto bodies = bodies_.find({region, branch});
    if (bodies != bodies_.end()) {
      for (uint32_t b : bodies->second) out += body_text(p_, b);
    }
    const auto regions = regions_.find({region, branch});
    if (regions != regions_.end()) {
      for (uint32_t r : regions->second) out += region_text(r);
    }
    return out;
  }

 private:
  std::string region_text(uint32_t index) const {
    const Region& r = p_.regions[index];
    std::string out = fmt::format("\nregion r{}: {} of {}{}{}\n", index, name_of_region(p_, r),
                                  r.op, r.place.empty() ? "" : "  ", r.place);
    TextTable t;
    if (!r.why.empty()) t.row({"why", r.why});
    t.row({"time", fmt::format("{:.2f} us predicted for {}", r.estimate_us,
                               r.loop ? "one run of its body" : "its costlier side")});
    if (r.unrolled > 1) t.row({"unrolled", fmt::format("{} iterations a run", r.unrolled)});
    t.row({"flag", fmt::format("{} {}", to_string(p_.views[r.flag].type), name_of_view(r.flag))});
    if (const auto sides = guarded_.find(index); sides != guarded_.end()) {
      for (const auto& [side, nodes] : sides->second) {
        t.row({name_of_side(p_, r, side), fmt::format("{}", fmt::join(nodes, ", "))});
      }
    }
    for (size_t s = 0; s < r.slots.size(); ++s) {
      const uint32_t buffer = p_.views[r.args[s]].buffer;
      if (buffer == r.slab || buffer == p_.views[r.flag].buffer) continue;
      const Role role = r.slots[s].role;
      t.row({role == Role::in    ? "reads"
             : role == Role::out ? "writes"
                                 : "changes",
             name_of_view(r.args[s])});
    }
    if (r.slab != UINT32_MAX) {
      t.row({"slab", fmt::format("{} @{}", human_bytes(p_.buffers[r.slab].bytes),
                                 p_.buffers[r.slab].offset)});
    }
    out += t.str();
    for (uint32_t s = 0; s < r.sides && r.kind != Region::Kind::predicate; ++s) {
      std::string inner;
      if (r.kind == Region::Kind::host) {
        inner = r.scripts[s].empty() ? "" : "script\n" + steps_text(p_, r.scripts[s]);
      }
      inner += side(index, s);
      out += fmt::format("\n{} of r{}{}\n", r.loop ? "body" : "side " + name_of_side(p_, r, s),
                         index, does_nothing(r, s) ? ": nothing" : "");
      if (!does_nothing(r, s)) out += indented(inner, 2);
    }
    return out;
  }

  bool does_nothing(const Region& r, uint32_t s) const {
    return r.kind == Region::Kind::node ? p_.bodies[r.bodies[s]].nodes.empty()
                                        : r.scripts[s].empty();
  }
  std::string name_of_view(uint32_t v) const { return p_.buffers[p_.views[v].buffer].name; }

  const Program& p_;
  // By region and side.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> bodies_, regions_;
  std::map<uint32_t, std::map<uint32_t, std::vector<std::string>>> guarded_;  // names of nodes
};

/// What graphs have the host run, what became of branches and loops that are no regions, and what
/// the host is told.
std::string notes_text(const Program& p) {
  std::string out;
  if (!p.exchanges.empty()) out += "\nhost functions that graphs call\n";
  TextTable x;
  for (size_t i = 0; i < p.exchanges.size(); ++i) {
    const Exchange& e = p.exchanges[i];
    x.row({fmt::format("x{}", i), e.function, std::string(ir::name_of(e.way)), e.pure ? "pure" : "",
           e.op, e.place, e.why});
  }
  out += x.str();
  if (!p.dissolved.empty()) out += "\nbranches and loops that became plain kernels\n";
  TextTable t;
  for (const Dissolved& d : p.dissolved) {
    t.row({d.op, d.place,
           d.lowering == ir::Lowering::unroll ? fmt::format("unrolled, {}x", d.copies)
                                              : "all sides computed, one selected",
           d.why});
  }
  out += t.str();
  if (!p.messages.empty()) out += "\nmessages to the host\n";
  TextTable m;
  for (size_t i = 0; i < p.messages.size(); ++i) {
    const MessageSource& s = p.messages[i];
    m.row({fmt::format("m{}", i), std::string(ir::name_of(s.kind)), s.text, to_string(s.type),
           s.loops == 0 ? "" : fmt::format("inside {}", counted(s.loops, "loop")), s.op, s.place});
  }
  return out + m.str();
}

}  // namespace

std::string to_text(const Program& p) {
  size_t nodes = 0;
  for (const Body& b : p.bodies) {
    for (const Node& n : b.nodes) nodes += n.kernel != kNoKernel;
  }
  std::string out = fmt::format("{}   {} -> {} ({} distinct)   {}   target {}\n", p.name,
                                counted(p.source_ops, "op"), counted(nodes, "kernel"),
                                p.kernels.size(), parts_text(p), p.target.arch);
  if (!p.options.empty()) out += fmt::format("options {}\n", p.options);
  for (const auto& [name, value] : p.dims) out += fmt::format("dim {} = {}\n", name, value);
  for (const ir::Repeat& r : p.repeats) {
    if (r.count < 1) continue;
    out += fmt::format("repeat {}0 .. {}{}\n", r.prefix, r.prefix, r.count - 1);
  }

  const RegionsText regions(p);
  out += regions.side(UINT32_MAX, 0);
  if (!p.calls.empty() || p.script.size() > 1) out += "\nscript\n" + steps_text(p, p.script);
  out += notes_text(p);
  out += "\nkernels\n";
  TextTable k;
  std::map<uint32_t, size_t> uses;
  for (const Body& b : p.bodies) {
    for (const Node& n : b.nodes) {
      if (n.kernel != kNoKernel) ++uses[n.kernel];
    }
  }
  for (uint32_t i = 0; i < p.kernels.size(); ++i) {
    const Kernel& kernel = p.kernels[i];
    const bool library = kernel.code == Code::library;
    k.row({kernel.symbol, kernel.family, fmt::format("{} use{}", uses[i], uses[i] == 1 ? "" : "s"),
           library ? fmt::format("calls {}", kernel.function)
                   : fmt::format("grid {}", dims3(kernel.launch.grid)),
           library ? fmt::format("workspace {}", human_bytes(kernel.workspace))
                   : fmt::format("block {}", dims3(kernel.launch.block)),
           kernel.code == Code::user ? "flop unknown"
                                     : fmt::format("{}flop", human_count(kernel.flops)),
           human_bytes(kernel.bytes_moved)});
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
