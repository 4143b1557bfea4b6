#include "frontend/report/report_regions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/armed_bodies.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr size_t kRows = 24;

/// What a message to the host adds to a launch: a line of its kernel that copies 64 bytes, without
/// and with a fence of the whole system. Measured like the other prices.
constexpr double kMessageUs = 0.4, kFencedMessageUs = 0.9;

/// Kernels of each side, those of inner regions with the side that they stand in.
class Counter {
 public:
  explicit Counter(const Program& p) : p_(p), kernels_(p.regions.size()), where_(p.regions.size()) {
    for (size_t r = 0; r < p.regions.size(); ++r) kernels_[r].assign(p.regions[r].sides, 0);
    for (uint32_t b = 0; b < p.bodies.size(); ++b) {
      const Body& body = p.bodies[b];
      for (uint32_t n = 0; n < body.nodes.size(); ++n) {
        const Node& node = body.nodes[n];
        if (node.kernel == kNoKernel) {
          where_[node.region] = name_of_node(p, b, n);
          continue;
        }
        if (node.region != UINT32_MAX) {
          add(node.region, node.branch);
          if (where_[node.region].empty()) where_[node.region] = name_of_body(p, b);
        }
        add(body.region, body.branch);
      }
    }
  }

  const std::vector<size_t>& kernels(size_t region) const { return kernels_[region]; }
  std::string where(size_t region) const {
    return where_[region].empty() ? "script" : where_[region];
  }

 private:
  void add(uint32_t region, uint32_t side) {
    for (; region < p_.regions.size(); region = p_.regions[region].region) {
      if (side < kernels_[region].size()) ++kernels_[region][side];
      side = p_.regions[region].branch;
      if (p_.regions[region].kind == Region::Kind::predicate) return;  // the body counts on
    }
  }

  const Program& p_;
  std::vector<std::vector<size_t>> kernels_;
  std::vector<std::string> where_;
};

std::vector<std::string> parts_of(const Program& p, const std::vector<Step>& script) {
  std::vector<std::string> parts;
  for (const Step& s : script) {
    if (s.kind == Step::Kind::launch) parts.push_back(name_of_body(p, s.index));
    if (s.kind == Step::Kind::call) parts.push_back(fmt::format("c{}", s.index));
    if (s.kind == Step::Kind::region) parts.push_back(fmt::format("r{}", s.index));
  }
  return parts;
}

/// "1 + 2 an iteration".
template <class Number>
std::string graphs_text(Number graphs, Number each_iteration) {
  return each_iteration > 0 ? fmt::format("{} + {} an iteration", graphs, each_iteration)
                            : fmt::format("{}", graphs);
}

/// "false 1, true 2 kernels", "16 kernels, 4 copies of the body".
std::string sides_text(const RegionRow& r) {
  if (r.loop) {
    std::string text = counted(r.kernels.empty() ? 0 : r.kernels[0], "kernel");
    if (r.unrolled > 1) text += fmt::format(", {} copies of the body", r.unrolled);
    return text;
  }
  std::vector<std::string> sides;
  for (size_t s = 0; s < r.sides.size(); ++s) {
    if (s == 8) {
      sides.push_back(fmt::format("{} more", r.sides.size() - s));
      break;
    }
    sides.push_back(fmt::format("{}: {}", r.sides[s], r.kernels[s]));
  }
  return fmt::format("kernels {}", fmt::join(sides, ", "));
}

/// What asks in an unrolled loop whether its next copy is to run: none of the model's branches.
bool copy_of_loop(const Program& p, const Region& r) {
  if (r.loop || r.region >= p.regions.size()) return false;
  const Region& around = p.regions[r.region];
  return around.loop && around.unrolled > 1 && op_name(around.op) == op_name(r.op) &&
         around.place == r.place;
}

std::string how_of(const Dissolved& d) {
  const std::string how =
      d.lowering == ir::Lowering::unroll
          ? fmt::format("unrolled, {}",
                        d.copies == 1 ? "1 iteration" : fmt::format("{} iterations", d.copies))
          : "selected";
  return d.why.empty() ? how : fmt::format("{}: {}", how, d.why);
}

std::string how_of(const Program& p, const Region& r) {
  std::string how = name_of_region(p, r);
  if (r.kind == Region::Kind::node) how += " node in the graph";
  return r.why.empty() ? fmt::format("{}: {:.1f} us", how, r.estimate_us)
                       : fmt::format("{}: {}", how, r.why);
}

std::string how_of(const Exchange& e) {
  const bool node = e.way == ir::HostWay::node;
  return fmt::format("called inside the graph by a {}: {}", node ? "host node" : "handshake",
                     e.why);
}

/// Kernels that only send, by the op's label.
std::map<std::string, size_t> senders_of(const Program& p) {
  std::map<std::string, size_t> alone;
  for (const Body& body : p.bodies) {
    for (const Node& n : body.nodes) {
      if (n.ops.size() == 1) ++alone[n.ops[0]];
    }
  }
  return alone;
}

std::string how_of(const MessageSource& m, const std::map<std::string, size_t>& alone) {
  const auto it = alone.find(m.op);
  const std::string kernels = it == alone.end() ? "by the kernel that computes it"
                                                : counted(it->second, "kernel") + " more";
  return fmt::format("{} to the host by the ring: {}, {:.1f} to {:.1f} us a message",
                     m.kind == ir::MessageKind::print ? "printed" : "sent", kernels, kMessageUs,
                     kFencedMessageUs);
}

/// The copies of a region in an unrolled loop are one row.
bool alike(const RegionRow& a, const RegionRow& b) {
  return a.what == b.what && a.op == b.op && a.place == b.place && a.why == b.why &&
         a.around == b.around && a.side == b.side && a.kernels == b.kernels && a.us == b.us &&
         a.unrolled == b.unrolled && a.what.starts_with("predicated");
}

}  // namespace

ArmedBodies armed_bodies(const Program& p) { return {armed_units(p), kArmedUnits, kArmedUs}; }

std::string warning_of(const ArmedBodies& a) {
  if (!a.slow()) return {};
  return fmt::format(
      "conditional bodies that have not run yet slow every dependent kernel of the process by "
      "{:.2f} us, until each has run: {} units, {} are safe; --branches=predicate or select and "
      "--loops=unroll or host have none",
      a.us, a.units, a.safe);
}

std::vector<RegionRow> region_rows(const Program& p) {
  const Counter counter(p);
  std::vector<RegionRow> rows;
  for (size_t i = 0; i < p.regions.size(); ++i) {
    const Region& r = p.regions[i];
    RegionRow row;
    row.name = fmt::format("r{}", i);
    row.what = name_of_region(p, r);
    row.op = r.op;
    row.place = r.place;
    row.why = copy_of_loop(p, r)
                  ? fmt::format("the loop of r{} may end before its next copy", r.region)
                  : r.why;
    row.where = counter.where(i);
    row.around = r.region;
    row.side = r.branch;
    row.kernels = counter.kernels(i);
    for (uint32_t s = 0; s < r.sides; ++s) {
      row.sides.push_back(name_of_side(p, r, s));
      row.parts.emplace_back();
      if (s < r.bodies.size()) row.parts.back().push_back(name_of_body(p, r.bodies[s]));
      if (s < r.scripts.size()) row.parts.back() = parts_of(p, r.scripts[s]);
    }
    row.loop = r.loop;
    row.unrolled = r.unrolled;
    row.us = r.estimate_us;
    if (r.slab < p.buffers.size()) row.slab_bytes = p.buffers[r.slab].bytes;
    rows.push_back(std::move(row));
  }
  return rows;
}

Launched launched_by(const Program& p, const std::vector<Step>& script) {
  Launched all;
  for (const Step& s : script) {
    if (s.kind == Step::Kind::launch) all.graphs += !p.bodies[s.index].stream;
    if (s.kind != Step::Kind::region) continue;
    const Region& r = p.regions[s.index];
    Launched most;
    for (const std::vector<Step>& side : r.scripts) {
      const Launched of = launched_by(p, side);
      if (most.graphs + most.each_iteration < of.graphs + of.each_iteration) most = of;
    }
    (r.loop ? all.each_iteration : all.graphs) += most.graphs;
    all.each_iteration += most.each_iteration;
  }
  return all;
}

void add_avoided(const Program& p, std::vector<Avoided>& avoided) {
  for (const Dissolved& d : p.dissolved) avoided.push_back({d.op, d.place, how_of(d)});
  for (const Region& r : p.regions) {
    if (r.kind != Region::Kind::host && !copy_of_loop(p, r))
      avoided.push_back({r.op, r.place, how_of(p, r)});
  }
  for (const Exchange& e : p.exchanges) avoided.push_back({e.op, e.place, how_of(e)});
  const std::map<std::string, size_t> alone = senders_of(p);
  for (const MessageSource& m : p.messages) {
    if (m.kind == ir::MessageKind::check && m.text.empty()) continue;  // it ends each launch
    avoided.push_back({m.op, m.place, how_of(m, alone)});
  }
  for (const Body& b : p.bodies) {
    for (const Node& n : b.nodes) {
      if (b.stream || n.kernel >= p.kernels.size()) continue;
      const std::string room = room_text(p.kernels[n.kernel]);
      for (size_t i = 0; !room.empty() && i < n.ops.size(); ++i) {
        avoided.push_back({n.ops[i], n.place, "sized by the device: " + room});
      }
    }
  }
}

std::string room_text(const Kernel& k) {
  for (const ir::Op& op : k.body.ops()) {
    if (op.kind != ir::OpKind::compact) continue;
    const int64_t n = k.body.type(op.result).shape[0].value();
    return fmt::format("room for {}, the number of those that count stays in memory",
                       counted(static_cast<size_t>(n), "row"));
  }
  return {};
}

std::string regions_text(const Report& r) {
  if (r.regions.empty()) return {};
  TextTable t;
  t.row({"region", "what", "at", "predicted", "of", "holds", "why"});
  size_t rows = 0, hidden = 0;
  for (size_t i = 0, next = 0; i < r.regions.size(); i = next) {
    const RegionRow& row = r.regions[i];
    for (next = i + 1; next < r.regions.size() && alike(row, r.regions[next]);) ++next;
    if (++rows > kRows) {
      hidden += next - i;
      continue;
    }
    const std::string inside =
        row.around < r.regions.size() && row.side < r.regions[row.around].sides.size()
            ? fmt::format(" in r{} {}", row.around, r.regions[row.around].sides[row.side])
            : "";
    t.row({next == i + 1 ? row.name : fmt::format("{} .. r{}", row.name, next - 1), row.what,
           row.where + inside, fmt::format("{:.1f} us{}", row.us, row.loop ? " a run" : ""),
           row.op + (row.place.empty() ? "" : "   " + row.place), sides_text(row), row.why});
  }
  std::string out = t.str();
  if (hidden > 0) out += fmt::format("  and {} more regions; --format=json has all\n", hidden);
  if (r.armed.slow()) out += "warning: " + warning_of(r.armed) + "\n";
  return out;
}

std::string avoided_text(const Report& r) {
  using Key = std::pair<std::string, std::string>;
  std::set<Key> elsewhere;
  if (r.reference) {
    for (const Reference::At& w : r.reference->where) elsewhere.insert({w.op, w.place});
  }
  // What stands in one place of the model is one line: the copies of blocks and loops.
  std::vector<std::pair<const Avoided*, size_t>> folded;
  std::map<Key, size_t> at;  // by place, or op where there is none, and what is said
  for (const Avoided& a : r.avoided) {
    const auto [it, added] =
        at.try_emplace({a.place.empty() ? a.op : a.place, a.how}, folded.size());
    if (added) folded.emplace_back(&a, 0);
    ++folded[it->second].second;
  }
  std::string out;
  for (size_t i = 0; i < folded.size() && i < kRows; ++i) {
    const auto& [a, count] = folded[i];
    out += fmt::format(
        "  AVOIDED {}{}{}{}  {}{}\n", a->op, count > 1 ? fmt::format(" ({}x)", count) : "",
        a->place.empty() ? "" : "  ", a->place, a->how,
        elsewhere.contains({a->op, a->place}) ? ", where torch.compile breaks the graph" : "");
  }
  if (folded.size() > kRows) {
    out += fmt::format("  and {} more avoided; --format=json has all\n", folded.size() - kRows);
  }
  return out;
}

std::string reference_text(const Report& r) {
  if (!r.reference || r.reference->where.empty()) return {};
  const Reference& ref = *r.reference;
  TextTable t;
  t.row({"", "graphs", "breaks"});
  t.row({"this plan", graphs_text(r.launched.graphs, r.launched.each_iteration),
         fmt::format("{}", r.ops_outside), fmt::format("about {:.1f} us a launch", r.launch.us())});
  t.row({"torch.compile, at least", graphs_text(ref.graphs, ref.each_iteration),
         graphs_text(ref.breaks, ref.each_iteration)});
  std::string out = "by the rules of others\n" + t.str();
  std::vector<std::pair<const Reference::At*, int64_t>> folded;  // with how often it breaks
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (const Reference::At& w : ref.where) {
    const auto [it, added] =
        row_of.try_emplace({w.place.empty() ? w.op : w.place, w.rule}, folded.size());
    if (added) folded.emplace_back(&w, 0);
    int64_t& times = folded[it->second].second;
    if (__builtin_add_overflow(times, w.times, &times)) times = INT64_MAX;
  }
  TextTable at;
  for (size_t i = 0; i < folded.size() && i < kRows; ++i) {
    const auto& [w, times] = folded[i];
    at.row({"  " + w->rule + (times > 1 ? fmt::format(" ({}x)", times) : "") +
                (w->each_iteration ? ", each iteration" : ""),
            w->op, w->place});
  }
  out += at.str();
  if (folded.size() > kRows) {
    out += fmt::format("  and {} more; --format=json has all\n", folded.size() - kRows);
  }
  return out;
}

}  // namespace braid::report
