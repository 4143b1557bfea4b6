// The mailbox by which a graph has the host run its functions: what kernels, the simulator and the
// runtime agree on.
//
// A kernel copies the arguments of an exchange into memory of the host's that the device sees,
// asks, waits for the answer, and copies the results. Device memory holds the MailboxHeader and,
// behind it, one MailboxSlot for each of Program::exchanges, in order: together they are the buffer
// of Segment::mailbox. A kernel of an exchange takes two pointers: its slot and the header. The
// header is also the order token: exchanges with side effects take it inout, so that they keep
// their order.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/type.hpp"

namespace braid {

struct MailboxHeader {
  uint64_t deadline_ns = 0;  // a kernel waits no longer for an answer; 0: for ever
  /// Not 0: an answer did not come in time. Kernels neither ask nor wait any more.
  uint32_t dead = 0;
  uint32_t unused[13] = {};
};
static_assert(sizeof(MailboxHeader) == 64);

struct MailboxSlot {
  uint64_t host = 0;      // the device's address of the MailboxLine
  uint64_t data = 0;      // the device's address of arguments and results
  uint32_t sequence = 0;  // exchanges asked for, ever
  uint32_t unused[11] = {};
};
static_assert(sizeof(MailboxSlot) == 64);

/// In the host's memory, one per exchange. Each side writes one half.
struct MailboxLine {
  uint32_t asked = 0;  // MailboxSlot::sequence, after the arguments
  /// The sequence of an exchange that the kernel gave up: its deadline passed.
  uint32_t given_up = 0;
  uint32_t unused[14] = {};
  uint32_t answered = 0;  // the sequence, after the results and `outcome`
  uint32_t outcome = 0;   // a MailboxOutcome
  uint32_t rest[14] = {};
};
static_assert(sizeof(MailboxLine) == 128);

enum class MailboxOutcome : uint32_t {
  results = 0,  // take them
  failed = 1,   // there are none: they become zeros
};
/// In `answered`: no answer will come, whatever was asked. No sequence has this number.
inline constexpr uint32_t kMailboxClosed = UINT32_MAX;
/// The number of the exchange after this one.
inline constexpr uint32_t next_sequence(uint32_t s) { return s == kMailboxClosed - 1 ? 1 : s + 1; }

/// The types of the two arguments.
inline const TensorType kMailboxPart{DType::i32, {Dim(16)}};
inline constexpr int64_t kMailboxPartBytes = 64;
/// Where the slot of an exchange begins in the buffer; the header is at 0.
inline constexpr int64_t mailbox_slot_offset(size_t exchange) {
  return kMailboxPartBytes * (1 + static_cast<int64_t>(exchange));
}
/// The exchange whose slot begins there: an offset that is not 0, of a part.
inline constexpr uint32_t mailbox_exchange_at(int64_t offset) {
  return static_cast<uint32_t>(offset / kMailboxPartBytes - 1);
}

/// Words that both sides see.
inline uint32_t load_word(uint32_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}
inline void store_word(uint32_t& word, uint32_t x) {
  std::atomic_ref(word).store(x, std::memory_order_release);
}

/// Where each argument, then each result lies from MailboxSlot::data on, and at last all their
/// bytes: one after the other, each at a multiple of 256.
inline std::vector<int64_t> mailbox_offsets(std::span<const TensorType> arguments,
                                            std::span<const TensorType> results) {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (const std::span<const TensorType>& types : {arguments, results}) {
    for (const TensorType& t : types) {
      offsets.push_back(bytes);
      bytes += (t.bytes() + 255) / 256 * 256;
    }
  }
  offsets.push_back(bytes);
  return offsets;
}

}  // namespace braid
