// The scalar functions.
//
// CUDA text. Operands are names or parenthesised expressions; the result is not parenthesised.
// T is float or double in float text (f16 and bf16 values are float in registers), and int,
// long long, signed char, unsigned char or bool in integer text. The text calls these helpers,
// which passes/kernels/prelude defines; each is overloaded for every T of its line.
//
//   float, double:
//     braid_exp, braid_log, braid_sqrt, braid_rsqrt, braid_tanh, braid_erf, braid_sin, braid_cos,
//     braid_floor, braid_ceil, braid_abs   (x)     as in C; rsqrt is 1 / sqrt(x)
//     braid_round(x)       nearest integer, halves to even (rint)
//     braid_sigmoid(x)     x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x))
//     braid_silu(x)        x * braid_sigmoid(x)
//     braid_gelu(x)        0.5 * x * (1 + erf(x / sqrt(2)))
//     braid_gelu_tanh(x)   0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
//     braid_pow(a, b)      as in C
//     braid_mod(a, b)      r = fmod(a, b); if r == 0: copysign(0, b); if r and b differ in sign:
//                          r + b; else r. NaN for b == 0
//   float, double, int, long long, signed char, unsigned char:
//     braid_relu(x)        x < 0 ? 0 : x, so that NaN stays NaN
//     braid_sign(x)        x > 0 ? 1 : x < 0 ? -1 : x, so that NaN stays NaN
//     braid_min(a, b), braid_max(a, b)   NaN if one of them is NaN
//   int, long long, signed char, unsigned char; all wrap to T as in two's complement:
//     braid_neg_int(x), braid_abs_int(x), braid_add_int(a, b), braid_sub_int(a, b),
//     braid_mul_int(a, b)
//     braid_div_int(a, b)  truncates toward zero; 0 for b == 0; wraps for lowest / -1
//     braid_mod_int(a, b)  the remainder with the sign of b; 0 for b == 0 and for b == -1
//     braid_pow_int(a, b)  by repeated squaring; for b < 0: 1 if a == 1, +-1 by b's parity if
//                          a == -1, else 0
//   int, long long, signed char, unsigned char, bool:
//     braid_not(x)         ~x; for bool !x
//
// `cast` has no text: kernels print the conversion of the two dtypes.
#include "ir/scalar.hpp"

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

template <auto F>
void float1(const double* a, const double*, const double*, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i]);
}
template <auto F>
void float2(const double* a, const double* b, const double*, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]);
}
template <auto F>
void float3(const double* a, const double* b, const double* c, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i], c[i]);
}
template <auto F>
void int1(const int64_t* a, const int64_t*, const int64_t*, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i]);
}
template <auto F>
void int2(const int64_t* a, const int64_t* b, const int64_t*, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]);
}
template <auto F>
void int3(const int64_t* a, const int64_t* b, const int64_t* c, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i], c[i]);
}
template <auto F>
void compare(const double* a, const double* b, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]) ? 1 : 0;
}

// Signed overflow is undefined in C++, so int64 arithmetic goes through uint64.
constexpr uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }
constexpr int64_t s(uint64_t x) { return static_cast<int64_t>(x); }

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// erfc keeps the digits that 1 + erf loses for negative x.
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_tanh(double x) {
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
}

double min_nan(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double max_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

double mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

int64_t div_int(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? s(-u(a)) : a / b;
}

int64_t mod_int(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t pow_int(int64_t a, int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return (b & 1) != 0 ? -1 : 1;
    return 0;
  }
  uint64_t result = 1, square = u(a);
  for (uint64_t e = u(b); e != 0; e >>= 1) {
    if ((e & 1) != 0) result *= square;
    square *= square;
  }
  return s(result);
}


constexpr uint8_t kNumbers = kFloats | kInts;
constexpr uint8_t kBits = kInts | kBool;
constexpr uint8_t kAll = kFloats | kInts | kBool;
constexpr auto kSame = TypeRule::same;
constexpr auto kCompare = TypeRule::compare;

constexpr ScalarInfo unary_float(Fn fn, std::string_view name, FloatLoop loop,
                                 std::string_view cuda, int cost) {
  return {fn, name, 1, kSame, kFloats, loop, nullptr, nullptr, cuda, {}, false, cost};
}

constexpr ScalarInfo kTable[] = {
    {Fn::neg, "neg", 1, kSame, kNumbers, float1<[](double x) { return -x; }>,
     int1<[](int64_t x) { return s(-u(x)); }>, nullptr, "-$0", "braid_neg_int($0)", false, 1},
    {Fn::abs, "abs", 1, kSame, kNumbers, float1<[](double x) { return std::fabs(x); }>,
     int1<[](int64_t x) { return x < 0 ? s(-u(x)) : x; }>, nullptr, "braid_abs($0)",
     "braid_abs_int($0)", false, 1},
    unary_float(Fn::exp, "exp", float1<[](double x) { return std::exp(x); }>, "braid_exp($0)", 8),
    unary_float(Fn::log, "log", float1<[](double x) { return std::log(x); }>, "braid_log($0)", 8),
    unary_float(Fn::sqrt, "sqrt", float1<[](double x) { return std::sqrt(x); }>, "braid_sqrt($0)",
                4),
    unary_float(Fn::rsqrt, "rsqrt", float1<[](double x) { return 1 / std::sqrt(x); }>,
                "braid_rsqrt($0)", 4),
    unary_float(Fn::reciprocal, "reciprocal", float1<[](double x) { return 1 / x; }>, "1 / $0", 4),
    unary_float(Fn::tanh, "tanh", float1<[](double x) { return std::tanh(x); }>, "braid_tanh($0)",
                16),
    unary_float(Fn::sigmoid, "sigmoid", float1<[](double x) { return sigmoid(x); }>,
                "braid_sigmoid($0)", 12),
    {Fn::relu,
     "relu",
     1,
     kSame,
     kNumbers,
     float1<[](double x) { return x < 0 ? 0 : x; }>,
     int1<[](int64_t x) { return x < 0 ? 0 : x; }>,
     nullptr,
     "braid_relu($0)",
     {},
     false,
     1},
    unary_float(Fn::gelu, "gelu", float1<[](double x) { return gelu(x); }>, "braid_gelu($0)", 20),
    unary_float(Fn::gelu_tanh, "gelu_tanh", float1<[](double x) { return gelu_tanh(x); }>,
                "braid_gelu_tanh($0)", 24),
    unary_float(Fn::silu, "silu", float1<[](double x) { return x * sigmoid(x); }>, "braid_silu($0)",
                13),
    unary_float(Fn::erf, "erf", float1<[](double x) { return std::erf(x); }>, "braid_erf($0)", 16),
    unary_float(Fn::sin, "sin", float1<[](double x) { return std::sin(x); }>, "braid_sin($0)", 16),
    unary_float(Fn::cos, "cos", float1<[](double x) { return std::cos(x); }>, "braid_cos($0)", 16),
    unary_float(Fn::floor, "floor", float1<[](double x) { return std::floor(x); }>,
                "braid_floor($0)", 1),
    unary_float(Fn::ceil, "ceil", float1<[](double x) { return std::ceil(x); }>, "braid_ceil($0)",
                1),
    unary_float(Fn::round, "round", float1<[](double x) { return std::nearbyint(x); }>,
                "braid_round($0)", 1),
    {Fn::sign,
     "sign",
     1,
     kSame,
     kNumbers,
     float1<[](double x) { return 0 < x   ? 1
                                  : x < 0 ? -1
                                          : x; }>,
     int1<[](int64_t x) { return int64_t{0 < x} - int64_t{x < 0}; }>,
     nullptr,
     "braid_sign($0)",
     {},
     false,
     2},
    {Fn::not_,
     "not",
     1,
     kSame,
     kBits,
     nullptr,
     int1<[](int64_t x) { return ~x; }>,
     nullptr,
     {},
     "braid_not($0)",
     false,
     1},
    {Fn::cast, "cast", 1, TypeRule::cast, kAll, nullptr, nullptr, nullptr, {}, {}, false, 1},

    {Fn::add, "add", 2, kSame, kNumbers, float2<[](double a, double b) { return a + b; }>,
     int2<[](int64_t a, int64_t b) { return s(u(a) + u(b)); }>, nullptr, "$0 + $1",
     "braid_add_int($0, $1)", true, 1},
    {Fn::sub, "sub", 2, kSame, kNumbers, float2<[](double a, double b) { return a - b; }>,
     int2<[](int64_t a, int64_t b) { return s(u(a) - u(b)); }>, nullptr, "$0 - $1",
     "braid_sub_int($0, $1)", false, 1},
    {Fn::mul, "mul", 2, kSame, kNumbers, float2<[](double a, double b) { return a * b; }>,
     int2<[](int64_t a, int64_t b) { return s(u(a) * u(b)); }>, nullptr, "$0 * $1",
     "braid_mul_int($0, $1)", true, 1},
    {Fn::div, "div", 2, kSame, kNumbers, float2<[](double a, double b) { return a / b; }>,
     int2<[](int64_t a, int64_t b) { return div_int(a, b); }>, nullptr, "$0 / $1",
     "braid_div_int($0, $1)", false, 4},
    {Fn::pow, "pow", 2, kSame, kNumbers, float2<[](double a, double b) { return std::pow(a, b); }>,
     int2<[](int64_t a, int64_t b) { return pow_int(a, b); }>, nullptr, "braid_pow($0, $1)",
     "braid_pow_int($0, $1)", false, 20},
    {Fn::min,
     "min",
     2,
     kSame,
     kNumbers,
     float2<[](double a, double b) { return min_nan(a, b); }>,
     int2<[](int64_t a, int64_t b) { return a < b ? a : b; }>,
     nullptr,
     "braid_min($0, $1)",
     {},
     true,
     1},
    {Fn::max,
     "max",
     2,
     kSame,
     kNumbers,
     float2<[](double a, double b) { return max_nan(a, b); }>,
     int2<[](int64_t a, int64_t b) { return b < a ? a : b; }>,
     nullptr,
     "braid_max($0, $1)",
     {},
     true,
     1},
    {Fn::mod, "mod", 2, kSame, kNumbers, float2<[](double a, double b) { return mod(a, b); }>,
     int2<[](int64_t a, int64_t b) { return mod_int(a, b); }>, nullptr, "braid_mod($0, $1)",
     "braid_mod_int($0, $1)", false, 10},

    {Fn::eq,
     "eq",
     2,
     kCompare,
     kAll,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{a == b}; }>,
     compare<[](double a, double b) { return a == b; }>,
     "$0 == $1",
     {},
     false,
     1},
    {Fn::ne,
     "ne",
     2,
     kCompare,
     kAll,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{a != b}; }>,
     compare<[](double a, double b) { return a != b; }>,
     "$0 != $1",
     {},
     false,
     1},
    {Fn::lt,
     "lt",
     2,
     kCompare,
     kNumbers,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{a < b}; }>,
     compare<[](double a, double b) { return a < b; }>,
     "$0 < $1",
     {},
     false,
     1},
    {Fn::le,
     "le",
     2,
     kCompare,
     kNumbers,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{a <= b}; }>,
     compare<[](double a, double b) { return a <= b; }>,
     "$0 <= $1",
     {},
     false,
     1},
    {Fn::gt,
     "gt",
     2,
     kCompare,
     kNumbers,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{b < a}; }>,
     compare<[](double a, double b) { return b < a; }>,
     "$0 > $1",
     {},
     false,
     1},
    {Fn::ge,
     "ge",
     2,
     kCompare,
     kNumbers,
     nullptr,
     int2<[](int64_t a, int64_t b) { return int64_t{b <= a}; }>,
     compare<[](double a, double b) { return b <= a; }>,
     "$0 >= $1",
     {},
     false,
     1},
    {Fn::and_,
     "and",
     2,
     kSame,
     kBits,
     nullptr,
     int2<[](int64_t a, int64_t b) { return a & b; }>,
     nullptr,
     {},
     "$0 & $1",
     true,
     1},
    {Fn::or_,
     "or",
     2,
     kSame,
     kBits,
     nullptr,
     int2<[](int64_t a, int64_t b) { return a | b; }>,
     nullptr,
     {},
     "$0 | $1",
     true,
     1},
    {Fn::xor_,
     "xor",
     2,
     kSame,
     kBits,
     nullptr,
     int2<[](int64_t a, int64_t b) { return a ^ b; }>,
     nullptr,
     {},
     "$0 ^ $1",
     true,
     1},

    {Fn::select,
     "select",
     3,
     TypeRule::select,
     kAll,
     float3<[](double p, double a, double b) { return p != 0 ? a : b; }>,
     int3<[](int64_t p, int64_t a, int64_t b) { return p != 0 ? a : b; }>,
     nullptr,
     "$0 ? $1 : $2",
     {},
     false,
     1},
    {Fn::clamp,
     "clamp",
     3,
     kSame,
     kNumbers,
     float3<[](double x, double lo, double hi) { return min_nan(max_nan(x, lo), hi); }>,
     int3<[](int64_t x, int64_t lo, int64_t hi) {
       const int64_t raised = lo < x ? x : lo;
       return raised < hi ? raised : hi;
     }>,
     nullptr,
     "braid_min(braid_max($0, $1), $2)",
     {},
     false,
     2},
};

constexpr int kNumFn = 66;  // one past the largest number in Fn
constexpr auto kRowOf = [] {
  std::array<int8_t, kNumFn> rows{};
  rows.fill(-1);
  for (size_t i = 0; i < std::size(kTable); ++i)
    rows[static_cast<size_t>(kTable[i].fn)] = static_cast<int8_t>(i);
  return rows;
}();

int64_t lowest_int(DType t) {
  switch (t) {
    case DType::i32:
      return std::numeric_limits<int32_t>::min();
    case DType::i64:
      return std::numeric_limits<int64_t>::min();
    case DType::i8:
      return std::numeric_limits<int8_t>::min();
    default:
      return 0;
  }
}

int64_t highest_int(DType t) {
  switch (t) {
    case DType::i32:
      return std::numeric_limits<int32_t>::max();
    case DType::i64:
      return std::numeric_limits<int64_t>::max();
    case DType::i8:
      return std::numeric_limits<int8_t>::max();
    case DType::u8:
      return std::numeric_limits<uint8_t>::max();
    default:
      return 1;
  }
}

}  // namespace

std::span<const ScalarInfo> scalar_functions() { return kTable; }

const ScalarInfo& info(Fn fn) {
  const auto number = static_cast<size_t>(fn);
  ensure(number < kRowOf.size() && kRowOf[number] >= 0, "unknown scalar function number");
  return kTable[kRowOf[number]];
}

std::optional<Fn> fn_from_name(std::string_view name) {
  for (const ScalarInfo& f : kTable)
    if (f.name == name) return f.fn;
  return std::nullopt;
}

Identity identity_of(Fn combiner, DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (combiner) {
    case Fn::add:
    case Fn::or_:
    case Fn::xor_:
      return {0, 0};
    case Fn::mul:
      return {1, 1};
    case Fn::max:
      return {-kInf, lowest_int(dtype)};
    case Fn::min:
      return {kInf, highest_int(dtype)};
    case Fn::and_:
      return {0, is_int(dtype) && dtype != DType::u8 ? -1 : highest_int(dtype)};
    default:
      throw InternalError("only a combiner has an identity");
  }
}

}  // namespace braid
