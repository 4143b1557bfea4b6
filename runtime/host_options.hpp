// How a graph that asks the host for something waits for it.
#pragma once

#include <chrono>

namespace braid {

struct HostOptions {
  /// How long a graph waits for one host function, from asking it to the end of its call. Then the
  /// launch goes on without it and fails (Error E0871). 0: for ever, so that a function which never
  /// returns keeps the device.
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);
};

}  // namespace braid
