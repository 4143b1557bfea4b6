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
//   long long:
//     braid_random(seed, launch, index)   a float in [0, 1), a multiple of 2^-24: the upper 24 bits
//                          of word 0 of Philox4x32-10 with the counter (index, launch) and the key
//                          seed, low words first
//
// `cast` has no text: kernels print the conversion of the two dtypes.
#include "ir/scalar.hpp"

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "ir/diagnostic.hpp"
#include "ir/philox.hpp"

namespace braid {
namespace {

// Signed overflow is undefined in C++, so int64 arithmetic goes through uint64.
uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }
int64_t s(uint64_t x) { return static_cast<int64_t>(x); }

namespace fn {

double neg(double x) { return -x; }
double abs(double x) { return std::fabs(x); }
double exp(double x) { return std::exp(x); }
double log(double x) { return std::log(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double tanh(double x) { return std::tanh(x); }
double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}
double relu(double x) { return x < 0 ? 0 : x; }
// erfc keeps the digits that 1 + erf loses for negative x.
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh(double x) {
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + std::tanh(k * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x * sigmoid(x); }
double erf(double x) { return std::erf(x); }
double sin(double x) { return std::sin(x); }
double cos(double x) { return std::cos(x); }
double floor(double x) { return std::floor(x); }
double ceil(double x) { return std::ceil(x); }
double round(double x) { return std::nearbyint(x); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }
double pow(double a, double b) { return std::pow(a, b); }
double min(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double max(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
double select(double p, double a, double b) { return p != 0 ? a : b; }
double clamp(double x, double lo, double hi) { return min(max(x, lo), hi); }

int64_t neg(int64_t x) { return s(-u(x)); }
int64_t abs(int64_t x) { return x < 0 ? neg(x) : x; }
int64_t relu(int64_t x) { return x < 0 ? 0 : x; }
int64_t sign(int64_t x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }
int64_t not_(int64_t x) { return ~x; }  // a b1 keeps the low bit when it is wrapped
int64_t add(int64_t a, int64_t b) { return s(u(a) + u(b)); }
int64_t sub(int64_t a, int64_t b) { return s(u(a) - u(b)); }
int64_t mul(int64_t a, int64_t b) { return s(u(a) * u(b)); }
int64_t div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? neg(a) : a / b; }
int64_t pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : (b & 1) != 0 ? -1 : 1;
  uint64_t result = 1, square = u(a);
  for (uint64_t e = u(b); e != 0; e >>= 1) {
    if ((e & 1) != 0) result *= square;
    square *= square;
  }
  return s(result);
}
int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t and_(int64_t a, int64_t b) { return a & b; }
int64_t or_(int64_t a, int64_t b) { return a | b; }
int64_t xor_(int64_t a, int64_t b) { return a ^ b; }
int64_t select(int64_t p, int64_t a, int64_t b) { return p != 0 ? a : b; }
int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return min(max(x, lo), hi); }

template <class T>
bool eq(T a, T b) {
  return a == b;
}
template <class T>
bool ne(T a, T b) {
  return a != b;
}
template <class T>
bool lt(T a, T b) {
  return a < b;
}
template <class T>
bool le(T a, T b) {
  return a <= b;
}
template <class T>
bool gt(T a, T b) {
  return a > b;
}
template <class T>
bool ge(T a, T b) {
  return a >= b;
}

}  // namespace fn

// Loops with the function as a template argument, so that it is inlined.
template <double (*F)(double)>
void float1(const double* a, const double*, const double*, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i]);
}
template <double (*F)(double, double)>
void float2(const double* a, const double* b, const double*, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]);
}
template <double (*F)(double, double, double)>
void float3(const double* a, const double* b, const double* c, double* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i], c[i]);
}
template <int64_t (*F)(int64_t)>
void int1(const int64_t* a, const int64_t*, const int64_t*, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i]);
}
template <int64_t (*F)(int64_t, int64_t)>
void int2(const int64_t* a, const int64_t* b, const int64_t*, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]);
}
template <int64_t (*F)(int64_t, int64_t, int64_t)>
void int3(const int64_t* a, const int64_t* b, const int64_t* c, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i], c[i]);
}
template <bool (*F)(double, double)>
void compare_float(const double* a, const double* b, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]) ? 1 : 0;
}
template <bool (*F)(int64_t, int64_t)>
void compare_int(const int64_t* a, const int64_t* b, const int64_t*, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(a[i], b[i]) ? 1 : 0;
}

void random_loop(const int64_t* seed, const int64_t* launch, const int64_t* index, double* out,
                 int64_t n) {
  const auto low = [](int64_t x) { return static_cast<uint32_t>(u(x)); };
  const auto high = [](int64_t x) { return static_cast<uint32_t>(u(x) >> 32); };
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t word =
        philox4x32({low(index[i]), high(index[i]), low(launch[i]), high(launch[i])},
                   {low(seed[i]), high(seed[i])})[0];
    out[i] = static_cast<double>(word >> 8) * 0x1p-24;
  }
}

constexpr uint8_t kNumbers = kFloats | kInts;
constexpr uint8_t kBits = kInts | kBool;
constexpr uint8_t kAll = kFloats | kInts | kBool;
constexpr TypeRule kSame = TypeRule::same;

struct Text {
  std::string_view for_float, for_int = {};
};

constexpr ScalarInfo of_floats(Fn fn, std::string_view name, FloatLoop f, Text text, int cost) {
  return {fn, name, 1, kSame, kFloats, f, nullptr, nullptr, text.for_float, {}, false, cost};
}
constexpr ScalarInfo of_numbers(Fn fn, std::string_view name, int arity, FloatLoop f, IntLoop i,
                                Text text, int cost, bool combiner = false) {
  return {fn, name,    arity,          kSame,        kNumbers, f,
          i,  nullptr, text.for_float, text.for_int, combiner, cost};
}
constexpr ScalarInfo of_bits(Fn fn, std::string_view name, int arity, IntLoop i,
                             std::string_view text, bool combiner) {
  return {fn, name, arity, kSame, kBits, nullptr, i, nullptr, {}, text, combiner, 1};
}
constexpr ScalarInfo comparison(Fn fn, std::string_view name, uint8_t classes, IntLoop i,
                                CompareLoop f, std::string_view text) {
  return {fn, name, 2, TypeRule::compare, classes, nullptr, i, f, text, {}, false, 1};
}

constexpr ScalarInfo kTable[] = {
    of_numbers(Fn::neg, "neg", 1, float1<fn::neg>, int1<fn::neg>, {"-$0", "braid_neg_int($0)"}, 1),
    of_numbers(Fn::abs, "abs", 1, float1<fn::abs>, int1<fn::abs>,
               {"braid_abs($0)", "braid_abs_int($0)"}, 1),
    of_floats(Fn::exp, "exp", float1<fn::exp>, {"braid_exp($0)"}, 8),
    of_floats(Fn::log, "log", float1<fn::log>, {"braid_log($0)"}, 8),
    of_floats(Fn::sqrt, "sqrt", float1<fn::sqrt>, {"braid_sqrt($0)"}, 4),
    of_floats(Fn::rsqrt, "rsqrt", float1<fn::rsqrt>, {"braid_rsqrt($0)"}, 4),
    of_floats(Fn::reciprocal, "reciprocal", float1<fn::reciprocal>, {"1 / $0"}, 4),
    of_floats(Fn::tanh, "tanh", float1<fn::tanh>, {"braid_tanh($0)"}, 16),
    of_floats(Fn::sigmoid, "sigmoid", float1<fn::sigmoid>, {"braid_sigmoid($0)"}, 12),
    of_numbers(Fn::relu, "relu", 1, float1<fn::relu>, int1<fn::relu>, {"braid_relu($0)"}, 1),
    of_floats(Fn::gelu, "gelu", float1<fn::gelu>, {"braid_gelu($0)"}, 20),
    of_floats(Fn::gelu_tanh, "gelu_tanh", float1<fn::gelu_tanh>, {"braid_gelu_tanh($0)"}, 24),
    of_floats(Fn::silu, "silu", float1<fn::silu>, {"braid_silu($0)"}, 13),
    of_floats(Fn::erf, "erf", float1<fn::erf>, {"braid_erf($0)"}, 16),
    of_floats(Fn::sin, "sin", float1<fn::sin>, {"braid_sin($0)"}, 16),
    of_floats(Fn::cos, "cos", float1<fn::cos>, {"braid_cos($0)"}, 16),
    of_floats(Fn::floor, "floor", float1<fn::floor>, {"braid_floor($0)"}, 1),
    of_floats(Fn::ceil, "ceil", float1<fn::ceil>, {"braid_ceil($0)"}, 1),
    of_floats(Fn::round, "round", float1<fn::round>, {"braid_round($0)"}, 1),
    of_numbers(Fn::sign, "sign", 1, float1<fn::sign>, int1<fn::sign>, {"braid_sign($0)"}, 2),
    of_bits(Fn::not_, "not", 1, int1<fn::not_>, "braid_not($0)", false),
    {Fn::cast, "cast", 1, TypeRule::cast, kAll, nullptr, nullptr, nullptr, {}, {}, false, 1},

    of_numbers(Fn::add, "add", 2, float2<fn::add>, int2<fn::add>,
               {"$0 + $1", "braid_add_int($0, $1)"}, 1, true),
    of_numbers(Fn::sub, "sub", 2, float2<fn::sub>, int2<fn::sub>,
               {"$0 - $1", "braid_sub_int($0, $1)"}, 1),
    of_numbers(Fn::mul, "mul", 2, float2<fn::mul>, int2<fn::mul>,
               {"$0 * $1", "braid_mul_int($0, $1)"}, 1, true),
    of_numbers(Fn::div, "div", 2, float2<fn::div>, int2<fn::div>,
               {"$0 / $1", "braid_div_int($0, $1)"}, 4),
    of_numbers(Fn::pow, "pow", 2, float2<fn::pow>, int2<fn::pow>,
               {"braid_pow($0, $1)", "braid_pow_int($0, $1)"}, 20),
    of_numbers(Fn::min, "min", 2, float2<fn::min>, int2<fn::min>, {"braid_min($0, $1)"}, 1, true),
    of_numbers(Fn::max, "max", 2, float2<fn::max>, int2<fn::max>, {"braid_max($0, $1)"}, 1, true),
    of_numbers(Fn::mod, "mod", 2, float2<fn::mod>, int2<fn::mod>,
               {"braid_mod($0, $1)", "braid_mod_int($0, $1)"}, 10),
    comparison(Fn::eq, "eq", kAll, compare_int<fn::eq>, compare_float<fn::eq>, "$0 == $1"),
    comparison(Fn::ne, "ne", kAll, compare_int<fn::ne>, compare_float<fn::ne>, "$0 != $1"),
    comparison(Fn::lt, "lt", kNumbers, compare_int<fn::lt>, compare_float<fn::lt>, "$0 < $1"),
    comparison(Fn::le, "le", kNumbers, compare_int<fn::le>, compare_float<fn::le>, "$0 <= $1"),
    comparison(Fn::gt, "gt", kNumbers, compare_int<fn::gt>, compare_float<fn::gt>, "$0 > $1"),
    comparison(Fn::ge, "ge", kNumbers, compare_int<fn::ge>, compare_float<fn::ge>, "$0 >= $1"),
    of_bits(Fn::and_, "and", 2, int2<fn::and_>, "$0 & $1", true),
    of_bits(Fn::or_, "or", 2, int2<fn::or_>, "$0 | $1", true),
    of_bits(Fn::xor_, "xor", 2, int2<fn::xor_>, "$0 ^ $1", true),

    {Fn::select,
     "select",
     3,
     TypeRule::select,
     kAll,
     float3<fn::select>,
     int3<fn::select>,
     nullptr,
     "$0 ? $1 : $2",
     {},
     false,
     1},
    of_numbers(Fn::clamp, "clamp", 3, float3<fn::clamp>, int3<fn::clamp>,
               {"braid_min(braid_max($0, $1), $2)"}, 2),
    {Fn::random,
     "random",
     3,
     TypeRule::random,
     kInts,
     nullptr,
     nullptr,
     nullptr,
     {},
     "braid_random($0, $1, $2)",
     false,
     100,
     random_loop},
};

constexpr int kNumFn = 67;  // one past the largest number in Fn
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
