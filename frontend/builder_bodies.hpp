// Inside branches and loops: closures run, each in a body of its own, and one op is made of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/builder_impl.hpp"

namespace braid {

/// A body after its closure has run. What it uses of outside stands where it was first used.
struct RanBody {
  BuilderFrame frame;
  std::vector<ir::ValueId> leading;  // arguments that are no captures: counter and carried values
  std::vector<ir::ValueId> results;  // its own
  std::vector<TensorType> types;     // of the results, in the terms of the graph around
  std::vector<std::string> described;
  bool poison = false;  // a result is none, after an error
};

class RegionBuilder {
 public:
  RegionBuilder(Graph& graph, std::string_view what, Where where)
      : graph_(graph), g_(graph.impl()), what_(what), where_(std::move(where)) {}
  /// Without finish() the bodies become no part of the graph.
  ~RegionBuilder();
  RegionBuilder(const RegionBuilder&) = delete;
  RegionBuilder& operator=(const RegionBuilder&) = delete;

  /// A one-element tensor of that dtype as a scalar; invalid after an error.
  ir::ValueId scalar(const In& in, DType dtype, std::string_view role, std::string_view advice);

  /// The arguments that a closure is given: of a loop the number of the iteration first.
  struct Leading {
    std::vector<TensorType> types{};
    std::vector<std::string> names{};
  };
  enum class Role : uint8_t { side, iteration, condition };
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  void body(std::string name, const Leading& leading, Role role, const Run& run);

  const std::vector<RanBody>& ran() const { return ran_; }
  bool poison() const;
  /// E0308.
  void fail(std::string message, std::vector<std::string> details, std::string advice);

  /// Makes the op; `order`: of the bodies that ran, as the IR wants them. `lead`: its operands
  /// before those that the closures use. Returns its results that are values.
  std::vector<Tensor> finish(ir::OpKind kind, std::vector<ir::ValueId> lead,
                             const std::vector<size_t>& order, ir::Attrs attrs, size_t results);

 private:
  /// An argument that the bodies share.
  struct Argument {
    bool variable;
    uint32_t outer;  // as in Capture
    bool state;
    ir::ValueId operand;
  };

  void keep_params();
  void end(const RanBody& r, uint32_t index, const std::vector<ir::ValueId>& map);
  static std::vector<bool> used(const RanBody& r);
  std::vector<Argument> shared_arguments();
  ir::Graph isolated(const RanBody& r, const std::vector<Argument>& arguments,
                     std::vector<ir::ValueId>& map);

  Graph& graph_;
  Graph::Impl& g_;
  std::string what_;
  Where where_;
  std::vector<RanBody> ran_;
  bool finished_ = false;
};

}  // namespace braid
