#include "ir/dtype.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

struct Info {
  std::string_view name;
  int size;
};
constexpr std::array<Info, kNumDTypes> kInfo{{{"f32", 4},
                                              {"f16", 2},
                                              {"bf16", 2},
                                              {"f64", 8},
                                              {"i32", 4},
                                              {"i64", 8},
                                              {"i8", 1},
                                              {"u8", 1},
                                              {"b1", 1}}};

/// Rounds a double to a binary format of `mantissa` stored bits and exponents from `min_exp` (of
/// the smallest normal) to `max_exp`, to nearest even; returns sign, exponent and mantissa packed.
uint16_t pack(double x, int mantissa, int min_exp, int max_exp) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 63 << 15);
  const auto infinity = static_cast<uint16_t>((max_exp - min_exp + 2) << mantissa);
  if (std::isnan(x)) return static_cast<uint16_t>(sign | infinity | 1 << (mantissa - 1));
  const double a = std::fabs(x);
  if (a == 0) return sign;
  if (std::isinf(x)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(a), min_exp);
  // Exact: scaling by a power of two; nearbyint rounds half to even.
  const double scaled = std::nearbyint(std::ldexp(a, mantissa - exponent));
  auto units = static_cast<int64_t>(scaled);  // up to 2^(mantissa + 1)
  const int64_t biased = (static_cast<int64_t>(exponent - min_exp) << mantissa) + units;
  // A subnormal has exponent min_exp and fewer than 2^mantissa units; its field is 0 as wanted,
  // a normal's leading one adds 1 to the exponent field.
  if (biased >= infinity) return static_cast<uint16_t>(sign | infinity);
  return static_cast<uint16_t>(sign | biased);
}

}  // namespace

int size_of(DType t) { return kInfo[static_cast<size_t>(t)].size; }
std::string_view name_of(DType t) { return kInfo[static_cast<size_t>(t)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

float f16_to_f32(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  float magnitude;
  if (exponent == 0x1f) {
    magnitude = mantissa ? std::nanf("") : HUGE_VALF;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
  }
  return std::copysign(magnitude, bits & 0x8000 ? -1.0f : 1.0f);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t f32_to_f16(float x) { return f64_to_f16(x); }
uint16_t f32_to_bf16(float x) { return f64_to_bf16(x); }
uint16_t f64_to_f16(double x) { return pack(x, 10, -14, 15); }
uint16_t f64_to_bf16(double x) { return pack(x, 7, -126, 127); }

float round_to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  // The carry out of the mantissa makes the next power of two, at the top infinity.
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & ~0x1fffu);
}

}  // namespace braid
