// Inside the runtime: the primary context of one device, and owners of what the driver gives out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/driver.hpp"
#include "runtime/gate.hpp"

namespace braid::runtime {

/// Driver, primary context and device facts. Released with the last object that lives in it.
struct Context {
  /// Initialises the driver and retains the primary context. Throws NoDevice if there is no such
  /// device, CudaError if the device cannot be used.
  Context(std::shared_ptr<Driver> table, int number);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Throws CudaError for a failed call; an error after which CUDA refuses all further work marks
  /// the context lost.
  void check(CUresult result, const char* call, const std::string& what = {}) {
    if (result != CUDA_SUCCESS) raise(result, call, what);
  }
  /// Throws CudaError with the first such error, if the context is lost.
  void require_alive() const {
    if (lost_) raise_lost();
  }
  bool lost() const { return lost_; }
  /// Finds out whether the context is lost, without waiting: throws CudaError. It must be current.
  void look(CUstream stream);
  /// Makes a call that gives something back, through the gate. See Gate::give_back.
  void give_back(Gate::GiveBack call, bool waits, int64_t bytes) noexcept;
  /// Does what the gate has queued, if it can be done now. The context must be current.
  void drain() { gate.drain(*driver); }

  std::shared_ptr<Driver> driver;
  int ordinal = 0;
  CUdevice device = 0;
  CUcontext handle = nullptr;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::string note;          // why "auto" chose the simulator
  Gate gate{lost_};

 private:
  [[noreturn]] void raise(CUresult result, const char* call, const std::string& what);
  [[noreturn]] void raise_lost() const;

  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  std::string first_error_;  // why it is lost; guarded by mutex_
};
using ContextPtr = std::shared_ptr<Context>;
/// As the constructor. May be let go of in a host function.
ContextPtr make_context(std::shared_ptr<Driver> table, int number);

/// Makes a context current in this thread for a scope. Throws CudaError if the context is lost, and
/// Error E0851 inside a host function.
class Current {
 public:
  explicit Current(const ContextPtr& context) : context_(context) {
    InHostCall::refuse();
    context_->require_alive();
    context_->check(context_->driver->cuCtxPushCurrent(context_->handle), "cuCtxPushCurrent");
  }
  ~Current() {
    CUcontext popped = nullptr;
    context_->driver->cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  ContextPtr context_;
};

/// Owns one driver object; Destroy is the call that gives it back. Errors of that call are dropped:
/// what it could report was reported by the call that failed first.
template <class H, CUresult (Driver::*Destroy)(H)>
class Owned {
 public:
  Owned() = default;
  /// `bytes` of the device's memory are kept until it is given back.
  Owned(ContextPtr context, H handle, int64_t bytes = 0)
      : context_(std::move(context)), handle_(handle), bytes_(bytes) {}
  ~Owned() { reset(); }
  Owned(Owned&& o) noexcept
      : context_(std::move(o.context_)), handle_(std::exchange(o.handle_, H{})), bytes_(o.bytes_) {}
  Owned& operator=(Owned&& o) noexcept {
    if (this != &o) {
      reset();
      context_ = std::move(o.context_);
      handle_ = std::exchange(o.handle_, H{});
      bytes_ = o.bytes_;
    }
    return *this;
  }

  H get() const { return handle_; }
  explicit operator bool() const { return handle_ != H{}; }
  /// Gives the object up: it is no longer destroyed.
  H release() noexcept { return std::exchange(handle_, H{}); }
  void reset() noexcept {
    if (handle_ == H{}) return;
    context_->give_back([handle = handle_](Driver& driver) { (driver.*Destroy)(handle); }, kWaits,
                        bytes_);
    handle_ = H{};
  }

 private:
  /// Memory and libraries: the call waits for kernels that run.
  static constexpr bool kWaits =
      std::is_same_v<H, CUdeviceptr> || std::is_same_v<H, void*> || std::is_same_v<H, CUlibrary>;

  ContextPtr context_;
  H handle_{};
  int64_t bytes_ = 0;
};

using OwnedMemory = Owned<CUdeviceptr, &Driver::cuMemFree>;
using OwnedHostMemory = Owned<void*, &Driver::cuMemFreeHost>;
using OwnedStream = Owned<CUstream, &Driver::cuStreamDestroy>;
using OwnedEvent = Owned<CUevent, &Driver::cuEventDestroy>;
using OwnedLibrary = Owned<CUlibrary, &Driver::cuLibraryUnload>;
using OwnedGraph = Owned<CUgraph, &Driver::cuGraphDestroy>;
using OwnedExec = Owned<CUgraphExec, &Driver::cuGraphExecDestroy>;

/// At least 1 byte, 256-byte aligned. The context must be current. `what` is for error messages.
OwnedMemory allocate(const ContextPtr& context, int64_t bytes, const std::string& what);
/// A stream that does not synchronise with the legacy default stream.
OwnedStream make_stream(const ContextPtr& context);

/// Events for the ends of launches, used again when the last holder of one is gone.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(ContextPtr context) : context_(std::move(context)) {}

  /// The end of one launch. Shared by its ticket, its executable and the store.
  class Mark {
   public:
    Mark(std::shared_ptr<EventPool> pool, OwnedEvent event)
        : pool_(std::move(pool)), event_(std::move(event)) {}
    ~Mark();
    CUevent event() const { return event_.get(); }
    CUstream stream = nullptr;  // where it was recorded

   private:
    std::shared_ptr<EventPool> pool_;
    OwnedEvent event_;
  };
  std::shared_ptr<Mark> take();

 private:
  ContextPtr context_;
  std::mutex mutex_;
  std::vector<OwnedEvent> free_;
};
using MarkPtr = std::shared_ptr<EventPool::Mark>;

}  // namespace braid::runtime
