// How the C++ program waits, and what it reads of its kernels meanwhile: ir/ring.hpp as text.
#include <algorithm>
#include <bit>

#include "frontend/report/cpp_emitter.hpp"
#include "ir/ring.hpp"

namespace braid::cpp_text {
namespace {

/// As much as an executable has unless it is told otherwise.
uint64_t ring_bytes(const std::vector<MessageSource>& sources) {
  constexpr uint64_t kLeast = uint64_t{4} << 20, kMost = uint64_t{1} << 30;
  uint64_t bytes = kLeast;
  for (const MessageSource& s : sources) {
    const uint64_t record = record_bytes(s.loops, static_cast<uint64_t>(s.type.bytes()));
    bytes = std::max(bytes, kLargestPart * std::min(record, kMost));
  }
  return std::bit_ceil(std::min(bytes, kMost));
}

}  // namespace

void Emitter::waits() {
  put("\n// ---- Waiting ----\n");
  if (!p_.calls.empty() || !p_.messages.empty()) {
    put("\nbool timing = false;  // the launches that are timed print nothing\n");
  }
  if (!p_.messages.empty() || host_driven()) put("\nCUevent there;\n");
  if (p_.messages.empty()) {
    out_ += kWait;
  } else {
    out_ += kRecords;
    put("\nconstexpr uint32_t ring_bytes = {};  // a power of two\n", ring_bytes(p_.messages));
    put("const Source sources[] = {{\n");
    for (const MessageSource& s : p_.messages) {
      put("    {{Kind::{}, {}, DType::{}, {}, {}, {}, {}}},\n", name_of(s.kind), literal(s.text),
          name_of(s.type.dtype), literal(to_string(s.type)), s.type.shape.numel(), s.loops,
          literal(comment(s.op + (s.place.empty() ? "" : ", " + s.place))));
    }
    put("}};\n");
    out_ += kMessages;
  }
  if (host_driven()) out_ += kDecided;
}

const std::string_view kWait = R"prelude(
void wait_for(CUevent event) { CALL(cuEventSynchronize(event)); }
)prelude";

const std::string_view kDecided = R"prelude(
int32_t* decision;  // page-locked

// What decides the next branch or iteration, in so many bytes; waits for what computes it.
int32_t decided(CUdeviceptr flag, size_t bytes) {
  *decision = 0;
  CALL(cuMemcpyDtoHAsync(decision, flag, bytes, stream));
  CALL(cuEventRecord(there, stream));
  wait_for(there);
  return *decision;
}
)prelude";

const std::string_view kRecords = R"prelude(
// Kernels write messages as records into a ring in the host's memory. Positions count bytes ever
// written; the place in the ring is the position modulo its size.
struct RingControl {  // what kernels are given, in the device's memory
  uint64_t bytes, host;  // addresses: of the ring, of the RingHost
  uint64_t head, tail;   // positions: of the next record, and the last one known of `consumed`
  uint32_t capacity, launch, dropped, unused[5];
};
struct RingHost {  // beside the ring
  uint64_t consumed;  // position up to which the host has read
  uint32_t ended, unused;
};
struct RecordHeader {  // before the iterations' numbers, and the value at a multiple of 16
  uint32_t ready;      // the position plus 1, written last
  uint32_t id, bytes, launch;
  uint32_t dropped;    // messages that found no room before this one
  uint32_t unused[3];
};
static_assert(sizeof(RingControl) == 64 && sizeof(RingHost) == 16 && sizeof(RecordHeader) == 32);

enum class Kind { print, item, check };
struct Source {
  Kind kind;
  const char* text;  // the label, or what a check wants to hold
  DType dtype;
  const char* type;
  size_t count;
  uint32_t loops;  // iteration numbers that come with it, the outermost loop's first
  const char* op;  // and its place
};
)prelude";

const std::string_view kMessages = R"prelude(
CUdeviceptr ring_control;
RingHost* ring_host;
unsigned char* ring;
uint64_t ring_position = 0;
int failures = 0;
std::string failure;  // the first one

void make_ring() {
  constexpr size_t before = 256;  // the RingHost, on cache lines of its own
  void* memory;
  CALL(cuMemHostAlloc(&memory, before + ring_bytes, CU_MEMHOSTALLOC_DEVICEMAP));
  std::memset(memory, 0, before + ring_bytes);
  ring_host = static_cast<RingHost*>(memory);
  ring = static_cast<unsigned char*>(memory) + before;
  CUdeviceptr address;
  CALL(cuMemHostGetDevicePointer(&address, memory, 0));
  RingControl control{};
  control.bytes = address + before;
  control.host = address;
  control.capacity = ring_bytes;
  CALL(cuMemAlloc(&ring_control, sizeof control));
  CALL(cuMemcpyHtoDAsync(ring_control, &control, sizeof control, stream));
  CALL(cuStreamSynchronize(stream));
}

void tell(const RecordHeader& r, const unsigned char* record) {
  if (r.id >= std::size(sources)) fail("a message is of no op");
  const Source& s = sources[r.id];
  std::string where = s.op + ", launch "s + std::to_string(r.launch);
  for (size_t i = 0; i < s.loops; ++i) {
    where += (i == 0 ? ", iteration " : ".") + std::to_string(get<int32_t>(record + sizeof r, i));
  }
  const unsigned char* value = record + (sizeof r + 4 * s.loops + 15) / 16 * 16;
  if (s.kind == Kind::check) {
    const std::string count = std::to_string(get<int32_t>(value, 0));
    if (failures++ > 0) return;
    failure = "the check '"s + s.text + "' failed for " + count +
              (count == "1" ? " element: " : " elements: ") + where;
  } else if (!timing) {
    if (r.dropped > 0) std::fprintf(stderr, "%u messages found no room\n", r.dropped);
    std::fprintf(stderr, "%s %s =%s   %s\n", s.text, s.type,
                 first_values(value, s.dtype, s.count, 8).c_str(), where.c_str());
  }
}

void read_messages() {
  for (;;) {
    unsigned char* record = ring + ring_position % ring_bytes;
    const std::atomic_ref<uint32_t> ready(*reinterpret_cast<uint32_t*>(record));
    if (ready.load(std::memory_order_acquire) != static_cast<uint32_t>(ring_position + 1)) return;
    const RecordHeader r = get<RecordHeader>(record, 0);
    if (r.id != UINT32_MAX) tell(r, record);  // or else it fills the ring's end
    std::memset(record, 0, r.bytes);
    ring_position += r.bytes;
    std::atomic_ref<uint64_t>(ring_host->consumed).store(ring_position, std::memory_order_release);
  }
}

// Reads meanwhile: a full ring drops messages.
void wait_for(CUevent event) {
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) {
    result = cuEventQuery(event);
    read_messages();
  }
  check(result, "cuEventQuery(event)", __LINE__);
  if (failures > 1) failure += "; " + std::to_string(failures - 1) + " more failed";
  if (failures > 0) fail(failure);
}

void finish_launch() {
  CALL(cuEventRecord(there, stream));
  wait_for(there);
  RingControl control;
  CALL(cuMemcpyDtoHAsync(&control, ring_control, sizeof control, stream));
  CALL(cuStreamSynchronize(stream));
  if (control.dropped > 0) std::fprintf(stderr, "%u messages found no room\n", control.dropped);
}
)prelude";

}  // namespace braid::cpp_text
