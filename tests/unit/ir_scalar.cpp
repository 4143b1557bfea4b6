#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "ir/diagnostic.hpp"
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
    const bool floats = (f.classes & kFloats) != 0, bits = (f.classes & (kInts | kBool)) != 0;
    const bool compares = f.rule == TypeRule::compare;
    CHECK((f.eval_float != nullptr) == (floats && !compares));
    CHECK((f.eval_compare != nullptr) == (floats && compares));
    CHECK((f.eval_int != nullptr) == bits);
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
  CHECK(scalar_functions().size() == 41);
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
