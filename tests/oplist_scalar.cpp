// The part of the op list that walks the table of scalar functions.
#include <cmath>
#include <limits>

#include "oplist_build.hpp"

namespace braid {
namespace {

/// Takes and gives dtypes of its own.
bool is_special(const ScalarInfo& f) {
  return f.rule == TypeRule::cast || f.rule == TypeRule::random;
}

}  // namespace

void OpList::scalar_functions_everywhere() {
  for (const ScalarInfo& f : scalar_functions()) {
    if (is_special(f)) continue;
    for (DType t : kDTypes) {
      if (!(f.classes & class_of(t))) continue;
      for (int variant = 0; variant < 2; ++variant) {
        const Extents e = variant == 0 ? shape() : Extents{pick(2, 9), pick(20, 140)};
        add(fmt::format("{}_{}_{}", f.name, name_of(t), variant), t,
            [&](Graph& g) { scalar_case(g, f, t, e, variant); });
      }
    }
  }
}

void OpList::scalar_case(Graph& g, const ScalarInfo& f, DType t, const Extents& e, int variant) {
  const auto operand = [&](const char* name) {
    return variant == 0 ? signed_input(g, name, t, e) : disguised(g, name, t, e);
  };
  Tensor x = operand("x");
  if (is_float(t)) {
    if (f.fn == Fn::log || f.fn == Fn::rsqrt || f.fn == Fn::reciprocal) x = abs(x) + 0.5;
    if (f.fn == Fn::sqrt || f.fn == Fn::pow) x = abs(x);
  }
  if (f.rule == TypeRule::select) {
    g.output("y", select(disguised(g, "p", b1, e), x, operand("z")));
    return;
  }
  if (f.arity == 1) {
    g.output("y", apply(f.fn, {x}));
  } else if (f.arity == 2) {
    Tensor z = operand("z");
    // Division by almost nothing would only compare roundings of the divisor.
    if (is_float(t) && f.fn == Fn::div) z = abs(z) + 0.5;
    g.output("y", apply(f.fn, {x, z}));
  } else {
    g.output("y", apply(f.fn, {x, -0.0 + operand("low") * 0.0 - 1.0, operand("high")}));
  }
}

void OpList::casts() {
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const auto a = static_cast<DType>(from), b = static_cast<DType>(to);
      add(fmt::format("cast_{}_{}", name_of(a), name_of(b)), b, [&](Graph& g) {
        Tensor x = g.input("x", type(a, {pick(1, 300)}));
        if (a == f32 || a == f64) x = x * 1024.0;  // exact
        g.output("y", cast(x, b));
      });
    }
  }
}

/// NaN, infinities, zeros of both signs, denormals and halves through every float function.
void OpList::specials() {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{nan,  inf, -inf, 0.0, -0.0, 1e-40, -1e-40, 0.5,
                                   -0.5, 1.5, 2.5,  1.0, -1.0, 88.0,  -88.0,  3.25};
  for (DType t : {f32, f16, bf16}) {
    const HostTensor row = HostTensor::from({t, {Dim(16)}}, values);
    std::vector<double> all;
    for (size_t i = 0; i < 256; ++i) all.push_back(values[i / 16]);
    const HostTensor column = HostTensor::from({t, {Dim(16), Dim(16)}}, all);
    for (const ScalarInfo& f : scalar_functions()) {
      if (!(f.classes & kFloats) || is_special(f) || f.rule == TypeRule::select) continue;
      add(fmt::format("special_{}_{}", f.name, name_of(t)), t, [&](Graph& g) {
        const Tensor x = g.constant(row), y = g.constant(column);
        if (f.arity == 1) g.output("y", apply(f.fn, {x}));
        if (f.arity == 2) g.output("y", apply(f.fn, {x, y}));
        if (f.arity == 3) g.output("y", apply(f.fn, {x, -1.0, y}));
      });
    }
    add(fmt::format("special_reduce_{}", name_of(t)), t, [&](Graph& g) {
      const Tensor y = g.constant(column);
      g.output("max", max(y, {.axes = {1}}));
      g.output("min", min(y, {.axes = {1}}));
      g.output("sum", sum(y, {.axes = {0}}));
    });
    for (DType to : {i32, i64, i8, u8, b1}) {
      add(fmt::format("special_cast_{}_{}", name_of(t), name_of(to)), to,
          [&](Graph& g) { g.output("y", cast(g.constant(row), to)); });
    }
  }
  const HostTensor large = HostTensor::from(
      {f32, {Dim(8)}},
      std::vector<double>{3e9, -3e9, 1e19, -1e19, 2147483520, -2147483648.0, 255.9, -0.9});
  for (DType to : {i32, i64, i8, u8, b1, f16, bf16}) {
    add(fmt::format("special_cast_large_{}", name_of(to)), to,
        [&](Graph& g) { g.output("y", cast(g.constant(large), to)); });
  }
}

/// f64, i8 and u8 in every function, folded and multiplied.
void OpList::other_dtypes() {
  for (DType t : {f64, i8, u8}) {
    for (const ScalarInfo& f : scalar_functions()) {
      if (is_special(f) || !(f.classes & class_of(t))) continue;
      const Extents e{pick(1, 9), pick(1, 90)};
      add(fmt::format("{}_{}", f.name, name_of(t)), t,
          [&](Graph& g) { scalar_case(g, f, t, e, 1); });
      if (!f.combiner) continue;
      add(
          fmt::format("reduce_{}_{}", f.name, name_of(t)), t,
          [&](Graph& g) {
            Tensor x = signed_input(g, "x", t, {pick(1, 20), pick(2, 300)});
            if (f.fn == Fn::mul && is_float(t)) x = x * 0.03 + 1.0;
            g.output("rows", reduce(f.fn, x, {.axes = {1}}));
            g.output("columns", reduce(f.fn, x, {.axes = {0}}));
          },
          20);
    }
    add(fmt::format("dot_{}", name_of(t)), t, [&](Graph& g) {
      g.output("y", matmul(g.input("a", type(t, {17, 40})), g.input("b", type(t, {40, 33}))));
      g.output("z", matmul(g.input("c", type(t, {1, 130})), g.input("d", type(t, {5, 130})),
                           {.tb = true}));
    });
  }
}

/// The ends of the range, zeros and small numbers of both signs, every one with every other.
void OpList::int_specials() {
  for (DType t : {i32, i64, i8, u8}) {
    const int64_t highest = identity_of(Fn::min, t).i, lowest = identity_of(Fn::max, t).i;
    const std::vector<int64_t> values{lowest, lowest + 1,      -7,          -3,     -1, 0, 1, 2,
                                      5,      highest / 2 + 1, highest - 1, highest};
    const auto n = static_cast<int64_t>(values.size());
    HostTensor row(TensorType{t, {Dim(n), Dim(n)}}), column(row.type);
    for (int64_t i = 0; i < n * n; ++i) {
      row.set_int(i, values[static_cast<size_t>(i % n)]);
      column.set_int(i, values[static_cast<size_t>(i / n)]);
    }
    for (const ScalarInfo& f : scalar_functions()) {
      if (!(f.classes & kInts) || is_special(f) || f.rule == TypeRule::select) continue;
      add(fmt::format("special_{}_{}", f.name, name_of(t)), t, [&](Graph& g) {
        const Tensor x = g.constant(row), y = g.constant(column);
        if (f.arity == 1) g.output("y", apply(f.fn, {x}));
        if (f.arity == 2) g.output("y", apply(f.fn, {x, y}));
        if (f.arity == 3) g.output("y", apply(f.fn, {x, 1.0, y}));
      });
    }
    add(fmt::format("special_cast_{}", name_of(t)), f32, [&](Graph& g) {
      for (DType to : {f32, f16, bf16, f64, i32, i64, i8, u8, b1}) {
        if (to != t) g.output(std::string(name_of(to)), cast(g.constant(row), to));
      }
    });
    add(fmt::format("special_reduce_{}", name_of(t)), t, [&](Graph& g) {
      for (Fn fn : {Fn::add, Fn::mul, Fn::min, Fn::max, Fn::and_, Fn::or_, Fn::xor_}) {
        g.output(std::string(info(fn).name), reduce(fn, g.constant(column), {.axes = {1}}));
      }
    });
  }
}

}  // namespace braid
