// Inside the simulator: its objects and how they hang together.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/simulator.hpp"

namespace braid::runtime::sim {

/// What has happened before a point in time: per stream, how many of its operations.
using Clock = std::map<uint64_t, uint64_t>;
void merge(Clock& into, const Clock& from);

/// Bytes [low, high) of the device's address space.
struct Range {
  uint64_t low = 0, high = 0;
  bool write = false;
  size_t slot = 0;  // the argument of the kernel that reaches them
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

enum class Bound : uint8_t { input, param, output };

/// A kernel record of an image.
struct KernelRecord {
  std::string symbol;
  std::vector<ArgSlot> args;
  uint32_t parts = 1;        // copies of the body, `args` holding their slots one after the other
  std::vector<Bound> bound;  // by slot: what of the body it is
  LaunchShape launch;
  bool waits = false;
  std::vector<InPlace> in_place;
  ir::Graph body;
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
};

/// A kernel with the arguments copied when it was added or launched.
struct Call {
  RecordPtr record;
  std::vector<uint64_t> args;
};

/// "node 3 (row_relu_1a2b)".
std::string call_text(const std::vector<Call>& calls, size_t index);
/// The bytes a call reads and writes, without empty ones.
std::vector<Range> ranges_of(const Call& call);
/// Bytes of the host's memory that running a call takes: what the interpreter holds, and each
/// argument once more in its own and in the wide form.
uint64_t bytes_to_run(const Call& call);
/// Bytes that a control group (version 2) has left, given its folder; nothing if it sets no limit.
/// Cached files count as free: the system drops them first.
std::optional<uint64_t> free_in_control_group(const std::string& folder);
/// A sentence for each pair of calls that touch the same bytes, one of them writing, with no path
/// between them. `before[i]` lists calls that end before call i starts, all smaller than i.
std::vector<std::string> find_races(const std::vector<Call>& calls,
                                    const std::vector<std::vector<uint32_t>>& before);

struct GraphEdge {
  uint32_t from = 0;
  CUgraphEdgeData data{};
};

struct Graph {
  std::vector<uint64_t> nodes;  // handles; an edge never leads to an earlier node
  std::vector<Call> calls;
  std::vector<std::vector<GraphEdge>> incoming;
};

struct Exec {
  uint64_t graph = 0;
  std::vector<Call> calls;
  std::vector<std::vector<uint32_t>> before;
  std::optional<std::vector<std::string>> races;  // nothing: to be found at the next launch
  Clock clock;                                    // of the last launch: launches do not overlap
};

struct StreamState {
  Clock clock;
  bool blocking = false;  // ordered with the legacy default stream
};

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

  // Order.
  StreamState* find_stream(uint64_t handle);
  /// The next operation on a stream; its clock is the stream's afterwards.
  void begin_operation(uint64_t stream);
  /// Enters what an operation touches; reports accesses that are not ordered with earlier ones.
  void touch(uint64_t stream, const std::vector<Range>& ranges, const std::string& what);

  // Kernels.
  CUresult check_launch(const Function& function, const LaunchShape& shape, void** params,
                        void** extra, Call* call);
  /// Runs a kernel. False if it failed, which was then reported.
  bool execute(const Call& call, const std::string& who);
  bool execute_part(const Call& call, uint32_t part, const std::string& who);
  /// Runs nothing if one of its kernels needs more memory than there is.
  CUresult launch(Exec& exec, uint64_t stream);

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
  Table<uint64_t> freed_;  // base address -> bytes; addresses are never given out again
  Table<Library> libraries_;
  Table<Function> functions_;
  Table<Graph> graphs_;
  Table<std::pair<uint64_t, uint32_t>> nodes_;  // -> graph, index
  Table<Exec> execs_;
  Table<StreamState> streams_{{0, StreamState{{}, true}}};
  Table<EventState> events_;
  Clock host_;
};

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
