// Runs a graph and the bodies in it on arguments that are given by position.
#pragma once

#include <memory>
#include <vector>

#include "ir/interpret.hpp"

namespace braid::ir {

/// Values are shared: a read, its source and a body's argument are one tensor.
using TensorRef = std::shared_ptr<const WideTensor>;

/// Of one graph, prepared once however often it runs.
class Evaluator {
 public:
  /// What is the same for a graph and all bodies in it.
  struct Run {
    Rounding rounding = Rounding::wide;
    const HostFunctions& functions;
    Observed* observed = nullptr;
  };
  struct Results {
    std::vector<TensorRef> outputs;
    /// The last versions of the params among the arguments, by position; null elsewhere.
    std::vector<TensorRef> versions;
  };

  explicit Evaluator(const Graph& graph);

  /// `arguments`: of the first ops, as many as there are. A param without one (null, or an op after
  /// these) holds nothing at first; an input must have one.
  Results run(std::vector<TensorRef> arguments, const Run& run) const;

 private:
  using Values = std::vector<TensorRef>;

  TensorRef evaluate(const Op& op, const Values& values, const Run& run) const;
  WideTensor compute(const Op& op, const Values& values, const Run& run) const;
  void call(const Op& op, Values& values, const Run& run) const;
  void call(const Op& op, std::string_view function, Values& values, const Run& run) const;
  void code(const Op& op, Values& values, const Run& run) const;
  void compact(const Op& op, Values& values) const;
  void send(const Op& op, const Values& values, const Run& run) const;
  void branch(const Op& op, Values& values, const Run& run) const;
  void loop(const Op& op, Values& values, const Run& run) const;
  void loop_by_flag(const Op& op, Values& values, const Run& run) const;
  void step(const Op& op, const Run& run) const;
  /// Operands from `first` on.
  static std::vector<TensorRef> arguments(const Op& op, size_t first, const Values& values);
  /// Enters a branch's or loop's results, `given` and then the versions of its state operands,
  /// which stand in `last` from `shift` on.
  void finish(const Op& op, std::vector<TensorRef> given, const std::vector<TensorRef>& last,
              size_t shift, Values& values) const;

  const Graph& g_;
  std::vector<uint32_t> last_use_;  // by value: the last op that takes it; UINT32_MAX: it is kept
  std::vector<ValueId> last_;       // by op: the last version of a param
  std::vector<Evaluator> bodies_;
};

/// The most bytes that running it on arguments holds besides them, or INT64_MAX.
int64_t bytes_besides(const Graph& graph, size_t arguments);

}  // namespace braid::ir
