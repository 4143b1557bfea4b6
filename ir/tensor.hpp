// Tensors on the host: bytes as the GPU would hold them, and the wide form the reference uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/type.hpp"

namespace braid {

/// Row-major elements in the dtype's own bytes.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  explicit HostTensor(TensorType t);  // zero-filled
  int64_t numel() const { return type.shape.numel(); }
  /// All four throw Error (E0805) for an element that does not exist.
  /// Element i as double / int64 (any dtype; i64 loses bits as double; floats truncate toward
  /// zero, saturate, and NaN gives 0).
  double at(int64_t i) const;
  int64_t int_at(int64_t i) const;
  /// Converts with the dtype's rounding, once. Into an integer dtype a double truncates to int64
  /// (as above), and int64 keeps its low bits as in two's complement; into b1, nonzero is 1.
  void set(int64_t i, double x);
  void set_int(int64_t i, int64_t x);
  static HostTensor from(TensorType t, std::span<const double> values);
};

/// Values in the widest type of their class: floats as double, integers and b1 as int64.
struct WideTensor {
  TensorType type;
  std::vector<double> f;   // if is_float(type.dtype)
  std::vector<int64_t> i;  // otherwise
};
WideTensor widen(const HostTensor& t);
/// Rounds to nearest even into the dtype; float to integer casts are not done here.
HostTensor narrow(const WideTensor& t);

/// Deterministic values: floats ~ N(0, scale^2) rounded to dtype, integers uniform in
/// [low, high), b1 fair. The same seed and name give the same bytes on every machine.
HostTensor random_tensor(const TensorType& type, uint64_t seed, const std::string& name,
                         double scale = 1.0, int64_t low = 0, int64_t high = 8);

/// ||a-b|| / ||b|| over all elements in double; exact inequality count for integers and b1 over
/// numel. NaN where only one side has NaN counts as infinite; equal infinities as equal. A wide
/// reference beyond the dtype's range counts as that infinity.
double relative_error(const HostTensor& a, const HostTensor& b);
double relative_error(const HostTensor& a, const WideTensor& reference);

}  // namespace braid
