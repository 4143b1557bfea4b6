// Inside the builder: how ops, names and errors are made.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/builder.hpp"

namespace braid {

/// What an op is called that a number among the operands made.
inline constexpr std::string_view kNumberName = "constant";

struct Graph::Impl {
  explicit Impl(std::string name) : ir(std::move(name)) {}

  ir::Graph ir;
  std::string scope;     // "block3/mlp", empty at the root
  bool outside = false;  // ops are kept out of graphs
  bool collect = false;
  std::vector<Diagnostic> diagnostics;
  std::set<std::string, std::less<>> input_names, param_names, output_names;

  struct Param {
    ir::ValueId version;  // the newest
    ir::ValueId read;     // of the newest version, once somebody used it
  };
  std::unordered_map<uint32_t, Param> params;  // by the param op's result

  /// While an op that stands for others is built: its name as the user wrote it, which messages
  /// use in place of the others' names.
  std::string call;
  std::unordered_map<uint32_t, std::string> written_as;            // values' calls
  std::unordered_map<uint32_t, std::vector<std::string>> spelled;  // labels of declared shapes
  std::map<int64_t, std::string> dim_names;  // of constant extents; "" where there are several

  /// Records (collect mode) or throws; the caller returns poison.
  void fail(std::string code, std::string message, const Where& where,
            std::vector<std::string> details = {}, std::string suggestion = {});
  std::string scoped(std::string_view name) const;
  ir::Loc loc(const Where& where);
  std::string str(const TensorType& t) const { return to_string(t, &ir.dims); }
  /// "'l1/w' f32[B=8, D=256] from param at mlp.toml:7:1": names and values of the extents.
  std::string describe(ir::ValueId v) const;
  /// What `v` was before the op at `loc` broadcast it; else `v`.
  ir::ValueId before_broadcast(ir::ValueId v, const ir::Loc& loc) const;
  /// "512*B": the number of elements.
  std::string count(const Shape& shape);
  void remember_labels(ir::ValueId v, const TypeArg& type);
  /// How to mend dtypes that an op refuses, or shapes that do not broadcast; "" if unknown.
  std::string dtype_advice(std::span<const ir::ValueId> operands, std::string_view error) const;
  std::string broadcast_advice(std::span<const ir::ValueId> operands, const Where& where) const;
  /// The param whose version `v` is or reads; nothing for any other value.
  std::optional<ir::ValueId> param_of(ir::ValueId v) const;
  /// A shape as one declares it: ["B", 768] in a model file, {"B", 768} in C++.
  std::string declaration(std::span<const Dim> shape, const Where& where) const;

  /// Adds an op named SCOPE/name. Invalid if it was refused or an operand is poison.
  ir::ValueId emit(ir::OpKind kind, ir::Attrs attrs, std::vector<ir::ValueId> operands,
                   std::optional<TensorType> type, const Where& where, std::string_view name);
  /// An input or, with ScalarAttr, a runtime scalar; `what` in errors.
  ir::ValueId input(std::string_view name, std::string_view what, const TypeArg& type,
                    ir::Attrs attrs, const Where& where);
  ir::ValueId view(ir::ViewAttr attr, ir::ValueId x, std::optional<TensorType> type,
                   const Where& where);
  ir::ValueId reshape(ir::ValueId x, Shape shape, const Where& where);
  /// Axis i of x becomes axis axes[i] of the result.
  ir::ValueId broadcast(ir::ValueId x, Shape shape, std::span<const int64_t> axes,
                        const Where& where);
  /// As NumPy does: axes align at the end. x itself if the shape is the same.
  ir::ValueId broadcast_last(ir::ValueId x, Shape shape, const Where& where);
  /// The common shape, or nothing after an error that shows all operands.
  std::optional<Shape> broadcast_shape(std::span<const ir::ValueId> operands, std::string_view op,
                                       const Where& where);
  /// Nothing after an error.
  std::optional<Shape> shape_of(const std::vector<DimArg>& dims, const Where& where);
  std::optional<TensorType> type_of(const TypeArg& t, const Where& where);
  /// 0 .. rank-1, or nothing after an error.
  std::optional<int> axis_of(int axis, int rank, std::string_view op, const Where& where);
  ir::ValueId number(double x, DType dtype, Shape shape, const Where& where);
};

/// Makes messages and descriptions speak of `name` until it dies; the outermost one counts.
class Calling {
 public:
  Calling(Graph::Impl& g, std::string_view name) : call_(g.call.empty() ? &g.call : nullptr) {
    if (call_) *call_ = name;
  }
  ~Calling() {
    if (call_) call_->clear();
  }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  std::string* call_;
};

/// The first tensor among the operands decides the graph; throws Error if there is none.
Graph& graph_of(std::span<const In> operands);

}  // namespace braid
