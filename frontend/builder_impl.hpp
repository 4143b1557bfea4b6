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
#include "ir/region.hpp"

namespace braid {

/// What an op is called that a number among the operands made.
inline constexpr std::string_view kNumberName = "constant";

/// Where ops go: the graph itself, or a body while its closure runs.
struct BuilderFrame {
  BuilderFrame(std::string name, uint32_t number) : ir(std::move(name)), serial(number) {}

  ir::Graph ir;
  uint32_t serial;                     // of all bodies; the graph's is 0
  bool condition = false;              // of a loop: changes nothing
  ir::ValueId counter;                 // of a loop: the number of the iteration
  std::vector<uint32_t> tensors_made;  // those that stand for its values; none for the graph
  std::vector<uint32_t> params;        // variables that it declared

  /// A value or variable from outside: for now an input or param that stands where it was first
  /// used.
  struct Capture {
    bool variable;
    uint32_t outer;     // of the value outside, or of the variable
    ir::ValueId inner;  // what stands for it here
  };
  std::vector<Capture> captures;
  std::unordered_map<uint32_t, ir::ValueId> captured;  // by the value outside
  std::unordered_map<uint32_t, ir::ValueId> origin;    // the value outside, by that in here

  struct Versions {
    ir::ValueId first, newest;
    ir::ValueId read;        // of the newest, once somebody used it
    ir::ValueId first_read;  // of the first
  };
  std::map<uint32_t, Versions> versions;  // by variable

  std::unordered_map<uint32_t, std::string> written_as;            // values' calls
  std::unordered_map<uint32_t, std::vector<std::string>> spelled;  // labels of declared shapes
};

struct Graph::Impl : BuilderFrame {
  explicit Impl(std::string name) : BuilderFrame(std::move(name), 0) {}

  std::vector<BuilderFrame> around;  // the frames around this one, the graph's first
  uint32_t bodies = 0;               // ever made, the graph not counted

  /// What a Tensor's number stands for: a value of a body, or a variable.
  struct Made {
    uint32_t body;
    uint32_t index;
  };
  static constexpr uint32_t kVariable = UINT32_MAX;
  std::vector<Made> tensors;

  /// A param, or the ring of messages.
  struct Variable {
    std::string name;
    TensorType type;  // in the graph's terms
    ir::Attrs attrs;
    Place place;
    std::vector<std::string> labels;
    bool gone = false;  // its closure failed
  };
  std::vector<Variable> variables;
  std::optional<uint32_t> ring;

  /// A body whose closure has ended: the body around it, and its number there.
  struct Ended {
    uint32_t parent;
    std::optional<uint32_t> index;  // none until there is an op
    bool failed;                    // there never is
    Place place;                    // of the op
    std::string of;                 // "'then' of the if"
  };
  std::map<uint32_t, Ended> ended;

  std::string scope;     // "block3/mlp", empty at the root
  bool outside = false;  // ops are kept out of graphs
  bool collect = false;
  std::vector<Diagnostic> diagnostics;
  std::set<std::string, std::less<>> input_names, param_names, output_names;

  /// While an op that stands for others is built: its name as the user wrote it, which messages
  /// use in place of the others' names.
  std::string call;
  std::map<int64_t, std::string> dim_names;  // of constant extents; "" where there are several

  /// 0 is the graph, around.size() the present one.
  BuilderFrame& level(size_t i) { return i < around.size() ? around[i] : *this; }
  const BuilderFrame& level(size_t i) const { return i < around.size() ? around[i] : *this; }
  /// Nothing for a body that has ended.
  std::optional<size_t> level_of(uint32_t serial) const;
  /// The value, of the body at that level, as one of the present body: an argument of all between.
  ir::ValueId capture(size_t from, ir::ValueId v);
  /// The value that the tensor stands for, here; an error (E0307) if it ended with its closure.
  ir::ValueId value_of(Made made, const Where& where);
  BuilderFrame::Versions& versions_of(BuilderFrame& body, uint32_t variable);
  ir::ValueId read(uint32_t variable);
  /// An op makes the next version of it.
  void advance(uint32_t variable, ir::ValueId next);
  /// False after an error: in a condition nothing changes.
  bool may_change(std::string_view what, const Where& where);
  bool may_declare(std::string_view what, const Where& where);
  uint32_t the_ring();
  /// Gives the ring a name that no param has.
  void name_ring();

  /// Records (collect mode) or throws; the caller returns poison.
  void fail(std::string code, std::string message, const Where& where,
            std::vector<std::string> details = {}, std::string suggestion = {},
            std::vector<Diagnostic> notes = {});
  std::string scoped(std::string_view name) const;
  ir::Loc loc(const Where& where);
  std::string str(const TensorType& t) const { return to_string(t, &ir.dims); }
  /// "'l1/w' f32[B=8, D=256] from param at mlp.toml:7:1": names and values of the extents.
  std::string describe(ir::ValueId v) const;
  std::string describe(const BuilderFrame& frame, ir::ValueId v) const;
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

  /// A tensor that code of the user's changes in place: a param itself, or else a copy of the
  /// value, in a variable of its own.
  struct Changed {
    ir::ValueId value;
    std::optional<uint32_t> variable;  // of the param
    std::string label;                 // "x", what the copy's ops are called
  };
  /// Nothing after an error: in a condition no param changes.
  std::optional<Changed> changed(const In& in, ir::ValueId value, std::string label,
                                 const Where& where);
  /// The name of the param, if one of `before` changes it as well.
  const std::string* given_before(const Changed& c, const std::vector<Changed>& before) const;
  /// The operand that the code takes, with a copy in OWNER.LABEL.0, ..; invalid after an error.
  ir::ValueId version_to_change(const Changed& c, std::string_view owner, const Where& where);
  /// The value of the version that the code made of it.
  ir::ValueId value_after(const Changed& c, ir::ValueId next, const Where& where);
  /// Adds a kernel or library op named SCOPE/name, with values of these types.
  ir::Graph::Added add_code(ir::OpKind kind, ir::Attrs attrs, std::vector<ir::ValueId> operands,
                            const std::vector<TensorType>& types, std::string_view name,
                            const Where& where);

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

/// The place in a graph's own terms, of one line.
ir::Loc loc_in(ir::Graph& graph, const Place& place);

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

/// Whether the dtype has a value for x: any for floats, which round.
bool number_fits(double x, DType t);

/// E0305: what no collecting of errors mends.
[[noreturn]] void throw_misuse(std::string message, const Where& where);
inline constexpr const char* kNoGraph = "an operand is a Tensor that no graph made";
inline constexpr const char* kTwoGraphs = "the operands belong to different graphs";

/// The first tensor among the operands decides the graph; throws Error if there is none.
Graph& graph_of(std::span<const In> operands);

}  // namespace braid
