#include "passes/cost.hpp"

#include <algorithm>

namespace braid {

double estimate_us(const Kernel& k, const Target& t) {
  // Measured on an H200: a small real kernel adds 0.6 us to a chain of empty ones; 4.3 TB/s copied,
  // which 132 SMs share; strict f32 by SIMT tiles reaches about 0.2 TFLOP/s an SM.
  constexpr double kFixed = 0.6;
  constexpr double kBytesPerUsPerSm = 4.3e6 / 132;
  constexpr double kFlopsPerUsPerSm = 0.2e6;
  const double memory = static_cast<double>(k.bytes_moved) / (kBytesPerUsPerSm * t.sms);
  const double compute = static_cast<double>(k.flops) / (kFlopsPerUsPerSm * t.sms);
  return kFixed + std::max(memory, compute);
}

}  // namespace braid
