// Inside the runtime: the parts of an Executable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/emit_graph.hpp"
#include "runtime/executable.hpp"
#include "runtime/host_calls.hpp"
#include "runtime/host_flags.hpp"
#include "runtime/mailbox.hpp"
#include "runtime/ring.hpp"
#include "runtime/store.hpp"

namespace braid {

struct Ticket::Impl {
  runtime::ContextPtr context;
  runtime::MarkPtr mark;
  std::shared_ptr<const std::string> what;  // "launch of program 'mlp'"
  std::shared_ptr<runtime::Ring> ring;      // with `launch`, where the program sends messages
  runtime::Ring::LaunchPtr launch;
  std::shared_ptr<runtime::Mailbox> mailbox;  // with `exchanged`, where its graphs call the host
  runtime::Mailbox::LaunchPtr exchanged;

  /// Until the device is done and the launch's messages are delivered.
  void finish() const;
  void rethrow() const;
};

/// Apart from the constructor, build and the destructor, member functions expect `mutex` to be
/// held and the context to be current.
struct Executable::Impl {
  Impl(Program p, Store s);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Everything the constructor of Executable promises. The context must be current.
  void build(const HostFunctions& host_functions, MessageOptions messages, const HostOptions& host,
             const LibraryFunctions& library_functions);
  /// The lock for a call from outside. Throws Error E0863 in the message function.
  std::unique_lock<std::mutex> enter() const;
  void place_buffers();
  void initial_scalars();
  void put_scalar(uint32_t buffer, const HostTensor& value);
  void load_kernels(const HostFunctions& host_functions);
  CUlibrary load_image(const std::vector<std::byte>& image, const std::string& what,
                       const std::shared_ptr<const HostFunctions>& references);

  CUdeviceptr address_of(uint32_t view) const;
  /// Enqueues one launch behind everything that must come first, and remembers it: `last`,
  /// `launched` where there is a ring, `exchanged` where there is a mailbox.
  runtime::MarkPtr enqueue(CUstream on, LaunchMode mode);
  void perform(const Step& step, CUstream on, LaunchMode mode);
  /// A region that the host drives: its flag, then the script of a side; again and again for a
  /// loop.
  void follow(uint32_t region, CUstream on, LaunchMode mode);
  /// Copies the block of scalars if one was set since the last launch.
  void enqueue_scalars(CUstream on);
  void enqueue_kernels(const Body& body, uint32_t index, CUstream on);
  /// Makes the executable's own stream wait for its last launch.
  void order_own_stream();
  /// The buffer of an input or output; Error if there is none. A name that is both is the input
  /// if `input_first`.
  uint32_t buffer_named(std::string_view name, bool input_first) const;
  void check_binding(std::string_view name, uint32_t buffer, DevicePtr address,
                     int64_t bytes) const;
  void rebind(uint32_t buffer, DevicePtr address);

  // executable_graphs.cpp
  /// All graphs. Library ops that cannot be captured are broken out of their bodies first.
  void make_graphs();
  void try_libraries();
  /// Takes a library op out of its graph, or throws Error E0890.
  void break_out(uint32_t body, uint32_t node, const std::string& reason);
  /// Enqueues a library kernel outside graphs. Throws Error E0893 with what its function throws.
  void enqueue_library(const Node& node, const std::vector<CUdeviceptr>& with, CUstream on);
  /// The outermost bodies in whose graphs a library op uses the buffer.
  std::vector<uint32_t> graphs_to_renew(uint32_t buffer) const;
  struct Renewed {
    std::vector<runtime::BodyGraph> graphs;
    std::vector<runtime::BodyArgs> args;
    std::vector<CUdeviceptr> bases;
  };
  /// Makes those graphs anew with the present `bases`; all else of it is as it is now, or empty.
  Renewed renew(const std::vector<uint32_t>& bodies);
  void copy_in(uint32_t buffer, const HostTensor& value);
  HostTensor copy_out(uint32_t buffer) const;
  /// Runs `work`, which enqueues on the executable's own stream, then waits; also if it throws, as
  /// copies may still use host memory of the caller's.
  template <class Work>
  void on_own_stream(const Work& work) {
    order_own_stream();
    try {
      work();
    } catch (...) {
      context->driver->cuStreamSynchronize(stream.get());
      throw;
    }
    context->check(context->driver->cuStreamSynchronize(stream.get()), "cuStreamSynchronize",
                   *launch_text);
  }

  Program program;  // changed while it is built alone
  Store store;
  runtime::ContextPtr context;
  mutable std::mutex mutex;
  const std::shared_ptr<const std::string> launch_text;  // for errors; launches do not build text

  Placement placement;
  runtime::OwnedMemory arena;
  std::map<uint32_t, runtime::OwnedMemory> memory;  // of inputs and outputs, by buffer
  runtime::OwnedMemory scalars;
  std::vector<std::byte> scalar_values;  // what the next launch takes
  bool scalars_changed = false;          // since the last launch
  runtime::OwnedStream stream;
  std::shared_ptr<runtime::Mailbox> mailbox;     // only where graphs call host functions
  std::vector<runtime::OwnedLibrary> libraries;  // by module
  std::vector<CUfunction> functions;             // by kernel
  std::vector<CUdeviceptr> bases;                // by buffer: where it starts now, or its handle
  std::vector<runtime::BodyArgs> args;           // by body: what the nodes take now
  std::vector<runtime::BodyGraph> graphs;        // by body; empty for one that is no graph
  runtime::LibraryCalls libraries_called;
  runtime::HostCalls calls;
  runtime::HostFlags flags;
  std::shared_ptr<runtime::Ring> ring;  // only where the program sends messages
  runtime::Ring::LaunchPtr launched;
  runtime::Mailbox::LaunchPtr exchanged;
  bool writes_params = false;
  runtime::MarkPtr last;  // the last launch
};

}  // namespace braid
