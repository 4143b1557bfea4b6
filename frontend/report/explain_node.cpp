#include "frontend/report/explain_node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/report/report_codes.hpp"
#include "frontend/report/report_exchanges.hpp"
#include "frontend/report/report_regions.hpp"
#include "ir/matmul_table.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

std::string dims3(const std::array<uint32_t, 3>& d) {
  return fmt::format("{}x{}x{}", d[0], d[1], d[2]);
}

class Explainer {
 public:
  Explainer(const Program& p, const PlanIndex& index, Ref r, const WhyApart& why)
      : p_(p), index_(index), r_(r), why_(why) {}

  std::string run() {
    const std::vector<std::string> ops = index_.ops(r_);
    out_ = index_.name(r_) + "  ";
    out_ += r_.call ? fmt::format("call of '{}'", index_.symbol(r_)) : index_.symbol(r_);
    if (!index_.place(r_).empty()) out_ += "   " + index_.place(r_);
    out_ += fmt::format("\n  {} {}: {}\n", r_.call ? "calls" : "computes",
                        counted(ops.size(), "op"), fmt::join(ops, ", "));
    part();
    if (!r_.call) {
      stream();
      out_ += kernel();
    }
    neighbours();
    memory();
    if (!r_.call) edges();
    return out_;
  }

 private:
  const Node& node() const { return p_.bodies[r_.body].nodes[r_.node]; }
  const Body& body() const { return p_.bodies[r_.body]; }

  std::string kernel() const {
    const uint32_t region = node().region;
    const std::string name = fmt::format("r{}", region);
    if (index_.conditional(r_)) return "region\n" + explain_region(p_, index_, name);
    std::string out = exchange_text(p_, node()) + "kernel\n" + kernel_text(p_, node());
    if (region != UINT32_MAX) {
      const Region& r = p_.regions[region];
      out +=
          fmt::format("  guarded: it leaves at once unless {} ({}{}) takes side {}\n", name, r.op,
                      r.place.empty() ? "" : ", " + r.place, name_of_side(p_, r, node().branch));
    }
    return out;
  }

  void part() {
    const PlanIndex::Window w = index_.window(r_);
    out_ += "part\n";
    if (r_.call) {
      out_ += fmt::format("  the host runs it, in run {} of {}\n", w.run, p_.runs);
    } else {
      out_ += fmt::format("  {} {}, run {} of {}\n",
                          body().stream ? "kernels without a graph," : "graph",
                          name_of_body(p_, r_.body), w.run, p_.runs);
    }
    if (const uint32_t around = index_.region(r_); around != UINT32_MAX) {
      const Region& r = p_.regions[around];
      out_ +=
          fmt::format("  it runs where r{} ({}{}) takes side {}\n", around, r.op,
                      r.place.empty() ? "" : ", " + r.place, name_of_side(p_, r, body().branch));
    }
    for (const Break& b : p_.breaks) {
      const std::vector<std::string> ops = index_.ops(r_);
      if (!index_.on_host(r_) || b.level != w.run ||
          std::find(ops.begin(), ops.end(), b.op) == ops.end()) {
        continue;
      }
      out_ += fmt::format("  outside graphs: {}\n", b.reason);
      if (!b.remedy.empty()) out_ += fmt::format("  fix: {}\n", b.remedy);
    }
    if (index_.region(r_) != UINT32_MAX) return;
    if (p_.runs <= 1) {
      out_ += "  everything is in this one graph: nothing stands outside\n";
      return;
    }
    if (w.earliest == w.latest) {
      out_ += "  it can be in no other run\n";
    } else {
      const std::string_view moved =
          w.run == w.earliest  ? ""
          : index_.on_host(r_) ? "; later than it must, so that graphs run meanwhile"
                               : "; later than it must, so that less stays live between graphs";
      out_ +=
          fmt::format("  it could be in any of the runs {} to {}{}\n", w.earliest, w.latest, moved);
    }
    bound(w.earliest, true);
    bound(w.latest, false);
  }

  /// The path to the op of another run that keeps this one from being earlier, or later.
  void bound(uint32_t run, bool before) {
    std::map<Ref, Ref> from;
    std::vector<Ref> queue{r_};
    for (size_t at = 0; at < queue.size(); ++at) {
      for (Ref next : before ? makers_of(queue[at]) : users_of(queue[at])) {
        if (next == r_ || !from.try_emplace(next, queue[at]).second) continue;
        const PlanIndex::Window w = index_.window(next);
        const bool beyond = before ? w.earliest < run : w.latest > run;
        if (!beyond) {
          queue.push_back(next);
          continue;
        }
        if (index_.on_host(next) == index_.on_host(r_)) continue;
        std::vector<std::string> path{index_.title(r_)};
        for (Ref on = next; on != r_; on = from.at(on)) {
          const std::string name = before ? made_for(on, from.at(on)) : index_.title(on);
          path.insert(path.begin() + 1, fmt::format("{} ({})", name, index_.name(on)));
        }
        out_ += fmt::format(
            "  not {}: {}, which {}{}\n", before ? "earlier" : "later",
            fmt::join(path, before ? " needs " : " is needed by "),
            index_.on_host(next) ? "stands outside graphs" : fmt::format("is in {}", part_of(next)),
            fmt::format(", run {}", w.run));
        return;
      }
    }
  }

  /// What `user` reads of `maker`: the tensor has the name of the op that makes it.
  std::string made_for(Ref maker, Ref user) const {
    for (const PlanIndex::Value& v : index_.reads(user)) {
      const Ref* m = index_.maker(v.value);
      if (m && *m == maker) return std::string(op_name(p_.buffers[p_.views[v.view].buffer].name));
    }
    return index_.title(maker);
  }

  std::string part_of(Ref r) const { return r.call ? "the host" : name_of_body(p_, r.body); }

  std::vector<Ref> makers_of(Ref r) const {
    std::vector<Ref> out;
    for (const PlanIndex::Value& v : index_.reads(r)) {
      if (const Ref* m = index_.maker(v.value)) out.push_back(*m);
    }
    return out;
  }
  std::vector<Ref> users_of(Ref r) const {
    std::vector<Ref> out;
    for (const PlanIndex::Value& v : index_.writes(r)) {
      const std::vector<Ref>& users = index_.users(v.value);
      out.insert(out.end(), users.begin(), users.end());
    }
    return out;
  }

  void stream() {
    const Node& n = node();
    const bool timed = body().predicted_us > 0;
    size_t in_lane = 0;
    uint32_t before = kNone;
    for (uint32_t i = 0; i < body().nodes.size(); ++i) {
      if (body().nodes[i].lane != n.lane) continue;
      ++in_lane;
      if (body().nodes[i].position + 1 == n.position) before = i;
    }
    out_ +=
        fmt::format("stream\n  stream {}, number {} of {} there", n.lane, n.position + 1, in_lane);
    if (timed) {
      out_ += fmt::format("; predicted from {:.2f} to {:.2f} us", n.start_us,
                          n.start_us + n.estimate_us);
    }
    out_ += '\n';
    if (before == kNone) {
      out_ += "  the first of its stream\n";
    } else {
      const std::vector<Ref> makers = makers_of(r_);
      const bool needed =
          std::find(makers.begin(), makers.end(), Ref{false, r_.body, before}) != makers.end();
      out_ += fmt::format("  follows n{} ({}), {}\n", before, title(before),
                          needed ? "whose result it reads"
                                 : "whose result it does not need: that was the stream to be free");
    }
    uint32_t last = kNone;
    std::vector<std::string> waits;
    for (const Edge& e : body().edges) {
      if (e.to != r_.node) continue;
      waits.push_back(fmt::format("n{}", e.from));
      if (last == kNone || end_of(e.from) > end_of(last)) last = e.from;
    }
    if (waits.empty()) {
      out_ += "  waits for no other kernel\n";
    } else {
      out_ += fmt::format("  waits for {}", fmt::join(waits, ", "));
      if (timed) out_ += fmt::format("; n{} ends last, at {:.2f} us", last, end_of(last));
      if (timed && body().stream && n.start_us > end_of(last)) {
        out_ += "; the host takes longer to launch this one, because no graph does";
      }
      out_ += '\n';
    }
  }

  double end_of(uint32_t n) const { return body().nodes[n].start_us + body().nodes[n].estimate_us; }
  std::string title(uint32_t n) const { return index_.title({false, r_.body, n}); }

  void neighbours() {
    TextTable t;
    std::set<std::pair<Ref, uint32_t>> seen;
    const auto add = [&](Ref maker, Ref user, uint32_t value, uint32_t view) {
      const Ref other = maker == r_ ? user : maker;
      if (other == r_ || !seen.insert({other, value}).second) return;
      std::string reason;
      if (maker.call || user.call) {
        reason = "a call of the host is no kernel";
      } else if (maker.body != user.body) {
        reason = "it is in another part";
      } else if (why_) {
        reason = why_(maker, user, value);
      }
      t.row({"", index_.name(other),
             fmt::format("{} {}", maker == r_ ? "reads its" : "makes",
                         p_.buffers[p_.views[view].buffer].name),
             reason});
    };
    for (const PlanIndex::Value& v : index_.reads(r_)) {
      if (const Ref* m = index_.maker(v.value)) add(*m, r_, v.value, v.view);
    }
    for (const PlanIndex::Value& v : index_.writes(r_)) {
      for (Ref user : index_.users(v.value)) add(r_, user, v.value, v.view);
    }
    const std::string rows = t.str();
    if (rows.empty()) return;
    out_ += fmt::format("  next to it {}\n",
                        why_ ? "and why they are kernels of their own"
                             : "(why they are kernels of their own, the model can tell and a "
                               ".braid file cannot)");
    out_ += rows;
  }

  std::string bytes_of(uint32_t buffer, const PlanIndex::Value& v) const {
    const Buffer& b = p_.buffers[buffer];
    const bool placed = b.segment == Segment::temp || b.segment == Segment::constant ||
                        b.segment == Segment::scalar;
    return fmt::format("{}{}, {}", name_of(b.segment),
                       placed ? fmt::format(" @{}", b.offset + p_.views[v.view].offset) : "",
                       human_bytes(p_.views[v.view].type.bytes()));
  }

  void memory() {
    out_ += "memory\n";
    TextTable t;
    for (const PlanIndex::Value& v : index_.reads(r_)) {
      const uint32_t b = p_.views[v.view].buffer;
      const Ref* m = index_.maker(v.value);
      t.row({"reads", p_.buffers[b].name, to_string(p_.views[v.view].type), bytes_of(b, v),
             m ? "from " + index_.name(*m) : ""});
    }
    for (const PlanIndex::Value& v : index_.writes(r_)) {
      const uint32_t b = p_.views[v.view].buffer;
      t.row({"writes", p_.buffers[b].name, to_string(p_.views[v.view].type), bytes_of(b, v),
             history(b)});
    }
    out_ += t.str();
  }

  /// Who has the bytes before and after, and whether the node writes over what it reads.
  std::string history(uint32_t buffer) const {
    if (p_.buffers[buffer].segment != Segment::temp) return "bytes of its own";
    const auto [first, last] = index_.needed(buffer);
    std::vector<std::string> parts;
    std::string before, after;
    for (uint32_t other : index_.sharing(buffer)) {
      const auto [f, l] = index_.needed(other);
      if (f > l) continue;
      if (f < first && l == first) {
        parts.push_back("in place over " + p_.buffers[other].name);
      } else if (l < first) {
        before =
            fmt::format("held {} until {}", p_.buffers[other].name, index_.name(index_.order()[l]));
      } else if (f > first && f >= last && after.empty()) {
        after = fmt::format("will hold {} from {}", p_.buffers[other].name,
                            index_.name(index_.order()[f]));
      }
    }
    if (!before.empty()) parts.push_back(before);
    if (!after.empty()) parts.push_back(after);
    return parts.empty() ? "shares bytes with nobody" : fmt::format("{}", fmt::join(parts, "; "));
  }

  void edges() {
    TextTable t;
    for (const Edge& e : body().edges) {
      if (e.to != r_.node && e.from != r_.node) continue;
      const bool in = e.to == r_.node;
      static constexpr const char* kWhy[] = {"reads what it writes", "overwrites what it reads",
                                             "overwrites what it writes",
                                             "keeps the stream in order"};
      t.row({in ? "from" : "to", fmt::format("n{}", in ? e.from : e.to), title(in ? e.from : e.to),
             std::string(name_of(e.reason)),
             e.kind == EdgeKind::programmatic ? "programmatic" : "full",
             e.buffer < p_.buffers.size() ? p_.buffers[e.buffer].name : "",
             fmt::format("({}{})",
                         e.reason == EdgeReason::lane ? ""
                         : in                         ? "this "
                                                      : "that ",
                         kWhy[static_cast<size_t>(e.reason)])});
    }
    const std::string rows = t.str();
    out_ += rows.empty() ? "edges: none\n" : "edges\n" + rows;
  }

  const Program& p_;
  const PlanIndex& index_;
  const Ref r_;
  const WhyApart& why_;
  std::string out_;
};

}  // namespace

std::string kernel_text(const Program& p, const Node& node) {
  const Kernel& k = p.kernels[node.kernel];
  size_t uses = 0;
  for (const Body& b : p.bodies) {
    uses += static_cast<size_t>(std::count_if(
        b.nodes.begin(), b.nodes.end(), [&](const Node& n) { return n.kernel == node.kernel; }));
  }
  std::string out = k.code == Code::library
                        ? fmt::format("  calls the library function {}, workspace {}", k.function,
                                      human_bytes(k.workspace))
                        : fmt::format("  {}, grid {}, block {}", k.family, dims3(k.launch.grid),
                                      dims3(k.launch.block));
  if (k.launch.shared_bytes > 0) out += fmt::format(", {} B shared", k.launch.shared_bytes);
  if (k.parts > 1) out += fmt::format(", {} parts in one launch", k.parts);
  if (k.code == Code::user) {
    out += fmt::format("; function {} of {}, {:.2f} us estimated from its launch and {} alone",
                       k.function, code_file(p, k), node.estimate_us, human_bytes(k.bytes_moved));
  } else {
    out += fmt::format("; {}flop, {}, {:.2f} us estimated", human_count(k.flops),
                       human_bytes(k.bytes_moved), node.estimate_us);
  }
  out += uses > 1 ? fmt::format("; the same code runs in {} nodes\n", uses) : "\n";
  const std::string room = room_text(k);
  const std::string chosen = why_library(k, p.options);
  if (!chosen.empty()) out += fmt::format("  {}\n", chosen);
  return out + (room.empty() ? "" : "  sized by the device: " + room + "\n");
}

std::string explain_node(const Program& p, const PlanIndex& index, Ref r, const WhyApart& why) {
  return Explainer(p, index, r, why).run();
}

std::string explain_buffer(const Program& p, const PlanIndex& index, uint32_t buffer) {
  const Buffer& b = p.buffers[buffer];
  std::string out = fmt::format("{}  {} {}, {}", b.name, name_of(b.segment), to_string(b.type),
                                human_bytes(b.bytes));
  if (b.segment == Segment::temp) out += fmt::format(", at {} of the arena", b.offset);
  if (b.region != UINT32_MAX) out += fmt::format(", in the slab of r{}", b.region);
  out += '\n';
  std::vector<std::string> written, read;
  for (Ref r : index.order()) {
    const auto is = [&](const PlanIndex::Value& v) { return p.views[v.view].buffer == buffer; };
    const auto reads = index.reads(r), writes = index.writes(r);
    const std::string text = fmt::format("{} ({})", index.name(r), index.title(r));
    if (std::any_of(writes.begin(), writes.end(), is)) written.push_back(text);
    if (std::any_of(reads.begin(), reads.end(), is)) read.push_back(text);
  }
  const auto say = [&](std::string_view what, const std::vector<std::string>& by) {
    if (!by.empty()) out += fmt::format("  {} by {}\n", what, fmt::join(by, ", "));
  };
  say("written", written);
  say("read", read);
  if (written.empty()) out += "  no kernel writes it: its values come from outside\n";
  if (b.segment != Segment::temp) return out;
  std::vector<std::string> others;
  for (uint32_t other : index.sharing(buffer)) {
    const auto [first, last] = index.needed(other);
    if (first > last) continue;
    others.push_back(fmt::format("{} ({} to {})", p.buffers[other].name,
                                 index.name(index.order()[first]),
                                 index.name(index.order()[last])));
  }
  const auto [first, last] = index.needed(buffer);
  if (first <= last) {
    out += fmt::format("  needed from {} to {}\n", index.name(index.order()[first]),
                       index.name(index.order()[last]));
  }
  return out + (others.empty() ? "  shares bytes with nobody\n"
                               : fmt::format("  shares bytes with {}\n", fmt::join(others, ", ")));
}

}  // namespace braid::report
