// Host functions that graphs call: what kernels do for them on a GPU, on the simulator's memory and
// the real mailbox. Whoever answers does not use the driver, so it may wait inside a launch.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "ir/mailbox.hpp"
#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

using Now = std::chrono::steady_clock;

/// The answer to an exchange: whether there are results.
bool wait(MailboxLine& line, uint32_t sequence, MailboxHeader& header) {
  const Now::time_point began = Now::now();
  for (;;) {
    const uint32_t answered = load_word(line.answered);
    if (answered == sequence) {
      return load_word(line.outcome) == static_cast<uint32_t>(MailboxOutcome::results);
    }
    if (answered == kMailboxClosed) return false;
    const auto waited = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Now::now() - began).count());
    if (header.deadline_ns != 0 && waited >= header.deadline_ns) {
      header.dead = 1;
      store_word(line.given_up, sequence);
      return false;
    }
    std::this_thread::yield();
  }
}

std::vector<TensorType> types_of(std::span<const HostTensor> tensors) {
  std::vector<TensorType> types;
  for (const HostTensor& t : tensors) types.push_back(t.type);
  return types;
}

}  // namespace

void State::exchange(const KernelRecord& record, std::byte* slot_bytes, std::byte* header_bytes,
                     std::span<const HostTensor> arguments, std::span<HostTensor> results) const {
  MailboxSlot slot;
  MailboxHeader header;
  std::memcpy(&slot, slot_bytes, sizeof slot);
  std::memcpy(&header, header_bytes, sizeof header);
  const std::vector<int64_t> offsets = mailbox_offsets(types_of(arguments), types_of(results));
  if (!in_host_memory(slot.host, sizeof(MailboxLine)) ||
      !in_host_memory(slot.data, static_cast<uint64_t>(offsets.back()))) {
    throw std::runtime_error(
        fmt::format("the mailbox's line at {:#x} and data at {:#x} lie in no page-locked memory",
                    slot.host, slot.data));
  }
  auto& line = *reinterpret_cast<MailboxLine*>(slot.host);
  auto* const data = reinterpret_cast<std::byte*>(slot.data);
  uint32_t asked = slot.sequence;
  if (record.mail != Mail::fetch && header.dead == 0) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<std::byte>& bytes = arguments[i].bytes;
      if (!bytes.empty()) std::memcpy(data + offsets[i], bytes.data(), bytes.size());
    }
    asked = slot.sequence = next_sequence(slot.sequence);
    std::memcpy(slot_bytes, &slot, sizeof slot);
    store_word(line.asked, asked);
  }
  if (record.mail == Mail::post || header.dead != 0) return;
  bool good = false;
  if (record.mail == Mail::exchange) {
    good = wait(line, asked, header);
    std::memcpy(header_bytes, &header, sizeof header);
  } else {
    good = load_word(line.answered) == asked &&
           load_word(line.outcome) == static_cast<uint32_t>(MailboxOutcome::results);
  }
  for (size_t i = 0; good && i < results.size(); ++i) {
    std::vector<std::byte>& bytes = results[i].bytes;
    const std::byte* const from = data + offsets[arguments.size() + i];
    if (!bytes.empty()) std::memcpy(bytes.data(), from, bytes.size());
  }
}

CUresult State::cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || address % sizeof value != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!in_host_memory(address, sizeof value)) {
    return copy_in(address, &value, sizeof value, number_of(stream));
  }
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  begin_operation(number_of(stream));
  store_word(*reinterpret_cast<uint32_t*>(address), value);
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
