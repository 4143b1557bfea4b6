// Program: the whole plan as plain data, and the one contract between passes and runtime.
// Everything the runtime does is written here; it takes no decision of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "ir/type.hpp"

namespace braid {

/// Version of the serialised form. A reader takes its own major and any minor up to its own.
inline constexpr int kProgramMajor = 1;
inline constexpr int kProgramMinor = 5;

/// What kernels are generated and costed for. Checked-in numbers, so that a plan does not depend
/// on the machine that makes it.
struct Target {
  std::string arch = "sm_90";
  int sms = 132;
  int64_t max_threads_per_block = 1024;
  int64_t shared_bytes_per_block = 48 * 1024;  // static; more needs opting in
  bool operator==(const Target&) const = default;
};
/// "sm_80", "sm_90", ...: nothing for a name outside sm_80 .. sm_121.
std::optional<Target> target_from_name(std::string_view name);

/// Whether kernels of the target can start before those that they depend on have ended: from sm_90.
bool has_programmatic_edges(const Target& target);
/// Bytes of shared memory that one SM of the target has; a block may have 1 KiB less, which each
/// has reserved.
int64_t shared_bytes_per_sm(const Target& target);
/// Whether blocks of a kernel can form clusters, which read each other's shared memory: from sm_90.
bool has_clusters(const Target& target);

/// Why a buffer exists and who owns its bytes.
enum class Segment : uint8_t {
  param = 0,     // in the Store: weights and state
  constant = 1,  // in the Store: literals too large for kernel text
  input = 2,     // bound per executable, read only
  output = 3,    // bound per executable
  temp = 4,      // in the executable's arena, may share bytes
  scalar = 5,    // in the executable's block of runtime scalars, read only
  handle = 6,    // no bytes: the argument is the 64-bit handle of a conditional node
  ring = 7,      // the executable's: what kernels know of the ring of messages
  mailbox = 8,   // the executable's: see mailbox.hpp
};
std::string_view name_of(Segment s);

/// One allocation-like thing. For temp, `offset` is a place in the arena; for constant, in
/// Program::constants; for scalar, in the block of scalars; inputs, outputs and params are
/// allocations of their own (offset 0).
struct Buffer {
  std::string name;  // the input's, output's or param's name; for temps the op that fills it
  Segment segment = Segment::temp;
  TensorType type;
  int64_t bytes = 0;
  int64_t offset = 0;
  /// Of Program::regions: the one whose bodies alone use it, so that it lies in that region's slab.
  uint32_t region = UINT32_MAX;
};

/// Row-major contiguous elements inside a buffer, holding one value of the source graph.
struct View {
  uint32_t buffer = 0;
  int64_t offset = 0;  // bytes from the buffer's start
  TensorType type;
  std::vector<int64_t> strides;  // in elements; row-major today
  uint32_t value = UINT32_MAX;   // id of the source value that these bytes hold (see Node::values)
};

enum class Role : uint8_t { in = 0, out = 1, inout = 2 };
std::string_view name_of(Role r);

/// One pointer argument of a kernel.
struct ArgSlot {
  std::string name;  // of the body's input, param or output
  Role role = Role::in;
  TensorType type;
  /// Nothing in the program writes what the kernel's nodes have here, so it may be read before the
  /// kernel waits.
  bool fixed = false;
};

struct LaunchShape {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  bool operator==(const LaunchShape&) const = default;
};

/// Slot `out` may have the bytes of slot `in`: every thread reads an element of `in` before it
/// writes that very element of `out`, and no other thread reads it.
struct InPlace {
  uint32_t out = 0, in = 0;
  bool operator==(const InPlace&) const = default;
};

/// What brings a kernel into a graph.
enum class Code : uint8_t {
  generated = 0,  // a kernel that one of our families writes
  user = 1,       // a kernel of the user's
  host = 2,       // a host node, which answers the exchange of the slot that is its first argument
  library = 3,    // whatever nodes a function makes that enqueues its work on a stream
};
std::string_view name_of(Code c);

/// One parameter of a user's kernel, in order: the pointer of a slot, or a scalar by value.
struct Parameter {
  uint32_t slot = UINT32_MAX;
  DType dtype = DType::i32;  // of a scalar
  double number = 0;         // exact for what i32, f32 and smaller types hold, and for extents
  bool operator==(const Parameter&) const = default;
};

/// A kernel: what it computes, and how. Nodes with equal bodies share one.
struct Kernel {
  std::string symbol;  // "row_layer_norm_3f2a91c4": family, what it does, hash of the body
  std::string family;  // "row" or "dot"
  /// What it computes: inputs and params (params where it writes in place) are the leading
  /// arguments in op order, outputs the rest. The simulator evaluates this.
  ir::Graph body;
  std::vector<ArgSlot> args;
  LaunchShape launch;
  uint32_t module = 0;      // the NVRTC program that holds it
  int64_t flops = 0;        // per launch
  int64_t bytes_moved = 0;  // per launch, each argument once
  /// The code executes griddepcontrol.wait before its first access to anything but fixed slots.
  bool waits = false;
  /// Independent copies of the body that one launch computes, each on arguments of its own: `args`
  /// (and Node::args) hold the body's slots once per part, part after part.
  uint32_t parts = 1;
  std::vector<InPlace> in_place;  // slots of the first part; those of the others lie alike
  /// The kernel leaves at once unless the b1[] or i32[] in its last argument, which is none of the
  /// body's, is this. Such a kernel has one part.
  std::optional<int32_t> guard{};
  /// Only what is `generated` has a guard or more than one part.
  Code code = Code::generated;
  /// user: the __global__ function, as the code names it; `symbol` is its name in the image, once
  /// that is compiled. library: the name that callers register the function under, or
  /// kCublasLtMatmul.
  std::string function;
  std::vector<Parameter> parameters;  // user only
  /// library only: bytes of the last argument, which is none of the body's: memory for the call
  /// alone, `out` u8[workspace]. 0: there is no such argument.
  int64_t workspace = 0;
  /// Of the families exchange, post and fetch, and of host nodes, the last two arguments are none
  /// of the body's: the slot (inout) and the header of the mailbox (inout, or `in` for a pure
  /// function).
  bool exchanges = false;
};

/// The library function that is built in: cuBLASLt computes the body, a dot with what its epilogues
/// can do.
inline constexpr std::string_view kCublasLtMatmul = "cublaslt.matmul";

/// Arguments of a kernel that are none of its body's: the last ones.
inline size_t extra_arguments(const Kernel& k) {
  return (k.guard ? 1 : 0) + (k.workspace != 0 ? 1 : 0) + (k.exchanges ? 2 : 0);
}

/// Kernel::in_place for the slots of all parts.
std::vector<InPlace> in_place_of_parts(const Kernel& k);

/// One NVRTC program. `image` is empty until compiled.
struct Module {
  std::string source;
  std::string arch;
  std::vector<std::byte> image;  // cubin
  // Of a user's code, one module for each text; empty for ours.
  std::string file{};                  // that errors are told with
  std::vector<std::string> include{};  // folders
};

/// Whether the kernel is one launch of one function of the GPU's, no host node and no nodes of a
/// library: programmatic edges lead from and to such.
inline bool is_launch(const Kernel& k) { return k.code == Code::generated || k.code == Code::user; }

/// In place of a kernel, for a conditional node.
inline constexpr uint32_t kNoKernel = UINT32_MAX;

/// One kernel launch in a graph, or a conditional node.
struct Node {
  uint32_t kernel = 0;
  /// A conditional node: the region (of kind node) that it is. A guarded kernel: the region (of
  /// kind predicate) that it belongs to. UINT32_MAX for all others.
  uint32_t region = UINT32_MAX;
  uint32_t branch = 0;         // of a guarded kernel: which of the region's sides
  std::vector<uint32_t> args;  // views, one per ArgSlot of slots_of()
  /// The source values that the arguments must hold before (in) and hold after (out); for an
  /// inout slot the value after. The checker compares these with what the bytes really hold.
  std::vector<uint32_t> values;
  /// For inout slots the value before; UINT32_MAX elsewhere, and for a slot that is only written.
  std::vector<uint32_t> values_before;
  std::vector<std::string> ops;       // the source ops it stands for, scoped names with kinds
  std::string place;                  // of the last op: "mlp.toml:12:3" or empty
  uint32_t level = 0;                 // the run of the levels pass it belongs to
  uint32_t earliest = 0, latest = 0;  // the first and last run it could belong to
  uint32_t lane = 0;
  uint32_t position = 0;   // in its lane
  double estimate_us = 0;  // by the cost model, without the edge
  double start_us = 0;     // predicted, from the start of its body
};

enum class EdgeKind : uint8_t { full = 0, programmatic = 1 };
enum class EdgeReason : uint8_t {
  raw = 0,   // reads what the source writes
  war = 1,   // overwrites what the source reads
  waw = 2,   // overwrites what the source writes
  lane = 3,  // keeps the lane a chain
};
std::string_view name_of(EdgeReason r);

struct Edge {
  uint32_t from = 0, to = 0;
  EdgeKind kind = EdgeKind::full;
  EdgeReason reason = EdgeReason::raw;
  uint32_t buffer = UINT32_MAX;  // for raw, war, waw
};

/// Every scalar begins at a multiple of this in the block of scalars.
inline constexpr int64_t kScalarAlignment = 8;

/// No body has more lanes, and nobody may ask for more streams.
inline constexpr int kMaxStreams = 32;

/// Nodes in launch order, which is topological: a graph, or kernels launched one by one.
struct Body {
  std::vector<Node> nodes;
  std::vector<Edge> edges;  // sorted by (to, from): the unique transitive reduction
  uint32_t lanes = 1;
  uint32_t run = 0;     // of the levels pass
  bool stream = false;  // no graph: its ops are kept out of graphs, and its kernels form one lane
  double predicted_us = 0;  // from the first node's start to the last one's end
  double chain_us = 0;      // the same if all nodes formed one lane
  /// Of Program::regions: the one whose conditional node runs this graph, or whose scripts launch
  /// it, and as which of its sides. UINT32_MAX for a body that the outermost script launches.
  uint32_t region = UINT32_MAX;
  uint32_t branch = 0;
};

/// A call of a host function: the arguments are copied to the host, the results from there.
struct Call {
  std::string function;
  std::vector<uint32_t> args, results;          // views
  std::vector<uint32_t> values, result_values;  // the source values that they hold
  std::string op;                               // scoped name with kind, as in Node::ops
  std::string place;
  double copies_us = 0;               // predicted: arguments to the host, results from it
  uint32_t level = 0;                 // as in Node
  uint32_t earliest = 0, latest = 0;  // as in Node
};

/// A host function that a graph has the host run without ending: see mailbox.hpp.
struct Exchange {
  std::string function;
  std::vector<TensorType> arguments, results;
  bool pure = false;
  ir::HostWay way = ir::HostWay::handshake;  // or node
  std::string op;                            // scoped name with kind, as in Node::ops
  std::string place;
  std::string why;  // "4.2 us against 11.0 us for a break"
};

/// What the host does, in order; all device work goes to one stream.
struct Step {
  enum class Kind : uint8_t {
    launch = 0,  // enqueue body `index`: a graph launch, or its kernels one by one
    read = 1,    // enqueue copies of call `index`'s arguments to the host
    wait = 2,    // until the copies of call `index` are there
    call = 3,    // run the function of call `index`
    write = 4,   // enqueue copies of call `index`'s results to the device
    region = 5,  // region `index`, of kind host: read what decides, wait, follow one of its scripts
  } kind = Kind::launch;
  uint32_t index = 0;
};
std::string_view name_of(Step::Kind k);

/// A branch or a loop that is left in the plan (see ir/region.hpp for what those are). Regions
/// nest: an outer one has the lower index, and its bodies stand before those of the inner one.
struct Region {
  /// How it is carried out.
  enum class Kind : uint8_t {
    node = 0,       // a conditional node: IF, SWITCH or WHILE
    predicate = 1,  // a branch: guarded kernels among the nodes of the body around it
    host = 2,       // the host reads the flag and follows a script
  } kind = Kind::node;
  bool loop = false;
  uint32_t region = UINT32_MAX;  // the one around it
  uint32_t branch = 0;           // as which of that one's sides
  /// A view of what decides, b1[] or i32[]: of the handle's buffer for a node, else of a value in
  /// memory. A branch takes side 0 for false and 1 for true, or the side of that number, which lies
  /// in range. A loop runs its one side while the flag is true.
  uint32_t flag = 0;
  uint32_t sides = 1;
  /// node: the body of each side. Empty for other kinds.
  std::vector<uint32_t> bodies;
  /// host: what the host does for each side. Empty for other kinds.
  std::vector<std::vector<Step>> scripts;
  /// node and host: everything around the region that its sides, or the flag, read or write, each
  /// view once, and its slab; for a node also the args of the Node. `in` only read, `out` written
  /// before it is read, `inout` otherwise, or where a side may leave it as it was.
  std::vector<ArgSlot> slots;
  std::vector<uint32_t> args;                   // views, one per slot
  std::vector<uint32_t> values, values_before;  // as in Node
  /// What becomes of state that the sides write, in source values.
  struct State {
    uint32_t view = 0;
    uint32_t before = UINT32_MAX;  // what it holds before the region; UINT32_MAX: nothing yet
    uint32_t after = 0;            // what it holds after it
    /// By side: what it holds when the side begins, and when it ends. For a loop the entry stands
    /// for `before` and for the exit of the iteration before; for a branch it is `before`.
    std::vector<uint32_t> entry, exit;
  };
  std::vector<State> states;
  /// A temporary around the region in which all temporaries of its sides lie, those of different
  /// sides on the same bytes; UINT32_MAX if there are none, and for predicate.
  uint32_t slab = UINT32_MAX;
  uint32_t unrolled = 1;  // copies of a loop's body in one run of its side
  std::string op;         // scoped name with kind, as in Node::ops
  std::string place;
  std::string why;  // why it is carried out like this: "2 kernels in all: 0.9 us, IF 10.4 us"
  double estimate_us = 0;  // predicted, for the costlier side or one run of the loop's
};
std::string_view name_of(Region::Kind k);

/// A branch or loop that became plain ops, for reports.
struct Dissolved {
  std::string op, place;
  ir::Lowering lowering = ir::Lowering::select;  // select or unroll
  int64_t copies = 1;                            // of the loop's body
  std::string why;
};

/// What a `send` tells the host, by SendAttr::id.
struct MessageSource {
  ir::MessageKind kind = ir::MessageKind::print;
  std::string text;    // the label, or what a check wants to hold
  TensorType type;     // of the value
  uint32_t loops = 0;  // numbers of iterations that come with it, the outermost loop's first
  std::string op;      // scoped name with kind
  std::string place;
};

/// Why some op stands outside graphs.
struct Break {
  std::string op;  // scoped name with kind
  std::string place;
  uint32_t level = 0;  // its run
  std::string reason;  // "the host function 'sample' returns tensors"
  std::string remedy;  // a sentence for the author of the model
};

/// What it took to keep the arena within Options::memory_limit.
struct MemoryCut {
  int64_t limit = 0;                               // bytes; 0: nothing had to change
  int64_t bytes_before = 0;                        // of the arena without the limit
  uint32_t streams_before = 0, streams_after = 0;  // lanes of the widest body
  double us_before = 0, us_after = 0;              // predicted, all bodies together
  bool operator==(const MemoryCut&) const = default;
};

/// A named thing that callers bind, read or load.
struct Binding {
  std::string name;
  uint32_t buffer = 0;
  uint32_t value = UINT32_MAX;  // the source value it holds: an input before, an output after
};

/// A runtime scalar: one element, which the host sets between launches.
struct ScalarBinding {
  std::string name;
  uint32_t buffer = 0;
  uint32_t value = UINT32_MAX;  // the source value it holds
  double initial = 0;           // until it is set
};

struct ParamBinding {
  std::string name;
  uint32_t buffer = 0;
  ir::Init init = ir::Init::normal;
  double scale = 0.05;
  bool written = false;               // some node assigns it
  uint32_t first_value = UINT32_MAX;  // the version it holds before a launch ...
  uint32_t last_value = UINT32_MAX;   // ... and after one
};

struct Program {
  std::string name;
  Target target;
  std::string options;  // the options that shaped the plan, as text
  DimTable::Bindings dims;
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Kernel> kernels;
  std::vector<Module> modules;
  std::vector<Body> bodies;
  std::vector<Step> script;
  std::vector<Binding> inputs;  // in the graph's order
  std::vector<Binding> outputs;
  std::vector<ParamBinding> params;
  std::vector<ScalarBinding> scalars;
  int64_t scalar_bytes = 0;  // of the block that holds the scalars
  std::vector<std::byte> constants;
  std::vector<ir::Repeat> repeats;
  int64_t arena_bytes = 0;
  int64_t arena_lower_bound = 0;  // the most temp bytes live at one node or copy of the script
  int64_t temp_bytes_unshared = 0;
  MemoryCut memory_cut;
  uint32_t source_ops = 0;  // ops of the graph as given
  std::vector<Call> calls;
  std::vector<Exchange> exchanges;
  /// What the levels pass proved: the fewest graphs, and runs of graphs and host work in turn, with
  /// the path that forces them. Where the longest paths that begin with either colour are equally
  /// long, both together force the runs, and the second begins on the host.
  uint32_t graphs = 1;
  uint32_t runs = 1;
  std::vector<std::string> certificate, second_certificate;
  std::vector<Break> breaks;
  std::vector<Region> regions;
  std::vector<Dissolved> dissolved;
  std::vector<MessageSource> messages;
};

/// The arguments that a node takes: its kernel's, or its region's if it is a conditional node.
inline const std::vector<ArgSlot>& slots_of(const Program& p, const Node& node) {
  return node.kernel == kNoKernel ? p.regions[node.region].slots : p.kernels[node.kernel].args;
}

/// Text for people: kernels with their ops, buffers with offsets and the total, nodes and edges.
std::string to_text(const Program& p);
/// JSON with "schema": "braid.program/1"; no sources or images unless asked. Fixed key order.
std::string to_json(const Program& p, bool with_source = false);
/// Graphviz: one box a node, lanes as colours, edges by reason.
std::string to_dot(const Program& p);

/// The `.braid` file: see ir/README.md. read_program throws Error for anything but a well-formed
/// file of a known major version; it trusts no length or index in it.
std::vector<std::byte> write_program(const Program& p);
Program read_program(const std::vector<std::byte>& bytes, std::string_view file = "<braid>");

}  // namespace braid
