#include "frontend/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>

#include "frontend/report/plan_index.hpp"
#include "frontend/report/report_codes.hpp"
#include "frontend/report/report_exchanges.hpp"
#include "frontend/report/report_regions.hpp"
#include "ir/matmul_table.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

/// The steps that compute something, in the script's order, those of regions that the host drives
/// side after side.
struct Part {
  bool call = false;
  uint32_t index = 0;
  uint32_t region = UINT32_MAX, side = 0;
};

void add_parts(const Program& p, const std::vector<Step>& script, uint32_t region, uint32_t side,
               std::vector<Part>& parts) {
  for (const Step& s : script) {
    if (s.kind == Step::Kind::launch) parts.push_back({false, s.index, region, side});
    if (s.kind == Step::Kind::call) parts.push_back({true, s.index, region, side});
    if (s.kind != Step::Kind::region) continue;
    const std::vector<std::vector<Step>>& scripts = p.regions[s.index].scripts;
    for (uint32_t i = 0; i < scripts.size(); ++i) add_parts(p, scripts[i], s.index, i, parts);
  }
}

/// Calls visit(node) for the nodes of a body and of those of its conditional nodes.
template <class Visit>
void for_each_node(const Program& p, const Body& body, const Visit& visit) {
  for (const Node& n : body.nodes) {
    visit(n);
    if (n.kernel != kNoKernel) continue;
    for (uint32_t side : p.regions[n.region].bodies) for_each_node(p, p.bodies[side], visit);
  }
}

size_t nodes_in(const Program& p, const Body& body) {
  size_t nodes = 0;
  for_each_node(p, body, [&](const Node&) { ++nodes; });
  return nodes;
}

/// The most bytes of temporaries that are needed at once, by part of the script. What is written in
/// place has its bytes together with what it overwrites.
std::vector<int64_t> most_live(const Program& p, const std::vector<Part>& parts,
                               const PlanIndex& index) {
  const size_t length = index.order().size();
  std::vector<int64_t> change(length + 1, 0), twice(length, 0);
  std::vector<std::vector<uint32_t>> ends(length), begins(length);
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    const auto [first, last] = index.needed(b);
    const bool in_slab = p.buffers[b].region != UINT32_MAX;  // which counts for it
    if (p.buffers[b].segment != Segment::temp || in_slab || first > last) continue;
    change[first] += p.buffers[b].bytes;
    change[last + 1] -= p.buffers[b].bytes;
    begins[first].push_back(b);
    ends[last].push_back(b);
  }
  for (size_t at = 0; at < length; ++at) {
    for (uint32_t b : begins[at]) {
      for (uint32_t a : ends[at]) {
        const Buffer &x = p.buffers[a], &y = p.buffers[b];
        const int64_t common =
            std::min(x.offset + x.bytes, y.offset + y.bytes) - std::max(x.offset, y.offset);
        if (a != b) twice[at] += std::max<int64_t>(common, 0);
      }
    }
  }
  std::vector<int64_t> most;
  int64_t now = 0;
  size_t at = 0;
  for (const Part& part : parts) {
    const size_t end = at + (part.call ? 1 : nodes_in(p, p.bodies[part.index]));
    most.push_back(0);
    for (; at < end; ++at) {
      now += change[at];
      most.back() = std::max(most.back(), now - twice[at]);
    }
  }
  return most;
}

EdgeCounts count_edges(const Body& body, const Dag& data) {
  EdgeCounts c;
  for (const Edge& e : body.edges) {
    size_t* const by_reason[] = {&c.raw, &c.war, &c.waw, &c.lane};
    ++*by_reason[static_cast<size_t>(e.reason)];
    if (e.kind == EdgeKind::programmatic) ++c.programmatic;
  }
  std::map<uint32_t, uint32_t> tail;  // by lane
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    c.asked_for += data[n].size();
    const auto it = tail.find(body.nodes[n].lane);
    if (it != tail.end() && !std::binary_search(data[n].begin(), data[n].end(), it->second)) {
      ++c.asked_for;
    }
    tail[body.nodes[n].lane] = n;
  }
  return c;
}

std::vector<StreamUse> count_streams(const Body& body) {
  std::map<uint32_t, StreamUse> by_lane;
  for (const Node& n : body.nodes) {
    StreamUse& s = by_lane[n.lane];
    s.stream = n.lane;
    ++s.kernels;
    s.busy_us += n.estimate_us;
  }
  std::vector<StreamUse> out;
  for (const auto& [lane, use] : by_lane) out.push_back(use);
  return out;
}

Fragment of_body(const Program& p, uint32_t index, const Repeats& repeats) {
  const Body& body = p.bodies[index];
  Fragment f;
  f.kind = body.stream ? Fragment::Kind::stream : Fragment::Kind::graph;
  f.name = name_of_body(p, index);
  f.index = index;
  f.run = body.run;
  f.region = body.region;
  f.side = body.branch;
  std::vector<std::string_view> labels;
  for_each_node(p, body, [&](const Node& n) {
    labels.insert(labels.end(), n.ops.begin(), n.ops.end());
    ++(n.kernel == kNoKernel ? f.conditional : f.kernels);
  });
  f.ops = labels.size();
  f.from = repeats.scopes(labels);
  f.predicted_us = body.predicted_us;
  f.chain_us = body.chain_us;
  for (const Node& n : body.nodes) f.kernel_us += n.estimate_us;
  const Dag data = data_dag(p, body);
  f.critical = critical_path(data, body);
  f.width_before = width_of(data);
  f.width_after = width_of(edge_dag(body));
  std::set<std::string> seen;
  for (uint32_t n : f.width_before.at) {
    const std::vector<std::string>& ops = body.nodes[n].ops;
    if (ops.empty() || f.widest.size() == 4) continue;
    const std::string name = repeats.folded(op_name(ops.back()));
    if (seen.insert(name).second) f.widest.push_back(name);
  }
  f.streams = count_streams(body);
  f.edges = count_edges(body, data);
  return f;
}

Fragment of_call(const Program& p, uint32_t index, const Repeats& repeats) {
  const Call& c = p.calls[index];
  Fragment f;
  f.kind = Fragment::Kind::call;
  f.name = fmt::format("c{}", index);
  f.index = index;
  f.run = c.level;
  f.ops = 1;
  f.from = repeats.scopes({c.op});
  f.place = c.place;
  return f;
}

std::vector<BreakRow> break_rows(const Program& p, const Repeats& repeats,
                                 const std::vector<Fragment>& fragments) {
  std::vector<BreakRow> rows;
  for (const Break& b : p.breaks) {
    BreakRow row{b.op, repeats.folded(b.op), b.place, b.reason, b.remedy, b.level, {}, {}};
    for (const Fragment& f : fragments) {
      if (f.kind != Fragment::Kind::graph || f.region != UINT32_MAX) continue;
      if (f.run < b.level) row.before = f.name;
      if (f.run > b.level && row.after.empty()) row.after = f.name;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Where the op stands that fills a temporary. A node knows the place of its last op alone.
std::string place_of(const Program& p, const Ref& maker, const std::string& temporary) {
  if (maker.call) return p.calls[maker.body].place;
  const Node& n = p.bodies[maker.body].nodes[maker.node];
  const auto it = std::find(n.ops.begin(), n.ops.end(), temporary);
  return it == n.ops.end() || it + 1 == n.ops.end() ? n.place : std::string();
}

Memory memory_of(const Program& p, const PlanIndex& index) {
  Memory m;
  m.arena = p.arena_bytes;
  m.lower_bound = p.arena_lower_bound;
  m.unshared = p.temp_bytes_unshared;
  m.scalars = p.scalar_bytes;
  m.cut = p.memory_cut;
  std::vector<uint32_t> temps;
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    // A file may claim any sizes; their sum stays at the largest number.
    const auto add = [&](int64_t& sum) {
      if (__builtin_add_overflow(sum, buffer.bytes, &sum)) sum = INT64_MAX;
    };
    switch (buffer.segment) {
      case Segment::param:
        add(m.params);
        break;
      case Segment::constant:
        add(m.constants);
        break;
      case Segment::input:
        add(m.inputs);
        break;
      case Segment::output:
        add(m.outputs);
        break;
      case Segment::temp:
        if (buffer.bytes > 0) temps.push_back(b);
        break;
      case Segment::scalar:
      case Segment::handle:
      case Segment::ring:
      case Segment::mailbox:
        break;
    }
  }
  m.temporaries = temps.size();
  std::stable_sort(temps.begin(), temps.end(),
                   [&](uint32_t a, uint32_t b) { return p.buffers[a].bytes > p.buffers[b].bytes; });
  constexpr size_t kLargest = 8;
  for (size_t i = 0; i < temps.size() && i < kLargest; ++i) {
    const Buffer& t = p.buffers[temps[i]];
    Temporary row{t.name, to_string(t.type), {}, t.bytes, t.offset, {}, {}, UINT32_MAX};
    for (uint32_t b : index.sharing(temps[i])) row.shares.push_back(p.buffers[b].name);
    const auto [first, last] = index.needed(temps[i]);
    if (first <= last) {
      const Ref maker = index.order()[first];
      row.made_by = index.name(maker);
      row.place = place_of(p, maker, t.name);
    }
    row.region = t.region;
    m.largest.push_back(std::move(row));
  }
  return m;
}

std::vector<KernelRow> kernel_rows(const Program& p) {
  std::vector<KernelRow> rows;
  std::map<uint32_t, size_t> row_of;
  for (const Body& body : p.bodies) {
    for (const Node& n : body.nodes) {
      if (n.kernel == kNoKernel) continue;
      const auto [it, added] = row_of.try_emplace(n.kernel, rows.size());
      if (added) {
        const Kernel& k = p.kernels[n.kernel];
        rows.push_back({k.symbol, k.family, 0, k.parts, k.launch, k.flops, k.bytes_moved,
                        n.estimate_us, n.ops});
        if (k.code == Code::library) {
          rows.back().function = k.function;
          rows.back().workspace = k.workspace;
          rows.back().why = why_library(k, p.options);
        }
      }
      ++rows[it->second].uses;
    }
  }
  return rows;
}

/// "streams=8" in the options that shaped the plan.
uint32_t streams_allowed(std::string_view options) {
  constexpr std::string_view kKey = "streams=";
  const size_t at = options.find(kKey);
  uint32_t streams = 0;
  if (at != options.npos && (at == 0 || options[at - 1] == ' ')) {
    std::from_chars(options.data() + at + kKey.size(), options.data() + options.size(), streams);
  }
  return streams;
}

LaunchTime launch_time(const Program& p, const std::vector<Fragment>& fragments) {
  LaunchTime t;
  for (const Fragment& f : fragments) {
    if (f.region != UINT32_MAX) continue;
    t.parts_us += f.predicted_us > 0 ? f.predicted_us : f.kernel_us;
    t.graphs += f.kind == Fragment::Kind::graph;
    t.stretches += f.kind == Fragment::Kind::stream;
  }
  for (const Step& s : p.script) {
    t.waits += s.kind == Step::Kind::wait;
    if (s.kind == Step::Kind::call) t.copies_us += p.calls[s.index].copies_us;
    if (s.kind != Step::Kind::region) continue;
    ++t.regions;
    t.regions_us += p.regions[s.index].estimate_us;
  }
  t.graphs_us = static_cast<double>(t.graphs) * kGraphLaunchUs;
  t.stretches_us = static_cast<double>(t.stretches) * kKernelLaunchUs;
  t.waits_us = static_cast<double>(t.waits) * kHostWaitUs;
  return t;
}

}  // namespace

Report make_report(const Program& p) {
  Report r;
  r.name = p.name;
  r.target = p.target.arch;
  r.options = p.options;
  r.dims = p.dims;
  r.source_ops = p.source_ops;
  r.distinct = p.kernels.size();
  r.graphs = p.graphs;
  r.runs = p.runs;
  r.streams_allowed = streams_allowed(p.options);
  r.certificate = p.certificate;
  r.second_certificate = p.second_certificate;
  const Repeats repeats(p.repeats);
  std::vector<Part> parts;
  add_parts(p, p.script, UINT32_MAX, 0, parts);
  const PlanIndex index(p);
  const std::vector<int64_t> live = most_live(p, parts, index);
  for (size_t i = 0; i < parts.size(); ++i) {
    Fragment f =
        parts[i].call ? of_call(p, parts[i].index, repeats) : of_body(p, parts[i].index, repeats);
    f.live_bytes = live[i];
    f.region = parts[i].region;
    f.side = parts[i].side;
    r.kernels += f.kernels;
    r.streams_used = std::max(r.streams_used, static_cast<uint32_t>(f.streams.size()));
    r.fragments.push_back(std::move(f));
  }
  for (const Region& region : p.regions) {
    for (uint32_t b : region.bodies) r.bodies.push_back(of_body(p, b, repeats));
  }
  r.regions = region_rows(p);
  r.exchanges = exchange_rows(p);
  r.codes = code_rows(p);
  r.launched = launched_by(p, p.script);
  r.armed = armed_bodies(p);
  r.launch = launch_time(p, r.fragments);
  r.breaks = break_rows(p, repeats, r.fragments);
  r.ops_outside = p.breaks.size();
  for (const ScalarBinding& s : p.scalars) {
    r.avoided.push_back(
        {s.name, {}, "a runtime scalar: kernels read it from memory that the host sets"});
  }
  add_avoided(p, r.avoided);
  r.memory = memory_of(p, index);
  r.kernel_rows = kernel_rows(p);
  for (const KernelRow& k : r.kernel_rows) r.grouped += k.parts > 1 ? k.uses : 0;
  return r;
}

std::vector<Fragment> Report::with_bodies() const {
  std::vector<Fragment> all = fragments;
  all.insert(all.end(), bodies.begin(), bodies.end());
  return all;
}

namespace {
constexpr std::string_view kSectionNames[] = {"partitions", "breaks", "streams",
                                              "memory",     "edges",  "kernels"};
}

std::string_view name_of(Section s) { return kSectionNames[static_cast<size_t>(s)]; }

std::vector<Section> sections_from(std::string_view list) {
  std::vector<bool> wanted(std::size(kSectionNames), false);
  while (true) {
    const size_t comma = list.find(',');
    const std::string word(list.substr(0, comma));
    const auto it = std::find(std::begin(kSectionNames), std::end(kSectionNames), word);
    if (word == "all") {
      wanted.assign(wanted.size(), true);
    } else if (it != std::end(kSectionNames)) {
      wanted[static_cast<size_t>(it - std::begin(kSectionNames))] = true;
    } else {
      std::vector<std::string> known(std::begin(kSectionNames), std::end(kSectionNames));
      known.emplace_back("all");
      throw std::invalid_argument(
          fmt::format("no section '{}'; {}", word, suggest_or_list(word, known)));
    }
    if (comma == list.npos) break;
    list.remove_prefix(comma + 1);
  }
  std::vector<Section> sections;
  for (size_t s = 0; s < wanted.size(); ++s) {
    if (wanted[s]) sections.push_back(static_cast<Section>(s));
  }
  return sections;
}

}  // namespace braid::report
