#include "kernels_cpu_shim.hpp"

namespace braid::test {
namespace {

constexpr std::string_view kShim = R"cpp(
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <map>
#include <vector>
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static
  struct BraidIndex {
    unsigned x, y, z;
  };
  extern "C" {
  BraidIndex threadIdx, blockIdx;
  struct BraidHost {
    void (*block_barrier)();
    void (*warp_barrier)();
    float (*f16_to_f32)(unsigned short);
    unsigned short (*f32_to_f16)(float);
    unsigned short (*f32_to_bf16)(float);
    void (*others_end)();
  } braid_host;
  }
  static unsigned long long braid_lanes[1024];
  static inline void __syncthreads() { braid_host.block_barrier(); }
  static inline void __threadfence_system() {}
  // A handle is the place of the value, which has room for four bytes.
  extern "C" unsigned braid_sets = 0;
  extern "C" void cudaGraphSetConditional(unsigned long long handle, unsigned value) {
    memcpy((void*)handle, &value, sizeof value);
    ++braid_sets;
  }
  // Memory of the host's is memory like any other, and the host is another thread.
  struct alignas(16) braid_u32x4 {
    unsigned x, y, z, w;
  };
  static braid_u32x4 braid_system_load(const void* from) {
    if ((size_t)from % 16 != 0) abort();
    return *(const braid_u32x4*)from;
  }
  static void braid_system_store(void* to, braid_u32x4 p) {
    if ((size_t)to % 16 != 0) abort();
    *(braid_u32x4*)to = p;
  }
  static unsigned long long braid_system_acquire(const unsigned* from) {
    return __atomic_load_n((const unsigned long long*)from, __ATOMIC_ACQUIRE);
  }
  static void braid_system_release(unsigned* to, unsigned x) {
    __atomic_store_n(to, x, __ATOMIC_RELEASE);
  }
  static unsigned long long braid_nanoseconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
  }
  static void braid_pause(unsigned) { sched_yield(); }
  static void braid_wait_for_others() { braid_host.others_end(); }
  // Blocks run one after the other, so what a block finds is what its cluster sent when all blocks
  // of it ran before: kernels of clusters run twice.
  struct BraidSent {
    size_t at;  // from the beginning of shared memory
    float x[4];
  };
  static std::map<unsigned, std::vector<BraidSent>> braid_sent_to_block;
  static unsigned braid_block(unsigned x) { return x + 65536 * blockIdx.y; }
  static void braid_cluster_arrive() {}
  static void braid_cluster_wait() { __syncthreads(); }
  extern "C" void braid_begin_launch() { braid_sent_to_block.clear(); }
  static inline void __syncwarp() { braid_host.warp_barrier(); }
  static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
  }
  static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, 4);
    return bits;
  }
  static inline double __longlong_as_double(long long bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
  }
  static inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
  static inline double rsqrt(double x) { return 1 / sqrt(x); }
  static inline float braid_f16_bits_to_float(unsigned short x) { return braid_host.f16_to_f32(x); }
  static inline unsigned short braid_float_to_f16_bits(float x) { return braid_host.f32_to_f16(x); }
  static inline unsigned short braid_float_to_bf16_bits(float x) { return braid_host.f32_to_bf16(x); }
  template <class T>
  T braid_shuffle_xor(T x, int distance) {
    memcpy(&braid_lanes[threadIdx.x], &x, sizeof x);
    braid_host.warp_barrier();
    T y;
    memcpy(&y, &braid_lanes[threadIdx.x ^ (unsigned)distance], sizeof y);
    braid_host.warp_barrier();
    return y;
  }
  static inline int __popc(unsigned x) { return __builtin_popcount(x); }
  static inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
  static inline int __shfl_up_sync(unsigned, int x, int distance) {
    memcpy(&braid_lanes[threadIdx.x], &x, sizeof x);
    braid_host.warp_barrier();
    int y = x;
    if ((int)threadIdx.x % 32 >= distance)
      memcpy(&y, &braid_lanes[threadIdx.x - (unsigned)distance], sizeof y);
    braid_host.warp_barrier();
    return y;
  }

  // ---- Tensor cores and asynchronous copies ----
  static void braid_fail(const char* why) {
    fprintf(stderr, "thread %u of block %u: %s\n", threadIdx.x, blockIdx.x, why);
    abort();
  }

  // Copies happen as late as they may: where the thread waits for their group.
  struct BraidCopy {
    void* to;
    const void* from;
    bool inside;
    int group;
    size_t bytes = 16;
  };
  static std::vector<BraidCopy> braid_copies[1024];
  static int braid_groups[1024];
  alignas(128) static unsigned char braid_dynamic[227 * 1024];
  extern "C" void braid_begin_block() {
    memset(braid_dynamic, 0xff, sizeof braid_dynamic);  // NaN in every type
    for (std::vector<BraidCopy>& c : braid_copies) c.clear();
    memset(braid_groups, 0, sizeof braid_groups);
  }
  static void* braid_shared_memory() { return braid_dynamic; }
  template <class T>
  static T braid_load_now(const T* from) {
    if ((size_t)from % sizeof(T) != 0) braid_fail("a load is misaligned");
    return *from;
  }
  template <int CLUSTER, class Pack>
  void braid_cluster_send(float* shared, int pack, int rank, const Pack& x) {
    BraidSent sent{(size_t)((unsigned char*)(shared + 4 * pack) - braid_dynamic)};
    memcpy(sent.x, x.at, sizeof sent.x);
    const unsigned first = blockIdx.x / CLUSTER * CLUSTER;
    braid_sent_to_block[braid_block(first + (unsigned)rank)].push_back(sent);
  }
  static void braid_cluster_meet(float* shared, int count) {
    __syncthreads();
    if (threadIdx.x == 0) {
      for (const BraidSent& s : braid_sent_to_block[braid_block(blockIdx.x)]) {
        float* const to = (float*)(braid_dynamic + s.at);
        if (to < shared || to + 4 > shared + count) braid_fail("sent beyond the share");
        memcpy(to, s.x, sizeof s.x);
      }
    }
    __syncthreads();
  }
  static void braid_copy_async(void* to, const void* from, bool inside) {
    if ((size_t)to % 16 != 0 || (size_t)from % 16 != 0)
      braid_fail("a copy of 16 bytes is misaligned");
    braid_copies[threadIdx.x].push_back({to, from, inside, braid_groups[threadIdx.x]});
  }
  static void braid_copy_word_async(void* to, const void* from, bool inside) {
    if ((size_t)to % 4 != 0 || (size_t)from % 4 != 0) braid_fail("a copy of 4 bytes is misaligned");
    braid_copies[threadIdx.x].push_back({to, from, inside, braid_groups[threadIdx.x], 4});
  }
  static void braid_copies_end_group() { ++braid_groups[threadIdx.x]; }
  template <int LATER>
  void braid_copies_wait() {
    std::vector<BraidCopy>& copies = braid_copies[threadIdx.x];
    size_t done = 0;
    for (; done < copies.size() && copies[done].group < braid_groups[threadIdx.x] - LATER; ++done) {
      const BraidCopy& c = copies[done];
      if (c.inside) {
        memcpy(c.to, c.from, c.bytes);
      } else {
        memset(c.to, 0, c.bytes);
      }
    }
    copies.erase(copies.begin(), copies.begin() + (long)done);
  }

  // The lanes of a warp see each other's words. Two buffers in turn: no lane can be two exchanges
  // ahead of another, so one barrier each is enough.
  struct BraidWords {
    unsigned at[8];
  };
  static BraidWords braid_exchanges[2][1024];
  static unsigned char braid_turn[1024];
  static const BraidWords* braid_exchange(const BraidWords& mine) {
    BraidWords* const all = braid_exchanges[braid_turn[threadIdx.x] ^= 1];
    all[threadIdx.x] = mine;
    braid_host.warp_barrier();
    return all + threadIdx.x / 32 * 32;
  }

  template <bool TRANSPOSED>
  unsigned braid_ldmatrix_one(const BraidWords* rows, int matrix) {
    const int lane = threadIdx.x % 32;
    const auto row = [&](int r) {
      const unsigned short* p;
      memcpy(&p, &rows[matrix * 8 + r], sizeof p);
      return p;
    };
    if (!TRANSPOSED) {
      unsigned both;
      memcpy(&both, row(lane / 4) + lane % 4 * 2, 4);
      return both;
    }
    return row(lane % 4 * 2)[lane / 4] | (unsigned)row(lane % 4 * 2 + 1)[lane / 4] << 16;
  }
  static const BraidWords* braid_ldmatrix_rows(const void* row) {
    if ((size_t)row % 16 != 0) braid_fail("a row of ldmatrix is misaligned");
    BraidWords mine;
    memcpy(&mine, &row, sizeof row);
    return braid_exchange(mine);
  }
  template <bool TRANSPOSED>
  void braid_ldmatrix(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) {
    const BraidWords* const rows = braid_ldmatrix_rows(row);
    a = braid_ldmatrix_one<TRANSPOSED>(rows, 0);
    b = braid_ldmatrix_one<TRANSPOSED>(rows, 1);
    c = braid_ldmatrix_one<TRANSPOSED>(rows, 2);
    d = braid_ldmatrix_one<TRANSPOSED>(rows, 3);
  }
  template <bool TRANSPOSED>
  void braid_ldmatrix(unsigned& a, unsigned& b, const void* row) {
    const BraidWords* const rows = braid_ldmatrix_rows(row);
    a = braid_ldmatrix_one<TRANSPOSED>(rows, 0);
    b = braid_ldmatrix_one<TRANSPOSED>(rows, 1);
  }

  // Fragments by the PTX ISA. A register holds PER neighbours along k; `value` decodes one.
  template <int PER, class Value>
  void braid_mma(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Value value) {
    const BraidWords* const lanes = braid_exchange({{a[0], a[1], a[2], a[3], b[0], b[1], 0, 0}});
    const int lane = threadIdx.x % 32, half = 4 * PER;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double total = sum[i];
      for (int k = 0; k < 2 * half; ++k) {
        const int holder = k % half / PER;
        const unsigned x = lanes[row % 8 * 4 + holder].at[row / 8 + k / half * 2];
        const unsigned y = lanes[column * 4 + holder].at[4 + k / half];
        total += (double)value(x, k % PER) * value(y, k % PER);
      }
      sum[i] = (float)total;
    }
  }
  static void braid_mma_f16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    braid_mma<2>(sum, a, b, [](unsigned x, int i) {
      return braid_host.f16_to_f32((unsigned short)(x >> 16 * i));
    });
  }
  static void braid_mma_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    braid_mma<2>(sum, a, b,
                 [](unsigned x, int i) { return __int_as_float((int)(x >> 16 * i << 16)); });
  }
  static void braid_mma_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    braid_mma<1>(sum, a, b, [](unsigned x, int) {
      if (x & 0x1fffu) braid_fail("an operand is not rounded to tf32");
      return __int_as_float((int)x);
    });
  }
  static unsigned braid_tf32(unsigned bits) {
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
  }
)cpp";

}  // namespace

std::string_view cpu_shim() { return kShim; }

}  // namespace braid::test
