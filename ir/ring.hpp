// The ring that carries messages from kernels to the host: what both sides agree on.
//
// The bytes of the messages lie in host memory that the device sees; the host reads them while
// kernels write. One kernel at a time writes, because every `send` makes a new version of the ring,
// and launches of an executable follow one another; so no atomics are needed, and the order is that
// of the program. What a kernel is given is the control block, 64 bytes of device memory (the value
// of a RingAttr param, i32[16]).
#pragma once

#include <cstdint>

namespace braid {

/// Positions count bytes ever written, headers and padding too, and grow without end; the place in
/// the ring is the position modulo the capacity. Every record begins at a multiple of
/// kRecordAlignment and lies in one piece: where one does not fit before the ring's end, a record
/// with id kSkip fills the rest.
///
/// A message finds no room if its record has more bytes than capacity / kLargestPart, or if the
/// ring, less the eighths that its kind must leave free, cannot take it before the host has read
/// more. It is dropped and counted then. The ring begins as zeros, and the host zeroes what it has
/// read before it says so in `consumed`: old bytes never look like a record that is ready.
struct RingControl {
  uint64_t bytes = 0;     // the device's address of the ring's first byte
  uint64_t host = 0;      // the device's address of the RingHost
  uint64_t head = 0;      // position of the next record
  uint64_t tail = 0;      // the last value read of RingHost::consumed: it is slow to read
  uint32_t capacity = 0;  // of the ring in bytes, a power of two
  uint32_t launch = 0;    // launches that have ended, modulo 2^32
  uint32_t dropped = 0;   // messages that found no room since the last one that did
  uint32_t unused[5] = {};
};
static_assert(sizeof(RingControl) == 64);

/// In the host's memory, beside the ring. Each side writes one of the two, in 32 bytes of its own.
struct RingHost {
  uint64_t consumed = 0;  // position up to which the host has read
  uint32_t unused[6] = {};
  uint32_t ended = 0;  // RingControl::launch, written by the device after a launch's last record
  uint32_t rest[7] = {};
};
static_assert(sizeof(RingHost) == 64);

/// Before the numbers of the iterations (i32 each, outermost first) and the value's bytes, which
/// begin at a multiple of 16 from the record's start.
struct RecordHeader {
  /// The low 32 bits of the record's position plus 1. Written last, after a fence over the system:
  /// where it is what it must be, the record is whole.
  uint32_t ready = 0;
  uint32_t id = 0;       // of Program::messages
  uint32_t bytes = 0;    // of the whole record, a multiple of kRecordAlignment
  uint32_t launch = 0;   // RingControl::launch
  uint32_t dropped = 0;  // RingControl::dropped: messages lost right before this one
  uint32_t unused[3] = {};
};
static_assert(sizeof(RecordHeader) == 32);

inline constexpr uint32_t kSkip = UINT32_MAX;
inline constexpr uint32_t kRecordAlignment = 32;
inline constexpr uint32_t kLargestPart = 4;
/// By ir::MessageKind: prints that flood the ring leave room for items, and both for checks.
inline constexpr uint32_t kSpareEighths[] = {2, 1, 0};

/// Where the value's bytes begin in a record with this many iteration numbers.
inline constexpr uint32_t value_offset(uint32_t loops) {
  return (static_cast<uint32_t>(sizeof(RecordHeader)) + 4 * loops + 15) / 16 * 16;
}

/// Of a record whose value has so many bytes.
inline constexpr uint64_t record_bytes(uint32_t loops, uint64_t value_bytes) {
  return (value_offset(loops) + value_bytes + kRecordAlignment - 1) / kRecordAlignment *
         kRecordAlignment;
}

}  // namespace braid
