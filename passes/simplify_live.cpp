#include "passes/simplify_live.hpp"

#include <algorithm>

#include "ir/region.hpp"
#include "passes/free_ops.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

class Finder {
 public:
  Finder(const ir::Graph& graph, const Rewriter& rewriter, size_t arguments)
      : g_(graph), rewriter_(rewriter), arguments_(arguments) {
    found_.live.assign(graph.ops().size(), false);
    found_.through.assign(graph.values().size(), {});
  }

  Liveness run() {
    follow_versions();
    for (const ir::Output& output : g_.outputs) mark(rewriter_.now(output.value));
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const ir::Op& op = g_.ops()[i];
      if (stays(i) || acts_on_host(g_, op)) found_.live[i] = true;
    }
    for (size_t i = rewriter_.ops.size(); i-- > 0;) {
      if (!found_.live[i]) continue;
      for (ValueId v : rewriter_.ops[i].operands) mark(v);
    }
    return std::move(found_);
  }

 private:
  /// Whether it is part of what the graph is called with.
  bool stays(uint32_t i) const {
    const ir::Op& op = g_.ops()[i];
    return i < arguments_ || op.kind == OpKind::input ||
           std::holds_alternative<ir::ParamAttr>(op.attrs);
  }

  void follow_versions() {
    std::vector<uint32_t> param_of(g_.values().size(), UINT32_MAX);
    std::vector<ValueId> newest(g_.ops().size());  // by param
    const auto next = [&](ValueId before, ValueId after) {
      const uint32_t param = param_of[after.index] = param_of[before.index];
      newest[param] = after;
    };
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const ir::Op& op = g_.ops()[i];
      if (op.kind == OpKind::param) {
        param_of[op.result.index] = i;
        newest[i] = op.result;
      } else if (ir::is_region(op.kind)) {
        for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
          if (!g_.value(op.operands[k]).state) continue;
          const ValueId after = ir::next_version(g_, op, k);
          if (!writes(op, k)) found_.through[after.index] = op.operands[k];
          next(op.operands[k], after);
        }
      } else {
        for (auto [before, after] : ir::versions_made(g_, op)) next(before, after);
      }
    }
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const ir::Op& op = g_.ops()[i];
      if (op.kind != OpKind::param) continue;
      const ValueId last = unwritten(rewriter_.now(newest[i]));
      const bool sent = std::holds_alternative<ir::RingAttr>(op.attrs) && last != op.result;
      if (stays(i) || sent) mark(last);
    }
  }

  bool writes(const ir::Op& op, size_t k) const {
    const size_t at = k - ir::first_argument(op) + ir::first_operand_argument(op);
    const std::vector<uint32_t> bodies = ir::bodies_of(op);
    return std::any_of(bodies.begin(), bodies.end(),
                       [&](uint32_t b) { return ir::writes_argument(g_.bodies[b], at); });
  }

  ValueId unwritten(ValueId v) const {
    while (found_.through[v.index].valid()) v = rewriter_.now(found_.through[v.index]);
    return v;
  }
  void mark(ValueId v) { found_.live[g_.value(unwritten(v)).def.index] = true; }

  const ir::Graph& g_;
  const Rewriter& rewriter_;
  size_t arguments_;
  Liveness found_;
};

}  // namespace

Liveness find_live(const ir::Graph& graph, const Rewriter& rewriter, size_t arguments) {
  return Finder(graph, rewriter, arguments).run();
}

}  // namespace braid
