// How long launches take. This header does not include cuda.h.
#pragma once

#include "runtime/executable.hpp"
#include "runtime/input_sets.hpp"

namespace braid::runtime {

/// Medians in microseconds, after warm-up.
struct Timing {
  double launch_us = 0;   // CPU time of one launch() call while the GPU keeps up
  double step_us = 0;     // back to back: GPU time per launch, between two events
  double latency_us = 0;  // launch() and wait() of one launch alone
};

/// Launches again and again for about `seconds` in all: with the inputs bound now or, where there
/// are `sets`, each launch with the next of them, whose feeding counts as a part of the launch.
/// State that the program writes moves on: see Bench in the command line for putting it back.
/// Throws NoDevice on the simulator, whose times mean nothing.
Timing measure(Executable& executable, LaunchMode mode, double seconds, InputSets* sets = nullptr,
               Feed feed = Feed::same);

}  // namespace braid::runtime
