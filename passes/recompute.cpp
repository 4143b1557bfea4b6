#include "passes/recompute.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// What it takes to compute a value from leaves.
struct Recipe {
  bool possible = false;
  int cost = 0;
  int memory_leaves = 0;
  int views = 0;  // on the longest way to a leaf
};

class Recomputer {
 public:
  explicit Recomputer(ir::Graph& graph)
      : graph_(graph), recipes_(graph.values().size()), replaced_(graph.values().size(), false) {}

  void run() {
    for (const ir::Op& op : graph_.ops()) {
      if (!makes_state(graph_, op)) continue;
      for (ValueId v : op.operands) {
        if (graph_.value(v).state) replaced_[v.index] = true;
      }
    }
    bool any = false;
    for (const ir::Op& op : graph_.ops()) {
      recipes_[op.result.index] = recipe_of(op);
      for (ValueId v : op.operands) any = any || recomputes(op, v);
    }
    if (any) rebuild();
  }

 private:
  Recipe recipe_of(const ir::Op& op) const {
    switch (op.kind) {
      case OpKind::input:
        return {true, 0, 1};
      case OpKind::read:
        return {!replaced_[op.operands[0].index], 0, 1};
      case OpKind::constant:
      case OpKind::iota:
        return {true, 0, is_inline(graph_, op.result) ? 0 : 1};
      case OpKind::view: {
        Recipe r = recipes_[op.operands[0].index];
        if (!r.possible || ++r.views > kMostViewsRecomputed) return {};
        return r;
      }
      case OpKind::map: {
        if (op.outside) return {};
        Recipe sum{true, info(std::get<ir::MapAttr>(op.attrs).fn).cost, 0};
        for (ValueId v : op.operands) {
          const Recipe& r = recipes_[v.index];
          sum.possible = sum.possible && r.possible;
          sum.cost += r.cost;
          sum.memory_leaves += r.memory_leaves;
          sum.views = std::max(sum.views, r.views);
        }
        // What cannot be had counts nothing, or the numbers would double with every `x + x`.
        if (!sum.possible || sum.cost > kMostRecomputed || sum.memory_leaves > 1) return {};
        return sum;
      }
      default:
        return {};
    }
  }

  ValueId below_views(ValueId v) const {
    while (graph_.def(v).kind == OpKind::view) v = graph_.def(v).operands[0];
    return v;
  }

  bool recomputes(const ir::Op& user, ValueId v) const {
    if (user.kind != OpKind::map && user.kind != OpKind::reduce) return false;
    if (user.outside) return false;  // what it computes again would stand in graphs
    if (!recipes_[v.index].possible) return false;
    const ValueId made = below_views(v);
    return graph_.def(made).kind == OpKind::map &&
           graph_.type(v).shape.numel() > graph_.type(made).shape.numel();
  }

  void mark_leaves(ValueId v, std::vector<bool>& live) const {
    const ir::Op& op = graph_.def(v);
    if (op.kind == OpKind::view || op.kind == OpKind::map) {
      for (ValueId operand : op.operands) mark_leaves(operand, live);
    } else {
      live[graph_.value(v).def.index] = true;
    }
  }

  /// What outputs, state and the interface need when the uses are recomputed.
  std::vector<bool> find_live() const {
    std::vector<bool> live(graph_.ops().size(), false);
    for (const ir::Output& o : graph_.outputs) live[graph_.value(o.value).def.index] = true;
    for (size_t i = live.size(); i-- > 0;) {
      const ir::Op& op = graph_.ops()[i];
      live[i] = live[i] || op.kind == OpKind::input || op.kind == OpKind::host ||
                makes_state(graph_, op) || acts_on_host(graph_, op);
      if (!live[i]) continue;
      for (ValueId v : op.operands) {
        if (recomputes(op, v)) {
          mark_leaves(v, live);
        } else {
          live[graph_.value(v).def.index] = true;
        }
      }
    }
    return live;
  }

  void rebuild() {
    const std::vector<bool> live = find_live();
    out_.name = graph_.name;
    out_.strings = graph_.strings;
    out_.dims = graph_.dims;
    out_.repeats = graph_.repeats;
    to_.resize(graph_.values().size());
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (!live[i]) continue;
      const ir::Op& op = graph_.ops()[i];
      std::vector<ValueId> operands;
      for (ValueId v : op.operands) {
        std::vector<const ir::Op*> views;
        operands.push_back(recomputes(op, v) ? again(v, views) : to_[v.index]);
      }
      map_results(to_, op, out_.clone_op(graph_, OpId{i}, std::move(operands)));
    }
    for (const ir::Output& o : graph_.outputs) {
      out_.outputs.push_back({o.name, to_[o.value.index], o.loc});
    }
    graph_ = std::move(out_);
  }

  /// `v` under `views`, the last of which is applied first.
  ValueId again(ValueId v, std::vector<const ir::Op*>& views) {
    const ir::Op& op = graph_.def(v);
    if (op.kind == OpKind::view) {
      views.push_back(&op);
      const ValueId made = again(op.operands[0], views);
      views.pop_back();
      return made;
    }
    if (op.kind == OpKind::map) {
      std::vector<ValueId> operands;
      for (ValueId operand : op.operands) operands.push_back(again(operand, views));
      const Shape shape = graph_.type(views.empty() ? v : views.front()->result).shape;
      return out_.add({op.kind, op.attrs, std::move(operands),
                       TensorType{graph_.type(v).dtype, shape}, op.name, op.loc});
    }
    ValueId made = to_[v.index];
    for (size_t i = views.size(); i-- > 0;) {
      const TensorType type{graph_.type(v).dtype, graph_.type(views[i]->result).shape};
      made = out_.add({OpKind::view, views[i]->attrs, {made}, type, views[i]->name, views[i]->loc});
    }
    return made;
  }

  ir::Graph& graph_;
  std::vector<Recipe> recipes_;
  std::vector<bool> replaced_;  // by version
  ir::Graph out_;
  std::vector<ValueId> to_;
};

}  // namespace

void recompute_broadcasts(ir::Graph& graph) { Recomputer(graph).run(); }

}  // namespace braid
