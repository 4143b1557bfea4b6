// What the control pass builds with: a graph under construction, and bodies copied into it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// A graph under construction that gives its params and inputs names of their own.
class Draft {
 public:
  /// An empty graph with the name, dims and repeats of `like`.
  explicit Draft(const ir::Graph& like);

  ir::Graph graph;

  /// Keeps the names of that graph's inputs and params for their own copies.
  void reserve(const ir::Graph& from);
  /// What ops that are made from now on are called, and where they come from.
  void stand_for(std::string_view name, ir::Loc loc);
  /// A place of another graph in this one's terms.
  ir::Loc place(const ir::Graph& from, ir::Loc loc);

  ir::ValueId add(ir::OpKind kind, ir::Attrs attrs, std::vector<ir::ValueId> operands);
  ir::ValueId input(std::string_view name, const TensorType& type);
  ir::ValueId param(std::string_view name, const TensorType& type, ir::Attrs sort);
  ir::ValueId read(ir::ValueId version);
  ir::ValueId assign(ir::ValueId version, ir::ValueId value);
  /// Writes `rows` from index `at` (i32[]) of the first axis on.
  ir::ValueId update_rows(ir::ValueId version, ir::ValueId rows, ir::ValueId at);
  ir::ValueId map(Fn fn, std::vector<ir::ValueId> operands);
  ir::ValueId number(int64_t x);  // i32[]
  ir::ValueId truth(bool x);      // b1[]
  /// [1, ..] with the elements of `v`.
  ir::ValueId as_row(ir::ValueId v);
  /// `at`, at + 1, .., at + count - 1, each i32[], from one kernel.
  std::vector<ir::ValueId> numbers_from(ir::ValueId at, int64_t count);
  /// A scalar in every element of that shape.
  ir::ValueId spread(ir::ValueId scalar, const Shape& shape);

  /// A copy of an op of a body; params and inputs are renamed where their names are taken.
  ir::ValueId clone(const ir::Graph& from, ir::OpId id, std::vector<ir::ValueId> operands);

 private:
  ir::StrId fresh(std::string_view name);

  ir::StrId name_;
  ir::Loc loc_;
  std::unordered_map<std::string, uint32_t> taken_;  // by name: how often it was asked for
};

/// Copies a body into other graphs.
class Inliner {
 public:
  /// The first `arguments` ops of the body are its arguments.
  Inliner(const ir::Graph& body, size_t arguments);

  /// Whether the body makes a version of argument `k`.
  bool writes(size_t k) const { return newest_[k] != body_->ops()[k].result; }
  /// By argument: whether an op or an output takes it.
  const std::vector<bool>& used() const { return used_; }

  struct Result {
    std::vector<ir::ValueId> outputs;
    std::vector<ir::ValueId> versions;  // by argument: the newest one of state
  };
  /// args[k] stands for argument k: a value, a version, or, for a param that the body only reads,
  /// what it reads. One that is not used may be invalid. `made`: values of the body that exist
  /// already, each with its copy.
  Result into(Draft& to, std::span<const ir::ValueId> args,
              std::span<const std::pair<ir::ValueId, ir::ValueId>> made = {}) const;

 private:
  const ir::Graph* body_;
  std::vector<ir::ValueId> newest_;
  std::vector<bool> used_;
};

}  // namespace braid
