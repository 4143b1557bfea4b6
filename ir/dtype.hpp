// Element types and their sizes. The numbers are part of the file formats: never reuse one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

enum class DType : uint8_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  f64 = 3,
  i32 = 4,
  i64 = 5,
  i8 = 6,
  u8 = 7,
  b1 = 8,  // one byte per element, 0 or 1
};
inline constexpr int kNumDTypes = 9;

/// Bytes of one element.
int size_of(DType t);
/// "f32", "bf16", ...
std::string_view name_of(DType t);
/// The inverse of name_of; nothing for an unknown name.
std::optional<DType> dtype_from_name(std::string_view name);

inline bool is_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64;
}
/// Integers other than b1.
inline bool is_int(DType t) {
  return t == DType::i32 || t == DType::i64 || t == DType::i8 || t == DType::u8;
}

/// IEEE binary16 and bfloat16 by their bits; conversions round to nearest even.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float x);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float x);
/// Straight from double, so that no value is rounded twice.
uint16_t f64_to_f16(double x);
uint16_t f64_to_bf16(double x);
/// What tensor cores keep of an f32: 10 explicit bits of the mantissa; to nearest, ties away from
/// zero, as cvt.rna.tf32.f32 rounds.
float round_to_tf32(float x);

}  // namespace braid
