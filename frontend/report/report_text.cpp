// The report for people. Lists that could fill a screen are cut, with the count of the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "frontend/report/report.hpp"
#include "frontend/report/report_codes.hpp"
#include "frontend/report/report_exchanges.hpp"
#include "frontend/report/report_regions.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr size_t kRows = 24;    // of a table
constexpr size_t kGraphs = 12;  // with lines of their own

std::string joined(const std::vector<std::string>& items, size_t most, std::string_view between) {
  const size_t shown = std::min(items.size(), most);
  std::string out = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), between));
  if (items.size() > shown) out += fmt::format("{}+{}", between, items.size() - shown);
  return out;
}

/// Both ends of a long list.
std::string ends_of(const std::vector<std::string>& items, std::string_view between) {
  constexpr size_t kHead = 6, kTail = 2;
  if (items.size() <= kHead + kTail + 1) return fmt::format("{}", fmt::join(items, between));
  std::vector<std::string> shown(items.begin(), items.begin() + kHead);
  shown.push_back(fmt::format("({} more)", items.size() - kHead - kTail));
  shown.insert(shown.end(), items.end() - kTail, items.end());
  return fmt::format("{}", fmt::join(shown, between));
}

std::string more(size_t n, size_t most, std::string_view what) {
  if (n <= most) return {};
  return fmt::format("  and {} more {}; --format=json has all\n", n - most, what);
}

std::string dims3(const std::array<uint32_t, 3>& d) {
  if (d[2] != 1) return fmt::format("{}x{}x{}", d[0], d[1], d[2]);
  if (d[1] != 1) return fmt::format("{}x{}", d[0], d[1]);
  return fmt::format("{}", d[0]);
}

size_t count_of(const Report& r, Fragment::Kind kind) {
  return static_cast<size_t>(std::count_if(r.fragments.begin(), r.fragments.end(),
                                           [&](const Fragment& f) { return f.kind == kind; }));
}

std::string width_text(const Width& w) {
  return fmt::format("{}{}", w.exact ? "" : "at least ", w.nodes);
}

std::string headline(const Report& r) {
  std::vector<std::string> parts{counted(count_of(r, Fragment::Kind::graph), "graph")};
  if (const size_t n = count_of(r, Fragment::Kind::stream)) {
    parts.push_back(fmt::format("{} stretch{} without a graph", n, n == 1 ? "" : "es"));
  }
  if (const size_t n = count_of(r, Fragment::Kind::call)) parts.push_back(counted(n, "host call"));
  if (!r.exchanges.empty()) {
    parts.push_back(counted(r.exchanges.size(), "host call") + " inside");
  }
  if (!r.regions.empty()) parts.push_back(counted(r.regions.size(), "region"));
  std::string out =
      fmt::format("{}   {} -> {} ({} distinct{})   {}", r.name, counted(r.source_ops, "op"),
                  counted(r.kernels, "kernel"), r.distinct,
                  r.grouped > 0 ? fmt::format(", {} of several like ones", r.grouped) : "",
                  fmt::join(parts, ", "));
  out += r.streams_allowed > 0 ? fmt::format("   {} allowed, {} used",
                                             counted(r.streams_allowed, "stream"), r.streams_used)
                               : fmt::format("   {} used", counted(r.streams_used, "stream"));
  out += fmt::format("   target {}\n", r.target);
  for (const auto& [name, value] : r.dims) out += fmt::format("dim {} = {}\n", name, value);
  return out;
}

std::string launch_text(const Report& r) {
  const LaunchTime& t = r.launch;
  std::vector<std::string> terms{fmt::format("{:.1f} us in parts", t.parts_us)};
  if (t.graphs > 0) {
    terms.push_back(fmt::format("{:.1f} us to launch {}", t.graphs_us, counted(t.graphs, "graph")));
  }
  if (t.stretches > 0) {
    terms.push_back(
        fmt::format("{:.1f} us to launch {}", t.stretches_us,
                    t.stretches == 1 ? "1 stretch" : fmt::format("{} stretches", t.stretches)));
  }
  if (t.waits > 0) {
    terms.push_back(fmt::format("{:.1f} us for the host to wait {}", t.waits_us,
                                t.waits == 1 ? "once" : fmt::format("{} times", t.waits)));
  }
  if (t.copies_us > 0) terms.push_back(fmt::format("{:.1f} us to copy for it", t.copies_us));
  if (t.regions > 0) {
    terms.push_back(fmt::format("{:.1f} us in {} driven by the host", t.regions_us,
                                counted(t.regions, "region")));
  }
  return fmt::format("about {:.1f} us a launch: {}{}\n", t.us(), fmt::join(terms, " + "),
                     t.waits > 0 || !r.exchanges.empty() ? "; the host functions come on top" : "");
}

/// "these 3 ops force", "this op forces".
std::string forcing(size_t ops) {
  return ops == 1 ? "this op forces" : fmt::format("these {} force", counted(ops, "op"));
}

std::string certificate_text(const Report& r) {
  if (r.certificate.empty()) return {};
  std::string out = fmt::format(
      "no fewer: {} {}{}: {}\n", forcing(r.certificate.size()), counted(r.graphs, "graph"),
      r.second_certificate.empty() ? fmt::format(" in {}", counted(r.runs, "run")) : "",
      ends_of(r.certificate, " -> "));
  if (!r.second_certificate.empty()) {
    out += fmt::format(
        "          as long a path begins outside graphs, and both together force {}: {}\n",
        counted(r.runs, "run"), ends_of(r.second_certificate, " -> "));
  }
  return out;
}

std::string comparison_text(const Report& r) {
  if (!r.comparison) return {};
  const Comparison& c = *r.comparison;
  TextTable t;
  t.row({"", "graphs", "runs"});
  const auto row = [&](const char* name, uint32_t graphs, uint32_t runs, const char* note = "") {
    t.row({name, fmt::format("{}", graphs), fmt::format("{}", runs), note});
  };
  row("this plan", r.graphs, r.runs);
  row("the model's order, as vLLM cuts", c.in_order.graphs, c.in_order.runs);
  row("host ops first, as Inductor reorders", c.host_first.graphs, c.host_first.runs,
      c.reordered ? "" : "its order takes too much memory and is not used");
  return "compare\n" + t.str();
}

/// Why a graph has no more streams although its width has room for them; half a sentence.
std::string why_no_more(const Report& r, const Fragment& f) {
  const size_t used = f.streams.size();
  if (used >= f.width_before.nodes || r.streams_allowed == 0) return {};
  if (used >= r.streams_allowed) {
    return r.streams_allowed == 1 ? "one stream is allowed" : "no more are allowed";
  }
  if (r.memory.cut.limit > 0) return "no faster plan within the memory limit has more";
  if (used > 1) return "one more would end no earlier";
  return "more would save too little to pay";
}

std::string partitions_text(const Report& r) {
  std::string out = headline(r);
  TextTable t;
  t.row({"part", "run", "ops", "kernels", "streams", "live", "predicted", "from"});
  for (size_t i = 0; i < r.fragments.size() && i < kRows; ++i) {
    const Fragment& f = r.fragments[i];
    const bool call = f.kind == Fragment::Kind::call;
    const double us = f.predicted_us > 0 ? f.predicted_us : f.kernel_us;
    const std::string run =
        f.region == UINT32_MAX ? fmt::format("{}", f.run) : fmt::format("in r{}", f.region);
    t.row({f.name, run, fmt::format("{}", f.ops), call ? "host" : fmt::format("{}", f.kernels),
           call                               ? ""
           : f.kind == Fragment::Kind::stream ? "no graph"
                                              : fmt::format("{}", f.streams.size()),
           human_bytes(f.live_bytes), call ? "" : fmt::format("{:.1f} us", us),
           joined(f.from, 5, ", ") + (f.place.empty() ? "" : "   " + f.place)});
  }
  out += t.str() + more(r.fragments.size(), kRows, "parts");
  out += regions_text(r) + exchanges_text(r) + codes_text(r) + launch_text(r) +
         certificate_text(r) + comparison_text(r);
  size_t shown = 0;
  for (const Fragment& f : r.fragments) {
    if (f.kind != Fragment::Kind::graph || f.kernels == 0) continue;
    if (++shown > kGraphs) continue;
    out += fmt::format("{}: critical path {}, {:.1f} us of the {}' {:.1f}; width {}", f.name,
                       counted(f.critical.nodes.size(), f.conditional > 0 ? "node" : "kernel"),
                       f.critical.us, f.conditional > 0 ? "nodes" : "kernels", f.kernel_us,
                       width_text(f.width_before));
    if (f.width_before.nodes > 1) {
      out += fmt::format(" ({}{})", fmt::join(f.widest, ", "),
                         f.width_before.nodes > f.widest.size() ? ", .." : "");
      out += fmt::format(", {} on its streams", f.width_after.exact
                                                    ? fmt::format("{}", f.width_after.nodes)
                                                    : fmt::format("at most {}", f.streams.size()));
      if (const std::string why = why_no_more(r, f); !why.empty()) out += ": " + why;
    }
    out += '\n';
  }
  return out + more(shown, kGraphs, "graphs");
}

/// Breaks that one line can stand for: they differ by the copy of a repeat, and all that the line
/// says of them but the names of the graphs beside them is the same.
struct Folded {
  const BreakRow *first, *last;
  size_t count = 1;
};

std::vector<Folded> fold(const std::vector<BreakRow>& breaks) {
  std::vector<Folded> out;
  std::map<std::array<std::string, 4>, size_t> at[2][2];
  for (const BreakRow& b : breaks) {
    auto& rows = at[b.before.empty()][b.after.empty()];
    const auto [it, added] = rows.try_emplace({b.folded, b.place, b.reason, b.remedy}, out.size());
    if (added) {
      out.push_back({&b, &b});
    } else {
      out[it->second].last = &b;
      ++out[it->second].count;
    }
  }
  return out;
}

std::string between_text(const BreakRow& b) {
  if (b.before.empty()) return b.after.empty() ? "" : "before " + b.after;
  return b.after.empty() ? "after " + b.before : b.before + " | " + b.after;
}

std::string breaks_text(const Report& r) {
  if (r.breaks.empty() && r.avoided.empty()) return "breaks: none\n";
  std::string out = fmt::format("breaks: {} outside graphs", counted(r.ops_outside, "op"));
  if (!r.avoided.empty()) out += fmt::format(", {} avoided", r.avoided.size());
  out += '\n';
  const std::vector<Folded> folded = fold(r.breaks);
  for (size_t i = 0; i < folded.size() && i < kRows; ++i) {
    const BreakRow& b = *folded[i].first;
    std::string between = between_text(b);
    if (const std::string to = between_text(*folded[i].last); to != between) between += " .. " + to;
    out +=
        fmt::format("  BREAK   {}{}{}: {}{}{}\n", between, between.empty() ? "" : "  ",
                    folded[i].count > 1 ? fmt::format("{} ({}x)", b.folded, folded[i].count) : b.op,
                    b.reason, b.place.empty() ? "" : "   ", b.place);
    if (!b.remedy.empty()) out += fmt::format("          fix: {}\n", b.remedy);
  }
  out += more(folded.size(), kRows, "breaks");
  return out + avoided_text(r) + reference_text(r);
}

std::string streams_text(const Report& r) {
  std::string out = "streams\n";
  TextTable t;
  size_t shown = 0;
  for (const Fragment& f : r.with_bodies()) {
    if (f.kind != Fragment::Kind::graph || f.kernels + f.conditional == 0) continue;
    if (++shown > kGraphs) continue;
    t.row({f.name, counted(f.streams.size(), "stream"), streams_verdict(r, f)});
    if (f.streams.size() < 2) continue;
    for (const StreamUse& s : f.streams) {
      const std::string part = f.predicted_us > 0 ? fmt::format(", {:.0f} % of the time",
                                                                100 * s.busy_us / f.predicted_us)
                                                  : "";
      t.row({"", fmt::format("stream {}", s.stream),
             fmt::format("{}, {:.1f} us busy{}", counted(s.kernels, "kernel"), s.busy_us, part)});
    }
  }
  if (shown == 0) return "streams: none, because there is no graph\n";
  return out + t.str() + more(shown, kGraphs, "graphs");
}

std::string note_of(const Temporary& temp) {
  std::vector<std::string> notes;
  if (temp.region != UINT32_MAX) notes.push_back(fmt::format("in the slab of r{}", temp.region));
  if (!temp.shares.empty()) notes.push_back("shares bytes with " + joined(temp.shares, 3, ", "));
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::string memory_text(const Memory& m) {
  std::string out = fmt::format("memory\n  arena {}", human_bytes(m.arena));
  if (m.lower_bound > 0) {
    const double bound = static_cast<double>(m.lower_bound);
    const double over = 100 * (static_cast<double>(m.arena) - bound) / bound;
    out += fmt::format(", lower bound {} ({})", human_bytes(m.lower_bound),
                       over < 0.05 ? "reached" : fmt::format("{:+.1f} %", over));
  }
  out += fmt::format(", without sharing {}\n", human_bytes(m.unshared));
  if (m.cut.limit > 0) {
    const MemoryCut& cut = m.cut;
    out +=
        fmt::format("  to stay within {}: {} before, {}, {:.1f} us predicted instead of {:.1f}\n",
                    human_bytes(cut.limit), human_bytes(cut.bytes_before),
                    cut.streams_after == cut.streams_before
                        ? counted(cut.streams_after, "stream") + " as before, in another order"
                        : fmt::format("{} instead of {}", counted(cut.streams_after, "stream"),
                                      cut.streams_before),
                    cut.us_after, cut.us_before);
  }
  out += fmt::format("  params {}, constants {}, inputs {}, outputs {}, scalars {}\n",
                     human_bytes(m.params), human_bytes(m.constants), human_bytes(m.inputs),
                     human_bytes(m.outputs), human_bytes(m.scalars));
  if (m.largest.empty()) return out;
  out += m.largest.size() < m.temporaries
             ? fmt::format("  the largest {} of {} temporaries\n", m.largest.size(), m.temporaries)
             : fmt::format("  {}\n", m.temporaries == 1
                                         ? "1 temporary"
                                         : fmt::format("{} temporaries", m.temporaries));
  TextTable t;
  for (const Temporary& temp : m.largest) {
    t.row({"", human_bytes(temp.bytes), fmt::format("@{}", temp.offset), temp.type, temp.name,
           temp.made_by, temp.place, note_of(temp)});
  }
  return out + t.str();
}

std::string edges_text(const Report& r, const Program& p) {
  std::string out = "edges\n";
  for (const Fragment& f : r.with_bodies()) {
    if (f.kind == Fragment::Kind::call) continue;
    const EdgeCounts& e = f.edges;
    out += fmt::format(
        "  {}: {}: {} raw, {} war, {} waw, {} lane; {} programmatic; values and streams ask for "
        "{}\n",
        f.name, counted(e.all(), "edge"), e.raw, e.war, e.waw, e.lane, e.programmatic, e.asked_for);
    TextTable t;
    for (const Edge& edge : p.bodies[f.index].edges) {
      t.row({"", fmt::format("n{} -> n{}", edge.from, edge.to), std::string(name_of(edge.reason)),
             edge.kind == EdgeKind::programmatic ? "programmatic" : "full",
             edge.buffer < p.buffers.size() ? p.buffers[edge.buffer].name : ""});
    }
    out += t.str();
  }
  return out;
}

std::string kernels_text(const Report& r) {
  std::string out = "kernels\n";
  TextTable t;
  for (const KernelRow& k : r.kernel_rows) {
    const bool library = !k.function.empty();
    t.row({k.symbol, k.family, fmt::format("{} use{}", k.uses, k.uses == 1 ? "" : "s"),
           library ? "calls " + k.function : fmt::format("grid {}", dims3(k.launch.grid)),
           library ? "workspace " + human_bytes(k.workspace)
                   : fmt::format("block {}", dims3(k.launch.block)),
           k.parts > 1 ? fmt::format("{} parts", k.parts) : "",
           k.family == "user" ? "flop unknown" : human_count(k.flops) + "flop",
           human_bytes(k.bytes), fmt::format("{:.2f} us", k.us), joined(k.ops, 6, ", ")});
  }
  out += t.str();
  for (const KernelRow& k : r.kernel_rows) {
    if (!k.why.empty()) out += fmt::format("  {}  {}\n", k.symbol, k.why);
  }
  return out;
}

}  // namespace

std::string streams_verdict(const Report& r, const Fragment& f) {
  const size_t used = f.streams.size();
  if (f.predicted_us <= 0 || f.chain_us <= 0) {
    return fmt::format("{:.1f} us in kernels, one after another; not predicted", f.kernel_us);
  }
  if (used > 1) {
    const double saved = f.chain_us - f.predicted_us;
    return fmt::format("{:.1f} us predicted, {:.1f} us on one: streams {} {:.1f} us ({:.0f} %)",
                       f.predicted_us, f.chain_us, saved >= 0 ? "save" : "cost", std::abs(saved),
                       100 * std::abs(saved) / f.chain_us);
  }
  std::string why;
  if (f.width_before.nodes <= 1) {
    why = f.kernels == 1
              ? "it is one kernel"
              : "every kernel needs the one before, so more streams would change nothing";
  } else {
    why = why_no_more(r, f);
  }
  return fmt::format("{:.1f} us predicted{}{}", f.predicted_us, why.empty() ? "" : "; ", why);
}

std::string to_text(const Report& r, const Program& p, const std::vector<Section>& sections) {
  std::string out;
  for (Section s : sections) {
    switch (s) {
      case Section::partitions:
        out += partitions_text(r);
        break;
      case Section::breaks:
        out += breaks_text(r);
        break;
      case Section::streams:
        out += streams_text(r);
        break;
      case Section::memory:
        out += memory_text(r.memory);
        break;
      case Section::edges:
        out += edges_text(r, p);
        break;
      case Section::kernels:
        out += kernels_text(r);
        break;
    }
  }
  return out;
}

}  // namespace braid::report
