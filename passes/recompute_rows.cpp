#include "passes/recompute_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

class Repeater {
 public:
  explicit Repeater(ir::Graph& graph) : graph_(graph), users_(graph.users()) {
    for (const ir::Output& o : graph.outputs) kept_.insert(o.value);
  }

  void run() {
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      if (graph_.ops()[i].kind == OpKind::map) look_at(OpId{i});
    }
    if (!repeated_.empty()) rebuild();
  }

 private:
  /// The products that read the value through views, if nothing else does; with those views.
  bool find_products(ValueId v, std::set<OpId>& products, std::set<OpId>& views) const {
    if (kept_.contains(v)) return false;
    for (const OpId id : users_[v.index]) {
      const ir::Op& op = graph_.op(id);
      if (op.outside) return false;
      if (op.kind == OpKind::view) {
        views.insert(id);
        if (!find_products(op.result, products, views)) return false;
      } else if (op.kind == OpKind::dot && op.operands[0] == v && op.operands[1] != v) {
        products.insert(id);
      } else {
        return false;
      }
    }
    return true;
  }

  void look_at(OpId id) {
    const ValueId made = graph_.op(id).result;
    const Shape& shape = graph_.type(made).shape;
    const int64_t elements = shape.numel();
    if (shape.rank() == 0 || elements == 0 || elements > kMostElementsRepeated) return;
    if (elements / shape[shape.rank() - 1].value() > kMostRowsRepeated) return;
    std::set<OpId> products, views;
    if (!find_products(made, products, views) || products.size() < 2 ||
        products.size() > kMostProductsBehind) {
      return;
    }
    const std::vector<OpId> ops = what_makes(id);
    const bool reduces = std::any_of(ops.begin(), ops.end(),
                                     [&](OpId o) { return graph_.op(o).kind == OpKind::reduce; });
    if (!reduces || ops.size() > kMostOpsRepeated) return;
    std::set<OpId> all(ops.begin(), ops.end());
    all.insert(views.begin(), views.end());
    // The first product has what is there already.
    for (auto product = std::next(products.begin()); product != products.end(); ++product) {
      repeated_[*product].assign(all.begin(), all.end());
    }
  }

  /// The op and those before it that serve it alone, in graph order.
  std::vector<OpId> what_makes(OpId last) const {
    std::set<OpId> inside{last};
    std::vector<OpId> ops;
    for (auto it = inside.rbegin(); it != inside.rend() && ops.size() <= kMostOpsRepeated;
         it = inside.rbegin()) {
      const OpId id = *it;
      inside.erase(id);
      ops.push_back(id);
      for (const ValueId v : graph_.op(id).operands) {
        const OpId maker = graph_.value(v).def;
        const OpKind kind = graph_.op(maker).kind;
        if (kind != OpKind::map && kind != OpKind::view && kind != OpKind::reduce) continue;
        if (kept_.contains(v) || graph_.op(maker).outside) continue;
        // Its users come later in the graph, so all that are inside have been seen.
        const bool alone = std::all_of(users_[v.index].begin(), users_[v.index].end(), [&](OpId u) {
          return inside.contains(u) || std::find(ops.begin(), ops.end(), u) != ops.end();
        });
        if (alone) inside.insert(maker);
      }
    }
    std::reverse(ops.begin(), ops.end());
    return ops;
  }

  void rebuild() {
    ir::Graph out;
    out.name = graph_.name;
    out.strings = graph_.strings;
    out.dims = graph_.dims;
    out.repeats = graph_.repeats;
    std::vector<ValueId> to(graph_.values().size());
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const ir::Op& op = graph_.ops()[i];
      std::map<ValueId, ValueId> again;
      const auto now = [&](ValueId v) {
        const auto it = again.find(v);
        return it == again.end() ? to[v.index] : it->second;
      };
      const auto clone = [&](OpId id) {
        std::vector<ValueId> operands;
        for (const ValueId v : graph_.op(id).operands) operands.push_back(now(v));
        return out.clone_op(graph_, id, std::move(operands));
      };
      if (const auto it = repeated_.find(OpId{i}); it != repeated_.end()) {
        for (const OpId id : it->second) again[graph_.op(id).result] = clone(id);
      }
      map_results(to, op, clone(OpId{i}));
    }
    for (const ir::Output& o : graph_.outputs) {
      out.outputs.push_back({o.name, to[o.value.index], o.loc});
    }
    graph_ = std::move(out);
  }

  ir::Graph& graph_;
  std::vector<std::vector<OpId>> users_;
  std::set<ValueId> kept_;
  std::map<OpId, std::vector<OpId>> repeated_;  // by product: what it gets for itself
};

}  // namespace

void repeat_rows(ir::Graph& graph) { Repeater(graph).run(); }

}  // namespace braid
