#include "passes/kernels/prelude.hpp"

#include <string>

#include "passes/kernels/family.hpp"

namespace braid::kernels {
namespace {

constexpr std::string_view kIntrinsics =
    R"cuda(// Unused names, and x < 0 for unsigned x: generated code has both.
#pragma nv_diag_suppress 177, 186
// ---- Intrinsics ----
__device__ inline float braid_f16_bits_to_float(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ inline unsigned short braid_float_to_f16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline unsigned short braid_float_to_bf16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
template <class T>
__device__ inline T braid_shuffle_xor(T x, int distance) {
  return __shfl_xor_sync(0xffffffffu, x, distance);
}
__device__ inline signed char braid_shuffle_xor(signed char x, int distance) {
  return (signed char)__shfl_xor_sync(0xffffffffu, (int)x, distance);
}
__device__ inline unsigned char braid_shuffle_xor(unsigned char x, int distance) {
  return (unsigned char)__shfl_xor_sync(0xffffffffu, (int)x, distance);
}
__device__ inline bool braid_shuffle_xor(bool x, int distance) {
  return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0;
}

// ---- Memory of the host's, and time ----
struct alignas(16) braid_u32x4 {
  unsigned x, y, z, w;
};
__device__ inline braid_u32x4 braid_system_load(const void* from) {
  braid_u32x4 p;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w)
               : "l"(from)
               : "memory");
  return p;
}
__device__ inline void braid_system_store(void* to, braid_u32x4 p) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(p.x), "r"(p.y),
               "r"(p.z), "r"(p.w)
               : "memory");
}
__device__ inline unsigned long long braid_system_acquire(const unsigned* from) {
  unsigned long long x;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
  return x;
}
__device__ inline void braid_system_release(unsigned* to, unsigned x) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
__device__ inline unsigned long long braid_nanoseconds() {
  unsigned long long x;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(x)::"memory");
  return x;
}
__device__ inline void braid_pause(unsigned nanoseconds) {
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}
)cuda";

constexpr std::string_view kPortable =
    R"cuda(// ---- Storage: f16 and bf16 are float in registers, b1 is bool ----
struct braid_f16 {
  unsigned short bits;
};
struct braid_bf16 {
  unsigned short bits;
};
struct braid_b1 {
  unsigned char byte;
};
__device__ inline float braid_load(braid_f16 x) { return braid_f16_bits_to_float(x.bits); }
__device__ inline float braid_load(braid_bf16 x) {
  return __int_as_float((int)((unsigned)x.bits << 16));
}
__device__ inline bool braid_load(braid_b1 x) { return x.byte != 0; }
__device__ inline braid_f16 braid_to_f16(float x) { return {braid_float_to_f16_bits(x)}; }
__device__ inline braid_bf16 braid_to_bf16(float x) { return {braid_float_to_bf16_bits(x)}; }
__device__ inline braid_b1 braid_to_b1(bool x) { return {(unsigned char)(x ? 1 : 0)}; }

// Consecutive elements that move in accesses of 16 bytes (8 or 4 where they are fewer).
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) braid_pack {
  T at[N];
};
template <int N, class T>
__device__ inline braid_pack<T, N> braid_load_pack(const T* p, long long pack) {
  return reinterpret_cast<const braid_pack<T, N>*>(p)[pack];
}
template <int N, class T>
__device__ inline braid_pack<T, N> braid_load_pack_now(const T* p, long long pack) {
  constexpr int half = N / 2;  // of packs that are two loads
  braid_pack<T, N> x;
  if constexpr (sizeof(x) <= 16) {
    x = braid_load_now(reinterpret_cast<const braid_pack<T, N>*>(p) + pack);
  } else {
    const auto* parts = reinterpret_cast<const braid_pack<T, half>*>(p) + 2 * pack;
    const braid_pack<T, half> low = braid_load_now(parts), high = braid_load_now(parts + 1);
    for (int i = 0; i < half; ++i) x.at[i] = low.at[i], x.at[half + i] = high.at[i];
  }
  return x;
}
template <int N, class T>
__device__ inline void braid_store_pack(T* p, long long pack, const braid_pack<T, N>& x) {
  reinterpret_cast<braid_pack<T, N>*>(p)[pack] = x;
}

// ---- Casts to integers saturate; NaN gives 0 ----
template <class T>
struct braid_limits;
template <>
struct braid_limits<int> {
  static constexpr int low = -2147483647 - 1, high = 2147483647;
};
template <>
struct braid_limits<long long> {
  static constexpr long long low = -9223372036854775807LL - 1, high = 9223372036854775807LL;
};
template <>
struct braid_limits<signed char> {
  static constexpr signed char low = -128, high = 127;
};
template <>
struct braid_limits<unsigned char> {
  static constexpr unsigned char low = 0, high = 255;
};
template <class To, class From>
__device__ inline To braid_to_int(From x) {
  if (x != x) return 0;
  if (x >= (From)braid_limits<To>::high) return braid_limits<To>::high;
  if (x <= (From)braid_limits<To>::low) return braid_limits<To>::low;
  return (To)x;
}
// An index from data, clamped into [0, extent).
__device__ inline int braid_clamp_index(long long i, int extent) {
  return (int)(i < 0 ? 0 : i < extent ? i : extent - 1);
}
__device__ inline long long braid_clamp_index(long long i, long long extent) {
  return i < 0 ? 0 : i < extent ? i : extent - 1;
}

// ---- Scalar functions ----
__device__ inline float braid_exp(float x) { return expf(x); }
__device__ inline double braid_exp(double x) { return exp(x); }
__device__ inline float braid_log(float x) { return logf(x); }
__device__ inline double braid_log(double x) { return log(x); }
__device__ inline float braid_sqrt(float x) { return sqrtf(x); }
__device__ inline double braid_sqrt(double x) { return sqrt(x); }
__device__ inline float braid_rsqrt(float x) { return rsqrtf(x); }
__device__ inline double braid_rsqrt(double x) { return rsqrt(x); }
__device__ inline float braid_tanh(float x) { return tanhf(x); }
__device__ inline double braid_tanh(double x) { return tanh(x); }
__device__ inline float braid_erf(float x) { return erff(x); }
__device__ inline double braid_erf(double x) { return erf(x); }
__device__ inline float braid_erfc(float x) { return erfcf(x); }
__device__ inline double braid_erfc(double x) { return erfc(x); }
__device__ inline double braid_sin(double x) { return sin(x); }
__device__ inline double braid_cos(double x) { return cos(x); }
__device__ inline float braid_floor(float x) { return floorf(x); }
__device__ inline double braid_floor(double x) { return floor(x); }
__device__ inline float braid_ceil(float x) { return ceilf(x); }
__device__ inline double braid_ceil(double x) { return ceil(x); }
__device__ inline float braid_round(float x) { return rintf(x); }
__device__ inline double braid_round(double x) { return rint(x); }
__device__ inline float braid_abs(float x) { return fabsf(x); }
__device__ inline double braid_abs(double x) { return fabs(x); }
__device__ inline float braid_pow(float a, float b) { return powf(a, b); }
__device__ inline double braid_pow(double a, double b) { return pow(a, b); }
__device__ inline float braid_fmod(float a, float b) { return fmodf(a, b); }
__device__ inline double braid_fmod(double a, double b) { return fmod(a, b); }
__device__ inline float braid_copysign(float a, float b) { return copysignf(a, b); }
__device__ inline double braid_copysign(double a, double b) { return copysign(a, b); }

// sinf and cosf keep an array in local memory for large arguments, which slows every launch of the
// kernel; these do not. x = quadrant * pi/2 + the result, which lies in [-pi/4, pi/4].
__device__ inline float braid_reduce_angle(float x, int* quadrant) {
  if (fabsf(x) < 100000.0f) {  // pi/2 in three parts
    const float q = rintf(x * 0.636619747f);
    *quadrant = (int)q;
    return fmaf(-q, 5.39030253e-15f, fmaf(-q, 3.13916473e-07f, fmaf(-q, 1.57079601f, x)));
  }
  *quadrant = 0;
  if (!(fabsf(x) < __int_as_float(0x7f800000))) return x - x;  // NaN
  // Payne and Hanek: the mantissa times the 96 bits of 2/pi that count for its exponent.
  static const unsigned two_over_pi[7] = {0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u,
                                          0x36d8a566u, 0x4f10e410u, 0x7f9458eau};
  const unsigned bits = (unsigned)__float_as_int(x);
  const unsigned mantissa = bits << 8 | 0x80000000u;
  const int exponent = (int)(bits >> 23 & 255u) - 126;
  const int word = exponent / 32, shift = exponent % 32;
  unsigned high = word > 0 ? two_over_pi[word - 1] : 0u;
  unsigned middle = two_over_pi[word], low = two_over_pi[word + 1];
  if (shift != 0) {
    high = high << shift | middle >> (32 - shift);
    middle = middle << shift | low >> (32 - shift);
    low = low << shift | two_over_pi[word + 2] >> (32 - shift);
  }
  using U = unsigned long long;
  U product = (U)mantissa * middle + ((U)mantissa * low >> 32);
  product += (U)(mantissa * high) << 32;  // in quarter turns, with 62 bits behind the point
  int q = (int)(product >> 62);
  product &= 0x3fffffffffffffffULL;
  if (product >= 0x2000000000000000ULL) {
    product -= 0x4000000000000000ULL;
    ++q;
  }
  const float rest = (float)((double)(long long)product * 3.4061215800865545e-19);  // pi/2 / 2^62
  *quadrant = x < 0.0f ? -q : q;
  return x < 0.0f ? -rest : rest;
}
__device__ inline float braid_sin_quadrant(float r, int quadrant) {
  const float s = r * r;
  const float sine = fmaf(
      fmaf(fmaf(fmaf(2.86567956e-6f, s, -1.98559923e-4f), s, 8.33338592e-3f), s, -1.66666672e-1f),
      r * s, r);
  const float cosine = fmaf(
      fmaf(fmaf(fmaf(2.44677067e-5f, s, -1.38877297e-3f), s, 4.16666567e-2f), s, -0.5f), s, 1.0f);
  const float y = quadrant & 1 ? cosine : sine;
  return quadrant & 2 ? -y : y;
}
__device__ inline float braid_sin(float x) {
  int quadrant;
  const float r = braid_reduce_angle(x, &quadrant);
  return braid_sin_quadrant(r, quadrant);
}
__device__ inline float braid_cos(float x) {
  int quadrant;
  const float r = braid_reduce_angle(x, &quadrant);
  return braid_sin_quadrant(r, quadrant + 1);
}

template <class T>
__device__ inline T braid_mod(T a, T b) {
  const T r = braid_fmod(a, b);
  if (r == T(0)) return braid_copysign(T(0), b);
  return (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T>
__device__ inline T braid_sigmoid(T x) {
  const T e = braid_exp(-braid_abs(x));
  return (x >= T(0) ? T(1) : e) / (T(1) + e);
}
template <class T>
__device__ inline T braid_silu(T x) {
  return x * braid_sigmoid(x);
}
// erfc keeps the digits that 1 + erf loses for negative x.
template <class T>
__device__ inline T braid_gelu(T x) {
  return T(0.5) * x * braid_erfc(x * T(-0.70710678118654752));
}
template <class T>
__device__ inline T braid_gelu_tanh(T x) {
  return T(0.5) * x *
         (T(1) + braid_tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x)));
}
template <class T>
__device__ inline T braid_relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T>
__device__ inline T braid_sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}
template <class T>
__device__ inline T braid_min(T a, T b) {
  return a != a || a < b ? a : b;
}
template <class T>
__device__ inline T braid_max(T a, T b) {
  return a != a || a > b ? a : b;
}

// Integers wrap: unsigned arithmetic, because signed overflow is undefined.
using braid_u64 = unsigned long long;
template <class T>
__device__ inline T braid_neg_int(T x) {
  return (T)(0 - (braid_u64)x);
}
template <class T>
__device__ inline T braid_abs_int(T x) {
  return x < T(0) ? braid_neg_int(x) : x;
}
template <class T>
__device__ inline T braid_add_int(T a, T b) {
  return (T)((braid_u64)a + (braid_u64)b);
}
template <class T>
__device__ inline T braid_sub_int(T a, T b) {
  return (T)((braid_u64)a - (braid_u64)b);
}
template <class T>
__device__ inline T braid_mul_int(T a, T b) {
  return (T)((braid_u64)a * (braid_u64)b);
}
template <class T>
__device__ inline T braid_div_int(T a, T b) {
  if (b == T(0)) return T(0);
  return (long long)b == -1 ? braid_neg_int(a) : (T)(a / b);
}
template <class T>
__device__ inline T braid_mod_int(T a, T b) {
  if (b == T(0) || (long long)b == -1) return T(0);
  const T r = (T)(a % b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? (T)(r + b) : r;
}
template <class T>
__device__ inline T braid_pow_int(T a, T b) {
  if (b < T(0)) {
    if ((long long)a == 1) return a;
    return (long long)a == -1 ? ((b & 1) ? a : T(1)) : T(0);
  }
  braid_u64 result = 1, square = (braid_u64)a;
  for (braid_u64 e = (braid_u64)b; e != 0; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return (T)result;
}
template <class T>
__device__ inline T braid_not(T x) {
  return (T)~x;
}
__device__ inline bool braid_not(bool x) { return !x; }

// ---- Random numbers: Philox4x32-10, see ir/philox.hpp ----
__device__ inline float braid_random(long long seed, long long launch, long long index) {
  unsigned c0 = (unsigned)index, c1 = (unsigned)((braid_u64)index >> 32);
  unsigned c2 = (unsigned)launch, c3 = (unsigned)((braid_u64)launch >> 32);
  unsigned k0 = (unsigned)seed, k1 = (unsigned)((braid_u64)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const braid_u64 a = (braid_u64)0xD2511F53u * c0, b = (braid_u64)0xCD9E8D57u * c2;
    c0 = (unsigned)(b >> 32) ^ c1 ^ k0;
    c1 = (unsigned)b;
    c2 = (unsigned)(a >> 32) ^ c3 ^ k1;
    c3 = (unsigned)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (float)(c0 >> 8) * 5.9604644775390625e-8f;  // 2^-24
}

// ---- Reductions, in an order that depends on the launch shape alone ----
// Over the 32 lanes of a warp; every lane gets the result.
template <class T, class F>
__device__ inline T braid_warp_reduce(T x, F combine) {
  for (int d = 16; d > 0; d /= 2) x = combine(x, braid_shuffle_xor(x, d));
  return x;
}
// Over a block of THREADS, a power of two from 64. Every call needs a combine of a type of its own
// (a lambda written in place): the scratch belongs to that type, so no barrier guards its reuse.
template <int THREADS, class T, class F>
__device__ inline T braid_block_reduce(T x, F combine) {
  __shared__ T scratch[THREADS / 32];
  x = braid_warp_reduce(x, combine);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = scratch[threadIdx.x % (THREADS / 32)];
  for (int d = THREADS / 64; d > 0; d /= 2) x = combine(x, braid_shuffle_xor(x, d));
  return x;
}
// Over the SLICES threads that share threadIdx.x % ROWS, in a block of ROWS * SLICES. `scratch` has
// one element per thread and can be used again at once.
template <int ROWS, int SLICES, class T, class F>
__device__ inline T braid_slice_reduce(T x, void* memory, F combine) {
  T* scratch = static_cast<T*>(memory);
  const int thread = threadIdx.x;
  scratch[thread] = x;
  __syncthreads();
  for (int d = SLICES / 2; d > 0; d /= 2) {
    if (thread < ROWS * d) scratch[thread] = combine(scratch[thread], scratch[thread + ROWS * d]);
    __syncthreads();
  }
  x = scratch[thread % ROWS];
  __syncthreads();
  return x;
}
)cuda";

}  // namespace

std::string_view prelude_intrinsics() {
  static const std::string text = std::string(kIntrinsics) + std::string(prelude_blocks());
  return text;
}
std::string_view prelude_portable() {
  static const std::string text =
      std::string(kPortable) + std::string(prelude_messages()) + std::string(prelude_mailbox());
  return text;
}

std::string_view prelude() {
  static const std::string text =
      std::string(prelude_intrinsics()) + std::string(prelude_portable());
  return text;
}

}  // namespace braid::kernels
