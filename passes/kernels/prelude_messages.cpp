#include "passes/kernels/prelude.hpp"

namespace braid::kernels {
namespace {

constexpr std::string_view kMessages =
    R"cuda(
// ---- Messages to the host, by one thread: ir/ring.hpp has the layout ----
struct braid_ring_host {
  braid_u64 consumed;
  unsigned unused[6], ended, rest[7];
};
struct braid_ring {
  unsigned char* bytes;
  volatile braid_ring_host* host;
  braid_u64 head, tail;
  unsigned capacity, launch, dropped, unused[5];
};
struct braid_record {
  unsigned ready, id, bytes, launch, dropped, unused[3];
};
template <class T>
__device__ inline T& braid_at(unsigned char* record, int offset) {
  return *reinterpret_cast<T*>(record + offset);
}
__device__ inline void braid_send_ready(braid_ring* ring, unsigned char* at, unsigned id,
                                        unsigned bytes, unsigned dropped) {
  braid_record& r = braid_at<braid_record>(at, 0);
  r.id = id;
  r.bytes = bytes;
  r.launch = ring->launch;
  r.dropped = dropped;
  __threadfence_system();
  *const_cast<volatile unsigned*>(&r.ready) = (unsigned)ring->head + 1;
  ring->head += bytes;
}
// Where a record of so many bytes may be written; null if there is no room, which is counted.
// SPARE eighths of the ring must stay free.
__device__ inline unsigned char* braid_send_begin(braid_ring* ring, braid_u64 bytes,
                                                  unsigned spare) {
  const braid_u64 capacity = ring->capacity;
  const braid_u64 to_end = capacity - (ring->head & (capacity - 1));
  const braid_u64 skip = bytes <= to_end ? 0 : to_end;
  const braid_u64 end = ring->head + skip + bytes, room = capacity - capacity / 8 * spare;
  bool fits = bytes <= capacity / 4;
  if (fits && end - ring->tail > room) {
    ring->tail = ring->host->consumed;
    fits = end - ring->tail <= room;
  }
  if (!fits) {
    ++ring->dropped;
    return nullptr;
  }
  if (skip != 0) {
    braid_send_ready(ring, ring->bytes + (ring->head & (capacity - 1)), 0xffffffffu, (unsigned)skip,
                     0);
  }
  return ring->bytes + (ring->head & (capacity - 1));
}
__device__ inline void braid_send_end(braid_ring* ring, unsigned char* record, unsigned id,
                                      braid_u64 bytes) {
  braid_send_ready(ring, record, id, (unsigned)bytes, ring->dropped);
  ring->dropped = 0;
}
__device__ inline void braid_end_launch(braid_ring* ring) {
  ++ring->launch;
  __threadfence_system();
  ring->host->ended = ring->launch;
}
)cuda";

}  // namespace

std::string_view prelude_messages() { return kMessages; }

}  // namespace braid::kernels
