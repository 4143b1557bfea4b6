// The C++ builder. Tensors are 16-byte handles; every op remembers the source line that made it.
//
//   braid::Graph g{"mlp"};
//   auto x = g.input("x", {braid::f32, {128, 256}});
//   auto h = relu(linear(g, "l1", x, 256));
//   g.output("y", linear(g, "l2", h, 16));
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/kernel_spec.hpp"
#include "ir/diagnostic.hpp"
#include "ir/graph.hpp"
#include "ir/tensor.hpp"

namespace braid {

using enum DType;  // braid::f32
class Graph;

/// A place for an op: where the C++ call stands, or where the TOML node does.
struct Where {
  Place place;
  Where() = default;
  Where(std::source_location l)  // NOLINT: implicit
      : place{l.file_name(), l.line(), l.column(), 0} {}
  explicit Where(Place p) : place(std::move(p)) {}
};
using Loc = std::source_location;

/// A dim as the user writes it: 768, "B" or "4*D".
struct DimArg {
  DimArg(int64_t v) : value(v) {}                          // NOLINT: implicit
  DimArg(int v) : value(v) {}                              // NOLINT: implicit
  DimArg(std::string_view s) : value(0), text(s) {}        // NOLINT: implicit
  DimArg(const char* s) : value(0), text(s) {}             // NOLINT: implicit
  DimArg(std::string s) : value(0), text(std::move(s)) {}  // NOLINT: implicit
  int64_t value;
  std::string text;
  std::string label{};  // what messages call it: "F" for 3072
};
struct TypeArg {
  DType dtype;
  std::vector<DimArg> shape;
};

/// A value of a graph. Trivially copyable; valid as long as its Graph. A param's tensor stands for
/// the version current where it is used.
class Tensor {
 public:
  Tensor() = default;
  TensorType type() const;
  DType dtype() const { return type().dtype; }
  int rank() const { return type().shape.rank(); }
  /// Gives the op that made this value a name in the current scope.
  Tensor named(std::string_view name) const;
  Graph& graph() const { return *graph_; }
  bool valid() const { return graph_ != nullptr; }

 private:
  friend class Graph;
  Tensor(Graph* g, uint32_t id) : graph_(g), id_(id) {}
  Graph* graph_ = nullptr;
  uint32_t id_ = UINT32_MAX;
};
static_assert(sizeof(Tensor) == 16);

/// An operand: a tensor or a number (which takes the other operand's dtype). Captures the place of
/// the call, also for a + b.
struct In {
  std::variant<Tensor, double> value;
  Where where;
  In(Tensor t, Loc l = Loc::current()) : value(t), where(l) {}  // NOLINT: implicit
  In(double d, Loc l = Loc::current()) : value(d), where(l) {}  // NOLINT: implicit
  In(Tensor t, Where w) : value(t), where(std::move(w)) {}
  In(double d, Where w) : value(d), where(std::move(w)) {}
};

Tensor operator+(In a, In b);
Tensor operator-(In a, In b);
Tensor operator*(In a, In b);
Tensor operator/(In a, In b);
Tensor operator-(In a);

/// Any function of the scalar table on operands that broadcast as in NumPy; equal dtypes.
Tensor apply(Fn fn, std::vector<In> operands);
inline Tensor neg(In a) { return apply(Fn::neg, {a}); }
inline Tensor abs(In a) { return apply(Fn::abs, {a}); }
inline Tensor exp(In a) { return apply(Fn::exp, {a}); }
inline Tensor log(In a) { return apply(Fn::log, {a}); }
inline Tensor sqrt(In a) { return apply(Fn::sqrt, {a}); }
inline Tensor rsqrt(In a) { return apply(Fn::rsqrt, {a}); }
inline Tensor reciprocal(In a) { return apply(Fn::reciprocal, {a}); }
inline Tensor tanh(In a) { return apply(Fn::tanh, {a}); }
inline Tensor sigmoid(In a) { return apply(Fn::sigmoid, {a}); }
inline Tensor relu(In a) { return apply(Fn::relu, {a}); }
inline Tensor gelu(In a) { return apply(Fn::gelu, {a}); }  // by erf
inline Tensor gelu_tanh(In a) { return apply(Fn::gelu_tanh, {a}); }
inline Tensor silu(In a) { return apply(Fn::silu, {a}); }
inline Tensor erf(In a) { return apply(Fn::erf, {a}); }
inline Tensor sin(In a) { return apply(Fn::sin, {a}); }
inline Tensor cos(In a) { return apply(Fn::cos, {a}); }
inline Tensor floor(In a) { return apply(Fn::floor, {a}); }
inline Tensor ceil(In a) { return apply(Fn::ceil, {a}); }
inline Tensor round(In a) { return apply(Fn::round, {a}); }  // half to even
inline Tensor sign(In a) { return apply(Fn::sign, {a}); }
inline Tensor logical_not(In a) { return apply(Fn::not_, {a}); }
inline Tensor pow(In a, In b) { return apply(Fn::pow, {a, b}); }
inline Tensor minimum(In a, In b) { return apply(Fn::min, {a, b}); }
inline Tensor maximum(In a, In b) { return apply(Fn::max, {a, b}); }
inline Tensor mod(In a, In b) { return apply(Fn::mod, {a, b}); }  // sign of the divisor
inline Tensor equal(In a, In b) { return apply(Fn::eq, {a, b}); }
inline Tensor not_equal(In a, In b) { return apply(Fn::ne, {a, b}); }
inline Tensor less(In a, In b) { return apply(Fn::lt, {a, b}); }
inline Tensor less_equal(In a, In b) { return apply(Fn::le, {a, b}); }
inline Tensor greater(In a, In b) { return apply(Fn::gt, {a, b}); }
inline Tensor greater_equal(In a, In b) { return apply(Fn::ge, {a, b}); }
inline Tensor logical_and(In a, In b) { return apply(Fn::and_, {a, b}); }
inline Tensor logical_or(In a, In b) { return apply(Fn::or_, {a, b}); }
inline Tensor logical_xor(In a, In b) { return apply(Fn::xor_, {a, b}); }
inline Tensor select(In pred, In a, In b) { return apply(Fn::select, {pred, a, b}); }
inline Tensor clamp(In x, In low, In high) { return apply(Fn::clamp, {x, low, high}); }
Tensor cast(In x, DType to);

struct ReduceOpts {
  std::vector<int> axes{-1};  // negative from the end; empty: all
  bool keep = false;          // keep reduced axes with extent 1
  /// i32 or i64 of shape []: of the one axis reduced, the elements before it count. Where it is 0,
  /// max, min and mean give 0.
  Tensor count{};
};
/// f16 and bf16 accumulate in f32.
Tensor sum(In x, ReduceOpts o = {});
Tensor mean(In x, ReduceOpts o = {});
Tensor max(In x, ReduceOpts o = {});
Tensor min(In x, ReduceOpts o = {});
Tensor prod(In x, ReduceOpts o = {});
Tensor any(In x, ReduceOpts o = {});  // b1
Tensor all(In x, ReduceOpts o = {});  // b1
/// sum, max, ... by combiner.
Tensor reduce(Fn combiner, In x, ReduceOpts o = {});

struct MatmulOpts {
  bool ta = false, tb = false;  // take the operand's last two axes transposed
  std::optional<DType> out{};
};
/// [.., M, K] x [.., K, N] -> [.., M, N]; leading axes broadcast as in NumPy; f32 accumulation.
Tensor matmul(In a, In b, MatmulOpts o = {});

Tensor reshape(In x, std::vector<DimArg> shape);  // one extent may be -1
Tensor transpose(In x, std::vector<int> perm);    // result axis i is x's axis perm[i]
Tensor broadcast_to(In x, std::vector<DimArg> shape);
struct SliceOpts {
  int axis = 0;
  int64_t start = 0;              // negative from the end
  std::optional<int64_t> stop{};  // exclusive; default: the end
  int64_t step = 1;
};
Tensor slice(In x, SliceOpts o);
Tensor concat(std::vector<In> xs, int axis = 0);
/// x.shape[:axis] + indices.shape + x.shape[axis+1:]; indices i32 or i64, clamped to the range.
Tensor gather(In x, In indices, int axis = 0);

struct ScatterOpts {
  int axis = 0;
  std::optional<Fn> combine{};  // add, mul, min, max, and, or, xor; none: the last row wins
};
/// x with its rows along the axis combined, in order of indices, with those of `updates`, which is
/// x.shape[:axis] + indices.shape + x.shape[axis+1:]; an index out of range is ignored. Every
/// element of x looks at every index, so that the result is the same each time: O(x * indices).
Tensor scatter(In x, In indices, In updates, ScatterOpts o = {});

/// The ops from here to linear are built from the ops above; see composites*.cpp. Those on floats
/// compute f16 and bf16 in f32.

struct ArgOpts {
  std::vector<int> axes{-1};  // one, negative from the end; empty: all, as one row-major axis
  bool keep = false;          // keep reduced axes with extent 1
  DType dtype = i32;          // of the indices: i32 or i64
};
/// The index of the largest (smallest) element; the first of equal ones, and the first NaN if there
/// is one. b1 orders false before true. An empty axis is an error where its extent is constant;
/// where a symbol turns out as 0, the index means nothing.
Tensor argmax(In x, ArgOpts o = {});
Tensor argmin(In x, ArgOpts o = {});

/// Along axis i, low[i] elements of the value before x and high[i] after it.
Tensor pad(In x, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0);
/// Tensors of one shape side by side along a new axis of the result.
Tensor stack(std::vector<In> xs, int axis = 0);
/// x cut into equal parts; the axis has a constant extent.
std::vector<Tensor> split(In x, int parts, int axis = 0);
/// Without these axes, whose extents are 1.
Tensor squeeze(In x, std::vector<int> axes);
/// With a new axis of extent 1, which is `axis` of the result.
Tensor unsqueeze(In x, int axis);

Tensor softmax(In x, int axis = -1);
/// log(softmax(x)), safe where the softmax is 0 in floats.
Tensor log_softmax(In x, int axis = -1);
/// Over the last axis; gamma and beta have its extent.
Tensor layer_norm(In x, In gamma, In beta, double eps = 1e-5);
/// x / sqrt(mean(x * x) + eps) * gamma over the last axis; gamma has its extent.
Tensor rms_norm(In x, In gamma, double eps = 1e-5);
/// x / max(sqrt(sum(x * x)), eps) along the axis.
Tensor l2_normalize(In x, int axis = -1, double eps = 1e-12);
/// -log(softmax(logits)) at the label: logits [.., C] and labels [..] (i32 or i64) give [..], f32
/// or, for f64, f64. A label outside 0 .. C-1 gives NaN.
Tensor cross_entropy(In logits, In labels);

struct AttentionOpts {
  int heads = 1;
  bool causal = false;            // query i sees keys up to i + S - T
  std::optional<double> scale{};  // default 1/sqrt(head size)
  /// Of k and v; divides heads (grouped-query attention: query head h uses h / (heads / kv_heads)).
  std::optional<int> kv_heads{};  // default: heads
  /// Broadcasts to [.., heads, T, S]: b1 (true: may attend), or floats that are added to scores.
  Tensor mask{};
};
/// q [.., T, heads * d], k and v [.., S, kv_heads * d], whose leading axes may be 1. Result as q.
/// With a mask, a query that sees no key gives zeros.
Tensor attention(In q, In k, In v, AttentionOpts o = {});
/// Where random numbers come from. They depend on the seed, the launch and the element alone:
/// element i of a launch is the upper 24 bits of word 0 of Philox4x32-10 at counter (i, launch)
/// with the seed as key.
struct RandomOpts {
  std::optional<int64_t> seed{};  // default: made from the scoped name
  /// An i64 scalar in place of the number of launches so far, which a param "NAME/launches" counts.
  /// Several ops may share one.
  Tensor counter{};
};
struct UniformOpts {
  std::optional<int64_t> seed{};
  Tensor counter{};
  double low = 0, high = 1;
};
/// f32 in [0, 1) in steps of 2^-24, scaled to [low, high) and cast to any float dtype, which may
/// round up to `high`. An empty name, here and below, puts the param into the current scope.
Tensor random_uniform(Graph& g, std::string_view name, TypeArg type, UniformOpts o = {},
                      Where w = Loc::current());
/// Mean 0, variance 1, by Box and Muller from the draws 2i and 2i + 1; any float dtype.
Tensor random_normal(Graph& g, std::string_view name, TypeArg type, RandomOpts o = {},
                     Where w = Loc::current());
/// b1, true with probability p.
Tensor random_bernoulli(Graph& g, std::string_view name, std::vector<DimArg> shape, double p,
                        RandomOpts o = {}, Where w = Loc::current());
/// x / (1 - rate) where a draw is at least the rate, 0 elsewhere.
Tensor dropout(Graph& g, std::string_view name, In x, double rate, RandomOpts o = {});

/// x @ w (+ b) with params "NAME/w" [in, out] and "NAME/b" [out].
Tensor linear(Graph& g, std::string_view name, In x, int64_t out, bool bias = true);

struct ParamOpts {
  ir::Init init = ir::Init::normal;
  double scale = 0.05;
};

/// Leaves the scope when it dies.
class Scope {
 public:
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend class Graph;
  Scope(Graph* g, size_t length) : graph_(g), length_(length) {}
  Graph* graph_;
  size_t length_;  // of the path outside
};

struct HostOpts {
  /// The function has no side effects: a call that nothing needs is dropped, and it may change
  /// places with others. All other host ops keep the order in which they are written.
  bool pure = false;
  /// How the host comes to run it: automatic is by price, script a break, handshake and node are
  /// parts of the graph.
  ir::HostWay way = ir::HostWay::automatic;
};

struct LibraryOpts {
  DimArg workspace = 0;     // bytes of device memory for the call alone
  std::string reference{};  // a host function that computes the same, for the simulator: it gets
                            // the arguments and the `inout` tensors, and fills the results, then
                            // the new values of the `inout` ones
  std::vector<In> inout{};  // changed in place: params, or copies of other tensors
};

struct BranchOpts {
  ir::Lowering lowering = ir::Lowering::automatic;  // or select, predicate, node, host
};
/// What an iteration gives, and what a loop does: the next (last) values of what goes from
/// iteration to iteration, and rows, stacked along a new first axis. Rows of iterations that did
/// not happen are zeros.
struct LoopValues {
  std::vector<Tensor> carried{}, stacked{};
};
/// Closures of a loop. `i` is the number of the iteration, i32[], from 0.
using LoopCondition = std::function<Tensor(Tensor i, const std::vector<Tensor>& carried)>;
using LoopBody = std::function<LoopValues(Tensor i, const std::vector<Tensor>& carried)>;
/// The most copies of a body in one iteration of a WHILE node, and kernels of an unrolled loop,
/// that settings may ask for.
inline constexpr int kMaxUnroll = 1024;
inline constexpr int64_t kMaxUnrolledKernels = 1'000'000;
struct LoopOpts {
  ir::Lowering lowering = ir::Lowering::automatic;  // or unroll, node, host
  int unroll = 0;  // copies of the body in one iteration of a WHILE node; 0: by price
};
struct WhileOpts {
  std::optional<DimArg> limit{};  // the most iterations; stacked rows need it
  ir::Lowering lowering = ir::Lowering::automatic;
  int unroll = 0;
};
/// What `check` wants of every element.
enum class Check : uint8_t { finite };

/// Ops made while it lives are kept out of CUDA graphs: their kernels are launched one by one.
class Outside {
 public:
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  friend class Graph;
  Outside(Graph* g, bool before) : graph_(g), before_(before) {}
  Graph* graph_;
  bool before_;
};

class Graph {
 public:
  explicit Graph(std::string name = "graph");
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Bound per launch.
  Tensor input(std::string_view name, TypeArg type, Where w = Loc::current());
  /// A runtime scalar of rank 0: `value` until Executable::set gives another, which holds for every
  /// later launch; nothing is compiled again. An integer dtype takes whole numbers in its range.
  Tensor scalar(std::string_view name, DType dtype, double value = 0, Where w = Loc::current());
  /// Loaded once into the Store under its scoped name; may be assigned.
  Tensor param(std::string_view name, TypeArg type, ParamOpts o = {}, Where w = Loc::current());
  Tensor constant(const HostTensor& value, Where w = Loc::current());
  Tensor full(TypeArg type, double value, Where w = Loc::current());
  Tensor iota(TypeArg type, int axis, Where w = Loc::current());
  /// The param's next version: later uses of its tensor see it, earlier ones do not.
  void assign(Tensor param, In value);
  /// Writes `value` into the box of the param that begins at `starts` (i32 or i64 scalars, one per
  /// axis, clamped so that the box fits). A number is a box of one element.
  void update(Tensor param, In value, std::vector<In> starts);
  /// The current version's value as a tensor that later assigns do not change.
  Tensor read(Tensor param, Where w = Loc::current());
  void output(std::string_view name, In value);
  /// Calls the host function registered under that name (HostFunctions) with these tensors; it
  /// returns tensors of the given types, or none. HostOpts::way says where in the plan it runs.
  std::vector<Tensor> host(std::string_view function, std::vector<In> arguments,
                           std::vector<TypeArg> results = {}, HostOpts o = {},
                           Where w = Loc::current());
  /// Calls the library function registered under that name (LibraryFunctions), which enqueues its
  /// work on a stream; it becomes part of a graph. Returns tensors of the given types, then the new
  /// values of the `inout` ones.
  std::vector<Tensor> library(std::string_view function, std::vector<In> arguments,
                              std::vector<TypeArg> results = {}, LibraryOpts o = {},
                              Where w = Loc::current());

  /// Runs a kernel of the caller's on these tensors, one for each `in` and `inout` parameter.
  /// Returns those of the `out` parameters, then the new values of the `inout` ones: a param is
  /// changed in place, of any other tensor a copy is. The code is compiled with the program.
  std::vector<Tensor> kernel(const KernelSpec& spec, std::vector<In> arguments,
                             Where w = Loc::current());

  // Branches and loops take closures, which run once, at once. All calls but input, scalar and
  // output work in them, tensors and params from outside too; what a closure makes ends with it,
  // but for what it returns (E0307).

  /// The result of one side; both give as many tensors, of the same types (E0308): a Tensor, a
  /// std::vector<Tensor> or nothing. `pred` is b1 with one element.
  template <std::invocable Then, std::invocable Else>
  auto if_(In pred, Then then, Else otherwise, BranchOpts o = {}) {
    static_assert(std::is_same_v<std::invoke_result_t<Then&>, std::invoke_result_t<Else&>>,
                  "both sides return a Tensor, or a std::vector<Tensor>, or nothing");
    return results_as<std::invoke_result_t<Then&>>(
        branch(std::move(pred), {side(std::move(otherwise)), side(std::move(then))}, true, o));
  }
  /// Prints, checks and changes of params on one side alone.
  template <std::invocable Then>
  void if_(In pred, Then then, BranchOpts o = {}) {
    if_(std::move(pred), std::move(then), [] {}, o);
  }
  /// The result of the case of that number: the first for a negative one, the last for one that is
  /// too large. `index` is i32 with one element.
  std::vector<Tensor> switch_(In index, std::vector<std::function<std::vector<Tensor>()>> cases,
                              BranchOpts o = {});
  Tensor switch_(In index, std::vector<std::function<Tensor()>> cases, BranchOpts o = {});
  /// As long as the condition, asked before each iteration, gives true: b1 with one element. It
  /// changes no param and sends no message.
  LoopValues while_(std::vector<In> carried, LoopCondition condition, LoopBody body,
                    WhileOpts o = {}, Where w = Loc::current());
  std::vector<Tensor> while_(std::vector<In> carried,
                             std::function<Tensor(const std::vector<Tensor>&)> condition,
                             std::function<std::vector<Tensor>(const std::vector<Tensor>&)> body,
                             WhileOpts o = {}, Where w = Loc::current());
  Tensor while_(In carried, std::function<Tensor(Tensor)> condition,
                std::function<Tensor(Tensor)> body, WhileOpts o = {}, Where w = Loc::current());
  /// n iterations.
  LoopValues loop(DimArg n, std::vector<In> carried, LoopBody body, LoopOpts o = {},
                  Where w = Loc::current());
  Tensor loop(DimArg n, In carried, std::function<Tensor(Tensor i, Tensor)> body, LoopOpts o = {},
              Where w = Loc::current());

  /// Messages for the host, in the order of these calls, with the numbers of launch and iterations;
  /// they break no graph. `label` is the tensor's name unless given.
  void print(In x, std::string_view label = {});
  /// One element, for the program that launches.
  void item(In x, std::string_view label = {});
  /// Fails the launch unless all elements are finite, or in low .. high; NaN is in no range.
  void check(In x, Check what, std::string_view label = {});
  void check_range(In x, double low, double high, std::string_view label = {});

  /// Ops that need no kernel, such as views and constants, are not affected.
  [[nodiscard]] Outside outside_graphs(bool on = true);

  /// Names made while the result lives are "NAME/..." below the current scope; an empty name
  /// changes nothing.
  [[nodiscard]] Scope scope(std::string_view name);
  /// Notes that scopes prefix0 .. prefix(count-1) are copies of one block, for folded dumps.
  void repeat(std::string_view prefix, int64_t count);
  /// Declares a symbol's default and bound.
  void dim(std::string_view name, std::optional<int64_t> default_value,
           std::optional<int64_t> max = {}, Where w = Loc::current());

  /// In collect mode a bad op is recorded and yields a poison tensor, whose uses stay silent;
  /// otherwise it throws Error at once.
  void collect_errors(bool on);
  std::vector<Diagnostic>& diagnostics();
  bool poisoned(Tensor t) const;

  /// The graph so far. Throws Error if errors were collected, and in a closure.
  const ir::Graph& ir() const;
  /// The same, errors or not; in a closure the body that it fills.
  const ir::Graph& ir_graph() const;

  struct Impl;
  Impl& impl() const { return *impl_; }
  /// For code that builds ops by kind, such as composites and readers.
  Tensor wrap(ir::ValueId v);
  ir::ValueId unwrap(const In& in);

 private:
  friend class Scope;
  friend class Outside;

  using Side = std::function<std::vector<Tensor>()>;
  template <class F>
  static Side side(F f) {
    using R = std::invoke_result_t<F&>;
    return [f = std::move(f)]() mutable -> std::vector<Tensor> {
      if constexpr (std::is_void_v<R>) {
        f();
        return {};
      } else if constexpr (std::is_same_v<R, Tensor>) {
        return {f()};
      } else {
        return f();
      }
    };
  }
  template <class R>
  static auto results_as(std::vector<Tensor> results) {
    if constexpr (std::is_same_v<R, Tensor>) return results.at(0);
    if constexpr (std::is_same_v<R, std::vector<Tensor>>) return results;
  }
  /// For a condition sides are {false, true}, and the second runs first.
  std::vector<Tensor> branch(In selects, std::vector<Side> sides, bool is_if, BranchOpts o);
  LoopValues repeat_body(std::string_view what, const std::optional<DimArg>& limit,
                         std::vector<In> carried, const LoopCondition& condition,
                         const LoopBody& body, LoopOpts o, const Where& w);
  void send(ir::MessageKind kind, ir::ValueId value, std::string_view text, std::string_view name,
            const Where& w);
  void fail_unless(const In& x, std::string_view wanted, std::string_view label,
                   const std::function<Tensor()>& good);

  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
