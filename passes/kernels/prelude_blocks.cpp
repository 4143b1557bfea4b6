// The prelude's part for what blocks have beside threads: starts before others have ended,
// clusters, asynchronous copies, tensor cores. By PTX, so that no header is needed.
#include "passes/kernels/prelude.hpp"

namespace braid::kernels {

std::string_view prelude_blocks() {
  return R"cuda(
// ---- Programmatic edges ----
// Until the kernels that such edges come from have ended, and their memory is visible. Once all
// blocks have come so far, kernels behind such edges may start in turn.
__device__ inline void braid_wait_for_others() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Loads that stay where they are written ----
// The compiler moves others behind barriers and waits, to where they are used.
template <class T>
__device__ inline T braid_load_now(const T* from) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                sizeof(T) == 16, "no load has that size");
  union {
    T value;
    unsigned char byte;
    unsigned short half;
    unsigned words[sizeof(T) < 4 ? 1 : sizeof(T) / 4];
  } x;
  if constexpr (sizeof(T) == 1) {
    unsigned short wide;
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(wide) : "l"(from) : "memory");
    x.byte = (unsigned char)wide;
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(x.half) : "l"(from) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(x.words[0]) : "l"(from) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];"
                 : "=r"(x.words[0]), "=r"(x.words[1])
                 : "l"(from)
                 : "memory");
  } else {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.words[0]), "=r"(x.words[1]), "=r"(x.words[2]), "=r"(x.words[3])
                 : "l"(from)
                 : "memory");
  }
  return x.value;
}

// ---- Clusters ----
// A block says that it runs, and waits until all of its cluster do: before that none may write to
// another's shared memory.
__device__ inline void braid_cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#endif
}
__device__ inline void braid_cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// To the pack's place in `shared` of the block that is `rank` in the cluster of so many blocks.
template <int CLUSTER, class Pack>
__device__ inline void braid_cluster_send(float* shared, int pack, int rank, const Pack& x) {
#if __CUDA_ARCH__ >= 900
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"((unsigned)__cvta_generic_to_shared(shared + 4 * pack)), "r"(rank));
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(there), "f"(x.at[0]),
               "f"(x.at[1]), "f"(x.at[2]), "f"(x.at[3])
               : "memory");
#endif
}
// All threads of all blocks of the cluster meet, and then see what was sent to the COUNT elements.
__device__ inline void braid_cluster_meet(float* shared, int count) {
  braid_cluster_arrive();
  braid_cluster_wait();
}

// ---- Tensor cores and asynchronous copies ----
__device__ inline void* braid_shared_memory() {
  extern __shared__ uint4 braid_dynamic_memory[];
  return braid_dynamic_memory;
}
// 16 bytes to shared memory, where a later braid_copies_wait shows them; zeros if not `inside`.
__device__ inline void braid_copy_async(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}
// Likewise 4 bytes.
__device__ inline void braid_copy_word_async(void* to, const void* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
__device__ inline void braid_copies_end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// For the thread's own groups, all but the newest LATER.
template <int LATER>
__device__ inline void braid_copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}
// 8 x 8 matrices of 16 bits, or 8 x 4 of 32: lane l names row l % 8 of matrix l / 8, and gets of
// each the 32 bits at row l / 4, or of the transposed matrix.
template <bool TRANSPOSED>
__device__ inline void braid_ldmatrix(unsigned& a, unsigned& b, unsigned& c, unsigned& d,
                                      const void* row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at)
                 : "memory");
  }
}
template <bool TRANSPOSED>
__device__ inline void braid_ldmatrix(unsigned& a, unsigned& b, const void* row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(at)
                 : "memory");
  }
}
// sum += a * b: 16 x 8 += 16 x 16 * 16 x 8, or 16 x 8 * 8 x 8 for tf32.
__device__ inline void braid_mma_f16(float (&sum)[4], const unsigned (&a)[4],
                                     const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void braid_mma_bf16(float (&sum)[4], const unsigned (&a)[4],
                                      const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void braid_mma_tf32(float (&sum)[4], const unsigned (&a)[4],
                                      const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The bits of a float, rounded to tf32.
__device__ inline unsigned braid_tf32(unsigned bits) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__int_as_float((int)bits)));
  return rounded;
}
)cuda";
}

}  // namespace braid::kernels
