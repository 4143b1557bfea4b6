// The rewrites of simplify: each turns one op into another of the same type, or into a value that
// exists already. Only what keeps every bit of the result.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// A copy of a graph's ops under rewriting. Values and types are those of the graph.
class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& graph);

  std::vector<ir::Op> ops;
  std::vector<ir::Literal> literals;

  /// The value that stands for `v` now.
  ir::ValueId now(ir::ValueId v) const { return to_[v.index]; }
  void replace(ir::ValueId v, ir::ValueId by) { to_[v.index] = by; }
  const TensorType& type(ir::ValueId v) const { return graph_.type(v); }

  /// Applies rules to op `i`, whose operands are rewritten already, until none fits. True if its
  /// value was replaced by an earlier one.
  bool rewrite(uint32_t i);
  /// Gives equal literals one number.
  void intern_literal(ir::Op& op);

 private:
  const ir::Op& def(ir::ValueId v) const { return ops[graph_.value(v).def.index]; }
  const ir::Literal* splat(ir::ValueId v) const;
  bool is_number(ir::ValueId v, double x) const;

  /// What a rule did: nothing, changed the op in place, or found the value that equals it.
  struct Step {
    bool changed = false;
    ir::ValueId value{};
  };
  Step step(ir::Op& op);
  Step map(ir::Op& op);
  Step arithmetic(const ir::Op& op, Fn fn) const;
  Step cast(ir::Op& op);
  Step view(ir::Op& op);
  Step state(ir::Op& op);
  Step become_constant(ir::Op& op, ir::Literal literal);

  const ir::Graph& graph_;
  std::vector<ir::ValueId> to_;
  std::unordered_multimap<uint64_t, uint32_t> literal_index_;
};

}  // namespace braid
