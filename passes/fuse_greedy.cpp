// Convexity in O(1) per decision. Every group has a rank that is greater than the ranks of the
// groups it depends on, by data or by order edges. An op may join a group if all other groups that
// the op depends on have a smaller rank, or if nothing depends on the group yet, so that its rank
// may be raised. Then rank keeps growing along every edge between groups, these edges form no
// cycle, and a path that leaves a group and comes back, which would be one, cannot exist: all
// groups are convex. Two groups of equal rank have no path between them, and one on which nothing
// depends has none to a group of higher rank; such pairs may be merged, with the higher rank.
#include "passes/fuse_greedy.hpp"

#include <algorithm>
#include <utility>

#include "ir/code_op.hpp"
#include "ir/region.hpp"
#include "passes/free_ops.hpp"
#include "passes/fuse_paths.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

/// One operand of an op.
struct Read {
  ValueId operand;
  ValueId source;
  bool by_index;  // may be a value of the op's own group, read at the op's own index
};

struct Growing {
  uint32_t rank = 0;
  bool depended_on = false;  // by an op of another group
  bool closed = false;       // takes no op
  Domain domain;
  bool in_place = false;  // writes a param whose version before it reads
  bool only_maps = true;
  // A reduction's passes would walk a scatter's indices once more each.
  bool scatters = false;
  size_t ops = 0;
  size_t results_used_outside = 0;  // as far as seen; later ops can only make it less
  std::vector<ValueId> arguments;   // sources outside
  std::vector<ValueId> odd_reads;   // versions of params read otherwise than at the own index
};

bool contains(const std::vector<ValueId>& values, ValueId v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

void insert(std::vector<ValueId>& values, ValueId v) {
  if (!contains(values, v)) values.push_back(v);
}

class Grower {
 public:
  Grower(const ir::Graph& graph, const FuseFacts& facts, const Levels& levels, bool fuse_on,
         const std::vector<uint32_t>& given)
      : graph_(graph),
        facts_(facts),
        levels_(levels),
        fuse_on_(fuse_on),
        given_(given),
        paths_(graph) {}

  GrownGroups run() {
    const size_t n = graph_.ops().size();
    out_.group_of.assign(n, kNone);
    is_row_.assign(n, false);
    uses_left_.assign(graph_.values().size(), 0);
    overwritten_.assign(graph_.values().size(), false);
    for (uint32_t i = 0; i < n; ++i) {
      const ir::Op& op = graph_.ops()[i];
      if (!is_work(op) || !facts_.needed[i]) continue;
      for (ValueId v : values_used(graph_, facts_, op)) ++uses_left_[v.index];
      for (uint32_t r = 0; r < op.results; ++r) {
        const uint32_t result = op.result.index + r;
        if (facts_.is_output[result]) ++uses_left_[result];
      }
      if (!makes_state(graph_, op)) continue;
      for (uint32_t r = 0; r < op.results; ++r) {
        if (graph_.value(op.result_at(r)).state) ++uses_left_[op.result.index + r];
      }
      for (ValueId v : op.operands) {
        if (graph_.value(v).state) overwritten_[v.index] = true;
      }
    }
    for (uint32_t i = 0; i < n; ++i) {
      if (is_work(graph_.ops()[i]) && facts_.needed[i]) place(OpId{i});
    }
    return std::move(out_);
  }

 private:
  struct Site {  // the op to be placed
    OpId id;
    const ir::Op& op;
    std::vector<Read> reads;
    std::vector<uint32_t> before;      // groups it depends on
    std::vector<uint32_t> candidates;  // groups it could join, highest rank first
    ValueId work;                      // has the index space that it works in
    int64_t elements;                  // of that space
  };
  struct Attempt {
    std::vector<uint32_t> members;  // groups that become one
    Growing sum;
    bool row = false;  // the op computes one element per row
  };

  bool sets_handle(const ir::Op& op) const {
    return std::holds_alternative<ir::HandleAttr>(
        graph_.op(ir::param_of(graph_, op.operands[0])).attrs);
  }
  uint32_t group_of(ValueId source) const { return out_.group_of[graph_.value(source).def.index]; }

  Site look_at(OpId id) const {
    Site site{id, graph_.op(id), {}, {}, {}, {}, 0};
    const ir::Op& op = site.op;
    const bool writes = stores_state(graph_, op);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      const bool by_index = op.kind == OpKind::map || op.kind == OpKind::reduce ||
                            (writes && i == 1) || (op.kind == OpKind::scatter && i == 0);
      const ValueId source = facts_.source[v.index];
      if (is_inline(graph_, source)) continue;
      site.reads.push_back({v, source, by_index});
      const uint32_t group = group_of(source);
      if (group == kNone) continue;
      insert_group(site.before, group);
      if (by_index && !graph_.value(source).state) insert_group(site.candidates, group);
    }
    for (OpId before : facts_.before[id.index]) {
      const uint32_t group = out_.group_of[before.index];
      if (group != kNone) insert_group(site.before, group);
    }
    std::stable_sort(site.candidates.begin(), site.candidates.end(),
                     [&](uint32_t a, uint32_t b) { return growing_[a].rank > growing_[b].rank; });
    const bool by_operand = op.kind == OpKind::reduce;
    site.work = by_operand ? op.operands[0] : writes ? op.operands[1] : op.result;
    site.elements = graph_.type(site.work).shape.numel();
    return site;
  }

  static void insert_group(std::vector<uint32_t>& groups, uint32_t g) {
    if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
  }

  void place(OpId id) {
    const Site site = look_at(id);
    if (!given_.empty() && given_[id.index] != kNone) return place_given(site, given_[id.index]);
    if (fuse_on_) {
      for (uint32_t group : site.candidates) {
        for (bool merge : {true, false}) {
          Attempt attempt;
          if (!try_join(site, group, merge, attempt)) continue;
          commit(site, attempt);
          return;
        }
      }
    }
    begin(site);
  }

  /// Nothing else joins such a group, so nobody waits for it before it is complete.
  void place_given(const Site& site, uint32_t dot) {
    if (dot != site.id.index) {
      Attempt attempt;
      attempt.members = {out_.group_of[dot]};
      attempt.sum = growing_[attempt.members[0]];
      if (rank(site, attempt) && settle(site, attempt)) return commit(site, attempt);
    }
    begin(site);
    growing_.back().closed = true;
  }

  static bool is_scatter_of_rows(const Growing& a, const Growing& b) {
    return (a.scatters && b.domain.reduced()) || (b.scatters && a.domain.reduced());
  }

  bool try_join(const Site& site, uint32_t group, bool merge, Attempt& attempt) {
    const Group& target = out_.groups[group];
    if (site.op.kind == OpKind::send && site.elements != 1) return false;
    if (growing_[group].scatters && site.op.kind == OpKind::reduce) return false;
    if (growing_[group].domain.reduced() && site.op.kind == OpKind::scatter) return false;
    if (growing_[group].closed || target.level != levels_.run[site.id.index]) return false;
    if (target.family == FamilyId::dot && site.op.kind != OpKind::map &&
        (site.op.kind != OpKind::assign || sets_handle(site.op))) {
      return false;
    }
    attempt.members = {group};
    attempt.sum = growing_[group];
    if (!fits(site, attempt)) return false;
    for (size_t i = 0; merge && i < site.candidates.size(); ++i) {
      const uint32_t other = site.candidates[i];
      if (other == group || !may_merge(site, attempt, other)) continue;
      Attempt larger = attempt;
      add_member(larger, other);
      if (fits(site, larger)) attempt = std::move(larger);
    }
    return rank(site, attempt) && settle(site, attempt);
  }

  bool is_member(const Attempt& attempt, uint32_t group) const {
    return std::find(attempt.members.begin(), attempt.members.end(), group) !=
           attempt.members.end();
  }

  bool may_merge(const Site& site, const Attempt& attempt, uint32_t other) const {
    const Growing& a = attempt.sum;
    const Growing& b = growing_[other];
    const Group& target = out_.groups[attempt.members[0]];
    const Group& group = out_.groups[other];
    if (group.family != FamilyId::row || b.closed || target.level != group.level) return false;
    if (a.domain.full != b.domain.full || is_scatter_of_rows(a, b)) return false;
    if (a.domain.reduced() && b.domain.reduced() && !a.domain.same_rows(b.domain)) return false;
    if ((a.domain.reduced() || b.domain.reduced()) && (a.in_place || b.in_place)) return false;
    // What a dot takes over should be needed for this op alone: others would have to wait for it.
    if (target.family == FamilyId::dot &&
        !(b.only_maps && a.rank >= b.rank && serves(site, other))) {
      return false;
    }
    return a.rank == b.rank || !(a.rank < b.rank ? a : b).depended_on;
  }

  /// Whether nothing but the op uses values of the group from outside.
  bool serves(const Site& site, uint32_t group) const {
    std::vector<ValueId> last_uses;
    for (const Read& read : site.reads) {
      if (group_of(read.source) == group && uses_left_[read.source.index] == 1) {
        insert(last_uses, read.source);
      }
    }
    return last_uses.size() == growing_[group].results_used_outside;
  }

  void add_member(Attempt& attempt, uint32_t other) const {
    const Growing& b = growing_[other];
    attempt.members.push_back(other);
    Growing& a = attempt.sum;
    a.rank = std::max(a.rank, b.rank);
    a.depended_on = a.depended_on || b.depended_on;
    a.in_place = a.in_place || b.in_place;
    a.only_maps = a.only_maps && b.only_maps;
    a.scatters = a.scatters || b.scatters;
    if (b.domain.reduced()) a.domain = b.domain;
    a.ops += b.ops;
    a.results_used_outside += b.results_used_outside;
    for (ValueId v : b.arguments) insert(a.arguments, v);
    for (ValueId v : b.odd_reads) insert(a.odd_reads, v);
  }

  /// Whether the op reads each value of the attempted group at its own index; sets `row`.
  bool fits(const Site& site, Attempt& attempt) {
    const Domain& domain = attempt.sum.domain;
    const bool reduce = site.op.kind == OpKind::reduce;
    attempt.row = domain.reduced() && site.elements == domain.rows;
    if (!attempt.row && site.elements != domain.full) return false;
    // Kernels find the rows of elements that lie apart by the shape.
    if (domain.reduced() && !domain.rows_adjacent() && !attempt.row && !reduce &&
        graph_.type(site.work).shape != domain.shape) {
      return false;
    }
    if (reduce) {
      if (attempt.row) return false;
      const Domain mine = Domain::of(graph_.type(site.op.operands[0]).shape,
                                     std::get<ir::ReduceAttr>(site.op.attrs).axes);
      if (!mine.reduced() || attempt.sum.in_place) return false;
      if (domain.reduced() && !mine.same_rows(domain)) return false;
    }
    for (const Read& read : site.reads) {
      if (!is_member(attempt, group_of(read.source))) continue;
      if (!read.by_index || graph_.value(read.source).state) return false;
      const bool from_row = is_row_[graph_.value(read.source).def.index];
      const bool good = from_row == attempt.row
                            ? paths_.is_identity(read.operand)
                            : from_row && !reduce && paths_.is_row_broadcast(read.operand, domain);
      if (!good) return false;
    }
    return true;
  }

  /// The rank after the op has joined, if there is one.
  bool rank(const Site& site, Attempt& attempt) const {
    for (uint32_t before : site.before) {
      if (is_member(attempt, before) || growing_[before].rank < attempt.sum.rank) continue;
      if (attempt.sum.depended_on) return false;
      attempt.sum.rank = growing_[before].rank + 1;
    }
    return true;
  }

  /// Adds the op to the attempt's sum. False if it would write a param under the group's own
  /// reads, or if the group gets too large.
  bool settle(const Site& site, Attempt& attempt) {
    Growing& sum = attempt.sum;
    if (stores_state(graph_, site.op)) {
      const ValueId old = site.op.operands[0];
      if (contains(sum.arguments, old)) {
        // A row is read and written by many threads, a full value by one; and what is reduced is
        // read again after it was written.
        const bool plain = site.op.kind == OpKind::assign && !sum.domain.reduced() &&
                           !contains(sum.odd_reads, old);
        if (!plain) return false;
        sum.in_place = true;
      }
    }
    std::vector<ValueId> inside;  // values of the group that the op uses
    for (const Read& read : site.reads) {
      if (is_member(attempt, group_of(read.source))) {
        if (contains(inside, read.source)) continue;
        inside.push_back(read.source);
        if (uses_left_[read.source.index] == 1) --sum.results_used_outside;
        continue;
      }
      insert(sum.arguments, read.source);
      if (overwritten_[read.source.index] && !graph_.value(read.operand).state &&
          !is_plain_read(site, read, attempt)) {
        insert(sum.odd_reads, read.source);
      }
    }
    if (site.op.kind == OpKind::reduce && !sum.domain.reduced()) {
      sum.domain = Domain::of(graph_.type(site.op.operands[0]).shape,
                              std::get<ir::ReduceAttr>(site.op.attrs).axes);
    }
    sum.only_maps = sum.only_maps && site.op.kind == OpKind::map;
    sum.scatters = sum.scatters || site.op.kind == OpKind::scatter;
    ++sum.ops;
    ++sum.results_used_outside;
    return sum.ops <= kMaxGroupOps &&
           sum.arguments.size() + sum.results_used_outside <= kMaxGroupArguments;
  }

  bool is_plain_read(const Site& site, const Read& read, const Attempt& attempt) {
    return read.by_index && site.op.kind != OpKind::reduce && !attempt.row &&
           site.elements == attempt.sum.domain.full && paths_.is_identity(read.operand);
  }

  void commit(const Site& site, Attempt& attempt) {
    // The smaller lists move.
    const uint32_t home = *std::max_element(
        attempt.members.begin(), attempt.members.end(), [&](uint32_t a, uint32_t b) {
          return out_.groups[a].ops.size() < out_.groups[b].ops.size();
        });
    for (uint32_t member : attempt.members) {
      if (member == home) continue;
      for (OpId op : out_.groups[member].ops) {
        out_.group_of[op.index] = home;
        out_.groups[home].ops.push_back(op);
      }
      out_.groups[member].ops.clear();
      growing_[member] = {};
    }
    out_.groups[home].family = out_.groups[attempt.members[0]].family;
    growing_[home] = std::move(attempt.sum);
    enter(site, home, attempt.row || site.op.kind == OpKind::reduce);
    for (uint32_t before : site.before) {
      if (!is_member(attempt, before)) growing_[before].depended_on = true;
    }
  }

  void begin(const Site& site) {
    Attempt attempt;
    Growing& sum = attempt.sum;
    sum.domain = Domain::of(site.elements);
    for (uint32_t before : site.before) {
      growing_[before].depended_on = true;
      sum.rank = std::max(sum.rank, growing_[before].rank + 1);
    }
    settle(site, attempt);
    const bool row = site.op.kind == OpKind::reduce && sum.domain.reduced();
    const FamilyId family = family_of(site.op);
    const bool apart = (family != FamilyId::row && family != FamilyId::dot) ||
                       (site.op.kind == OpKind::send && site.elements != 1);
    sum.closed = apart || sum.domain.full == 0 || (site.op.kind == OpKind::reduce && !row);
    const auto group = static_cast<uint32_t>(out_.groups.size());
    out_.groups.push_back({family, {}, {}, levels_.run[site.id.index]});
    growing_.push_back(std::move(sum));
    enter(site, group, row);
  }

  void enter(const Site& site, uint32_t group, bool row) {
    out_.group_of[site.id.index] = group;
    out_.groups[group].ops.push_back(site.id);
    is_row_[site.id.index] = row;
    for (ValueId v : values_used(graph_, facts_, site.op)) {
      if (group_of(v) == group) --uses_left_[v.index];
    }
  }

  const ir::Graph& graph_;
  const FuseFacts& facts_;
  const Levels& levels_;
  const bool fuse_on_;
  const std::vector<uint32_t>& given_;
  Paths paths_;
  GrownGroups out_;
  std::vector<Growing> growing_;     // by group
  std::vector<bool> is_row_;         // by op
  std::vector<uint32_t> uses_left_;  // by value: ops outside its group, and the caller
  std::vector<bool> overwritten_;    // by version: a later one exists
};

}  // namespace

FuseFacts fuse_facts(const ir::Graph& graph, const HomePlan& homes) {
  FuseFacts facts{memory_sources(graph), needed_ops(graph),
                  std::vector<std::vector<OpId>>(graph.ops().size()),
                  std::vector<bool>(graph.values().size(), false)};
  for (const OrderEdge& e : homes.order) facts.before[e.to.index].push_back(e.from);
  for (const ir::Output& output : graph.outputs) {
    const ValueId root = memory_root(graph, output.value);
    ensure(may_be_output(graph, root) && !facts.is_output[root.index],
           "fuse: an output has no memory of its own; plan_homes gives it one");
    facts.is_output[root.index] = true;
  }
  return facts;
}

std::vector<ValueId> values_used(const ir::Graph& graph, const FuseFacts& facts, const ir::Op& op) {
  std::vector<ValueId> used;
  for (ValueId v : op.operands) {
    const ValueId source = facts.source[v.index];
    if (!is_inline(graph, source)) insert(used, source);
  }
  return used;
}

GrownGroups grow_groups(const ir::Graph& graph, const FuseFacts& facts, const Levels& levels,
                        bool fuse_on, const std::vector<uint32_t>& given) {
  return Grower(graph, facts, levels, fuse_on, given).run();
}

}  // namespace braid
