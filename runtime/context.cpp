#include "runtime/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "ir/diagnostic.hpp"

namespace braid::runtime {
namespace {

/// Errors after which every call in the context fails, for the rest of the process.
bool is_sticky(CUresult r) {
  switch (r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

void require_device(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_NO_DEVICE) {
    throw NoDevice("no CUDA device found", "check nvidia-smi, or run with --device=sim");
  }
  throw NoDevice(fmt::format("the CUDA driver does not start: {}: {} ({})", call,
                             result_name(result), static_cast<int>(result)),
                 "check nvidia-smi, or run with --device=sim");
}

}  // namespace

Context::Context(std::shared_ptr<Driver> table, int number)
    : driver(std::move(table)), ordinal(number) {
  require_device(driver->cuInit(0), "cuInit");
  int count = 0;
  require_device(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  require_device(count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw NoDevice(
        fmt::format("there is no CUDA device {}: the devices are 0 to {}", ordinal, count - 1));
  }
  require_device(driver->cuDeviceGet(&device, ordinal), "cuDeviceGet");
  std::array<char, 256> text{};
  check_call(driver->cuDeviceGetName(text.data(), static_cast<int>(text.size()) - 1, device),
             "cuDeviceGetName");
  name = text.data();
  check_call(
      driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
      "cuDeviceGetAttribute", "compute capability");
  check_call(
      driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
      "cuDeviceGetAttribute", "compute capability");
  // Last: a constructor that throws runs no destructor.
  check_call(driver->cuDevicePrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain", name);
}

ContextPtr make_context(std::shared_ptr<Driver> table, int number) {
  return {new Context(std::move(table), number), [](Context* context) {
            if (!InHostCall::active()) return delete context;
            std::thread([context] { delete context; }).detach();
          }};
}

Context::~Context() {
  if (gate.has_queued() && driver->cuCtxPushCurrent(handle) == CUDA_SUCCESS) {
    drain();
    CUcontext popped = nullptr;
    driver->cuCtxPopCurrent(&popped);
  }
  driver->cuDevicePrimaryCtxRelease(device);
}

void Context::give_back(Gate::GiveBack call, bool waits, int64_t bytes) noexcept {
  if (InHostCall::active()) return gate.give_back(*driver, std::move(call), waits, bytes);
  // A lost context still takes its objects back, so this does not go through Current.
  const bool pushed = driver->cuCtxPushCurrent(handle) == CUDA_SUCCESS;
  gate.give_back(*driver, std::move(call), waits, bytes);
  CUcontext popped = nullptr;
  if (pushed) driver->cuCtxPopCurrent(&popped);
}

void Context::look(CUstream stream) {
  const CUresult result = driver->cuStreamQuery(stream);
  if (result != CUDA_ERROR_NOT_READY) check(result, "cuStreamQuery");
}

void Context::raise(CUresult result, const char* call, const std::string& what) {
  std::string detail = what;
  const bool reported = is_sticky(result) || result == CUDA_ERROR_OUT_OF_MEMORY;
  if (const std::string report = driver->last_report(); !report.empty() && reported) {
    detail += (detail.empty() ? "" : ": ") + report;
  }
  try {
    check_call(result, call, detail);
  } catch (const CudaError& error) {
    if (is_sticky(result)) {
      const std::lock_guard lock(mutex_);
      if (first_error_.empty()) first_error_ = error.what();
      lost_ = true;
    }
    throw;
  }
  throw InternalError("a call that succeeded was taken for a failure");
}

void Context::raise_lost() const {
  const std::lock_guard lock(mutex_);
  throw CudaError(
      "the CUDA context is lost since an earlier error, start the process again; "
      "the error was: " +
          first_error_,
      static_cast<int>(CUDA_ERROR_CONTEXT_IS_DESTROYED));
}

OwnedMemory allocate(const ContextPtr& context, int64_t bytes, const std::string& what) {
  CUdeviceptr address = 0;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  context->check(context->driver->cuMemAlloc(&address, size), "cuMemAlloc",
                 fmt::format("{}, {} bytes", what, size));
  return {context, address, static_cast<int64_t>(size)};
}

OwnedStream make_stream(const ContextPtr& context) {
  CUstream stream = nullptr;
  context->check(context->driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
  return {context, stream};
}

EventPool::Mark::~Mark() {
  const std::lock_guard lock(pool_->mutex_);
  pool_->free_.push_back(std::move(event_));
}

MarkPtr EventPool::take() {
  OwnedEvent event;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!event) {
    CUevent created = nullptr;
    context_->check(context_->driver->cuEventCreate(&created, CU_EVENT_DISABLE_TIMING),
                    "cuEventCreate");
    event = OwnedEvent(context_, created);
  }
  return std::make_shared<Mark>(shared_from_this(), std::move(event));
}

}  // namespace braid::runtime
