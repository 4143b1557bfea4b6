#include "runtime/measure.hpp"

#include <vector>

#include "ir/diagnostic.hpp"
#include "runtime/stopwatch.hpp"

namespace braid::runtime {

Timing measure(Executable& executable, LaunchMode mode, double seconds, InputSets* sets,
               Feed feed) {
  const ContextPtr context = executable.store().device().context();
  if (context->driver->simulated()) {
    throw NoDevice("there is nothing to measure on the simulator: its times mean nothing");
  }
  const Current current(context);
  const OwnedStream stream = make_stream(context);
  Stopwatch watch(context);

  size_t next = 0;
  const auto launch = [&] {
    if (sets) sets->give(next++, feed, stream.get());
    return executable.launch(stream.get(), mode);
  };

  // Warm-up also tells how many launches fill a sample.
  launch().wait();
  auto start = HostClock::now();
  constexpr int kWarmup = 20;
  for (int i = 0; i < kWarmup; ++i) launch().wait();
  const int batch = batch_of(us_since(start) / kWarmup);

  Timing t;
  std::vector<double> launches, steps, latencies;
  const double budget = seconds * 1e6 / 2;
  start = HostClock::now();
  do {
    watch.start(stream.get());
    Ticket last;
    for (int i = 0; i < batch; ++i) {
      const auto before = HostClock::now();
      last = launch();
      launches.push_back(us_since(before));
    }
    steps.push_back(watch.stop(stream.get()) / batch);
    last.wait();
  } while (us_since(start) < budget || steps.size() < 21);
  start = HostClock::now();
  do {
    const auto before = HostClock::now();
    launch().wait();
    latencies.push_back(us_since(before));
  } while (us_since(start) < budget || latencies.size() < 50);
  t.launch_us = median(launches);
  t.step_us = median(steps);
  t.latency_us = median(latencies);
  return t;
}

}  // namespace braid::runtime
