// The table of op kinds: the only place that lists them, with shape rules, evaluation and cost.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/ids.hpp"
#include "ir/scalar.hpp"
#include "ir/type.hpp"

namespace braid::ir {

/// Numbers are part of the file formats: never reuse one. At most 32 kinds; a test counts.
enum class OpKind : uint8_t {
  input = 0,     //  () -> T                     bound per launch, named; or a runtime scalar
  param = 1,     //  () -> state T               a named tensor of the Store: its first version
  read = 2,      //  (state T) -> T              the value of that version
  assign = 3,    //  (state T, T) -> state T     the next version
  update = 4,    //  (state T, U, i.. ) -> state T   next version: box U written at clamped starts
  constant = 5,  //  () -> T                   a literal, splat or full
  iota = 6,      //  () -> T                     index along one axis
  map = 7,       //  (T..) -> U                  a scalar function per element; equal shapes
  reduce = 8,    //  (T) -> T                    fold some axes away with a combiner
  dot = 9,       //  ([B..,M,K], [B..,K,N]) -> [B..,M,N]   flags transpose the last two axes
  view = 10,     //  (T) -> U                    reshape, transpose, broadcast or slice
  concat = 11,   //  (T..) -> U                 along one axis
  gather = 12,   //  (T, indices) -> U          rows of `axis` by clamped i32/i64 index
  scatter = 13,  //  (T, indices, U) -> T       rows of `axis` by index, combined with those of U
  host = 14,     //  (T..) -> (U..)              a function of the host's, by name
  branch = 15,   //  (b1|i32, T|state..) -> (U|state..)   one of its bodies, by index
  loop = 16,     //  (T|state..) -> (U|state..)  its body again and again
  send = 17,     //  (state, T, i32..) -> state  a message to the host: print, item or check
  kernel = 18,   //  (T|state..) -> (U..|state..)  a kernel of the user's, in CUDA C++
  library = 19,  //  (T|state..) -> (U..|state..)  what a function of the user's enqueues
  compact = 20,  //  (b1[n], T[n,..]) -> T[n,..], i32[]   rows where the mask holds; how many
};

enum class ViewKind : uint8_t { reshape = 0, transpose = 1, broadcast = 2, slice = 3 };

using Axes = std::array<int64_t, kMaxRank>;

struct MapAttr {
  Fn fn;
  bool operator==(const MapAttr&) const = default;
};
struct ReduceAttr {
  Fn fn;
  uint32_t axes = 0;  // bit i: axis i is folded; the result has the other axes in order
  bool operator==(const ReduceAttr&) const = default;
};
struct DotAttr {
  bool ta = false, tb = false;  // lhs is [B..,K,M], rhs is [B..,N,K]
  bool tf32 = false;            // f32 operands may be rounded to tf32; set by the bind pass
  bool operator==(const DotAttr&) const = default;
};
struct ViewAttr {
  ViewKind kind = ViewKind::reshape;
  /// transpose: result axis i is operand axis a[i]. broadcast: operand axis i is result axis a[i]
  /// (increasing; the operand's extent there is the result's or 1). slice: starts in a, steps
  /// (>= 1) in b, extents from the result type. reshape: unused (same number of elements).
  Axes a{}, b{};
  bool operator==(const ViewAttr&) const = default;
};
struct AxisAttr {  // iota, concat, gather
  int axis = 0;
  bool operator==(const AxisAttr&) const = default;
};
struct ScatterAttr {
  int axis = 0;
  std::optional<Fn> fn{};  // a combiner; none: the last row of U in order of indices wins
  bool operator==(const ScatterAttr&) const = default;
};
struct ConstAttr {
  uint32_t literal = 0;  // index into the graph's literals
  bool operator==(const ConstAttr&) const = default;
};
/// How a Store fills a param that nobody loads. `normal` is deterministic in the seed and name.
enum class Init : uint8_t { normal = 0, zeros = 1, ones = 2 };
/// By number, as models and dumps write them.
inline constexpr std::array<std::string_view, 3> kInitNames{"normal", "zeros", "ones"};
inline std::string_view name_of(Init i) { return kInitNames[static_cast<size_t>(i)]; }
/// A param of a Store. A `param` with one of the three attributes after this is none: it is no part
/// of a program's interface, and what it holds before a launch is undefined.
struct ParamAttr {
  Init init = Init::normal;
  double scale = 0.05;  // standard deviation for normal
  bool operator==(const ParamAttr&) const = default;
};
/// A variable of the program, assigned before it is read: what bodies of branches and loops carry
/// and give back.
struct LocalAttr {
  bool operator==(const LocalAttr&) const = default;
};
/// The value of a conditional node, b1[] or i32[]: an assign sets it for the node, and nothing
/// reads it. Made by the control pass alone.
struct HandleAttr {
  bool operator==(const HandleAttr&) const = default;
};
/// The ring that carries messages to the host, i32[16]: only `send` makes a new version. A graph
/// has at most one that is no argument of a body.
struct RingAttr {
  bool operator==(const RingAttr&) const = default;
};
inline const TensorType kRingType{DType::i32, {Dim(16)}};
/// An input with this is a runtime scalar: it keeps the value it was last set to, and has this one
/// until then.
struct ScalarAttr {
  double value = 0;
  bool operator==(const ScalarAttr&) const = default;
};
/// How the host comes to run a host op. By number, as models and dumps write them.
enum class HostWay : uint8_t {
  automatic = 0,  // what is predicted to be the fastest
  handshake = 1,  // a kernel hands over the arguments and waits for the results: no break
  script = 2,     // the graph ends before it, and another one begins after it: a break
  node = 3,       // a host node of the graph, between two kernels that copy
};
inline constexpr std::array<std::string_view, 4> kHostWayNames{"auto", "handshake", "break",
                                                               "node"};
inline std::string_view name_of(HostWay w) { return kHostWayNames[static_cast<size_t>(w)]; }
/// A host op without results of its own has one empty tensor, i8[0].
struct HostAttr {
  StrId function;     // the name that callers register it under
  bool pure = false;  // no side effects: may be dropped, and reordered with other host ops
  HostWay way = HostWay::automatic;
  StrId why{};  // the prices behind it. Set by the host pass
  bool operator==(const HostAttr&) const = default;
};
/// factor * ceil(dividend / divisor), or just a dim: what launches are rounded up to.
struct Extent {
  constexpr Extent(Dim d = 1) : factor(d) {}  // NOLINT: implicit
  constexpr Extent(Dim times, Dim whole, Dim part)
      : factor(times), dividend(whole), divisor(part) {}
  Dim factor, dividend = 1, divisor = 1;
  /// Nothing while dims are symbolic, for a divisor of 0, and where it overflows.
  std::optional<int64_t> value() const;
  bool operator==(const Extent&) const = default;
};
/// One parameter of a user's kernel, in the order in which the kernel declares them.
struct CodeParameter {
  enum class Kind : uint8_t {
    operand = 0,  // a pointer to operand `index`: const for a value; one of state is in and out
    result = 1,   // a pointer to result `index`, which is no version of state
    scalar = 2,   // by value, of `dtype`: `extent`, or else `number`
  } kind = Kind::operand;
  uint32_t index = 0;
  DType dtype = DType::i32;
  std::optional<Extent> extent{};
  double number = 0;
  StrId name{};  // for errors; may be empty
  bool operator==(const CodeParameter&) const = default;
};
/// Results: values of the types that the op declares, none or more, then the next version of every
/// state operand, in order; at least one of both.
struct KernelAttr {
  StrId name;                  // that the model gives it
  StrId function;              // the __global__ function, as CUDA C++ names it: "rope", "rope<64>"
  StrId code;                  // CUDA C++
  StrId file;                  // that errors in `code` are told with
  uint32_t line = 1;           // in `file`, of the first line of `code`
  std::vector<StrId> include;  // folders for #include
  std::vector<CodeParameter> parameters;
  std::array<Extent, 3> grid{}, block{};
  Extent shared_bytes = Dim(0);  // dynamic
  StrId reference;  // a host function that computes the same: arguments are the operands, results
                    // the op's; empty if there is none. The simulator and the interpreter call it
  bool operator==(const KernelAttr&) const = default;
};
/// Results as those of KernelAttr.
struct LibraryAttr {
  StrId function;     // the name that callers register it under
  Dim workspace = 0;  // bytes of memory for the call alone
  StrId reference;    // as in KernelAttr
  bool operator==(const LibraryAttr&) const = default;
};
/// How a branch or a loop becomes part of a plan. By number, as models and dumps write them.
enum class Lowering : uint8_t {
  automatic = 0,  // what is predicted to be the fastest
  select = 1,     // branch: all sides are computed, and one result taken
  predicate =
      2,       // branch: the kernels of all sides are launched; those of the others leave at once
  node = 3,    // a conditional node: IF, SWITCH or WHILE
  unroll = 4,  // loop: a copy of the body for each iteration
  host = 5,    // the host reads what decides and launches what follows
};
inline constexpr std::array<std::string_view, 6> kLoweringNames{"auto", "select", "predicate",
                                                                "node", "unroll", "host"};
inline std::string_view name_of(Lowering l) { return kLoweringNames[static_cast<size_t>(l)]; }

/// The rules of operands, bodies and results are those of region.hpp.
struct BranchAttr {
  std::vector<uint32_t> bodies;  // of Graph::bodies; for b1: false, true
  Lowering lowering = Lowering::automatic;
  StrId why{};  // the prices behind it, as in Region::why. Set by the control pass
  bool operator==(const BranchAttr&) const = default;
};
inline constexpr uint32_t kNoBody = UINT32_MAX;
struct LoopAttr {
  uint32_t body = 0;             // of Graph::bodies
  uint32_t condition = kNoBody;  // of Graph::bodies: asked before each iteration
  uint32_t carried = 0;          // leading operands that change from iteration to iteration
  /// The most iterations; with a condition there may be no such limit.
  std::optional<Dim> limit{};
  Lowering lowering = Lowering::automatic;
  uint32_t unroll = 0;  // copies of the body in one iteration of a WHILE node; 0: by price
  StrId why{};          // as in BranchAttr
  bool operator==(const LoopAttr&) const = default;
};
enum class MessageKind : uint8_t { print = 0, item = 1, check = 2 };
inline constexpr std::array<std::string_view, 3> kMessageNames{"print", "item", "check"};
inline std::string_view name_of(MessageKind k) { return kMessageNames[static_cast<size_t>(k)]; }
/// A check's value is an i32[]: how many elements fail. It is sent only if that is not 0.
struct SendAttr {
  MessageKind kind = MessageKind::print;
  StrId text;       // print, item: the label; check: what must hold, as in "finite"
  uint32_t id = 0;  // among the sends of a model; clones keep it. Given by the control pass
  /// The last send of each launch, which counts the launch. Set by the control pass.
  bool ends_launch = false;
  bool operator==(const SendAttr&) const = default;
};
using Attrs =
    std::variant<std::monostate, MapAttr, ReduceAttr, DotAttr, ViewAttr, AxisAttr, ScatterAttr,
                 ConstAttr, ParamAttr, ScalarAttr, HostAttr, LocalAttr, HandleAttr, RingAttr,
                 BranchAttr, LoopAttr, SendAttr, KernelAttr, LibraryAttr>;

class Graph;
struct Op;

/// What a type rule sees and answers.
struct TypeQuery {
  OpKind kind;
  const Attrs& attrs;
  std::vector<TensorType> operands;
  std::optional<TensorType> declared;  // given by the caller; needed where nothing implies it
  DimTable* dims = nullptr;
};
struct TypeAnswer {
  TensorType type;
  bool state = false;
  std::string error;  // not empty: refused, with a sentence that names the operands' types
};

struct OpInfo {
  OpKind kind;
  std::string_view name;  // in .bir
  int min_operands;
  int max_operands;  // -1: any number
  /// Never needs memory of its own: evaluated by index where it is used.
  bool free;
  TypeAnswer (*type_rule)(const TypeQuery&);
  /// Arithmetic operations for one evaluation (static types).
  int64_t (*flops)(const Graph&, const Op&);
};

std::span<const OpInfo> op_table();
const OpInfo& info(OpKind kind);
std::optional<OpKind> op_kind_from_name(std::string_view name);
std::string_view name_of(ViewKind kind);

}  // namespace braid::ir
