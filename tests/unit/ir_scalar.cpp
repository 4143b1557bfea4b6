#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/philox.hpp"
#include "ir/scalar.hpp"

using namespace braid;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double apply(Fn fn, double a, double b = 0, double c = 0) {
  double out = -77;
  info(fn).eval_float(&a, &b, &c, &out, 1);
  return out;
}

int64_t apply_int(Fn fn, int64_t a, int64_t b = 0, int64_t c = 0) {
  int64_t out = -77;
  info(fn).eval_int(&a, &b, &c, &out, 1);
  return out;
}

bool names_operand(std::string_view text, int i) {
  return text.find("$" + std::to_string(i)) != std::string_view::npos;
}

}  // namespace

TEST_CASE("the scalar table is complete and consistent") {
  std::set<std::string_view> names;
  std::set<int> numbers;
  for (const ScalarInfo& f : scalar_functions()) {
    CAPTURE(f.name);
    CHECK(names.insert(f.name).second);
    CHECK(numbers.insert(static_cast<int>(f.fn)).second);
    CHECK(&info(f.fn) == &f);
    CHECK(fn_from_name(f.name) == f.fn);
    CHECK(f.cost >= 1);
    if (f.rule == TypeRule::cast) continue;
    CHECK((f.eval_random != nullptr) == (f.rule == TypeRule::random));
    const bool floats = (f.classes & kFloats) != 0, bits = (f.classes & (kInts | kBool)) != 0;
    const bool compares = f.rule == TypeRule::compare;
    CHECK((f.eval_float != nullptr) == (floats && !compares));
    CHECK((f.eval_compare != nullptr) == (floats && compares));
    CHECK((f.eval_int != nullptr) == (bits && f.rule != TypeRule::random));
    CHECK((!f.cuda_float.empty()) == floats);
    if (!floats) CHECK(!f.cuda_int.empty());
    for (std::string_view text : {f.cuda_float, f.cuda_int}) {
      if (text.empty()) continue;
      for (int i = 0; i < 3; ++i) CHECK(names_operand(text, i) == (i < f.arity));
    }
    if (f.combiner) {
      CHECK(f.arity == 2);
      CHECK(f.rule == TypeRule::same);
    }
  }
  CHECK(scalar_functions().size() == 42);
  CHECK(!fn_from_name("relu6"));
  CHECK_THROWS_AS(info(static_cast<Fn>(30)), InternalError);
  CHECK_THROWS_AS(info(static_cast<Fn>(200)), InternalError);
}

TEST_CASE("combiners are associative and commutative and keep their identity") {
  std::mt19937_64 random(4);
  for (const ScalarInfo& f : scalar_functions()) {
    if (!f.combiner) {
      if (f.arity == 2) CHECK_THROWS_AS(identity_of(f.fn, DType::f32), InternalError);
      continue;
    }
    CAPTURE(f.name);
    if (f.classes & kFloats) {
      for (double x : {-2.5, 0.0, 7.0, kInf, -kInf, 1e300}) {
        CHECK(apply(f.fn, identity_of(f.fn, DType::f64).f, x) == x);
        CHECK(apply(f.fn, x, identity_of(f.fn, DType::f64).f) == x);
      }
      CHECK(std::isnan(apply(f.fn, kNan, 1)));
      CHECK(std::isnan(apply(f.fn, 1, kNan)));
    }
    struct Range {
      DType dtype;
      int64_t low, high;
    };
    for (const Range& r : {Range{DType::i32, INT32_MIN, INT32_MAX}, Range{DType::i8, -128, 127},
                           Range{DType::u8, 0, 255}, Range{DType::i64, INT64_MIN, INT64_MAX},
                           Range{DType::b1, 0, 1}}) {
      if (!(f.classes & (r.dtype == DType::b1 ? kBool : kInts))) continue;
      const int64_t e = identity_of(f.fn, r.dtype).i;
      CHECK(e >= r.low);
      CHECK(e <= r.high);
      std::uniform_int_distribution<int64_t> any(r.low, r.high);
      for (int i = 0; i < 50; ++i) {
        const int64_t a = i == 0   ? r.low
                          : i == 1 ? r.high
                                   : any(random),
                      b = any(random), c = any(random);
        CHECK(apply_int(f.fn, e, a) == a);
        CHECK(apply_int(f.fn, a, b) == apply_int(f.fn, b, a));
        CHECK(apply_int(f.fn, apply_int(f.fn, a, b), c) ==
              apply_int(f.fn, a, apply_int(f.fn, b, c)));
      }
    }
  }
}

TEST_CASE("NaN and infinity follow IEEE 754") {
  for (const ScalarInfo& f : scalar_functions()) {
    if (f.eval_float == nullptr || f.arity != 1) continue;
    CAPTURE(f.name);
    CHECK(std::isnan(apply(f.fn, kNan)));
  }
  CHECK(std::isnan(apply(Fn::clamp, kNan, -1, 1)));
  CHECK(std::isnan(apply(Fn::clamp, 0, kNan, 1)));
  CHECK(std::isnan(apply(Fn::clamp, 0, -1, kNan)));
  CHECK(apply(Fn::clamp, 5, 3, 1) == 1);  // min(max(x, lo), hi)
  CHECK(apply(Fn::rsqrt, 0) == kInf);
  CHECK(apply(Fn::rsqrt, -0.0) == -kInf);
  CHECK(apply(Fn::reciprocal, -0.0) == -kInf);
  CHECK(apply(Fn::log, 0) == -kInf);
  CHECK(std::isnan(apply(Fn::log, -1)));
  CHECK(apply(Fn::sigmoid, -800) >= 0);
  CHECK(apply(Fn::sigmoid, -kInf) == 0);
  CHECK(apply(Fn::sigmoid, kInf) == 1);
  CHECK(apply(Fn::round, 2.5) == 2);
  CHECK(apply(Fn::round, -3.5) == -4);
  CHECK(std::isnan(apply(Fn::mod, 1, 0)));
  CHECK(std::isnan(apply(Fn::mod, kInf, 2)));
  CHECK(apply(Fn::mod, -1, 3) == 2);
  CHECK(apply(Fn::mod, 1, -3) == -2);
  CHECK(std::signbit(apply(Fn::mod, 6, -3)));
  CHECK(std::signbit(apply(Fn::sign, -0.0)));
  CHECK(apply(Fn::select, 0, 4, kNan) != apply(Fn::select, 1, 4, kNan));
  // Far out on the negative side gelu has relative, not only absolute, precision.
  CHECK(std::fabs(apply(Fn::gelu, -10) / -7.619853024160593e-23 - 1) < 1e-12);
}

TEST_CASE("integer arithmetic never traps") {
  const int64_t low = INT64_MIN;
  CHECK(apply_int(Fn::neg, low) == low);
  CHECK(apply_int(Fn::abs, low) == low);
  CHECK(apply_int(Fn::div, low, -1) == low);
  CHECK(apply_int(Fn::mod, low, -1) == 0);
  CHECK(apply_int(Fn::div, 7, 0) == 0);
  CHECK(apply_int(Fn::mod, 7, 0) == 0);
  CHECK(apply_int(Fn::div, -7, 2) == -3);
  CHECK(apply_int(Fn::mod, -7, 2) == 1);
  CHECK(apply_int(Fn::mod, 7, -2) == -1);
  CHECK(apply_int(Fn::mul, low, 3) == low);
  CHECK(apply_int(Fn::add, INT64_MAX, 1) == low);
  CHECK(apply_int(Fn::pow, 3, 5) == 243);
  CHECK(apply_int(Fn::pow, 2, 64) == 0);
  CHECK(apply_int(Fn::pow, 0, 0) == 1);
  CHECK(apply_int(Fn::pow, 0, -2) == 0);
  CHECK(apply_int(Fn::pow, -1, -3) == -1);
  CHECK(apply_int(Fn::pow, -1, low) == 1);
  CHECK(apply_int(Fn::pow, 1, -9) == 1);
  CHECK(apply_int(Fn::pow, 5, -1) == 0);
}

TEST_CASE("philox4x32 gives the published vectors, and random the upper bits of word 0") {
  // Random123's kat_vectors.
  struct Vector {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> words;
  };
  constexpr uint32_t kOnes = 0xffffffff;
  for (const Vector& v :
       {Vector{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        Vector{{kOnes, kOnes, kOnes, kOnes},
               {kOnes, kOnes},
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        Vector{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
               {0xa4093822, 0x299f31d0},
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    CHECK(philox4x32(v.counter, v.key) == v.words);
    const auto whole = [](uint32_t low, uint32_t high) {
      return static_cast<int64_t>(uint64_t{high} << 32 | low);
    };
    const int64_t index = whole(v.counter[0], v.counter[1]);
    const int64_t launch = whole(v.counter[2], v.counter[3]);
    const int64_t seed = whole(v.key[0], v.key[1]);
    double out = -1;
    info(Fn::random).eval_random(&seed, &launch, &index, &out, 1);
    CHECK(out * 0x1p24 == v.words[0] >> 8);
  }
}

TEST_CASE("random is uniform, and seeds, launches and indices give streams of their own") {
  const int64_t n = 1 << 16;
  std::vector<std::vector<double>> streams;
  for (const auto& [seed, launch] : {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {0, 1}, {-9, 77}}) {
    std::vector<int64_t> s(n, seed), l(n, launch), i(n);
    for (int64_t k = 0; k < n; ++k) i[static_cast<size_t>(k)] = k;
    std::vector<double>& out = streams.emplace_back(n);
    info(Fn::random).eval_random(s.data(), l.data(), i.data(), out.data(), n);
    double sum = 0, squares = 0;
    std::vector<int> bins(16);
    for (double x : out) {
      REQUIRE(x >= 0);
      REQUIRE(x < 1);
      sum += x;
      squares += x * x;
      ++bins[static_cast<size_t>(x * 16)];
    }
    // Five standard deviations.
    CHECK(std::fabs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
    CHECK(std::fabs(squares / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
    for (int b : bins) CHECK(std::abs(b - n / 16) < 5 * std::sqrt(n / 16.0));
  }
  for (size_t a = 0; a < streams.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      double together = 0;
      for (size_t k = 0; k < streams[a].size(); ++k) {
        together += (streams[a][k] - 0.5) * (streams[b][k] - 0.5);
      }
      CHECK(std::fabs(together / n * 12) < 5 / std::sqrt(static_cast<double>(n)));
    }
  }
}
