// The table of scalar functions: the only place that lists them. `map` applies one to each
// element, `reduce` folds with one, the interpreter and the kernel text take them from here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/dtype.hpp"

namespace braid {

/// Numbers are part of the file formats: never reuse one.
enum class Fn : uint8_t {
  // unary
  neg = 0,
  abs = 1,
  exp = 2,
  log = 3,
  sqrt = 4,
  rsqrt = 5,
  reciprocal = 6,
  tanh = 7,
  sigmoid = 8,
  relu = 9,
  gelu = 10,
  gelu_tanh = 11,
  silu = 12,
  erf = 13,
  sin = 14,
  cos = 15,
  floor = 16,
  ceil = 17,
  round = 18,
  sign = 19,
  not_ = 20,
  cast = 21,
  // binary
  add = 32,
  sub = 33,
  mul = 34,
  div = 35,
  pow = 36,
  min = 37,
  max = 38,
  mod = 39,
  eq = 40,
  ne = 41,
  lt = 42,
  le = 43,
  gt = 44,
  ge = 45,
  and_ = 46,
  or_ = 47,
  xor_ = 48,
  // ternary
  select = 64,
  clamp = 65,
  random = 66,
};

/// Which dtypes a function takes: a mask of classes.
enum DTypeClass : uint8_t { kFloats = 1, kInts = 2, kBool = 4 };

/// How the result type follows from the operands'.
enum class TypeRule : uint8_t {
  same,     // all operands T, result T
  compare,  // all operands T, result b1
  select,   // (b1, T, T) -> T
  cast,     // T -> any dtype, given by the op's declared result type
  random,   // (i64, i64, i64) -> f32
};

/// Applies the function to n elements; unused operands are null. Floats are double (the reference
/// is wider than every dtype but f64), integers and b1 int64; compare writes int64 0/1.
/// The int loops do not wrap: the interpreter truncates results to the op's dtype.
/// Loops for select take the predicate, 0 or 1, as `a`. `cast` has no loops and no text. `random`
/// has a loop of its own kind.
using FloatLoop = void (*)(const double* a, const double* b, const double* c, double* out,
                           int64_t n);
using IntLoop = void (*)(const int64_t* a, const int64_t* b, const int64_t* c, int64_t* out,
                         int64_t n);
using CompareLoop = void (*)(const double* a, const double* b, int64_t* out, int64_t n);
using RandomLoop = void (*)(const int64_t* seed, const int64_t* launch, const int64_t* index,
                            double* out, int64_t n);

struct ScalarInfo {
  Fn fn;
  std::string_view name;
  int arity;
  TypeRule rule;
  uint8_t classes;           // operands' dtype classes
  FloatLoop eval_float;      // null where rule or classes exclude it
  IntLoop eval_int;          // also for b1
  CompareLoop eval_compare;  // floats compared
  /// CUDA expressions over operands $0 $1 $2. Floats arrive as float (double for f64), integers
  /// in their own type, b1 as bool. May call the helpers of passes/kernels/prelude.
  std::string_view cuda_float;
  std::string_view cuda_int;  // also for b1, where it differs from cuda_float; else empty
  bool combiner;              // associative and commutative: may drive `reduce`
  /// Rough flops for the cost model.
  int cost;
  RandomLoop eval_random = nullptr;
};

std::span<const ScalarInfo> scalar_functions();
const ScalarInfo& info(Fn fn);
std::optional<Fn> fn_from_name(std::string_view name);

/// The value x with combine(x, y) == y for every y of this dtype: 0 for add, -inf or the lowest
/// integer for max, and so on. For floats a double, for integers and b1 exact in int64.
struct Identity {
  double f;
  int64_t i;
};
Identity identity_of(Fn combiner, DType dtype);

}  // namespace braid
