#include "passes/kernels/prelude.hpp"

namespace braid::kernels {
namespace {

constexpr std::string_view kMailbox =
    R"cuda(
// ---- Calls of host functions, by one block: ir/mailbox.hpp has the layout ----
struct braid_mailbox {
  braid_u64 deadline;
  unsigned dead, unused[13];
};
struct braid_mailbox_line {
  unsigned asked, given_up, unused[14], answered, outcome, rest[14];
};
struct braid_mailbox_slot {
  braid_mailbox_line* line;
  unsigned char* data;
  unsigned sequence, unused[11];
};
// Four packs of 16 bytes a thread are under way at once: the bus is slow to answer.
__device__ inline void braid_mailbox_put(unsigned char* to, const void* from, braid_u64 bytes,
                                         unsigned thread, unsigned threads) {
  const unsigned char* const source = static_cast<const unsigned char*>(from);
  const braid_u64 packs = (braid_u64)source % 16 == 0 ? bytes / 16 : 0;
  const braid_u32x4* const wide = reinterpret_cast<const braid_u32x4*>(source);
  braid_u64 i = thread;
  for (; i + 3 * (braid_u64)threads < packs; i += 4 * (braid_u64)threads) {
    braid_u32x4 pack[4];
    for (int k = 0; k < 4; ++k) pack[k] = wide[i + k * (braid_u64)threads];
    for (int k = 0; k < 4; ++k) braid_system_store(to + 16 * (i + k * (braid_u64)threads), pack[k]);
  }
  for (; i < packs; i += threads) braid_system_store(to + 16 * i, wide[i]);
  for (i = 16 * packs + thread; i < bytes; i += threads) {
    *const_cast<volatile unsigned char*>(to + i) = source[i];
  }
}
// The results, or zeros. The host's memory is read past all caches.
__device__ inline void braid_mailbox_take(void* to, const unsigned char* from, braid_u64 bytes,
                                          bool good, unsigned thread, unsigned threads) {
  unsigned char* const target = static_cast<unsigned char*>(to);
  const braid_u64 packs = (braid_u64)target % 16 == 0 ? bytes / 16 : 0;
  braid_u32x4* const wide = reinterpret_cast<braid_u32x4*>(target);
  const braid_u32x4 zeros = {0, 0, 0, 0};
  braid_u64 i = thread;
  for (; good && i + 3 * (braid_u64)threads < packs; i += 4 * (braid_u64)threads) {
    braid_u32x4 pack[4];
    for (int k = 0; k < 4; ++k) pack[k] = braid_system_load(from + 16 * (i + k * (braid_u64)threads));
    for (int k = 0; k < 4; ++k) wide[i + k * (braid_u64)threads] = pack[k];
  }
  for (; i < packs; i += threads) wide[i] = good ? braid_system_load(from + 16 * i) : zeros;
  for (i = 16 * packs + thread; i < bytes; i += threads) {
    target[i] = good ? *const_cast<const volatile unsigned char*>(from + i) : (unsigned char)0;
  }
}
// Whether an answer did not come in time: then nothing is handed over any more.
__device__ inline bool braid_mailbox_dead(const braid_mailbox* mailbox) {
  return *const_cast<const volatile unsigned*>(&mailbox->dead) != 0;
}
// By one thread, when all have handed over: the number of the exchange, or 0 if there is none.
__device__ inline unsigned braid_mailbox_ask(braid_mailbox_slot* slot, braid_mailbox* mailbox) {
  if (braid_mailbox_dead(mailbox)) return 0;
  const unsigned before = slot->sequence;
  const unsigned sequence = before >= 0xfffffffeu ? 1 : before + 1;
  slot->sequence = sequence;
  __threadfence_system();
  braid_system_release(&slot->line->asked, sequence);
  return sequence;
}
// Whether there are results. By the thread that asked.
__device__ inline bool braid_mailbox_wait(braid_mailbox_slot* slot, braid_mailbox* mailbox,
                                          unsigned sequence) {
  if (sequence == 0) return false;
  braid_mailbox_line* const line = slot->line;
  const braid_u64 deadline = mailbox->deadline, begin = deadline ? braid_nanoseconds() : 0;
  for (unsigned turn = 0;; ++turn) {
    const braid_u64 answer = braid_system_acquire(&line->answered);
    if ((unsigned)answer == sequence) return (unsigned)(answer >> 32) == 0;
    if ((unsigned)answer == 0xffffffffu) return false;
    if (turn % 16 == 15 && braid_mailbox_dead(mailbox)) break;
    if (deadline && braid_nanoseconds() - begin >= deadline) break;
    // A turn takes about a microsecond: who is not back soon takes long.
    if (turn >= 200) braid_pause(turn >= 2000 ? 2000 : 200);
  }
  *const_cast<volatile unsigned*>(&mailbox->dead) = 1;
  braid_system_release(&line->given_up, sequence);
  return false;
}
// Whether a host node has answered what was asked last.
__device__ inline bool braid_mailbox_answered(braid_mailbox_slot* slot, braid_mailbox* mailbox) {
  const braid_u64 answer = braid_system_acquire(&slot->line->answered);
  return (unsigned)answer == slot->sequence && (unsigned)(answer >> 32) == 0 &&
         !braid_mailbox_dead(mailbox);
}
)cuda";

}  // namespace

std::string_view prelude_mailbox() { return kMailbox; }

}  // namespace braid::kernels
