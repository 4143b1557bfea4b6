// Inside the simulator: its objects and how they hang together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/interpret.hpp"
#include "ir/ring.hpp"
#include "runtime/simulator.hpp"

namespace braid::runtime::sim {

inline constexpr uint64_t kContext = 0x51000000;  // the handle of the one context

/// What has happened before a point in time: per stream, how many of its operations.
using Clock = std::map<uint64_t, uint64_t>;
void merge(Clock& into, const Clock& from);

/// Bytes [low, high) of the device's address space, or the value of a conditional node, whose place
/// is its handle: no memory has such an address.
struct Range {
  uint64_t low = 0, high = 0;
  bool write = false;
  size_t slot = 0;  // the argument of the kernel that reaches them
  bool handle = false;
};

/// An operation that touched bytes of an allocation.
struct Touch {
  Range range;
  uint64_t stream = 0, sequence = 0;
  std::shared_ptr<const std::string> what;
};

struct Allocation {
  std::vector<std::byte> bytes;
  std::vector<uint8_t> written;  // 0: poison, nothing has written this byte yet
  std::vector<Touch> touches;    // the latest ones: what newer ones imply is dropped
};

/// `handle`: a param that is the value of a conditional node. `ring`: the one of messages. `guard`,
/// `workspace`, `slot` and `header`: none of the body's, the last two being those of a mailbox.
enum class Bound : uint8_t { input, param, output, handle, ring, guard, workspace, slot, header };

/// What a kernel does for the host op in its body.
enum class Mail : uint8_t { none, exchange, post, fetch };

/// A kernel record of an image.
struct KernelRecord {
  std::string symbol;
  std::vector<ArgSlot> args;
  uint32_t parts = 1;        // copies of the body, `args` holding their slots one after the other
  std::vector<Bound> bound;  // by slot: what of the body it is
  LaunchShape launch;
  bool waits = false;
  std::vector<InPlace> in_place;
  std::optional<int32_t> guard;  // runs only if its last argument holds this
  bool workspace = false;        // the last argument is memory for the call alone
  Mail mail = Mail::none;
  std::string function;               // that the host op in its body calls
  std::vector<Parameter> parameters;  // of a kernel of the user's; empty for ours
  ir::Graph body;
  /// Arguments behind those of the body's, and the latter in all parts.
  size_t extra_slots() const {
    return (guard ? 1u : 0u) + (workspace ? 1u : 0u) + (mail != Mail::none ? 2u : 0u);
  }
  size_t body_slots() const { return args.size() - extra_slots(); }
};
using RecordPtr = std::shared_ptr<const KernelRecord>;

/// The kernels of an image; nothing if it is not one, with the reason in `why`.
std::optional<std::vector<RecordPtr>> read_image(const void* image, std::string* why);

struct Function {
  uint64_t library = 0;
  RecordPtr record;
  int64_t max_shared_bytes = 48 * 1024;
};

struct Library {
  std::vector<RecordPtr> records;
  std::map<std::string, uint64_t> functions;  // those asked for, by symbol
  std::shared_ptr<const HostFunctions> references;
};

/// A kernel with the arguments copied when it was added or launched.
struct Call {
  RecordPtr record;
  std::vector<uint64_t> args;
  std::shared_ptr<const HostFunctions> references{};  // may be null
};

/// Writes a message into the ring, or counts it as dropped.
void append(RingControl& control, const ir::Message& message);
void end_launch(RingControl& control);
/// The bytes a call reads and writes, without empty ones.
std::vector<Range> ranges_of(const Call& call);
/// Bytes of the host's memory that running a call takes: what the interpreter holds, and each
/// argument once more in its own and in the wide form.
uint64_t bytes_to_run(const Call& call);
/// Bytes that a control group (version 2) has left, given its folder; nothing if it sets no limit.
/// Cached files count as free: the system drops them first.
std::optional<uint64_t> free_in_control_group(const std::string& folder);

struct GraphEdge {
  uint32_t from = 0;
  CUgraphEdgeData data{};
};

struct Conditional {
  uint64_t handle = 0;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<CUgraph> bodies;
  /// At the start of each launch; without one the value is undefined until a kernel sets it.
  std::optional<uint32_t> initial;
};

struct Node {
  uint64_t handle = 0;
  Call call;                                 // of a kernel node
  std::shared_ptr<Conditional> conditional;  // null for other nodes
  std::optional<CUDA_HOST_NODE_PARAMS_v2> host;
  std::vector<GraphEdge> incoming;
};

struct Graph {
  std::vector<Node> nodes;        // an edge never leads to an earlier one
  uint64_t owner = 0;             // of the body of a conditional node: the graph with that node
  std::vector<uint64_t> handles;  // of conditional nodes, made in this graph
};

/// What cuGraphConditionalHandleCreate made.
struct HandleState {
  uint64_t graph = 0;
  std::optional<uint32_t> initial;
  bool used = false;  // by a node
};

/// An instantiated graph and the bodies of its conditional nodes, each with its nodes in one piece:
/// the outermost first, a body behind the graph that it is in.
struct Nest {
  struct Graph {
    uint32_t first = 0, end = 0;   // of `nodes`
    uint32_t owner = UINT32_MAX;   // the conditional node that runs it
    uint32_t side = 0, depth = 0;  // as which of its bodies; how many conditional nodes around
  };
  struct Node {
    Call call;
    std::shared_ptr<const Conditional> conditional;
    std::optional<CUDA_HOST_NODE_PARAMS_v2> host;
    uint32_t graph = 0;
    bool is_kernel() const { return !conditional && !host; }
    std::vector<uint32_t> before;  // nodes of the same graph that end before it starts, all smaller
    std::vector<uint32_t> sides;   // of `graphs`
  };
  std::vector<Graph> graphs;
  std::vector<Node> nodes;
};
/// "node 3 (row_relu_1a2b)", "node 0 (row_add_77aa) in body 1 of node 2".
std::string node_text(const Nest& nest, uint32_t node);
/// What a node itself reads and writes; of a conditional node its value.
std::vector<Range> ranges_of(const Nest::Node& node);
/// A sentence for each pair of nodes that touch the same bytes, one of them writing, with no path
/// between them, or between the conditional nodes of one graph that contain them. Nodes of
/// different bodies of a conditional node never run together; different runs of one body follow
/// each other.
std::vector<std::string> find_races(const Nest& nest);

struct Exec {
  uint64_t graph = 0;
  std::map<uint64_t, uint32_t> places;  // by graph: which of nest.graphs it is
  Nest nest;
  std::optional<std::vector<std::string>> races;  // nothing: to be found at the next launch
  Clock clock;                                    // of the last launch: launches do not overlap
};

/// The values of conditional nodes during one launch, by handle.
struct HandleValue {
  std::optional<uint32_t> now;  // nothing: undefined
  bool keeps = false;           // has a default, which stays until another one is set
};
using HandleValues = std::map<uint64_t, HandleValue>;

/// What a stream is capturing.
struct Capture {
  uint64_t id = 0;
  uint64_t graph = 0;
  bool own = false;      // the graph was made by the capture
  bool invalid = false;  // something was done that cannot be captured
  std::vector<CUgraphNode> tails;
  std::vector<CUgraphEdgeData> edges;  // to what comes after `tails`
  std::thread::id thread;
};

struct StreamState {
  Clock clock;
  bool blocking = false;  // ordered with the legacy default stream
  std::optional<Capture> capture{};
};

/// A copy from page-locked memory of the host's, which must stay as it is until the copy is over.
struct Upload {
  const std::byte* from = nullptr;
  size_t bytes = 0;
  size_t hash = 0;  // of what was copied
  uint64_t stream = 0, sequence = 0;
};

inline size_t hash_of(const std::byte* bytes, size_t count) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes), count});
}

struct EventState {
  Clock clock;
  bool timing = true;
  std::optional<std::chrono::steady_clock::time_point> recorded;
};

/// Handles are numbers that are never used again, so a destroyed object is always noticed.
template <class T>
using Table = std::map<uint64_t, T>;

class State final : public Simulator {
 public:
  explicit State(const SimOptions& options) { set_options(options); }

  bool simulated() const override { return true; }
  std::string last_report() const override;
  void provide(CUlibrary library, const std::shared_ptr<const HostFunctions>& functions) override;
  std::vector<std::string> take_reports() override;
  int64_t live_objects() const override;
  void set_options(const SimOptions& options) override;

#define BRAID_CALL(name, version, params, args) CUresult name params override;
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

 private:
  /// What a call in a context returns before it does anything else.
  CUresult ready() const;
  uint64_t new_handle() { return next_handle_ += 16; }
  /// An error inside work on the device: no work is done any more, and the first call that waits
  /// for the device and all calls after it return the code.
  void fail(CUresult code, std::string report);
  /// What a call that waits for the device returns.
  CUresult observe() { return lost_ = failed_; }

  // Memory.
  /// Whether so many bytes more of the host's memory may be used; if not, says so in shortage_.
  bool room_for(uint64_t bytes, const std::string& what);
  /// The allocation that holds all of a range; null if there is none, with the reason in `why`.
  Allocation* find_memory(uint64_t address, uint64_t bytes, uint64_t* base, std::string* why);
  CUresult copy_in(uint64_t to, const void* from, size_t bytes, uint64_t stream);
  CUresult copy_out(void* to, uint64_t from, size_t bytes, uint64_t stream);
  /// Whether the bytes lie in one block of page-locked memory.
  bool in_host_memory(uint64_t address, uint64_t bytes) const;

  // Order.
  StreamState* find_stream(uint64_t handle);
  /// The host has waited for everything before `clock`. Reports page-locked bytes that changed
  /// while a copy of them might not have been over.
  void wait_for(const Clock& clock);
  /// The next operation on a stream; its clock is the stream's afterwards.
  void begin_operation(uint64_t stream);
  /// Enters what an operation touches; reports accesses that are not ordered with earlier ones.
  void touch(uint64_t stream, const std::vector<Range>& ranges, const std::string& what);

  // Kernels.
  CUresult check_launch(const Function& function, const LaunchShape& shape, void** params,
                        void** extra, Call* call);
  /// The arguments of a kernel of the user's by its parameters.
  CUresult unpack(const Function& function, void** params, Call* call);
  struct Place {
    Allocation* memory = nullptr;
    uint64_t offset = 0;
  };
  /// Runs a kernel. False if it failed, which was then reported. `values` are those that it may
  /// set: null outside graphs.
  bool execute(const Call& call, const std::string& who, HandleValues* values);
  bool execute_part(const Call& call, uint32_t part, const std::string& who, HandleValues* values);
  /// Finds an argument's bytes and copies them to `value`. False if that failed.
  bool read_argument(const Call& call, size_t slot, const std::string& who, HostTensor& value,
                     Place& place);
  /// Leaves bytes in a workspace that nobody may read.
  bool scramble(const Call& call, const std::string& who);
  bool set_handle(uint64_t handle, const HostTensor& value, const std::string& who,
                  HandleValues* values);
  /// Appends what the sends of a kernel's body gave, in op order. False if there is no ring.
  bool send(const ir::Graph& body, const std::vector<ir::Message>& messages, RingControl& control,
            const std::string& who);
  /// Does what a kernel does for the host op in its body, by the real mailbox. What goes wrong is
  /// an exception.
  void exchange(const KernelRecord& record, std::byte* slot, std::byte* header,
                std::span<const HostTensor> arguments, std::span<HostTensor> results) const;
  /// Runs nothing if one of its kernels needs more memory than there is.
  CUresult launch(Exec& exec, uint64_t stream);
  friend class Run;

  // Capture.
  /// What a call returns that no capture of this thread allows, which it ends.
  CUresult forbidden_in_capture();
  /// The same for one that a capturing stream does not allow.
  CUresult forbidden_on(uint64_t stream);
  CUresult capture_launch(Capture& capture, Call call);

  // Graphs.
  /// Whether `graph` is `outer` or lies inside it.
  bool is_inside(uint64_t graph, uint64_t outer) const;
  CUresult add_conditional(uint64_t graph, CUDA_CONDITIONAL_NODE_PARAMS& params, Node& node);
  void destroy(uint64_t graph);
  Nest nest_of(uint64_t graph, std::map<uint64_t, uint32_t>& places) const;

  mutable std::mutex mutex_;
  SimOptions options_;
  std::mt19937_64 random_;
  std::vector<std::string> reports_;       // not taken yet
  std::vector<std::string> lost_reports_;  // of the present context
  std::string shortage_;                   // why memory was refused last
  uint64_t held_ = 0;                      // bytes of the host's memory in allocations
  CUresult failed_ = CUDA_SUCCESS;         // on the device
  CUresult lost_ = CUDA_SUCCESS;           // the same, once the host has seen it

  bool initialized_ = false;
  int64_t retained_ = 0;
  std::map<std::thread::id, std::vector<CUcontext>> current_;

  uint64_t next_handle_ = 0x51500000;
  uint64_t next_address_ = 0x7f0000000000;
  Table<Allocation> memory_;  // by base address
  std::map<void*, std::vector<std::byte>> host_memory_;
  std::vector<Upload> uploads_;  // those that the host has not waited for
  Table<uint64_t> freed_;        // base address -> bytes; addresses are never given out again
  Table<Library> libraries_;
  Table<Function> functions_;
  Table<Graph> graphs_;
  Table<std::pair<uint64_t, uint32_t>> nodes_;  // -> graph, index
  Table<HandleState> handles_;
  Table<Exec> execs_;
  Table<StreamState> streams_{{0, StreamState{{}, true}}};
  Table<EventState> events_;
  Clock host_;
};

/// Of the versions of the parameter struct that calls take.
template <class Params>
LaunchShape shape_of(const Params& p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ},
          {p.blockDimX, p.blockDimY, p.blockDimZ},
          p.sharedMemBytes};
}

template <class H>
uint64_t number_of(H handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <class H>
H handle_of(uint64_t number) {
  return reinterpret_cast<H>(number);
}

template <class T>
T* find(Table<T>& table, uint64_t handle) {
  const auto found = table.find(handle);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace braid::runtime::sim
