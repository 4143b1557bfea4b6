// The simulator's memory: poisoned, bounds known, every byte with a mark whether it was written.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

/// NaN as f16, bf16, f32 and f64, and large in no integer type: -1.
constexpr std::byte kPoison{0xFF};
constexpr uint64_t kAlignment = 512;  // what cuMemAlloc gives
constexpr uint64_t kGap = 4096;       // between allocations: nothing lies there
constexpr uint64_t kCapacity = uint64_t{64} << 30;

/// What this machine, or the control group that we run in, has free; the capacity where neither
/// says so. The system would rather end the process than refuse memory.
uint64_t free_on_host() {
  uint64_t bytes = kCapacity;
  std::ifstream info("/proc/meminfo");
  std::string word;
  while (info >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && info >> kilobytes) bytes = std::min(bytes, kilobytes * 1024);
  }
  return std::min(bytes, free_in_control_group("/sys/fs/cgroup").value_or(bytes));
}

}  // namespace

std::optional<uint64_t> free_in_control_group(const std::string& folder) {
  uint64_t limit = 0, used = 0;
  if (!(std::ifstream(folder + "/memory.max") >> limit) ||
      !(std::ifstream(folder + "/memory.current") >> used)) {
    return std::nullopt;
  }
  std::ifstream stat(folder + "/memory.stat");
  std::string word;
  uint64_t number = 0;
  while (stat >> word >> number) {
    if (word == "inactive_file" || word == "active_file") used -= std::min(used, number);
  }
  return limit - std::min(limit, used);
}

bool State::room_for(uint64_t bytes, const std::string& what) {
  uint64_t room = 0;
  if (options_.memory_bytes == 0) {
    room = free_on_host();
  } else if (options_.memory_bytes > held_) {
    room = options_.memory_bytes - held_;
  }
  shortage_.clear();
  if (bytes <= room) return true;
  shortage_ = fmt::format("{} takes {} bytes of this machine's memory, which has {} left", what,
                          bytes, room);
  return false;
}

Allocation* State::find_memory(uint64_t address, uint64_t bytes, uint64_t* base, std::string* why) {
  const auto inside = [&](uint64_t start, uint64_t size) {
    return address >= start && address - start <= size && bytes <= size - (address - start);
  };
  auto next = memory_.upper_bound(address);
  if (next != memory_.begin()) {
    auto& [start, allocation] = *std::prev(next);
    if (inside(start, allocation.bytes.size())) {
      if (base) *base = start;
      return &allocation;
    }
    if (address < start + allocation.bytes.size()) {
      *why =
          fmt::format("{} bytes at {:#x} run past the end of the allocation of {} bytes at {:#x}",
                      bytes, address, allocation.bytes.size(), start);
      return nullptr;
    }
  }
  const auto gone = freed_.upper_bound(address);
  if (gone != freed_.begin() && inside(std::prev(gone)->first, std::prev(gone)->second)) {
    *why = fmt::format("{} bytes at {:#x} were freed", bytes, address);
  } else {
    *why = fmt::format("{} bytes at {:#x} lie in no allocation", bytes, address);
  }
  return nullptr;
}

CUresult State::cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (const CUresult r = forbidden_in_capture(); r != CUDA_SUCCESS) return r;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // Beside each byte stands whether it was written.
  if (bytes > kCapacity || !room_for(2 * bytes, fmt::format("to simulate {} bytes", bytes))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Allocation allocation;
  try {
    allocation.bytes.assign(bytes, kPoison);
    allocation.written.assign(bytes, 0);
  } catch (const std::bad_alloc&) {
    shortage_ = fmt::format("this machine has no {} bytes of memory left", 2 * bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = next_address_;
  held_ += 2 * bytes;
  next_address_ += (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
  memory_.emplace(*address, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult State::cuMemFree(CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(address);
  if (found == memory_.end()) return CUDA_ERROR_INVALID_VALUE;
  freed_.emplace(address, found->second.bytes.size());
  held_ -= 2 * found->second.bytes.size();
  memory_.erase(found);
  observe();
  return ready();
}

CUresult State::cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (const CUresult r = forbidden_in_capture(); r != CUDA_SUCCESS) return r;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!room_for(bytes, fmt::format("{} bytes of page-locked memory", bytes))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::vector<std::byte> block(bytes, kPoison);
  *memory = block.data();
  host_memory_.emplace(*memory, std::move(block));
  return CUDA_SUCCESS;
}

CUresult State::cuMemFreeHost(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = host_memory_.find(memory);
  if (found == host_memory_.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<std::byte>& block = found->second;
  std::erase_if(uploads_, [&](const Upload& u) {  // the call waits for the device
    return u.from >= block.data() && u.from < block.data() + block.size();
  });
  host_memory_.erase(found);
  observe();
  return ready();
}

bool State::in_host_memory(uint64_t address, uint64_t bytes) const {
  return std::any_of(host_memory_.begin(), host_memory_.end(), [&](const auto& block) {
    const auto start = reinterpret_cast<uint64_t>(block.first);
    const uint64_t size = block.second.size();
    return address >= start && address - start <= size && bytes <= size - (address - start);
  });
}

CUresult State::cuMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  *total = kCapacity;
  *free = kCapacity - held_ / 2;
  return CUDA_SUCCESS;
}

CUresult State::copy_in(uint64_t to, const void* from, size_t bytes, uint64_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  std::string why;
  uint64_t base = 0;
  Allocation* memory = find_memory(to, bytes, &base, &why);
  if (!memory || !from) return CUDA_ERROR_INVALID_VALUE;
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  begin_operation(stream);
  touch(stream, {{to, to + bytes, true}}, "a copy from the host");
  std::memcpy(memory->bytes.data() + (to - base), from, bytes);
  std::fill_n(memory->written.begin() + static_cast<int64_t>(to - base), bytes, uint8_t{1});
  const auto* source = static_cast<const std::byte*>(from);
  for (const auto& [start, block] : host_memory_) {
    if (source < block.data() || source >= block.data() + block.size()) continue;
    uploads_.push_back(
        {source, bytes, hash_of(source, bytes), stream, streams_.at(stream).clock.at(stream)});
  }
  return CUDA_SUCCESS;
}

CUresult State::copy_out(void* to, uint64_t from, size_t bytes, uint64_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  std::string why;
  uint64_t base = 0;
  const Allocation* memory = find_memory(from, bytes, &base, &why);
  if (!memory || !to) return CUDA_ERROR_INVALID_VALUE;
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  begin_operation(stream);
  touch(stream, {{from, from + bytes, false}}, "a copy to the host");
  std::memcpy(to, memory->bytes.data() + (from - base), bytes);
  return CUDA_SUCCESS;
}

CUresult State::cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const CUresult result = copy_in(to, from, bytes, 0);
  wait_for(streams_[0].clock);
  return result == CUDA_SUCCESS ? observe() : result;
}

CUresult State::cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const CUresult result = copy_out(to, from, bytes, 0);
  wait_for(streams_[0].clock);
  return result == CUDA_SUCCESS ? observe() : result;
}

CUresult State::cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  return copy_in(to, from, bytes, number_of(stream));
}

CUresult State::cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  return copy_out(to, from, bytes, number_of(stream));
}

CUresult State::cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  if (bytes == 0) return CUDA_SUCCESS;
  std::string why;
  uint64_t target_base = 0, source_base = 0;
  Allocation* target = find_memory(to, bytes, &target_base, &why);
  const Allocation* source = find_memory(from, bytes, &source_base, &why);
  if (!target || !source) return CUDA_ERROR_INVALID_VALUE;
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  begin_operation(number_of(stream));
  touch(number_of(stream), {{from, from + bytes, false}, {to, to + bytes, true}},
        "a copy on the device");
  std::memmove(target->bytes.data() + (to - target_base),
               source->bytes.data() + (from - source_base), bytes);
  const auto written = source->written.begin() + static_cast<int64_t>(from - source_base);
  std::copy_n(written, bytes, target->written.begin() + static_cast<int64_t>(to - target_base));
  return CUDA_SUCCESS;
}

CUresult State::cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  if (bytes == 0) return CUDA_SUCCESS;
  std::string why;
  uint64_t base = 0;
  Allocation* memory = find_memory(to, bytes, &base, &why);
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  begin_operation(number_of(stream));
  touch(number_of(stream), {{to, to + bytes, true}}, "a memset");
  const auto offset = static_cast<int64_t>(to - base);
  std::fill_n(memory->bytes.begin() + offset, bytes, std::byte{value});
  // Filling with the poison value is how callers poison: such bytes count as not written.
  std::fill_n(memory->written.begin() + offset, bytes,
              std::byte{value} == kPoison ? uint8_t{0} : uint8_t{1});
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
