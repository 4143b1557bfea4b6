#include "runtime/host_flags.hpp"

#include <fmt/format.h>

#include <cstring>

#include "ir/diagnostic.hpp"

namespace braid::runtime {

HostFlags::HostFlags(const ContextPtr& context, const Program& program)
    : context_(context), program_(&program), places_(program.regions.size()) {
  size_t bytes = 0;
  for (size_t r = 0; r < program.regions.size(); ++r) {
    if (program.regions[r].kind != Region::Kind::host) continue;
    places_[r].offset = bytes;
    bytes += sizeof(int32_t);
    CUevent event = nullptr;
    context->check(context->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate",
                   program.regions[r].op);
    places_[r].there = OwnedEvent(context, event);
  }
  if (bytes == 0) return;
  void* memory = nullptr;
  context->check(context->driver->cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc",
                 fmt::format("{} bytes for the branches and loops of {}", bytes, program.name));
  memory_ = OwnedHostMemory(context, memory);
}

int64_t HostFlags::read(uint32_t region, CUstream stream, CUdeviceptr at) {
  const Region& r = program_->regions[region];
  const Place& place = places_[region];
  std::byte* memory = static_cast<std::byte*>(memory_.get()) + place.offset;
  const TensorType& type = program_->views[r.flag].type;
  Driver& driver = *context_->driver;
  context_->check(driver.cuMemcpyDtoHAsync(memory, at, static_cast<size_t>(type.bytes()), stream),
                  "cuMemcpyDtoHAsync", r.op);
  context_->check(driver.cuEventRecord(place.there.get(), stream), "cuEventRecord", r.op);
  context_->check(driver.cuEventSynchronize(place.there.get()), "cuEventSynchronize", r.op);
  int64_t value = 0;
  if (type.dtype == DType::b1) {
    value = std::to_integer<int64_t>(*memory);
  } else {
    int32_t number = 0;
    std::memcpy(&number, memory, sizeof number);
    value = number;
  }
  const int64_t end = r.loop ? 2 : int64_t{r.sides};
  if (value < 0 || value >= end) {
    throw InternalError(
        fmt::format("{}: what decides is {}, not one of 0 to {}", r.op, value, end - 1));
  }
  return value;
}

}  // namespace braid::runtime
