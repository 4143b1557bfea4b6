#include "passes/home.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ir/region.hpp"
#include "passes/dynamic_order.hpp"
#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// `reader` uses `version`, which `writer` overwrites.
struct Use {
  OpId reader;
  ValueId version;
  OpId writer;
};

class Planner {
 public:
  explicit Planner(ir::Graph& graph)
      : graph_(graph),
        source_(memory_sources(graph)),
        writer_(graph.values().size()),
        order_(graph) {}

  HomePlan run() {
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const ir::Op& op = graph_.ops()[i];
      if (!makes_state(graph_, op)) continue;
      for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
        if (graph_.value(op.operands[k]).state) writer_[op.operands[k].index] = OpId{i};
      }
    }
    order_host_ops();
    order_uses();
    find_output_copies();
    if (order_.moved() || !copied_.empty() || !early_.empty()) rebuild();
    append_output_copies();
    for (auto [from, to] : edges_) plan_.order.push_back({from, to});
    std::sort(plan_.order.begin(), plan_.order.end());
    plan_.order.erase(std::unique(plan_.order.begin(), plan_.order.end()), plan_.order.end());
    return std::move(plan_);
  }

 private:
  /// Host ops with side effects keep the order in which they are written.
  void order_host_ops() {
    OpId before;
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (!acts_on_host(graph_, graph_.ops()[i])) continue;
      if (before.valid()) {
        order_.add(before, OpId{i});
        edges_.emplace_back(before, OpId{i});
      }
      before = OpId{i};
    }
  }

  void order_uses() {
    std::vector<Use> backward;
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const ir::Op& op = graph_.ops()[i];
      if (!is_work(op)) continue;
      for (ValueId v : op.operands) {
        const ValueId version = source_[v.index];
        if (graph_.value(v).state || !writer_[version.index].valid()) continue;
        const Use use{OpId{i}, version, writer_[version.index]};
        if (use.reader == use.writer) {
          const OpKind below = graph_.def(memory_root(graph_, v)).kind;
          if (op.kind != OpKind::assign || below != OpKind::read) give_copy(use);
        } else if (order_.stands_before(use.reader, use.writer)) {
          order_.add(use.reader, use.writer);
          edges_.emplace_back(use.reader, use.writer);
        } else {
          backward.push_back(use);
        }
      }
    }
    // These can fail; the ones that agree with the op order cannot, so they went first.
    for (const Use& use : backward) {
      if (order_.add(use.reader, use.writer)) {
        edges_.emplace_back(use.reader, use.writer);
      } else {
        give_copy(use);
      }
    }
  }

  void give_copy(const Use& use) {
    copied_.emplace(use.version.index, use.writer.index);
    takes_copy_.emplace(use.reader.index, use.version.index);
  }

  void find_output_copies() {
    std::vector<bool> taken(graph_.values().size(), false);
    for (uint32_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId v = graph_.outputs[i].value;
      const ValueId root = memory_root(graph_, v);
      // A variable that is read has one home, so one output at most is its last version.
      const ir::Op& made = graph_.def(root);
      const ValueId home = made.kind == OpKind::read ? made.operands[0] : root;
      const bool last = made.kind != OpKind::read || !writer_[home.index].valid();
      if (may_be_output(graph_, root) && last && !taken[home.index]) {
        taken[home.index] = true;
        continue;
      }
      const ValueId version = source_[v.index];
      if (graph_.value(version).state && writer_[version.index].valid()) {
        early_.emplace_back(writer_[version.index].index, i);
      } else {
        late_.push_back(i);
      }
    }
    std::sort(early_.begin(), early_.end());
  }

  ValueId add_copy(ir::Graph& graph, ValueId of, std::string_view name, ir::Loc loc) {
    return graph.add({OpKind::map,
                      ir::MapAttr{Fn::cast},
                      {of},
                      graph.type(of),
                      name.empty() ? ir::StrId{} : graph.strings.intern(name),
                      loc});
  }

  /// Writes the graph anew in the dynamic order; copies stand right before the write that they
  /// escape, which is before every op that takes one.
  void rebuild() {
    out_ = ir::Graph(graph_.name);
    out_.dims = graph_.dims;
    out_.repeats = graph_.repeats;
    to_.assign(graph_.values().size(), {});
    with_copy_.assign(graph_.values().size(), {});
    copy_of_.assign(graph_.values().size(), {});
    std::vector<std::pair<uint32_t, uint32_t>> by_writer;
    for (auto [version, writer] : copied_) by_writer.emplace_back(writer, version);
    std::sort(by_writer.begin(), by_writer.end());

    std::vector<ValueId> output_to(graph_.outputs.size());
    std::vector<std::pair<ValueId, OpId>> copy_edges;  // from the copy, to the old writer
    for (OpId id : order_.ops()) {
      const ir::Op& op = graph_.op(id);
      if (op.kind == OpKind::view || op.kind == OpKind::read) continue;  // written where used
      if (makes_state(graph_, op)) {
        const auto first = std::lower_bound(by_writer.begin(), by_writer.end(),
                                            std::make_pair(id.index, uint32_t{0}));
        for (auto it = first; it != by_writer.end() && it->first == id.index; ++it) {
          const ValueId version{it->second};
          const ValueId read =
              out_.add({OpKind::read, {}, {to_[it->second]}, graph_.type(version)});
          const ValueId copy = add_copy(out_, read, old_name(version), carry(op.loc));
          copy_of_[it->second] = copy;
          plan_.copies.push_back(out_.value(copy).def);
          copy_edges.emplace_back(copy, id);
        }
        auto output =
            std::lower_bound(early_.begin(), early_.end(), std::make_pair(id.index, uint32_t{0}));
        for (; output != early_.end() && output->first == id.index; ++output) {
          const ir::Output& o = graph_.outputs[output->second];
          const ValueId copy = add_copy(out_, here(o.value), o.name, carry(o.loc));
          output_to[output->second] = copy;
          plan_.output_copies.push_back(out_.value(copy).def);
          copy_edges.emplace_back(copy, id);
        }
      }
      std::vector<ValueId> operands;
      for (ValueId v : op.operands) {
        const bool copied = takes_copy_.contains({id.index, source_[v.index].index});
        operands.push_back(copied && !graph_.value(v).state ? from_copy(v) : here(v));
      }
      map_results(to_, op, out_.clone_op(graph_, id, std::move(operands)));
    }
    for (uint32_t i = 0; i < graph_.outputs.size(); ++i) {
      const ir::Output& o = graph_.outputs[i];
      const ValueId v = output_to[i].valid() ? output_to[i] : here(o.value);
      out_.outputs.push_back({o.name, v, carry(o.loc)});
    }
    const auto new_id = [&](OpId id) { return out_.value(to_[graph_.op(id).result.index]).def; };
    for (auto& [from, to] : edges_) std::tie(from, to) = std::make_pair(new_id(from), new_id(to));
    for (auto [copy, writer] : copy_edges) {
      edges_.emplace_back(out_.value(copy).def, new_id(writer));
    }
    graph_ = std::move(out_);
  }

  /// The new graph's value for `v`; views and reads are cloned where they are first used.
  ValueId here(ValueId v) {
    ValueId& to = to_[v.index];
    if (!to.valid()) {
      const ir::Op& op = graph_.def(v);
      const ValueId operand = here(op.operands[0]);
      to_[v.index] = out_.clone_op(graph_, graph_.value(v).def, {operand});
    }
    return to_[v.index];
  }
  /// The same with the copy of a version in place of its read.
  ValueId from_copy(ValueId v) {
    if (with_copy_[v.index].valid()) return with_copy_[v.index];
    const ir::Op& op = graph_.def(v);
    if (op.kind == OpKind::read) return copy_of_[op.operands[0].index];
    const ValueId operand = from_copy(op.operands[0]);
    return with_copy_[v.index] = out_.clone_op(graph_, graph_.value(v).def, {operand});
  }

  void append_output_copies() {
    for (uint32_t i : late_) {
      ir::Output& o = graph_.outputs[i];
      o.value = add_copy(graph_, o.value, o.name, o.loc);
      plan_.output_copies.push_back(graph_.value(o.value).def);
    }
  }

  std::string old_name(ValueId version) const {
    return fmt::format("{}/old", graph_.name_of(ir::param_of(graph_, version)));
  }
  ir::Loc carry(ir::Loc loc) {
    if (loc.file.valid()) loc.file = out_.strings.intern(graph_.strings[loc.file]);
    return loc;
  }

  ir::Graph& graph_;
  std::vector<ValueId> source_;
  std::vector<OpId> writer_;  // by version: the op that makes the next one
  DynamicOrder order_;
  std::vector<std::pair<OpId, OpId>> edges_;
  std::set<std::pair<uint32_t, uint32_t>> copied_;      // version, its next writer
  std::set<std::pair<uint32_t, uint32_t>> takes_copy_;  // op, version
  std::vector<std::pair<uint32_t, uint32_t>> early_;    // writer, output of the version before it
  std::vector<uint32_t> late_;                          // outputs that are copied at the end
  HomePlan plan_;

  ir::Graph out_;
  std::vector<ValueId> to_, with_copy_, copy_of_;
};

}  // namespace

HomePlan plan_homes(ir::Graph& graph) { return Planner(graph).run(); }

std::string HomePlan::print(const ir::Graph& graph) const {
  const auto label = [&](OpId id) {
    const std::string_view name = graph.name_of(id);
    return fmt::format("{}{}{}", ir::info(graph.op(id).kind).name, name.empty() ? "" : " ", name);
  };
  std::string text =
      fmt::format("homes: order edges {}, copies of old versions {}, copies of outputs {}\n",
                  order.size(), copies.size(), output_copies.size());
  for (const OrderEdge& e : order) {
    text += fmt::format("order: op {} ({}) before op {} ({})\n", e.from.index, label(e.from),
                        e.to.index, label(e.to));
  }
  for (OpId id : copies) text += fmt::format("old version: op {} ({})\n", id.index, label(id));
  for (OpId id : output_copies) text += fmt::format("output: op {} ({})\n", id.index, label(id));
  return text;
}

}  // namespace braid
