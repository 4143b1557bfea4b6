#include <doctest/doctest.h>

#include <limits>

#include "ir/tensor.hpp"
#include "kernels_kit.hpp"
#include "kernels_on_cpu.hpp"
#include "passes/kernels/family.hpp"

namespace braid::test {
namespace {

using V = Body::V;

/// exp(x - max) / sum over `axis` of x[rows, cols].
void softmax(Body& b, int64_t rows, int64_t cols, int axis, DType dtype) {
  const V x = b.in({rows, cols}, dtype);
  const int64_t kept = axis == 1 ? 0 : 1;
  const V m = b.broadcast(b.reduce(Fn::max, x, {axis}), {rows, cols}, {kept});
  const V e = b.map(Fn::exp, {b.map(Fn::sub, {x, m})});
  const V s = b.broadcast(b.reduce(Fn::add, e, {axis}), {rows, cols}, {kept});
  b.out(b.map(Fn::div, {e, s}));
}

/// (x - mean) * rsqrt(variance + eps) * weight + bias over the last axis, mean as a second output.
void layer_norm(Body& b, int64_t rows, int64_t cols, DType dtype) {
  const V x = b.cast(b.in({rows, cols}, dtype), DType::f32);
  const V weight = b.in({cols}), bias = b.in({cols});
  const V share = b.splat(1.0 / static_cast<double>(cols), {rows});
  const V mean = b.map(Fn::mul, {b.reduce(Fn::add, x, {1}), share});
  const V centred = b.map(Fn::sub, {x, b.broadcast(mean, {rows, cols}, {0})});
  const V squares = b.reduce(Fn::add, b.map(Fn::mul, {centred, centred}), {1});
  const V variance = b.map(Fn::add, {b.map(Fn::mul, {squares, share}), b.splat(1e-5, {rows})});
  const V scale = b.broadcast(b.map(Fn::rsqrt, {variance}), {rows, cols}, {0});
  const V scaled =
      b.map(Fn::mul, {b.map(Fn::mul, {centred, scale}), b.broadcast(weight, {rows, cols}, {1})});
  const V y = b.map(Fn::add, {scaled, b.broadcast(bias, {rows, cols}, {1})});
  b.out(b.cast(y, dtype)).out(mean);
}

class List {
 public:
  template <class Write>
  void add(const char* name, Write write) {
    Body b;
    write(b);
    cases.push_back({name, "row", std::move(b.graph)});
  }
  std::vector<KernelCase> cases;
};

void pointwise(List& list) {
  list.add("axpy_bias", [](Body& b) {
    const V x = b.in({37, 24}), bias = b.in({24});
    const V y = b.map(Fn::mul, {x, b.splat(-2.5, {37, 24})});
    b.out(b.map(Fn::relu, {b.map(Fn::add, {y, b.broadcast(bias, {37, 24}, {1})})}));
  });
  list.add("scalar", [](Body& b) { b.out(b.map(Fn::exp, {b.in({})})); });
  list.add("empty", [](Body& b) { b.out(b.map(Fn::exp, {b.in({4, 0})})); });
  list.add("packed", [](Body& b) {
    const V x = b.in({1100, 256}), bias = b.in({256}, DType::bf16);
    const V y = b.in({1100, 256}, DType::f16), row = b.in({1100});
    const V wide = b.cast(b.broadcast(bias, {1100, 256}, {1}), DType::f32);
    const V sum = b.map(Fn::add, {b.map(Fn::add, {x, wide}), b.cast(y, DType::f32)});
    const V out = b.map(Fn::mul, {sum, b.broadcast(row, {1100, 256}, {0})});
    b.out(out).out(b.cast(sum, DType::bf16)).out(b.map(Fn::gt, {out, x}));
  });
  list.add("packed_adam", [](Body& b) {
    const V w = b.param({300, 1000}), m = b.param({300, 1000}), g = b.in({300, 1000});
    const V m2 = b.map(Fn::add, {b.map(Fn::mul, {b.read(m), b.splat(0.9, {300, 1000})}),
                                 b.map(Fn::mul, {g, b.splat(0.1, {300, 1000})})});
    b.assign(m, m2);
    b.assign(w, b.map(Fn::sub, {b.read(w), b.map(Fn::mul, {m2, b.splat(0.01, {300, 1000})})}));
  });
  list.add("transposed", [](Body& b) {
    const V x = b.in({5, 6, 7}), y = b.in({7, 30});
    const V t = b.reshape(b.transpose(x, {2, 0, 1}), {7, 30});
    b.out(b.map(Fn::sub, {t, y}));
  });
  list.add("two_walks", [](Body& b) {
    const V x = b.in({6, 10});
    const V e = b.map(Fn::tanh, {x});
    b.out(e).out(b.map(Fn::neg, {b.transpose(e, {1, 0})}));
  });
  list.add("sliced", [](Body& b) {
    const V x = b.in({9, 20});
    const V s = b.slice(x, {1, 2}, {3, 5}, {3, 4});
    b.out(b.map(Fn::abs, {b.reshape(s, {2, 6})}));
  });
  list.add("concat3", [](Body& b) {
    const V x = b.in({4, 3, 5}), y = b.in({4, 1, 5}), z = b.in({4, 20});
    const V c = b.concat({x, b.in({4, 0, 5}), y, b.reshape(z, {4, 4, 5})}, 1);
    b.out(b.map(Fn::neg, {b.reshape(c, {32, 5})}));
  });
  list.add("gathered_into_concat", [](Body& b) {
    const V pairs = b.gather(b.in({6, 30}), b.in({11}, DType::i32), 1);
    const V turned = b.transpose(b.map(Fn::exp, {pairs}), {1, 0});
    b.out(b.map(Fn::neg, {b.concat({b.in({5, 6}), turned, b.in({3, 6})}, 0)}));
  });
  list.add("gathered", [](Body& b) {
    const V table = b.in({3, 8, 4}), at = b.in({2, 5}, DType::i64);
    b.out(b.map(Fn::sin, {b.gather(table, at, 1)}));
  });
  list.add("iotas", [](Body& b) {
    const V i = b.iota(0, {6, 7}, DType::i32), j = b.iota(1, {6, 7}, DType::i32);
    const V keep = b.map(Fn::ge, {i, j});
    const V x = b.in({6, 7});
    b.out(b.map(Fn::select, {keep, x, b.splat(-1e9, {6, 7})})).out(b.iota(1, {3, 300}, DType::f32));
    b.graph.outputs.pop_back();
    b.out(b.iota(1, {6, 7}, DType::i8));
  });
  list.add("copied", [](Body& b) { b.out(b.broadcast(b.in({1, 5}, DType::f64), {3, 5}, {0, 1})); });
  list.add("updated", [](Body& b) {
    const V cache = b.param({2, 16, 8}), x = b.in({2, 3, 8}), at = b.in({}, DType::i32);
    const V zero = b.splat(0, {}, DType::i32);
    b.update(cache, b.map(Fn::mul, {x, x}), {zero, at, b.in({}, DType::i64)});
  });
}

void dtypes(List& list) {
  list.add("halves", [](Body& b) {
    const V x = b.in({77}, DType::f16), y = b.in({77}, DType::bf16);
    b.out(b.map(Fn::silu, {x})).out(b.map(Fn::gelu_tanh, {y})).out(b.cast(x, DType::bf16));
  });
  list.add("floats", [](Body& b) {
    const V x = b.in({500});
    const V positive = b.map(Fn::abs, {x});
    for (const Fn fn :
         {Fn::exp, Fn::reciprocal, Fn::tanh, Fn::sigmoid, Fn::gelu, Fn::gelu_tanh, Fn::silu,
          Fn::erf, Fn::sin, Fn::cos, Fn::floor, Fn::ceil, Fn::round, Fn::sign}) {
      b.out(b.map(fn, {x}));
    }
    for (const Fn fn : {Fn::log, Fn::sqrt, Fn::rsqrt}) b.out(b.map(fn, {positive}));
    const V y = b.in({500});
    b.out(b.map(Fn::pow, {positive, y})).out(b.map(Fn::mod, {x, y}));
    b.out(b.map(Fn::clamp, {x, b.splat(-0.5, {500}), b.splat(0.5, {500})}));
  });
  list.add("doubles", [](Body& b) {
    const V x = b.in({50}, DType::f64), y = b.in({50}, DType::f64);
    for (const Fn fn : {Fn::tanh, Fn::gelu, Fn::sigmoid, Fn::exp}) b.out(b.map(fn, {x}));
    b.out(b.map(Fn::mod, {x, y})).out(b.map(Fn::le, {x, y})).out(b.map(Fn::max, {x, y}));
  });
  list.add("double_angles", [](Body& b) {
    const V x = b.in({50}, DType::f64);
    b.out(b.map(Fn::sin, {x})).out(b.map(Fn::cos, {x}));
  });
  list.cases.back().local_memory = true;  // CUDA's f64 sin and cos keep an array
  list.add("large_angles", [](Body& b) {
    const V x = b.in({2000});
    for (const double scale : {0x1p+4, 0x1p+14, 0x1p+20, 0x1p+60, 0x1p+120}) {  // exact products
      const V angle = b.map(Fn::mul, {x, b.splat(scale, {2000})});
      b.out(b.map(Fn::sin, {angle})).out(b.map(Fn::cos, {angle}));
    }
  });
  for (const DType t : {DType::i32, DType::i64, DType::i8, DType::u8}) {
    static const char* names[] = {"ints_i32", "ints_i64", "ints_i8", "ints_u8"};
    list.add(names[static_cast<int>(t) - static_cast<int>(DType::i32)], [t](Body& b) {
      const V x = b.in({300}, t), y = b.in({300}, t);
      for (const Fn fn : {Fn::add, Fn::sub, Fn::mul, Fn::div, Fn::mod, Fn::pow, Fn::min, Fn::max,
                          Fn::and_, Fn::or_, Fn::xor_, Fn::lt, Fn::eq}) {
        b.out(b.map(fn, {x, y}));
      }
      for (const Fn fn : {Fn::neg, Fn::abs, Fn::relu, Fn::sign, Fn::not_}) b.out(b.map(fn, {x}));
      b.out(b.map(Fn::mul, {b.map(Fn::mul, {x, y}), b.splat(77, {300}, t)}));
    });
  }
  list.add("casts", [](Body& b) {
    const V x = b.map(Fn::mul, {b.in({400}), b.splat(256, {400})});
    for (const DType t : {DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::i8,
                          DType::u8, DType::b1}) {
      b.out(b.cast(x, t));
    }
    const V huge = b.map(Fn::mul, {x, b.splat(0x1p+60, {400})});
    b.out(b.cast(huge, DType::i32)).out(b.cast(huge, DType::i64));
    const V i = b.in({400}, DType::i32);
    b.out(b.cast(i, DType::i8)).out(b.cast(i, DType::u8)).out(b.cast(i, DType::b1));
    b.out(b.cast(i, DType::f32)).out(b.cast(b.in({400}, DType::b1), DType::i64));
  });
  list.add("bools", [](Body& b) {
    const V x = b.in({99}, DType::b1), y = b.in({99}, DType::b1);
    b.out(b.map(Fn::and_, {x, y})).out(b.map(Fn::xor_, {x, y})).out(b.map(Fn::not_, {x}));
    b.out(b.map(Fn::eq, {x, y})).out(b.map(Fn::select, {x, y, b.map(Fn::not_, {y})}));
  });
  list.add("specials", [](Body& b) {
    const V x = b.in({64});
    const V inf = b.splat(-std::numeric_limits<double>::infinity(), {64});
    const V masked = b.map(Fn::select, {b.map(Fn::gt, {x, b.splat(0, {64})}), x, inf});
    b.out(masked).out(b.map(Fn::max, {b.map(Fn::log, {x}), x}));
    b.out(b.cast(b.map(Fn::log, {x}), DType::i32));
  });
}

void reductions(List& list) {
  list.add("softmax_warp", [](Body& b) { softmax(b, 13, 50, 1, DType::f32); });
  list.add("softmax_warp_many", [](Body& b) { softmax(b, 1100, 300, 1, DType::bf16); });
  list.add("softmax_block", [](Body& b) { softmax(b, 3, 2000, 1, DType::f16); });
  list.add("softmax_long", [](Body& b) { softmax(b, 2, 70001, 1, DType::f32); });
  list.add("softmax_slice", [](Body& b) { softmax(b, 130, 45, 0, DType::f32); });
  list.add("layer_norm_768", [](Body& b) { layer_norm(b, 5, 768, DType::f32); });
  list.add("layer_norm_half", [](Body& b) { layer_norm(b, 7, 96, DType::f16); });
  list.add("sum_all", [](Body& b) { b.out(b.reduce(Fn::add, b.in({70, 1000}), {0, 1})); });
  list.add("sum_middle", [](Body& b) { b.out(b.reduce(Fn::add, b.in({3, 40, 50}), {1})); });
  list.add("sum_outer", [](Body& b) {
    const V x = b.in({64, 70}), g = b.map(Fn::mul, {x, x});
    b.out(b.reduce(Fn::add, g, {0})).out(g);
  });
  list.add("sum_narrow", [](Body& b) { b.out(b.reduce(Fn::add, b.in({5000, 2}), {0})); });
  list.add("sum_outer_and_inner",
           [](Body& b) { b.out(b.reduce(Fn::add, b.in({6, 5, 8}), {0, 2})); });
  list.add("reduce_ints", [](Body& b) {
    const V x = b.in({9, 130}, DType::i8);
    for (const Fn fn : {Fn::add, Fn::mul, Fn::min, Fn::max, Fn::and_, Fn::or_, Fn::xor_}) {
      b.out(b.reduce(fn, x, {1}));
    }
  });
  list.add("reduce_i64",
           [](Body& b) { b.out(b.reduce(Fn::mul, b.in({4, 600}, DType::i64), {1})); });
  list.add("reduce_bools", [](Body& b) {
    const V x = b.in({40, 5}, DType::b1);
    b.out(b.reduce(Fn::and_, x, {0})).out(b.reduce(Fn::or_, x, {0}));
  });
  list.add("reduce_f64",
           [](Body& b) { b.out(b.reduce(Fn::add, b.in({3, 4000}, DType::f64), {1})); });
  list.add("no_columns", [](Body& b) {
    const V x = b.in({5, 0});
    b.out(b.reduce(Fn::add, x, {1})).out(b.map(Fn::neg, {b.reduce(Fn::max, x, {1})}));
  });
  list.add("no_rows", [](Body& b) { b.out(b.reduce(Fn::add, b.in({0, 9}), {1})); });
  list.add("one_column", [](Body& b) {
    const V x = b.in({9, 1});
    const V s = b.reduce(Fn::add, x, {1});
    b.out(s).out(b.map(Fn::sub, {x, b.reshape(s, {9, 1})}));
  });
  list.add("row_of_reshape", [](Body& b) {
    const V x = b.map(Fn::exp, {b.in({6, 40})});
    const V s = b.reduce(Fn::add, b.reshape(x, {2, 3, 5, 8}), {2, 3});
    b.out(x).out(b.map(Fn::div, {x, b.broadcast(b.reshape(s, {6}), {6, 40}, {0})}));
  });
  list.add("row_of_concat", [](Body& b) {
    const V x = b.concat({b.in({4, 30}), b.in({4, 40})}, 1);
    b.out(b.reduce(Fn::add, b.map(Fn::mul, {x, x}), {1}));
  });
  list.add("row_of_gather", [](Body& b) {
    const V rows = b.gather(b.in({9, 64}), b.in({12}, DType::i32), 0);
    const V m = b.reduce(Fn::max, rows, {1});
    b.out(b.map(Fn::sub, {rows, b.broadcast(m, {12, 64}, {0})}));
  });
  list.add("running_mean", [](Body& b) {
    const V mean = b.param({10}), seen = b.param({10, 33}), x = b.in({10, 33});
    const V s = b.reduce(Fn::add, b.map(Fn::mul, {x, b.read(seen)}), {1});
    const V old = b.read(mean);
    b.assign(mean, b.map(Fn::add, {old, s}));
    const V shifted = b.map(Fn::sub, {b.read(seen), b.broadcast(old, {10, 33}, {0})});
    b.assign(seen, b.map(Fn::add, {shifted, b.broadcast(s, {10, 33}, {0})}));
  });
  list.add("running_mean_slice", [](Body& b) {
    const V mean = b.param({10}), seen = b.param({33, 10}), x = b.in({33, 10});
    const V s = b.reduce(Fn::add, b.map(Fn::mul, {x, b.read(seen)}), {0});
    const V old = b.read(mean);
    b.assign(mean, b.map(Fn::add, {old, s}));
    const V shifted = b.map(Fn::sub, {b.read(seen), b.broadcast(old, {33, 10}, {1})});
    b.assign(seen, b.map(Fn::add, {shifted, b.broadcast(s, {33, 10}, {1})}));
  });
}

void scatters(List& list) {
  list.add("scatter_add_rows", [](Body& b) {
    const V at = b.in({2, 4}, DType::i64);
    b.out(b.scatter(Fn::add, b.in({6, 5}), at, b.in({2, 4, 5}), 0));
  });
  list.add("scatter_set_middle", [](Body& b) {
    const V x = b.in({3, 8, 4}, DType::bf16), at = b.in({20}, DType::i32);
    b.out(b.scatter({}, x, at, b.in({3, 20, 4}, DType::bf16), 1));
  });
  list.add("scatter_bytes", [](Body& b) {
    const V at = b.in({9}, DType::i32);
    b.out(b.scatter(Fn::mul, b.in({7, 6}, DType::i8), at, b.in({7, 9}, DType::i8), 1));
    b.out(b.scatter(Fn::max, b.in({7, 6}, DType::u8), at, b.in({7, 9}, DType::u8), 1));
    b.out(b.scatter(Fn::xor_, b.in({7, 6}, DType::b1), at, b.in({7, 9}, DType::b1), 1));
    b.out(b.scatter(Fn::min, b.in({7, 6}, DType::i64), at, b.in({7, 9}, DType::i64), 1));
  });
  list.add("scatter_in_place", [](Body& b) {
    const V p = b.param({10, 3}), at = b.in({5}, DType::i32);
    b.assign(p, b.scatter(Fn::add, b.read(p), at, b.in({5, 3}), 0));
  });
  list.add("scatter_fused", [](Body& b) {
    const V x = b.map(Fn::exp, {b.in({4, 10})}), at = b.in({7}, DType::i64);
    const V s = b.scatter(Fn::max, x, at, b.transpose(b.in({7, 4}), {1, 0}), 1);
    b.out(b.map(Fn::mul, {s, b.in({4, 10})})).out(x).out(b.transpose(s, {1, 0}));
  });
  list.add("scatter_packed", [](Body& b) {
    const V x = b.in({1000, 300}), at = b.in({3}, DType::i32);
    const V s = b.scatter(Fn::add, b.map(Fn::neg, {x}), at, b.in({3, 300}), 0);
    b.out(b.map(Fn::add, {s, b.in({1000, 300})}));
  });
  list.add("scatter_one_and_none", [](Body& b) {
    const V x = b.in({5, 4}, DType::f16), one = b.in({}, DType::i32);
    const V s = b.scatter({}, x, one, b.in({4}, DType::f16), 0);
    b.out(b.scatter(Fn::add, s, b.in({0}, DType::i64), b.in({0, 4}, DType::f16), 0));
  });
  list.add("scatter_of_constants", [](Body& b) {
    const V at = b.map(Fn::mod, {b.in({12}, DType::i32), b.splat(5, {12}, DType::i32)});
    b.out(b.scatter(Fn::add, b.splat(0, {5}), at, b.splat(1, {12}), 0));
    b.out(b.scatter({}, b.splat(-1, {5}, DType::i32), at, b.iota(0, {12}, DType::i32), 0));
  });
  list.add("scatter_twice", [](Body& b) {
    const V at = b.in({4}, DType::i32);
    const V s = b.scatter(Fn::add, b.in({6, 2}), at, b.in({4, 2}), 0);
    b.out(b.scatter(Fn::mul, s, b.in({3}, DType::i64), b.in({6, 3}), 1));
  });
  list.add("row_of_scatter", [](Body& b) {
    const V s = b.scatter(Fn::add, b.in({3, 70}), b.in({9}, DType::i32), b.in({3, 9}), 1);
    const V m = b.reduce(Fn::max, s, {1});
    b.out(b.map(Fn::sub, {s, b.broadcast(m, {3, 70}, {0})}));
  });
}

/// Counted from the row-major index, as random_uniform does.
V drawn(Body& b, std::initializer_list<Dim> shape, double times, double plus) {
  const Dim n(Shape(shape).numel());
  V index = b.reshape(b.iota(0, {n}, DType::i64), shape);
  index = b.map(Fn::add, {b.map(Fn::mul, {index, b.splat(times, shape, DType::i64)}),
                          b.splat(plus, shape, DType::i64)});
  const V launch = b.broadcast(b.in({}, DType::i64), shape, {});
  return b.map(Fn::random, {b.splat(77, shape, DType::i64), launch, index});
}

void randoms(List& list) {
  list.add("random_uniform", [](Body& b) { b.out(drawn(b, {7, 9, 5}, 1, 0)); });
  list.add("random_packed", [](Body& b) { b.out(drawn(b, {700, 400}, 1, 0)); });
  list.add("random_normal", [](Body& b) {
    const V u = b.map(Fn::sub, {b.splat(1, {40, 50}), drawn(b, {40, 50}, 2, 0)});
    const V r = b.map(Fn::sqrt, {b.map(Fn::mul, {b.map(Fn::log, {u}), b.splat(-2, {40, 50})})});
    const V angle = b.map(Fn::mul, {drawn(b, {40, 50}, 2, 1), b.splat(6.283185307, {40, 50})});
    b.out(b.map(Fn::mul, {r, b.map(Fn::cos, {angle})}));
  });
  list.add("random_rows", [](Body& b) {
    const V x = b.in({12, 300});
    const V keep = b.map(Fn::ge, {drawn(b, {12, 300}, 1, 0), b.splat(0.25, {12, 300})});
    const V kept = b.map(Fn::select, {keep, x, b.splat(0, {12, 300})});
    b.out(kept).out(b.reduce(Fn::add, kept, {1}));
  });
  list.add("random_of_anything", [](Body& b) {
    b.out(b.map(Fn::random,
                {b.in({33}, DType::i64), b.in({33}, DType::i64), b.in({33}, DType::i64)}));
  });
}

}  // namespace

std::vector<KernelCase> row_cases() {
  List list;
  pointwise(list);
  dtypes(list);
  reductions(list);
  scatters(list);
  randoms(list);
  return std::move(list.cases);
}

TEST_CASE("row kernels compile without local memory") { check_compiles(row_cases()); }

TEST_CASE("row kernels compute what the interpreter computes") { check_numbers(row_cases()); }

TEST_CASE("random in CUDA text gives the published vectors of Philox4x32-10") {
  List list;
  list.add("known_answers", [](Body& b) {
    b.out(b.map(Fn::random, {b.in({3}, DType::i64), b.in({3}, DType::i64), b.in({3}, DType::i64)}));
  });
  const std::vector<std::vector<int64_t>> in{{0, -1, 0x299f31d0a4093822},
                                             {0, -1, 0x0370734413198a2e},
                                             {0, -1, static_cast<int64_t>(0x85a308d3243f6a88)}};
  std::vector<HostTensor> args;
  for (const std::vector<int64_t>& values : in) {
    HostTensor& t = args.emplace_back(TensorType{DType::i64, {Dim(3)}});
    for (size_t i = 0; i < 3; ++i) t.set_int(static_cast<int64_t>(i), values[i]);
  }
  args.emplace_back(TensorType{DType::f32, {Dim(3)}});
  OnCpu(list.cases).run(list.cases[0], args);
  const uint32_t words[] = {0x6627e8d5, 0x408f276d, 0xd16cfe09};
  for (int64_t i = 0; i < 3; ++i) CHECK(args[3].at(i) * 0x1p24 == words[i] >> 8);
}

TEST_CASE("row kernels refuse what they cannot compute, with the reason") {
  const auto refusal = [](const Body& b) { return kernels::family("row").refuses(b.graph); };
  {
    Body b;
    b.out(b.dot(b.in({2, 3}), b.in({3, 4})));
    CHECK(refusal(b) == "it multiplies matrices, which is the dot family's");
  }
  {
    Body b;
    const V x = b.in({4, 6});
    b.out(b.reduce(Fn::add, x, {0})).out(b.reduce(Fn::add, x, {1}));
    CHECK(refusal(b) == "it reduces 6 rows of 4 elements and also 4 rows of 6");
  }
  {
    Body b;
    b.out(b.map(Fn::neg, {b.in({4})})).out(b.map(Fn::neg, {b.in({5})}));
    CHECK(refusal(b) == "its results f32[4] and f32[5] differ in the number of elements");
  }
  {
    Body b;
    const V s = b.param({5, 5});
    b.assign(s, b.map(Fn::neg, {b.transpose(b.read(s), {1, 0})}));
    CHECK(refusal(b) ==
          "it reads param s0 at other elements than those that the same thread writes");
  }
  {
    Body b;
    const V s = b.param({8});
    const V next = b.update(s, b.in({2}), {b.in({}, DType::i32)});
    b.out(b.map(Fn::neg, {b.slice(b.read(next), {0}, {1}, {2})}));
    CHECK(refusal(b) == "it reads a state right after it updates a part of it");
  }
  {
    Body b;
    const V x = b.in({4, 6});
    const V s = b.reduce(Fn::add, x, {1});
    b.out(b.map(Fn::mul, {s, b.gather(s, b.in({4}, DType::i32), 0)}));
    CHECK(refusal(b).find("reduce_add") != std::string::npos);
  }
}

TEST_CASE("row kernels fill the device and keep to the launch limits") {
  const auto launch = [](std::initializer_list<Dim> shape, int axis) {
    Body b;
    b.out(b.reduce(Fn::add, b.in(shape), {axis}));
    return kernels::family("row").emit(b.graph, "k", Target{}, {}).launch;
  };
  CHECK(launch({32, 768}, 1).grid[0] == 32);  // a block a row
  CHECK(launch({32, 768}, 1).block[0] == 256);
  CHECK(launch({4096, 64}, 1).grid[0] == 1024);  // a warp a row
  CHECK(launch({1, 1000000}, 1).block[0] == 1024);
  CHECK(launch({512, 64}, 0).grid[0] == 2);  // 32 rows a block
  Body big;
  big.out(big.map(Fn::neg, {big.in({70000, 70000})}));
  const kernels::Emitted e = kernels::family("row").emit(big.graph, "k", Target{}, {});
  CHECK(e.launch.grid[0] == (70000LL * 70000 / 4 + 255) / 256);
}

}  // namespace braid::test
