// How long launches take. This header does not include cuda.h.
#pragma once

#include "runtime/executable.hpp"

namespace braid::runtime {

/// Medians in microseconds, after warm-up.
struct Timing {
  double launch_us = 0;   // CPU time of one launch() call while the GPU keeps up
  double step_us = 0;     // back to back: GPU time per launch, between two events
  double latency_us = 0;  // launch() and wait() of one launch alone
};

/// Launches again and again with the inputs bound now, for about `seconds` in all. State that the
/// program writes moves on: see Bench in the command line for putting it back.
/// Throws NoDevice on the simulator, whose times mean nothing.
Timing measure(Executable& executable, LaunchMode mode, double seconds);

}  // namespace braid::runtime
