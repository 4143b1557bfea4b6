// The kernels that the measuring program launches, as CUDA C++ text for NVRTC.
#pragma once

namespace probe {

inline constexpr const char* kKernels = R"(
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
__device__ __forceinline__ void wait_pdl() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#define KERNEL extern "C" __global__ void

KERNEL empty() {}
KERNEL pdl() { wait_pdl(); }
KERNEL args(int* x, int v) { if (v < 0) *x = v; }
struct Fat { int words[1000]; };
KERNEL fat(Fat f, int* x) { if (f.words[threadIdx.x] == 12345) *x = 1; }
KERNEL local(int* x) {
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = x[i & 3];
  int s = 0;
  for (int i = 0; i < 64; i++) s += a[(s + i) & 63];
  if (s == 12345) *x = s;
}
KERNEL shared(int* x) {
  __shared__ int s[12000];
  s[threadIdx.x] = x[0];
  __syncthreads();
  if (s[threadIdx.x ^ 1] == 12345) *x = 1;
}
#define MANY(n) KERNEL many##n(int* x, int v) { if (v < -n) *x = v * n; }
MANY(0) MANY(1) MANY(2) MANY(3) MANY(4) MANY(5) MANY(6) MANY(7)
MANY(8) MANY(9) MANY(10) MANY(11) MANY(12) MANY(13) MANY(14) MANY(15)

// Conditions: a handle from a word; a counter that a loop counts down to 0.
KERNEL set(unsigned long long h, const int* f) { if (threadIdx.x == 0) cudaGraphSetConditional(h, *f); }
KERNEL put(int* counter, const int* n) { if (threadIdx.x == 0) *counter = *n; }
KERNEL step(unsigned long long h, int* counter, int sets) {
  if (threadIdx.x) return;
  if (*counter > 0) --*counter;
  if (sets) cudaGraphSetConditional(h, *counter > 0);
}
// A producer of real work that may also set a handle.
KERNEL work(float* x, unsigned long long h, const int* f, int sets) {
  x[blockIdx.x * blockDim.x + threadIdx.x] += 1.f;
  if (sets && blockIdx.x == 0 && threadIdx.x == 0) cudaGraphSetConditional(h, *f);
}
// A kernel that leaves unless the flag has the wanted value.
KERNEL guard(const int* flag, int want, int* x) { if (*flag == want && x[0] == -12345) x[1] = 1; }
KERNEL guard_pdl(const int* flag, int want, int* x) {
  wait_pdl();
  if (*flag == want && x[0] == -12345) x[1] = 1;
}
KERNEL nanoseconds(unsigned n) {
  unsigned long long a, b;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(a));
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(b)); } while (b - a < n);
}
KERNEL cycles(long long n) { const long long a = clock64(); while (clock64() - a < n) {} }

// A record of 64 bytes and its number. mode: 0 none; 1 record; 2 + number without a fence; 3 + number
// after __threadfence; 4 + number after __threadfence_system; 5 record and system fence only;
// 6 as 4, the place taken by atomicAdd; 7 as 4, written by four threads of a warp.
KERNEL message(int mode, unsigned char* ring, unsigned* head) {
  if (mode == 0 || blockIdx.x || threadIdx.x >= (mode == 7 ? 4 : 1)) return;
  unsigned n = 0;
  if (mode == 6) n = atomicAdd(head, 1u);
  else n = *(volatile unsigned*)head;
  unsigned char* slot = ring + (size_t)(n & 255) * 128;
  uint4* v = (uint4*)slot;
  if (mode == 7) v[threadIdx.x] = make_uint4(n, n + 1, n + threadIdx.x, 7);
  else for (int i = 0; i < 4; i++) v[i] = make_uint4(n, i, n + i, 7);
  if (mode == 3) __threadfence();
  if (mode >= 4) __threadfence_system();
  if (mode == 7) __syncwarp(15);
  if (mode != 1 && mode != 5 && threadIdx.x == 0) *(volatile unsigned*)(slot + 64) = n + 1;
  if (mode != 6 && threadIdx.x == 0) *(volatile unsigned*)head = n + 1;
}
// The last kernel of a graph that the host waits for by polling.
KERNEL ring_bell(unsigned* word, unsigned* count) {
  const unsigned n = *count + 1;
  *count = n;
  __threadfence_system();
  *(volatile unsigned*)word = n;
}
)";

}  // namespace probe
