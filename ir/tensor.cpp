#include "ir/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

void check_index(const HostTensor& t, int64_t i, size_t size) {
  if (static_cast<uint64_t>(i) < t.bytes.size() / size) return;
  Diagnostic d;
  d.code = "E0805";
  d.message = fmt::format("a tensor of {} has no element {}", to_string(t.type), i);
  throw Error(std::move(d));
}

template <class T>
T load(const HostTensor& t, int64_t i) {
  check_index(t, i, sizeof(T));
  T x;
  std::memcpy(&x, t.bytes.data() + i * static_cast<int64_t>(sizeof x), sizeof x);
  return x;
}

template <class T>
void store(HostTensor& t, int64_t i, T x) {
  check_index(t, i, sizeof(T));
  std::memcpy(t.bytes.data() + i * static_cast<int64_t>(sizeof x), &x, sizeof x);
}

/// Toward zero, saturating; NaN gives 0.
int64_t truncate(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

/// As double, but inexact ones are rounded to odd, so that a later rounding to at most 42 bits
/// gives what one rounding of x would.
double to_double(int64_t x) {
  const uint64_t magnitude = x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  if (magnitude >> 53 == 0) return static_cast<double>(x);
  constexpr uint64_t kLow = 0x7ff;
  const uint64_t odd = (magnitude & ~kLow) | ((magnitude & kLow) != 0 ? kLow + 1 : 0);
  return x < 0 ? -static_cast<double>(odd) : static_cast<double>(odd);
}

uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t hash(const std::string& s) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// Uniform in [0, 1) with 32 bits, from the high or the low half.
double unit(uint64_t bits, bool high) {
  return static_cast<double>(high ? bits >> 32 : bits & 0xffffffff) * 0x1p-32;
}

/// About N(0, 1): the sum of 12 uniforms less 6 (Irwin and Hall). Only sums, so that every machine
/// gets the same bits; the tails end at 6 standard deviations.
double normal(uint64_t& state) {
  double sum = -6;
  for (int i = 0; i < 6; ++i) {
    state = splitmix64(state);
    sum += unit(state, true) + unit(state, false);
  }
  return sum;
}

/// Adds up ||a-b||^2 and ||b||^2, in units of `scale`, so that no square leaves the range of
/// double. Equal infinities and two NaNs count as equal.
struct Norms {
  double scale, difference = 0, reference = 0;
  void add(double a, double b) {
    if (std::isfinite(b)) reference += (b / scale) * (b / scale);
    if ((std::isnan(a) && std::isnan(b)) || a == b) return;
    const double d = a / scale - b / scale;
    difference += std::isfinite(d) ? d * d : std::numeric_limits<double>::infinity();
  }
  double error() const {
    if (difference == 0) return 0;
    if (reference == 0) return std::numeric_limits<double>::infinity();
    return std::sqrt(difference / reference);
  }
};

}  // namespace

HostTensor::HostTensor(TensorType t) : type(std::move(t)) {
  if (!type.shape.is_static()) {
    Diagnostic d;
    d.code = "E0803";
    d.message = "a tensor needs a type without symbolic dims: Executable::type() has the bound one";
    throw Error(std::move(d));
  }
  bytes.resize(static_cast<size_t>(type.bytes()));
}

double HostTensor::at(int64_t i) const {
  switch (type.dtype) {
    case DType::f32:
      return double{load<float>(*this, i)};
    case DType::f16:
      return double{f16_to_f32(load<uint16_t>(*this, i))};
    case DType::bf16:
      return double{bf16_to_f32(load<uint16_t>(*this, i))};
    case DType::f64:
      return load<double>(*this, i);
    default:
      return static_cast<double>(int_at(i));
  }
}

int64_t HostTensor::int_at(int64_t i) const {
  switch (type.dtype) {
    case DType::i32:
      return load<int32_t>(*this, i);
    case DType::i64:
      return load<int64_t>(*this, i);
    case DType::i8:
      return load<int8_t>(*this, i);
    case DType::u8:
      return load<uint8_t>(*this, i);
    case DType::b1:
      return load<uint8_t>(*this, i) != 0;
    default:
      return truncate(at(i));
  }
}

void HostTensor::set(int64_t i, double x) {
  switch (type.dtype) {
    case DType::f32:
      return store(*this, i, static_cast<float>(x));
    case DType::f16:
      return store(*this, i, f64_to_f16(x));
    case DType::bf16:
      return store(*this, i, f64_to_bf16(x));
    case DType::f64:
      return store(*this, i, x);
    case DType::b1:
      return set_int(i, x != 0);
    default:
      return set_int(i, truncate(x));
  }
}

void HostTensor::set_int(int64_t i, int64_t x) {
  switch (type.dtype) {
    case DType::i32:
      return store(*this, i, static_cast<int32_t>(x));
    case DType::i64:
      return store(*this, i, x);
    case DType::i8:
      return store(*this, i, static_cast<int8_t>(x));
    case DType::u8:
      return store(*this, i, static_cast<uint8_t>(x));
    case DType::b1:
      return store(*this, i, static_cast<uint8_t>(x != 0));
    case DType::f64:
      return store(*this, i, static_cast<double>(x));
    default:
      return set(i, to_double(x));
  }
}

HostTensor HostTensor::from(TensorType t, std::span<const double> values) {
  HostTensor out(std::move(t));
  ensure(static_cast<int64_t>(values.size()) == out.numel(),
         "a tensor needs one value per element");
  for (int64_t i = 0; i < out.numel(); ++i) out.set(i, values[static_cast<size_t>(i)]);
  return out;
}

WideTensor widen(const HostTensor& t) {
  WideTensor w;
  w.type = t.type;
  const int64_t n = t.numel();
  if (is_float(t.type.dtype)) {
    w.f.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) w.f[static_cast<size_t>(i)] = t.at(i);
  } else {
    w.i.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) w.i[static_cast<size_t>(i)] = t.int_at(i);
  }
  return w;
}

HostTensor narrow(const WideTensor& t) {
  HostTensor out(t.type);
  const int64_t n = out.numel();
  const bool floats = is_float(t.type.dtype);
  ensure(static_cast<int64_t>(floats ? t.f.size() : t.i.size()) == n,
         "a wide tensor of another size");
  for (int64_t i = 0; i < n; ++i) {
    if (floats) {
      out.set(i, t.f[static_cast<size_t>(i)]);
    } else {
      out.set_int(i, t.i[static_cast<size_t>(i)]);
    }
  }
  return out;
}

HostTensor random_tensor(const TensorType& type, uint64_t seed, const std::string& name,
                         double scale, int64_t low, int64_t high) {
  HostTensor t(type);
  uint64_t state = splitmix64(splitmix64(seed) ^ hash(name));
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (is_float(type.dtype)) {
      t.set(i, scale * normal(state));
      continue;
    }
    state = splitmix64(state);
    const int64_t span = type.dtype == DType::b1 ? 2 : high - low;
    const int64_t base = type.dtype == DType::b1 ? 0 : low;
    t.set_int(i, base + static_cast<int64_t>(unit(state, true) * static_cast<double>(span)));
  }
  return t;
}

double relative_error(const HostTensor& a, const WideTensor& reference) {
  ensure(a.type == reference.type, "only tensors of one type are compared");
  const int64_t n = a.numel();
  if (is_float(a.type.dtype)) {
    std::vector<double> want = reference.f;
    double scale = std::numeric_limits<double>::min();
    HostTensor one(TensorType{a.type.dtype, {}});
    for (size_t i = 0; i < want.size(); ++i) {
      // Beyond the dtype's range infinity is the right answer.
      one.set(0, want[i]);
      if (std::isinf(one.at(0))) want[i] = one.at(0);
      for (double x : {a.at(static_cast<int64_t>(i)), want[i]}) {
        if (std::isfinite(x)) scale = std::max(scale, std::fabs(x));
      }
    }
    Norms norms{scale};
    for (int64_t i = 0; i < n; ++i) norms.add(a.at(i), want[static_cast<size_t>(i)]);
    return norms.error();
  }
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong += a.int_at(i) != reference.i[static_cast<size_t>(i)];
  return n == 0 ? 0 : static_cast<double>(wrong) / static_cast<double>(n);
}

double relative_error(const HostTensor& a, const HostTensor& b) {
  return relative_error(a, widen(b));
}

}  // namespace braid
