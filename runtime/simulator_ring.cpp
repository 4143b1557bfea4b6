// Messages to the host: what the text of a send does on a GPU, on the simulator's memory.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

template <class T>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

/// Writes the header of the record at the head, its first word last, and moves the head.
void make_ready(RingControl& c, RecordHeader header) {
  const uint64_t record = c.bytes + (c.head & (c.capacity - 1));
  header.launch = c.launch;
  constexpr size_t kFirst = sizeof header.ready;  // the host looks at it all the time
  std::memcpy(at<std::byte>(record) + kFirst, reinterpret_cast<std::byte*>(&header) + kFirst,
              sizeof header - kFirst);
  std::atomic_ref(*at<uint32_t>(record))
      .store(static_cast<uint32_t>(c.head + 1), std::memory_order_release);
  c.head += header.bytes;
}

/// Whether a record has room at the head, past padding if need be.
bool make_room(RingControl& c, uint64_t bytes, ir::MessageKind kind) {
  const uint64_t spare = c.capacity / 8 * kSpareEighths[static_cast<size_t>(kind)];
  const uint64_t to_end = c.capacity - (c.head & (c.capacity - 1));
  const uint64_t skip = bytes <= to_end ? 0 : to_end;
  const auto fits = [&] { return c.head + skip + bytes - c.tail <= c.capacity - spare; };
  if (bytes > c.capacity / kLargestPart) return false;
  if (!fits()) {
    c.tail = std::atomic_ref(at<RingHost>(c.host)->consumed).load(std::memory_order_acquire);
  }
  if (!fits()) return false;
  if (skip > 0) make_ready(c, {.id = kSkip, .bytes = static_cast<uint32_t>(skip)});
  return true;
}

}  // namespace

void append(RingControl& c, const ir::Message& m) {
  const HostTensor value = narrow(m.value);
  const auto loops = static_cast<uint32_t>(m.iterations.size());
  const uint64_t bytes = record_bytes(loops, value.bytes.size());
  if (!make_room(c, bytes, m.kind)) {
    ++c.dropped;
    return;
  }
  std::byte* const record = at<std::byte>(c.bytes + (c.head & (c.capacity - 1)));
  for (uint32_t i = 0; i < loops; ++i) {
    const auto number = static_cast<int32_t>(m.iterations[i]);
    std::memcpy(record + sizeof(RecordHeader) + i * sizeof number, &number, sizeof number);
  }
  if (!value.bytes.empty()) {
    std::memcpy(record + value_offset(loops), value.bytes.data(), value.bytes.size());
  }
  make_ready(c, {.id = m.id, .bytes = static_cast<uint32_t>(bytes), .dropped = c.dropped});
  c.dropped = 0;
}

void end_launch(RingControl& c) {
  std::atomic_ref(at<RingHost>(c.host)->ended).store(++c.launch, std::memory_order_release);
}

bool State::send(const ir::Graph& body, const std::vector<ir::Message>& messages, RingControl& c,
                 const std::string& who) {
  for (const auto& [address, bytes] :
       {std::pair(c.bytes, uint64_t{c.capacity}), std::pair(c.host, uint64_t{sizeof(RingHost)})}) {
    if (in_host_memory(address, bytes)) continue;
    fail(CUDA_ERROR_ILLEGAL_ADDRESS,
         fmt::format("{}: the ring's {} bytes at {:#x} lie in no page-locked memory", who, bytes,
                     address));
    return false;
  }
  size_t next = 0;
  for (const ir::Op& op : body.ops()) {
    const auto* attr = std::get_if<ir::SendAttr>(&op.attrs);
    if (!attr) continue;
    // A check that holds gives no message.
    if (next < messages.size() && messages[next].id == attr->id) append(c, messages[next++]);
    if (attr->ends_launch) end_launch(c);
  }
  return true;
}

CUresult State::cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (flags != 0 || !host_memory_.contains(memory)) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
