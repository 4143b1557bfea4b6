// Inside the runtime: time between two events of a stream.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/context.hpp"

namespace braid::runtime {

/// The context must be current for all of it.
class Stopwatch {
 public:
  explicit Stopwatch(const ContextPtr& context)
      : context_(context), begin_(event()), end_(event()) {}

  void start(CUstream stream) { record(begin_, stream); }
  /// Microseconds of GPU time since start(). Waits for the stream.
  double stop(CUstream stream) {
    record(end_, stream);
    context_->check(context_->driver->cuEventSynchronize(end_.get()), "cuEventSynchronize");
    float ms = 0;
    context_->check(context_->driver->cuEventElapsedTime(&ms, begin_.get(), end_.get()),
                    "cuEventElapsedTime");
    return double{ms} * 1e3;
  }

 private:
  OwnedEvent event() const {
    CUevent e = nullptr;
    context_->check(context_->driver->cuEventCreate(&e, CU_EVENT_DEFAULT), "cuEventCreate");
    return {context_, e};
  }
  void record(const OwnedEvent& e, CUstream stream) const {
    context_->check(context_->driver->cuEventRecord(e.get(), stream), "cuEventRecord");
  }

  ContextPtr context_;
  OwnedEvent begin_, end_;
};

/// The clock of the host, for how long to go on.
using HostClock = std::chrono::steady_clock;
inline double us_since(HostClock::time_point start) {
  return std::chrono::duration<double, std::micro>(HostClock::now() - start).count();
}

/// How many things of `us` each fill a sample of about 2 ms.
inline int batch_of(double us) {
  return std::clamp(static_cast<int>(2000 / std::max(1.0, us)), 1, 200);
}

inline double median(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace braid::runtime
