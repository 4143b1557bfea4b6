#include "runtime/measure.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "ir/diagnostic.hpp"
#include "runtime/context.hpp"

namespace braid::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

Timing measure(Executable& executable, LaunchMode mode, double seconds, InputSets* sets,
               Feed feed) {
  const ContextPtr context = executable.store().device().context();
  if (context->driver->simulated()) {
    throw NoDevice("there is nothing to measure on the simulator: its times mean nothing");
  }
  const Current current(context);
  const OwnedStream stream = make_stream(context);
  const auto event = [&] {
    CUevent e = nullptr;
    context->check(context->driver->cuEventCreate(&e, CU_EVENT_DEFAULT), "cuEventCreate");
    return OwnedEvent(context, e);
  };
  const OwnedEvent begin = event(), end = event();

  size_t next = 0;
  const auto launch = [&] {
    if (sets) sets->give(next++, feed, stream.get());
    return executable.launch(stream.get(), mode);
  };

  // Warm-up also tells how many launches fill a sample of about 2 ms.
  launch().wait();
  auto start = Clock::now();
  constexpr int kWarmup = 20;
  for (int i = 0; i < kWarmup; ++i) launch().wait();
  const double estimate = std::max(1.0, us_since(start) / kWarmup);
  const int batch = std::clamp(static_cast<int>(2000 / estimate), 1, 200);

  Timing t;
  std::vector<double> launches, steps, latencies;
  const double budget = seconds * 1e6 / 2;
  start = Clock::now();
  do {
    context->check(context->driver->cuEventRecord(begin.get(), stream.get()), "cuEventRecord");
    Ticket last;
    for (int i = 0; i < batch; ++i) {
      const auto before = Clock::now();
      last = launch();
      launches.push_back(us_since(before));
    }
    context->check(context->driver->cuEventRecord(end.get(), stream.get()), "cuEventRecord");
    last.wait();
    context->check(context->driver->cuEventSynchronize(end.get()), "cuEventSynchronize");
    float ms = 0;
    context->check(context->driver->cuEventElapsedTime(&ms, begin.get(), end.get()),
                   "cuEventElapsedTime");
    steps.push_back(double{ms} * 1e3 / batch);
  } while (us_since(start) < budget || steps.size() < 21);
  start = Clock::now();
  do {
    const auto before = Clock::now();
    launch().wait();
    latencies.push_back(us_since(before));
  } while (us_since(start) < budget || latencies.size() < 50);
  t.launch_us = median(launches);
  t.step_us = median(steps);
  t.latency_us = median(latencies);
  return t;
}

}  // namespace braid::runtime
