#include "runtime/gate.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "ir/diagnostic.hpp"

namespace braid::runtime {
namespace {

/// Memory that may wait to be freed before launches wait for it.
constexpr int64_t kMostQueued = int64_t{256} << 20;

}  // namespace

bool& InHostCall::flag() {
  thread_local bool flag = false;
  return flag;
}

void InHostCall::refuse() {
  if (!active()) return;
  throw_error("E0851", "a host function may not use devices, stores and executables",
              "do it before or after the launch, or in another thread");
}

void Gate::add(const Spins& spins) {
  const std::lock_guard lock(mutex_);
  spins_.insert(&spins);
}

void Gate::remove(const Spins& spins) {
  const std::lock_guard lock(mutex_);
  spins_.erase(&spins);
}

bool Gate::spinning() const {
  return !lost_ &&
         std::any_of(spins_.begin(), spins_.end(), [](const Spins* s) { return s->pending(); });
}

void Gate::wait_for_quiet(std::unique_lock<std::mutex>& lock, const Look& look) {
  ++quiet_;
  // The ends of launches are words in memory: nobody could tell.
  for (int turn = 1; spinning(); ++turn) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    std::exception_ptr lost;
    try {
      if (turn % 100 == 0) look();
    } catch (...) {
      lost = std::current_exception();
    }
    lock.lock();
    if (!lost) continue;
    leave();
    std::rethrow_exception(lost);
  }
}

void Gate::leave() {
  --quiet_;
  open_.notify_all();
}

void Gate::enter(Spins& spins, Driver& driver, const Look& look) {
  std::unique_lock lock(mutex_);
  open_.wait(lock, [this] { return quiet_ == 0; });
  if (queued_bytes_ > kMostQueued) {
    wait_for_quiet(lock, look);
    leave();
  }
  drain_locked(driver);
  spins.launched.fetch_add(1, std::memory_order_relaxed);
}

void Gate::give_back(Driver& driver, GiveBack call, bool waits, int64_t bytes) {
  if (!waits && !InHostCall::active()) return call(driver);
  const std::lock_guard lock(mutex_);
  if (InHostCall::active() || spinning()) {
    queue_.push_back(std::move(call));
    queued_bytes_ += bytes;
    queued_ = true;
    return;
  }
  drain_locked(driver);
  call(driver);
}

void Gate::drain(Driver& driver) {
  if (!has_queued() || InHostCall::active()) return;
  const std::lock_guard lock(mutex_);
  drain_locked(driver);
}

void Gate::drain_locked(Driver& driver) {
  if (queue_.empty() || spinning()) return;
  for (const GiveBack& call : queue_) call(driver);
  queue_.clear();
  queued_bytes_ = 0;
  queued_ = false;
}

Gate::Quiet::Quiet(Gate& gate, const Look& look) : gate_(gate) {
  InHostCall::refuse();
  std::unique_lock lock(gate_.mutex_);
  gate_.wait_for_quiet(lock, look);
}

Gate::Quiet::~Quiet() {
  const std::lock_guard lock(gate_.mutex_);
  gate_.leave();
}

}  // namespace braid::runtime
