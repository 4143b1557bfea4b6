// explain of a branch or loop that is left in the plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/report/explain_node.hpp"
#include "frontend/report/report_regions.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

class RegionExplainer {
 public:
  RegionExplainer(const Program& p, const PlanIndex& index, uint32_t region)
      : p_(p), index_(index), r_(p.regions[region]), number_(region), rows_(region_rows(p)) {}

  std::string run() const {
    std::string out = fmt::format("r{}  {} for {}{}\n", number_, name_of_region(p_, r_), r_.op,
                                  r_.place.empty() ? "" : "   " + r_.place);
    if (!r_.why.empty()) out += fmt::format("  why: {}\n", r_.why);
    out += fmt::format("  predicted {:.2f} us, {}\n", r_.estimate_us,
                       r_.loop ? "for one run of its body" : "for the costlier side");
    return out + place() + decides() + sides() + states() + slab();
  }

 private:
  const RegionRow& row() const { return rows_[number_]; }

  std::string place() const {
    std::string out =
        fmt::format("  stands {} {}", row().where == "script" ? "in the" : "at", row().where);
    if (row().around < rows_.size()) {
      out += fmt::format(", in side {} of r{} ({})",
                         name_of_side(p_, p_.regions[row().around], row().side), row().around,
                         rows_[row().around].op);
    }
    return out + "\n";
  }

  /// Who sets what the region asks for: for a handle each kernel that assigns it.
  std::string decides() const {
    const uint32_t buffer = p_.views[r_.flag].buffer;
    std::vector<std::string> makers;
    for (Ref r : index_.order()) {
      if (index_.conditional(r)) continue;
      const auto writes = index_.writes(r);
      if (std::any_of(writes.begin(), writes.end(), [&](const PlanIndex::Value& v) {
            return p_.views[v.view].buffer == buffer;
          })) {
        makers.push_back(fmt::format("{} ({})", index_.name(r), index_.title(r)));
      }
    }
    constexpr size_t kMost = 6;
    const size_t more = makers.size() > kMost ? makers.size() - kMost : 0;
    makers.resize(makers.size() - more);
    const std::string set = makers.empty()
                                ? "given by the caller"
                                : fmt::format("set by {}{}", fmt::join(makers, ", "),
                                              more > 0 ? fmt::format(" and {} more", more) : "");
    const Buffer& b = p_.buffers[buffer];
    if (b.segment == Segment::handle) return fmt::format("  decided by its handle, {}\n", set);
    return fmt::format("  decided by {}, {} in {}; {}\n", b.name, to_string(p_.views[r_.flag].type),
                       name_of(b.segment), set);
  }

  std::string sides() const {
    std::string out = r_.loop ? "body\n" : "sides\n";
    TextTable t;
    for (size_t s = 0; s < row().sides.size(); ++s) {
      std::vector<std::string> parts = row().parts[s];
      std::string us;
      if (r_.kind == Region::Kind::predicate) parts = guarded(static_cast<uint32_t>(s));
      if (s < r_.bodies.size()) {
        us = fmt::format("{:.2f} us predicted", p_.bodies[r_.bodies[s]].predicted_us);
      }
      constexpr size_t kMost = 8;
      const size_t more = parts.size() > kMost ? parts.size() - kMost : 0;
      parts.resize(parts.size() - more);
      t.row({"", row().sides[s], counted(row().kernels[s], "kernel"),
             parts.empty() ? "nothing to do"
                           : fmt::format("{}{}", fmt::join(parts, ", "),
                                         more > 0 ? fmt::format(" and {} more", more) : ""),
             us});
    }
    out += t.str();
    if (r_.unrolled > 1) {
      out += fmt::format("  {} copies of the loop's body in one run\n", r_.unrolled);
    }
    return out;
  }

  std::vector<std::string> guarded(uint32_t side) const {
    std::vector<std::string> out;
    for (Ref r : index_.order()) {
      if (r.call || index_.conditional(r)) continue;
      const Node& n = index_.node(r);
      if (n.region == number_ && n.branch == side) out.push_back(index_.name(r));
    }
    return out;
  }

  std::string states() const {
    TextTable t;
    for (const Region::State& s : r_.states) {
      const Buffer& b = p_.buffers[p_.views[s.view].buffer];
      if (b.segment == Segment::handle) continue;
      t.row({"", b.name, to_string(p_.views[s.view].type), std::string(name_of(b.segment)),
             s.before == UINT32_MAX ? "holds nothing before" : ""});
    }
    const std::string rows = t.str();
    return rows.empty() ? "" : "what its sides write for others\n" + rows;
  }

  std::string slab() const {
    if (r_.slab >= p_.buffers.size()) return {};
    const Buffer& slab = p_.buffers[r_.slab];
    size_t inside = 0;
    for (const Buffer& b : p_.buffers) inside += b.region == number_ && b.segment == Segment::temp;
    return fmt::format("memory\n  {} of its own, in {} at {} of the arena{}\n",
                       inside == 1 ? "1 temporary" : fmt::format("{} temporaries", inside),
                       human_bytes(slab.bytes), slab.offset,
                       r_.sides > 1 ? ", those of different sides on the same bytes" : "");
  }

  const Program& p_;
  const PlanIndex& index_;
  const Region& r_;
  const uint32_t number_;
  const std::vector<RegionRow> rows_;
};

}  // namespace

std::string explain_region(const Program& p, const PlanIndex& index, const std::string& name) {
  for (uint32_t i = 0; i < p.regions.size(); ++i) {
    if (name == fmt::format("r{}", i)) return RegionExplainer(p, index, i).run();
  }
  return {};
}

}  // namespace braid::report
