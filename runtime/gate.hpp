// Inside the runtime: what the driver cannot do while a kernel waits for the host.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/driver.hpp"

namespace braid::runtime {

/// While it lives, this thread runs a host function of a launch, which holds locks that a call of
/// the library would wait for, or which a kernel waits for.
class InHostCall {
 public:
  InHostCall() { flag() = true; }
  ~InHostCall() { flag() = false; }
  InHostCall(const InHostCall&) = delete;
  InHostCall& operator=(const InHostCall&) = delete;
  /// Throws Error E0851 in such a thread.
  static void refuse();
  static bool active() { return flag(); }

 private:
  static bool& flag();
};

/// Launches of one executable whose kernels wait for the host. `done` is written by the device.
struct Spins {
  std::atomic<uint32_t> launched = 0;
  uint32_t* done = nullptr;
  bool pending() const {
    return std::atomic_ref(*done).load(std::memory_order_acquire) !=
           launched.load(std::memory_order_relaxed);
  }
};

/// While a kernel waits for the host, freeing memory, unloading and first loads wait for that
/// kernel, in every thread. A host function that did one would wait for itself, and others would
/// hold up whoever wants the driver. So what is freed then is queued here and freed when no kernel
/// waits; and whoever loads kernels waits here first, while new launches that may wait for the host
/// stay outside. One per context. Makes driver calls with its own lock held, but never while a
/// kernel waits; nobody who answers kernels takes that lock.
class Gate {
 public:
  using GiveBack = std::function<void(Driver&)>;
  /// Called now and then by who waits for launches to end; throws if the context is lost, where
  /// none ever says that it has ended.
  using Look = std::function<void()>;

  /// `lost`: of the context; nothing waits in a lost one.
  explicit Gate(const std::atomic<bool>& lost) : lost_(lost) {}

  void add(const Spins& spins);
  void remove(const Spins& spins);
  /// Before a launch whose kernels may wait: counts it in `spins`. Waits while somebody is in a
  /// Quiet, and for all such launches to end where too much is queued.
  void enter(Spins& spins, Driver& driver, const Look& look);
  /// Makes a call that gives something back, now or when it can be done. `waits`: the driver makes
  /// it wait for kernels. `bytes`: what is kept until then. The context must be current, except
  /// inside a host function.
  void give_back(Driver& driver, GiveBack call, bool waits, int64_t bytes);
  /// Does what is queued if it can be done now. The context must be current.
  void drain(Driver& driver);
  bool has_queued() const { return queued_.load(std::memory_order_relaxed); }

  /// While it lives no kernel waits for the host. Throws Error E0851 in a host function.
  class Quiet {
   public:
    Quiet(Gate& gate, const Look& look);
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

   private:
    Gate& gate_;
  };

 private:
  bool spinning() const;
  /// Keeps new launches out until `leave`, unless `look` throws.
  void wait_for_quiet(std::unique_lock<std::mutex>& lock, const Look& look);
  void leave();
  void drain_locked(Driver& driver);

  const std::atomic<bool>& lost_;
  std::mutex mutex_;
  std::condition_variable open_;
  std::set<const Spins*> spins_;
  int quiet_ = 0;  // how many want no kernel to wait
  std::vector<GiveBack> queue_;
  int64_t queued_bytes_ = 0;
  std::atomic<bool> queued_ = false;
};

}  // namespace braid::runtime
