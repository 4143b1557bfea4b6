// Devices, contexts and what the simulator tells about itself.
#include "runtime/simulator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/simulator_state.hpp"

namespace braid::runtime {
namespace sim {

void merge(Clock& into, const Clock& from) {
  for (const auto& [stream, count] : from) {
    uint64_t& known = into[stream];
    known = std::max(known, count);
  }
}

std::string State::last_report() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> reports = lost_reports_;
  if (!shortage_.empty()) reports.push_back(shortage_);
  return fmt::format("{}", fmt::join(reports, "\n"));
}

std::vector<std::string> State::take_reports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

int64_t State::live_objects() const {
  const std::lock_guard lock(mutex_);
  const size_t tables = memory_.size() + host_memory_.size() + libraries_.size() + execs_.size() +
                        events_.size() + streams_.size() - 1;  // without the default stream
  // The bodies of conditional nodes are the driver's own.
  const auto graphs = std::count_if(graphs_.begin(), graphs_.end(),
                                    [](const auto& g) { return g.second.owner == 0; });
  return retained_ + static_cast<int64_t>(tables) + graphs;
}

void State::set_options(const SimOptions& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
  random_.seed(options.seed);
}

CUresult State::ready() const {
  if (!initialized_) return CUDA_ERROR_NOT_INITIALIZED;
  const auto stack = current_.find(std::this_thread::get_id());
  if (stack == current_.end() || stack->second.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (retained_ == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return lost_;
}

void State::fail(CUresult code, std::string report) {
  lost_reports_.push_back(report);
  reports_.push_back(std::move(report));
  if (failed_ == CUDA_SUCCESS) failed_ = code;
}

CUresult State::cuInit(unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialized_ = true;
  return CUDA_SUCCESS;
}

CUresult State::cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult State::cuDeviceGetCount(int* count) {
  const std::lock_guard lock(mutex_);
  if (!initialized_) return CUDA_ERROR_NOT_INITIALIZED;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult State::cuDeviceGet(CUdevice* device, int ordinal) {
  const std::lock_guard lock(mutex_);
  if (!initialized_) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult State::cuDeviceGetName(char* name, int length, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (length < 1) return CUDA_ERROR_INVALID_VALUE;
  constexpr std::string_view kName = "simulator";
  const size_t count = kName.copy(name, static_cast<size_t>(length) - 1);
  name[count] = '\0';
  return CUDA_SUCCESS;
}

CUresult State::cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = Target{}.sms;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult State::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const std::lock_guard lock(mutex_);
  if (!initialized_) return CUDA_ERROR_NOT_INITIALIZED;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  ++retained_;
  *context = handle_of<CUcontext>(kContext);
  return CUDA_SUCCESS;
}

CUresult State::cuDevicePrimaryCtxRelease(CUdevice device) {
  const std::lock_guard lock(mutex_);
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (retained_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained_ == 0) {
    // Objects that still live stay in their tables, so that live_objects() shows the leak.
    failed_ = lost_ = CUDA_SUCCESS;
    lost_reports_.clear();
  }
  return CUDA_SUCCESS;
}

CUresult State::cuCtxPushCurrent(CUcontext context) {
  const std::lock_guard lock(mutex_);
  if (number_of(context) != kContext || retained_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  current_[std::this_thread::get_id()].push_back(context);
  return CUDA_SUCCESS;
}

CUresult State::cuCtxPopCurrent(CUcontext* context) {
  const std::lock_guard lock(mutex_);
  const auto stack = current_.find(std::this_thread::get_id());
  if (stack == current_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack->second.back();
  stack->second.pop_back();
  if (stack->second.empty()) current_.erase(stack);
  return CUDA_SUCCESS;
}

}  // namespace sim

std::shared_ptr<Simulator> make_simulator(const SimOptions& options) {
  return std::make_shared<sim::State>(options);
}

}  // namespace braid::runtime
