// Inside the runtime: the primary context of one device, and owners of what the driver gives out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/driver.hpp"

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

  std::shared_ptr<Driver> driver;
  int ordinal = 0;
  CUdevice device = 0;
  CUcontext handle = nullptr;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::string note;          // why "auto" chose the simulator

 private:
  [[noreturn]] void raise(CUresult result, const char* call, const std::string& what);
  [[noreturn]] void raise_lost() const;

  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  std::string first_error_;  // why it is lost; guarded by mutex_
};
using ContextPtr = std::shared_ptr<Context>;

/// While it lives, this thread runs a host function of a launch, which holds locks that a call of
/// the library would wait for.
class InHostCall {
 public:
  InHostCall() { active() = true; }
  ~InHostCall() { active() = false; }
  InHostCall(const InHostCall&) = delete;
  InHostCall& operator=(const InHostCall&) = delete;
  /// Throws Error E0851 in such a thread.
  static void refuse();

 private:
  static bool& active();
};

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
  Owned(ContextPtr context, H handle) : context_(std::move(context)), handle_(handle) {}
  ~Owned() { reset(); }
  Owned(Owned&& o) noexcept
      : context_(std::move(o.context_)), handle_(std::exchange(o.handle_, H{})) {}
  Owned& operator=(Owned&& o) noexcept {
    if (this != &o) {
      reset();
      context_ = std::move(o.context_);
      handle_ = std::exchange(o.handle_, H{});
    }
    return *this;
  }

  H get() const { return handle_; }
  explicit operator bool() const { return handle_ != H{}; }
  /// Gives the object up: it is no longer destroyed.
  H release() noexcept { return std::exchange(handle_, H{}); }
  void reset() noexcept {
    if (handle_ == H{}) return;
    Driver& driver = *context_->driver;
    // A lost context still takes its objects back, so this does not go through Current.
    const bool pushed = driver.cuCtxPushCurrent(context_->handle) == CUDA_SUCCESS;
    (driver.*Destroy)(handle_);
    CUcontext popped = nullptr;
    if (pushed) driver.cuCtxPopCurrent(&popped);
    handle_ = H{};
  }

 private:
  ContextPtr context_;
  H handle_{};
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
