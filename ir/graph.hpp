// The op graph: ops and values in arenas, addressed by index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/ids.hpp"
#include "ir/op.hpp"
#include "ir/type.hpp"

namespace braid::ir {

/// Interned strings: names and file names.
class Strings {
 public:
  StrId intern(std::string_view s);
  std::string_view operator[](StrId id) const {
    return id.valid() ? std::string_view(texts_[id.index]) : std::string_view();
  }

 private:
  std::deque<std::string> texts_;  // a deque keeps the views in index_ valid
  std::unordered_map<std::string_view, uint32_t> index_;

 public:
  Strings() = default;
  Strings(const Strings& o) { *this = o; }
  Strings& operator=(const Strings& o);
  Strings(Strings&&) = default;
  Strings& operator=(Strings&&) = default;
};

struct Loc {
  StrId file;
  uint32_t line = 0, column = 0, end_column = 0;
};

/// A constant's value: row-major elements in dtype's bytes, or one element for all.
struct Literal {
  TensorType type;
  bool splat = false;
  std::vector<std::byte> bytes;
  bool operator==(const Literal&) const = default;
};

struct Value {
  OpId def;
  TensorType type;
  bool state = false;  // a version of a param, not a tensor: see takes_state() in region.hpp
  OpId param{};        // of a version: the param that it is one of
};

struct Op {
  OpKind kind;
  Attrs attrs;
  std::vector<ValueId> operands;
  ValueId result;
  StrId name;  // scoped: "block3/mlp/w1"; unique for inputs and params
  Loc loc;
  /// More than one only where has_more_results(kind): the values from `result` on.
  uint32_t results = 1;
  /// Kept out of CUDA graphs at its author's wish. Not for free ops, inputs and params.
  bool outside = false;

  ValueId result_at(uint32_t i) const { return ValueId{result.index + i}; }
};

struct Output {
  std::string name;
  ValueId value;
  Loc loc;
};

/// A note on scopes, for folding dumps: `count` copies of scopes `prefix`0, `prefix`1, ...
struct Repeat {
  std::string prefix;
  int64_t count;
  bool operator==(const Repeat&) const = default;
};

/// What a branch, a loop or code of the user's gives.
struct RegionResults {
  std::vector<TensorType> types;
  std::vector<bool> state;
  std::string error;  // not empty: operands and bodies do not belong together
};

/// Mutable; SSA: ops stand in an order in which every operand is defined before its use.
/// State versions form a chain: a version is replaced at most once, by an assign, an update, a
/// send, a branch or a loop.
class Graph {
 public:
  explicit Graph(std::string graph_name = "graph") : name(std::move(graph_name)) {}

  std::string name;
  Strings strings;
  DimTable dims;
  std::vector<Literal> literals;
  std::vector<Output> outputs;
  std::vector<Repeat> repeats;
  /// Of the branches and loops, each of one op: see region.hpp.
  std::vector<Graph> bodies;

  struct NewOp {
    OpKind kind;
    Attrs attrs{};
    std::vector<ValueId> operands{};
    std::optional<TensorType> type{};  // where operands and bodies do not imply it
    StrId name{};
    Loc loc{};
    /// Types of the results after the first, where operands and bodies do not imply them: of a
    /// host op, and of a kernel or library op those that are no versions of state.
    std::vector<TensorType> more{};
    bool outside = false;

    /// Sets `type` and `more` to the types of an op of `from`, of the kind and the attributes.
    void take_types(const Graph& from, const Op& op);
  };
  struct Added {
    ValueId value;      // the first result
    std::string error;  // not empty: nothing was added
  };
  /// Checks operand count and types by the op table and appends the op.
  Added try_add(NewOp op);
  /// The same where a failure would be our own bug: throws InternalError.
  ValueId add(NewOp op);
  /// Makes room for so many ops in all, of one result each.
  void reserve(size_t ops) {
    ops_.reserve(ops);
    values_.reserve(ops);
  }

  const std::vector<Op>& ops() const { return ops_; }
  std::vector<Op>& ops() { return ops_; }
  const Op& op(OpId id) const { return ops_[id.index]; }
  Op& op(OpId id) { return ops_[id.index]; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  Value& value(ValueId id) { return values_[id.index]; }
  const Op& def(ValueId id) const { return op(value(id).def); }
  const TensorType& type(ValueId id) const { return value(id).type; }
  std::string_view name_of(OpId id) const { return strings[op(id).name]; }

  /// A splat literal; `x` is converted to the dtype.
  ValueId splat(TensorType type, double x, StrId name = {}, Loc loc = {});
  uint32_t add_literal(Literal literal);
  /// The value of a splat constant as a double, if `v` is one (through broadcasts and reshapes).
  std::optional<double> splat_value(ValueId v) const;

  /// users[v] = ops that take value v, each once, in order.
  std::vector<std::vector<OpId>> users() const;
  Place place(const Loc& loc) const;

  /// Copies op `id` of `from` into this graph with the given operands (names, places, literals,
  /// bodies, marks and symbols carried over). Returns its first result.
  ValueId clone_op(const Graph& from, OpId id, std::vector<ValueId> operands);

  /// Makes the type's symbols of `from` those of this graph.
  void carry_dims(const Graph& from, TensorType& type);

  /// Gives every symbol its value and makes all types static, also in bodies.
  /// Throws Error for an unknown name, a missing value, one above its max, or an overflow.
  void bind_dims(const DimTable::Bindings& bindings);

 private:
  Added add_region(NewOp op);
  Added add_code(NewOp op);
  Added add_results(NewOp op, RegionResults results);
  Dim carry_dim(const Graph& from, Dim dim);

  std::vector<Op> ops_;
  std::vector<Value> values_;
};

/// Whether an op of the kind may carry Op::outside.
bool can_stand_outside(OpKind kind);
/// Enters a copy of `op` whose first result is `copy` into `to`, which maps its graph's values.
inline void map_results(std::vector<ValueId>& to, const Op& op, ValueId copy) {
  for (uint32_t i = 0; i < op.results; ++i) to[op.result.index + i] = ValueId{copy.index + i};
}

std::vector<TensorType> operand_types(const Graph& graph, const Op& op);
std::vector<TensorType> result_types(const Graph& graph, const Op& op);

/// Everything that add() cannot see: order, unique names, state chains, outputs. Empty = well
/// formed.
std::vector<Diagnostic> verify(const Graph& graph);

}  // namespace braid::ir
