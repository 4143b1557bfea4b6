// One instantiated Program over a Store. This header does not include cuda.h.
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/host.hpp"
#include "ir/program.hpp"
#include "ir/tensor.hpp"
#include "runtime/device.hpp"
#include "runtime/host_options.hpp"
#include "runtime/library.hpp"
#include "runtime/message.hpp"

namespace braid {

namespace runtime {
class KernelTimer;
}

/// The result of one launch. Waiting twice is fine; dropping a ticket is fine too.
class Ticket {
 public:
  /// Blocks until the launch is done and its messages are delivered. Throws CudaError with the
  /// first error of that launch; Error E0870 if a host function that its graph called failed, E0871
  /// if one did not answer in time; E0860 if a check failed, E0861 if the message function threw.
  /// Later launches are not concerned.
  void wait();
  bool done() const;
  /// The last value that the launch sent for an item. Waits, and throws CudaError, but not what
  /// checks and the message function did; Error E0862 if there is none of that label.
  HostTensor item(std::string_view label) const;
  /// All of them, by label.
  std::map<std::string, Message, std::less<>> items() const;

 private:
  friend class Executable;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

enum class LaunchMode : uint8_t {
  graph,   // one cuGraphLaunch per body
  stream,  // the same kernels one by one on a stream, no graph: for comparison and debugging
};

/// What only a graph can hold: conditional nodes and host nodes.
struct GraphOnly {
  std::string why;     // "y (branch) is a conditional node, m.toml:12:3"
  std::string remedy;  // "compile it with .."
};
/// Why the kernels of a program cannot be launched one by one (LaunchMode::stream is E0828);
/// nothing if they can.
std::optional<GraphOnly> graph_only(const Program& program);

/// A number for a runtime scalar.
struct ScalarValue {
  ScalarValue(double x) : value(x) {}        // NOLINT: implicit
  ScalarValue(int64_t x) : value(x) {}       // NOLINT: implicit
  ScalarValue(int x) : value(int64_t{x}) {}  // NOLINT: implicit
  /// Not what turns into a bool, such as "0.5".
  template <std::same_as<bool> T>
  ScalarValue(T x) : value(int64_t{x}) {}  // NOLINT: implicit
  std::variant<double, int64_t> value;
};

/// Owns the CUgraph and the CUgraphExec, its arena and the loaded kernels. Launches of one
/// executable are ordered, on any streams. bind and launch are one critical section. Not copyable.
class Executable {
 public:
  /// Declares the program's params in the store, loads every kernel, builds, instantiates and
  /// uploads. On failure gives everything back and throws CudaError (or Error for a bad program).
  /// Modules must be compiled (compile_modules) unless the device is simulated. `functions` are
  /// those that the program's host ops call by name; Error E0806 if one is missing. `messages` says
  /// where prints, items and failed checks go; in its function, calls of this object and waiting
  /// for its launches are Error E0863. `host` says how long graphs wait for functions. `libraries`
  /// are those that its library ops name; Error E0892 if one is missing on a GPU. A library op that
  /// cannot be captured becomes a break of program(); where a conditional node does not let it, it
  /// is Error E0890. Error E0891 where cuBLASLt is needed and not found.
  Executable(Program program, Store store, const HostFunctions& functions = {},
             MessageOptions messages = {}, const HostOptions& host = {},
             const LibraryFunctions& libraries = {});
  /// Waits for launches under way; but no longer than a second, nor than the deadline, for a host
  /// function that a graph waits for. One that has not returned then goes on by itself.
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;

  /// As given, but for library ops that became breaks.
  const Program& program() const;
  Store store() const;

  /// Binds memory of the caller's to an input or output until rebound: no copy, the nodes that
  /// use it are patched, and a graph in which a library op uses it is built anew. Checks that the
  /// name exists, the size is exact, the address is 16-byte aligned, and the range overlaps no
  /// other binding, the arena or the store. Throws Error.
  void bind(std::string_view name, DevicePtr address, int64_t bytes);
  /// Gives a runtime scalar a value for every launch from now on; launches already made keep
  /// theirs. Throws Error for an unknown name, or a number that its dtype cannot hold exactly if
  /// that is an integer dtype or b1; a float dtype rounds.
  void set(std::string_view name, ScalarValue value);
  /// The type of an input, output or scalar, with every dim bound. Throws Error for an unknown
  /// name.
  TensorType type(std::string_view name) const;
  /// The memory an input or output uses now: the executable's own until bind.
  DevicePtr address(std::string_view name) const;

  /// Asynchronous. With stream = nullptr runs on the executable's own stream. Where the program
  /// calls host functions, they run in this thread, and launch returns after the last of them: what
  /// one throws is an Error E0850, the rest of that launch is left out, and the executable stays
  /// usable (params may be changed in part). Those that a graph calls run in a thread of the
  /// executable's, and launch does not wait for them: see Ticket::wait. When one of these fails,
  /// the others of that launch are not called, the graph goes on with zeros, and what it writes
  /// means nothing. Error E0872 while one has not returned that did not answer in time. A host
  /// function may not use the library's devices, stores and executables (E0851).
  Ticket launch(Stream stream = nullptr, LaunchMode mode = LaunchMode::graph);

  /// Copies inputs in, launches, waits, copies outputs back. All inputs must be given, with the
  /// program's types. Throws Error or CudaError, also what Ticket::wait throws.
  std::map<std::string, HostTensor> run(const std::map<std::string, HostTensor>& inputs,
                                        LaunchMode mode = LaunchMode::graph);

  /// Copies to and from whatever is bound to a name, after earlier launches.
  void write(std::string_view name, const HostTensor& value);
  HostTensor read(std::string_view name) const;
  /// Fills outputs and the arena with 0xFF bytes, so that what a launch fails to write shows.
  void poison();

  /// Prints and failed checks since the last call, where there is no message function. Items are
  /// with their tickets.
  std::vector<Message> take_messages();
  /// How many messages were lost, of all launches so far, which are waited for: the ring was full,
  /// or too many were kept.
  uint64_t dropped_messages() const;

  struct Impl;

 private:
  friend class runtime::KernelTimer;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
