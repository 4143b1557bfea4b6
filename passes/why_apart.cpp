#include "passes/why_apart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ir/code_op.hpp"
#include "ir/text.hpp"
#include "passes/free_ops.hpp"
#include "passes/fuse_greedy.hpp"
#include "passes/fuse_paths.hpp"
#include "passes/labels.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

class Why {
 public:
  Why(const ir::Graph& graph, const HomePlan& homes, const Fusion& fusion, uint32_t from,
      uint32_t to, ValueId value, bool chain_on)
      : g_(graph),
        facts_(fuse_facts(graph, homes)),
        fusion_(fusion),
        from_(from),
        to_(to),
        value_(value),
        chain_on_(chain_on),
        paths_(graph),
        a_(traits_of(fusion.groups[from])),
        b_(traits_of(fusion.groups[to])) {}

  std::string run() {
    if (group(from_).level != group(to_).level) {
      return fmt::format("they are in different runs, {} and {}", group(from_).level,
                         group(to_).level);
    }
    for (uint32_t g : {from_, to_}) {
      if (group(g).family == FamilyId::compact) {
        return fmt::format("{} is a kernel of its own", name(group(g).ops.front()));
      }
    }
    if (std::string reason = of_chains(); !reason.empty()) return reason;
    for (OpId id : group(to_).ops) {
      const ir::Op& op = g_.op(id);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        if (facts_.source[op.operands[i].index] != value_) continue;
        const std::string reason = of_operand(id, i);
        if (!reason.empty()) return reason;
      }
    }
    if (std::string reason = of_groups(); !reason.empty()) return reason;
    if (std::string reason = between(); !reason.empty()) return reason;
    return in_order();
  }

 private:
  /// What the chain pass says of the two.
  std::string of_chains() const {
    for (OpId id : group(to_).ops) {
      const auto it = fusion_.kept_apart.find({value_, id});
      if (it != fusion_.kept_apart.end()) return it->second;
    }
    const auto multiplies = [](FamilyId f) { return f == FamilyId::dot || f == FamilyId::chain; };
    const FamilyId from = group(from_).family, to = group(to_).family;
    const bool pair = (multiplies(from) && (multiplies(to) || to == FamilyId::row)) ||
                      (from == FamilyId::row && multiplies(to));
    const bool joined = from == FamilyId::chain || to == FamilyId::chain;
    if (!pair || (!joined && !(multiplies(to) && multiplies(from)))) return {};
    if (!chain_on_) return "products are joined by the pass chain alone, which is off";
    return "the pass chain joins only what a product or a reduction of the second reads";
  }

  struct Traits {
    Domain domain;
    bool scatters = false, in_place = false, only_maps = true;
    std::set<ValueId> reads;  // from memory
  };

  const Group& group(uint32_t g) const { return fusion_.groups[g]; }

  std::string name(OpId id) const { return quoted_label(g_, g_.op(id)); }

  ValueId work_of(const ir::Op& op) const {
    if (op.kind == OpKind::reduce) return op.operands[0];
    return stores_state(g_, op) ? op.operands[1] : op.result;
  }

  Traits traits_of(const Group& group) const {
    Traits t;
    std::set<OpId> mine(group.ops.begin(), group.ops.end());
    for (OpId id : group.ops) {
      const ir::Op& op = g_.op(id);
      if (id == group.ops[0]) t.domain = Domain::of(g_.type(work_of(op)).shape.numel());
      if (op.kind == OpKind::reduce && !t.domain.reduced()) {
        const Domain d =
            Domain::of(g_.type(op.operands[0]).shape, std::get<ir::ReduceAttr>(op.attrs).axes);
        if (d.reduced()) t.domain = d;
      }
      t.scatters = t.scatters || op.kind == OpKind::scatter;
      t.only_maps = t.only_maps && op.kind == OpKind::map;
      for (ValueId v : values_used(g_, facts_, op)) {
        if (!mine.contains(g_.value(v).def)) t.reads.insert(v);
      }
      t.in_place = t.in_place || (g_.value(op.result).state && t.reads.contains(op.operands[0]));
    }
    return t;
  }

  /// What the op at `id` does with the value, as its operand `i`.
  std::string of_operand(OpId id, size_t i) {
    const ir::Op& op = g_.op(id);
    const std::string who = name(id);
    for (const uint32_t g : {to_, from_}) {
      if (group(g).family != FamilyId::user) continue;
      return fmt::format("{} is a kernel of the user's, which is one by itself",
                         name(group(g).ops[0]));
    }
    if (g_.value(value_).state) {
      return fmt::format(
          "{} needs the param after it was changed, and no kernel reads a version "
          "that it makes",
          who);
    }
    if (op.kind == OpKind::dot) {
      return fmt::format("{} reads its operands from memory, each element many times", who);
    }
    if (op.kind == OpKind::concat) {
      return fmt::format(
          "{} computes {}", who,
          chain_on_ ? "only what maps and gathers make of not much more, and nobody else reads"
                    : "no operands, since the pass chain is off");
    }
    if (op.kind == OpKind::gather || (op.kind == OpKind::scatter && i > 0)) {
      return fmt::format("{} reads from memory: the index decides which element", who);
    }
    if (op.kind == OpKind::update && i > 1) {
      return fmt::format("{} needs the place before it starts", who);
    }
    if (group(from_).family == FamilyId::dot && op.kind != OpKind::map &&
        op.kind != OpKind::assign) {
      return fmt::format("a dot takes only ops element by element on its result, and {} is none",
                         who);
    }
    return of_index(id, op.operands[i]);
  }

  /// Whether the op could read the value at its own index in the group that makes it.
  std::string of_index(OpId id, ValueId operand) {
    const ir::Op& op = g_.op(id);
    const Domain& d = a_.domain;
    const int64_t elements = g_.type(work_of(op)).shape.numel();
    const bool row = d.reduced() && elements == d.rows;
    if (!row && elements != d.full) {
      return fmt::format("{} works on {} elements and its operand's kernel on {}", name(id),
                         elements, d.full);
    }
    if (op.kind == OpKind::reduce) {
      const Domain mine =
          Domain::of(g_.type(op.operands[0]).shape, std::get<ir::ReduceAttr>(op.attrs).axes);
      if (a_.scatters) return "a reduction would walk a scatter's indices once more";
      if (row || (d.reduced() && !mine.same_rows(d))) {
        return fmt::format("{} reduces other axes than its operand's kernel", name(id));
      }
      if (a_.in_place) {
        return fmt::format("{} would read a param again after the kernel overwrote it", name(id));
      }
    }
    const bool from_row = g_.type(value_).shape.numel() == d.rows && d.reduced();
    const bool same =
        paths_.is_identity(operand) || (from_row && !row && paths_.is_row_broadcast(operand, d));
    if (!same) {
      return fmt::format("{} reads it at another index than its own, through {}", name(id),
                         views_of(operand));
    }
    if (from_row && !row && op.kind == OpKind::reduce) {
      return fmt::format("{} reduces what was reduced already", name(id));
    }
    if (d.reduced() && !d.rows_adjacent() && !row && op.kind != OpKind::reduce &&
        g_.type(work_of(op)).shape != d.shape) {
      return fmt::format(
          "{} has another shape than what was reduced, along axes that are not the "
          "last",
          name(id));
    }
    return {};
  }

  /// "a transpose", "a broadcast and a reshape": the views between.
  std::string views_of(ValueId v) const {
    std::string out;
    for (; v != value_; v = g_.def(v).operands[0]) {
      const ir::Op& op = g_.def(v);
      if (op.operands.empty()) break;
      if (op.kind == OpKind::view) out += (out.empty() ? "" : ", ") + ir::mnemonic(op);
    }
    return out.empty() ? "a view" : out;
  }

  std::string of_groups() const {
    const Domain& a = a_.domain;
    const Domain& b = b_.domain;
    if (group(to_).family == FamilyId::dot) {
      if (!a_.only_maps) return "a dot takes over only what works element by element";
      if (a.full == b.full) {
        return "a dot takes over only what nobody else waits for, and what is ready with it";
      }
    }
    if (a.full != b.full) {
      return fmt::format("one kernel walks {} elements, the other {}", a.full, b.full);
    }
    if ((a_.scatters && b.reduced()) || (b_.scatters && a.reduced())) {
      return "a reduction's passes would walk a scatter's indices once more each";
    }
    if (a.reduced() && b.reduced() && !a.same_rows(b)) return "they reduce over different axes";
    if ((a.reduced() || b.reduced()) && (a_.in_place || b_.in_place)) {
      return "one changes a param in place and the other reduces: rows are read by many threads";
    }
    const size_t ops = group(from_).ops.size() + group(to_).ops.size();
    if (ops > kMaxGroupOps) {
      return fmt::format("together they have {} ops, and a kernel has at most {}", ops,
                         kMaxGroupOps);
    }
    std::set<ValueId> reads = a_.reads;
    reads.insert(b_.reads.begin(), b_.reads.end());
    const size_t arguments = reads.size() + group(from_).outputs.size() + group(to_).outputs.size();
    if (arguments > kMaxGroupArguments) {
      return fmt::format("together they take {} tensors, and a kernel takes at most {}", arguments,
                         kMaxGroupArguments);
    }
    return {};
  }

  /// The groups that a group needs, by data and by order.
  std::set<uint32_t> before(uint32_t g) const {
    std::set<uint32_t> out;
    const auto add = [&](OpId op) {
      const uint32_t other = fusion_.group_of[op.index];
      if (other != kNone && other != g) out.insert(other);
    };
    for (OpId id : group(g).ops) {
      for (ValueId v : values_used(g_, facts_, g_.op(id))) add(g_.value(v).def);
      for (OpId b : facts_.before[id.index]) add(b);
    }
    return out;
  }

  /// A group that needs `from` and that `to` needs: one kernel of both could not wait for it.
  std::string between() const {
    std::set<uint32_t> seen;
    std::vector<uint32_t> queue;
    for (uint32_t g : before(to_)) {
      if (g != from_ && seen.insert(g).second) queue.push_back(g);
    }
    for (size_t at = 0; at < queue.size(); ++at) {
      for (uint32_t g : before(queue[at])) {
        if (g == from_) {
          return fmt::format("{} lies between: it needs the one, and the other needs it",
                             name(group(queue[at]).ops.back()));
        }
        if (g > from_ && seen.insert(g).second) queue.push_back(g);  // groups are in order
      }
    }
    return {};
  }

  std::string in_order() const {
    return fmt::format(
        "ops are placed one by one in the model's order, and {} had begun a kernel, "
        "or joined another, on which something else already waited",
        name(group(to_).ops.front()));
  }

  const ir::Graph& g_;
  const FuseFacts facts_;
  const Fusion& fusion_;
  const uint32_t from_, to_;
  const ValueId value_;
  const bool chain_on_;
  Paths paths_;
  const Traits a_, b_;
};

}  // namespace

std::string why_apart(const ir::Graph& graph, const HomePlan& homes, const Fusion& fusion,
                      uint32_t from, uint32_t to, ir::ValueId value, const Options& options) {
  if (from == to || from == kNone || to == kNone) return {};
  if (!options.fuse) return "fusion is off";
  return Why(graph, homes, fusion, from, to, value, options.chain).run();
}

}  // namespace braid
