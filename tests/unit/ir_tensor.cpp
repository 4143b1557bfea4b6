#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "ir/diagnostic.hpp"
#include "ir/tensor.hpp"

using namespace braid;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32,
                          DType::i64, DType::i8,  DType::u8,   DType::b1};

HostTensor vector_of(DType t, std::vector<double> values) {
  return HostTensor::from({t, {Dim(static_cast<int64_t>(values.size()))}}, values);
}

double through(DType t, double x) { return vector_of(t, {x}).at(0); }

double int_through(DType t, int64_t x) {
  HostTensor one(TensorType{t, {}});
  one.set_int(0, x);
  return one.at(0);
}

/// x rounded to `digits` significant bits and to multiples of 2^last, halves to even, by long
/// double arithmetic.
double rounded(long double x, int digits, int last = -149) {
  int exponent = 0;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - digits, last);
  return static_cast<double>(std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit));
}

int digits_of(DType t) { return t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8; }

}  // namespace

TEST_CASE("floats are rounded once, to the nearest, halves to even") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  for (DType t : {DType::f32, DType::f16, DType::bf16}) {
    const int digits = digits_of(t);
    for (int i = 0; i < 3000; ++i) {
      double x = std::ldexp(mantissa(random), i % 24 - 10);
      // Every other one is next to the middle of two values, where a second rounding would show.
      if (i % 2 == 1) {
        x = rounded(x, digits + 1);
        if (i % 4 == 1) x = std::nextafter(x, i % 8 == 1 ? kInf : -kInf);
      }
      CHECK(through(t, x) == rounded(x, digits, t == DType::f16 ? -24 : -133));
    }
  }
  CHECK(through(DType::f16, 65519.999) == 65504);
  CHECK(through(DType::f16, 65520) == kInf);
  CHECK(through(DType::f16, -1e9) == -kInf);
  CHECK(through(DType::bf16, 3.4e38) == kInf);
  CHECK(through(DType::f16, 0x1p-25) == 0);
  CHECK(through(DType::f16, 0x1.000001p-25) == 0x1p-24);
  CHECK(through(DType::f16, 0x1.8p-24) == 0x1p-23);
  CHECK(std::signbit(through(DType::bf16, -0.0)));
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    CHECK(std::isnan(through(t, kNan)));
    CHECK(through(t, -kInf) == -kInf);
  }
}

TEST_CASE("large integers become floats with one rounding") {
  std::mt19937_64 random(12);
  for (DType t : {DType::f32, DType::bf16}) {
    for (int i = 0; i < 2000; ++i) {
      auto x = static_cast<int64_t>(random() >> (i % 40));
      if (i % 2 == 1) {
        // One unit beyond a half: double alone would lose the unit, and the half would go to even.
        const int digits = digits_of(t);
        const int shift = 61 - digits;
        x = ((int64_t{1} << digits | (x & 0x7f)) << shift) | int64_t{1} << (shift - 1) | 1;
        if (i % 4 == 1) x = -x;
      }
      CHECK(int_through(t, x) == rounded(static_cast<long double>(x), digits_of(t)));
    }
  }
  CHECK(int_through(DType::f32, std::numeric_limits<int64_t>::min()) == -0x1p63);
  CHECK(int_through(DType::f32, std::numeric_limits<int64_t>::max()) == 0x1p63);
  CHECK(int_through(DType::f16, 70000) == kInf);
}

TEST_CASE("integers keep their low bits, doubles truncate and saturate") {
  CHECK(int_through(DType::i32, 0x1'8000'0005) == -2147483643.0);
  CHECK(int_through(DType::i8, 200) == -56);
  CHECK(int_through(DType::u8, -1) == 255);
  CHECK(int_through(DType::b1, 2) == 1);
  CHECK(through(DType::i32, -2.9) == -2);
  CHECK(through(DType::i64, 1e30) == 0x1p63);
  CHECK(vector_of(DType::i64, {1e30}).int_at(0) == std::numeric_limits<int64_t>::max());
  CHECK(through(DType::i64, kNan) == 0);
  CHECK(through(DType::b1, 0.25) == 1);
  CHECK(vector_of(DType::f32, {-7.9}).int_at(0) == -7);
  CHECK(vector_of(DType::f64, {-kInf}).int_at(0) == std::numeric_limits<int64_t>::min());
}

TEST_CASE("narrow(widen(t)) is t") {
  for (DType t : kAll) {
    const HostTensor a = random_tensor({t, {Dim(7), Dim(31)}}, 3, "w", 4, -90, 90);
    const HostTensor b = narrow(widen(a));
    CHECK(b.type == a.type);
    CHECK(b.bytes == a.bytes);
    CHECK(static_cast<int64_t>(a.bytes.size()) == 7 * 31 * size_of(t));
  }
  // Every bit pattern of the small floats but NaN payloads.
  for (DType t : {DType::f16, DType::bf16}) {
    HostTensor all(TensorType{t, {Dim(65536)}});
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(all.bytes.data() + 2 * i, &bits, 2);
    }
    const HostTensor back = narrow(widen(all));
    for (int64_t i = 0; i < 65536; ++i) {
      if (std::isnan(all.at(i))) {
        CHECK(std::isnan(back.at(i)));
      } else {
        CHECK(std::memcmp(all.bytes.data() + 2 * i, back.bytes.data() + 2 * i, 2) == 0);
      }
    }
  }
}

TEST_CASE("random tensors depend on seed and name only") {
  const TensorType type{DType::f32, {Dim(100), Dim(200)}};
  const HostTensor a = random_tensor(type, 5, "w");
  CHECK(random_tensor(type, 5, "w").bytes == a.bytes);
  CHECK(random_tensor(type, 6, "w").bytes != a.bytes);
  CHECK(random_tensor(type, 5, "v").bytes != a.bytes);
  // Pinned: these bytes must be the same on every machine and in every release.
  const std::vector<double> first{-0x1.fbce78p-2, -0x1.b3c51ap+0, -0x1.53e442p-3, -0x1.5cb86p+1};
  for (size_t i = 0; i < first.size(); ++i) CHECK(a.at(static_cast<int64_t>(i)) == first[i]);

  double sum = 0, squares = 0, largest = 0;
  for (double x : widen(a).f) {
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::fabs(x));
  }
  CHECK(std::fabs(sum / 20000) < 0.03);
  CHECK(std::fabs(squares / 20000 - 1) < 0.05);
  CHECK(largest > 3);
  const WideTensor scaled = widen(random_tensor(type, 5, "w", 0.25));
  CHECK(scaled.f[17] == a.at(17) / 4);

  for (DType t : {DType::i32, DType::i64, DType::i8}) {
    const WideTensor ints = widen(random_tensor({t, {Dim(2000)}}, 9, "i", 1, -3, 4));
    const std::set<int64_t> seen(ints.i.begin(), ints.i.end());
    CHECK(seen == std::set<int64_t>{-3, -2, -1, 0, 1, 2, 3});
  }
  const WideTensor bools = widen(random_tensor({DType::b1, {Dim(2000)}}, 9, "b"));
  const auto ones = std::count(bools.i.begin(), bools.i.end(), 1);
  CHECK(ones > 850);
  CHECK(ones < 1150);
  CHECK(ones + std::count(bools.i.begin(), bools.i.end(), 0) == 2000);
}

TEST_CASE("relative_error") {
  CHECK(relative_error(vector_of(DType::f32, {3, 4}), vector_of(DType::f32, {3, 4})) == 0);
  CHECK(relative_error(vector_of(DType::f32, {3, 5}), vector_of(DType::f32, {3, 4})) ==
        doctest::Approx(0.2));
  CHECK(relative_error(vector_of(DType::f32, {1}), vector_of(DType::f32, {0})) == kInf);
  CHECK(relative_error(vector_of(DType::f32, {}), vector_of(DType::f32, {})) == 0);
  CHECK(relative_error(vector_of(DType::f32, {kNan, 1}), vector_of(DType::f32, {kNan, 1})) == 0);
  CHECK(relative_error(vector_of(DType::f32, {kNan, 1}), vector_of(DType::f32, {2, 1})) == kInf);
  CHECK(relative_error(vector_of(DType::f32, {2, 1}), vector_of(DType::f32, {kNan, 1})) == kInf);
  CHECK(relative_error(vector_of(DType::f32, {kInf, 2}), vector_of(DType::f32, {kInf, 2})) == 0);
  CHECK(relative_error(vector_of(DType::f32, {kInf}), vector_of(DType::f32, {-kInf})) == kInf);
  CHECK(relative_error(vector_of(DType::f32, {kInf}), vector_of(DType::f32, {1e30})) == kInf);
  CHECK(relative_error(vector_of(DType::i32, {1, 2, 3, 4}), vector_of(DType::i32, {1, 2, 0, 0})) ==
        0.5);
  CHECK(relative_error(vector_of(DType::b1, {1, 0}), vector_of(DType::b1, {1, 1})) == 0.5);
  // A reference beyond the dtype's range means infinity.
  WideTensor wide{{DType::f16, {Dim(1)}}, {1e6}, {}};
  CHECK(relative_error(vector_of(DType::f16, {kInf}), wide) == 0);
  CHECK(relative_error(vector_of(DType::f16, {65504}), wide) == kInf);
  // Squares of very large or small f64 values do not spoil it.
  CHECK(relative_error(vector_of(DType::f64, {1e-200}), vector_of(DType::f64, {2e-200})) ==
        doctest::Approx(0.5));
  CHECK(relative_error(vector_of(DType::f64, {1e300}), vector_of(DType::f64, {2e300})) ==
        doctest::Approx(0.5));
}

TEST_CASE("an element that does not exist is refused") {
  HostTensor t({DType::f16, Shape{4, 3}});
  t.set(11, 1.5);
  CHECK(t.at(11) == 1.5);
  for (int64_t i : {int64_t{12}, int64_t{-1}, int64_t{100'000'000}}) {
    CAPTURE(i);
    CHECK_THROWS_WITH_AS(t.set(i, 1.0), doctest::Contains("has no element"), Error);
    try {
      t.set_int(i, 1);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.diagnostics()[0].code == "E0805");
    }
    CHECK_THROWS_AS(static_cast<void>(t.at(i)), Error);
    CHECK_THROWS_AS(static_cast<void>(t.int_at(i)), Error);
  }
}
