// Inside the runtime: what decides the branches and loops that the host drives.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.hpp"
#include "runtime/context.hpp"

namespace braid::runtime {

/// Owns page-locked memory for the flag of every region of kind host, and an event for each. Used
/// by one thread at a time.
class HostFlags {
 public:
  HostFlags() = default;
  /// The context must be current, here and below, and `program` must outlive the object.
  HostFlags(const ContextPtr& context, const Program& program);

  /// The flag of a region, which lies at `at`, after everything enqueued on the stream so far:
  /// waits for it. For a branch the number of a side, for a loop 0 or 1. Throws InternalError if
  /// the bytes hold anything else.
  int64_t read(uint32_t region, CUstream stream, CUdeviceptr at);

 private:
  struct Place {
    size_t offset = 0;  // in memory_
    OwnedEvent there;
  };

  ContextPtr context_;
  const Program* program_ = nullptr;
  OwnedHostMemory memory_;
  std::vector<Place> places_;  // by region; nothing for those of other kinds
};

}  // namespace braid::runtime
