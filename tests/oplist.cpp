#include "tests/oplist.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "frontend/builder.hpp"

namespace braid {
namespace {

using Extents = std::vector<int64_t>;
constexpr DType kDTypes[] = {f32, f16, bf16, i32, i64, b1};
constexpr DType kNumbers[] = {f32, f16, bf16, i32, i64};

uint8_t class_of(DType t) { return is_float(t) ? kFloats : is_int(t) ? kInts : kBool; }

class List {
 public:
  explicit List(uint64_t seed) : random_(seed) {}

  std::vector<OpCase> run() {
    scalar_functions_everywhere();
    casts();
    specials();
    reductions();
    dots();
    views();
    indexing();
    state();
    compositions();
    return std::move(cases_);
  }

 private:
  using Body = std::function<void(Graph&)>;

  void add(const std::string& name, DType dtype, const Body& body, double factor = 1) {
    Graph g(name);
    body(g);
    cases_.push_back({name, g.ir(), factor * tolerance_of(dtype)});
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Extents shape() {
    static const std::vector<Extents> kFixed{{},       {1},       {0},          {7},
                                             {33, 65}, {4, 0, 3}, {2, 3, 5, 7}, {3, 1, 2, 4, 5}};
    const auto i = static_cast<size_t>(pick(0, static_cast<int64_t>(kFixed.size()) + 5));
    if (i < kFixed.size()) return kFixed[i];
    Extents e;
    for (int64_t r = pick(1, 3); r > 0; --r) e.push_back(pick(1, 40));
    return e;
  }
  static TypeArg type(DType t, const Extents& e) {
    return {t, std::vector<DimArg>(e.begin(), e.end())};
  }

  Tensor signed_input(Graph& g, const char* name, DType t, const Extents& e) {
    const Tensor x = g.input(name, type(t, e));
    return is_int(t) ? x - 4.0 : x;  // random integers are 0 .. 7
  }

  /// x of the given shape, but reached through a view or a broadcast.
  Tensor disguised(Graph& g, const char* name, DType t, const Extents& e) {
    switch (pick(0, 4)) {
      case 0:  // transposed
        if (e.size() >= 2) {
          Extents swapped = e;
          std::swap(swapped[e.size() - 1], swapped[e.size() - 2]);
          std::vector<int> perm;
          for (size_t i = 0; i < e.size(); ++i) perm.push_back(static_cast<int>(i));
          std::swap(perm[e.size() - 1], perm[e.size() - 2]);
          return transpose(signed_input(g, name, t, swapped), perm);
        }
        break;
      case 1:  // every other element of a larger one, off by one: misaligned
        if (!e.empty()) {
          Extents wide = e;
          wide.back() = 2 * wide.back() + 1;
          return slice(signed_input(g, name, t, wide),
                       {.axis = -1, .start = 1, .stop = 1 + 2 * e.back(), .step = 2});
        }
        break;
      case 2:  // one row for all
        if (e.size() >= 2) {
          return broadcast_to(signed_input(g, name, t, {e.back()}),
                              std::vector<DimArg>(e.begin(), e.end()));
        }
        break;
      case 3: {  // another shape with the same elements
        int64_t n = 1;
        for (int64_t x : e) n *= x;
        return reshape(signed_input(g, name, t, {n}), std::vector<DimArg>(e.begin(), e.end()));
      }
      default:
        break;
    }
    return signed_input(g, name, t, e);
  }

  void scalar_functions_everywhere() {
    for (const ScalarInfo& f : scalar_functions()) {
      if (f.rule == TypeRule::cast) continue;
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

  void scalar_case(Graph& g, const ScalarInfo& f, DType t, const Extents& e, int variant) {
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

  void casts() {
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
  void specials() {
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
        if (!(f.classes & kFloats) || f.rule == TypeRule::cast || f.rule == TypeRule::select)
          continue;
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

  void reductions() {
    struct Shape {
      Extents extents;
      std::vector<int> axes;
    };
    const std::vector<Shape> shapes{{{pick(1, 9), pick(2, 200)}, {1}},
                                    {{pick(2, 100), pick(1, 70)}, {0}},
                                    {{3, pick(2, 40), 5}, {1}},
                                    {{2, 3, 4, 5}, {0, 2}},
                                    {{4, 3, pick(2, 50)}, {}},
                                    {{5}, {0}},
                                    {{3, 0}, {1}},
                                    {{0, 3}, {1}},
                                    {{1, 1}, {0, 1}}};
    for (const ScalarInfo& f : scalar_functions()) {
      if (!f.combiner) continue;
      for (DType t : kDTypes) {
        if (!(f.classes & class_of(t))) continue;
        for (size_t i = 0; i < shapes.size(); ++i) {
          add(
              fmt::format("reduce_{}_{}_{}", f.name, name_of(t), i), t,
              [&](Graph& g) {
                Tensor x = disguised(g, "x", t, shapes[i].extents);
                if (f.fn == Fn::mul && is_float(t)) x = x * 0.03 + 1.0;
                g.output("y", reduce(f.fn, x, {.axes = shapes[i].axes, .keep = i % 2 == 0}));
              },
              f.fn == Fn::mul ? 20 : 1);  // a product's error grows with its factors
        }
      }
    }
    for (const Shape& s : {Shape{{3, 5000}, {1}}, Shape{{4097}, {}}, Shape{{70000}, {}},
                           Shape{{5000, 3}, {0}}, Shape{{2, 1500, 3}, {1}}}) {
      for (DType t : {f32, bf16, i32}) {
        add(fmt::format("reduce_large_{}_{}", name_of(t), cases_.size()), t, [&](Graph& g) {
          const Tensor x = g.input("x", type(t, s.extents));
          // Squares, so that the sum does not cancel.
          g.output("y", sum(x * x, {.axes = s.axes}));
          g.output("z", max(x, {.axes = s.axes}));
        });
      }
    }
  }

  void dots() {
    struct Size {
      int64_t m, n, k;
    };
    const std::vector<Size> sizes{
        {1, 1, 1},   {3, 5, 7},    {1, 33, 130},
        {65, 1, 17}, {16, 16, 16}, {33, 47, 129},
        {0, 4, 5},   {4, 5, 0},    {pick(2, 70), pick(2, 70), pick(2, 70)}};
    for (DType t : kNumbers) {
      for (const Size& s : sizes) {
        for (int flags = 0; flags < 4; ++flags) {
          const bool ta = flags & 1, tb = flags & 2;
          add(fmt::format("dot_{}_{}x{}x{}_{}", name_of(t), s.m, s.n, s.k, flags), t,
              [&](Graph& g) {
                const Tensor a = g.input("a", type(t, ta ? Extents{s.k, s.m} : Extents{s.m, s.k}));
                const Tensor b = g.input("b", type(t, tb ? Extents{s.n, s.k} : Extents{s.k, s.n}));
                g.output("y", matmul(a, b, {.ta = ta, .tb = tb}));
              });
        }
      }
      for (const Size& s : {Size{5, 6, 7}, Size{17, 33, 20}}) {
        add(fmt::format("dot_batch_{}_{}", name_of(t), s.m), t, [&](Graph& g) {
          g.output("y", matmul(g.input("a", type(t, {2, 3, s.m, s.k})),
                               g.input("b", type(t, {3, s.k, s.n}))));
          g.output("z", matmul(g.input("c", type(t, {2, 3, s.m, s.k})),
                               g.input("d", type(t, {s.k, s.n}))));
        });
      }
      add(fmt::format("dot_typical_{}", name_of(t)), t, [&](Graph& g) {
        g.output("y", matmul(g.input("a", type(t, {128, 256})), g.input("b", type(t, {256, 256}))));
        g.output("z", matmul(g.input("c", type(t, {33, 384})), g.input("d", type(t, {384, 130}))));
      });
      const DType wide = is_float(t) ? f32 : i64;
      add(fmt::format("dot_wide_{}", name_of(t)), wide, [&](Graph& g) {
        g.output("y", matmul(g.input("a", type(t, {9, 40})), g.input("b", type(t, {40, 21})),
                             {.out = wide}));
      });
      add(fmt::format("dot_views_{}", name_of(t)), t, [&](Graph& g) {
        const auto heads = [&](const char* name) {
          return transpose(reshape(g.input(name, type(t, {2, 9, 24})), {2, 9, 3, 8}), {0, 2, 1, 3});
        };
        g.output("y", matmul(heads("q"), heads("k"), {.tb = true}));
        g.output("z",
                 matmul(slice(g.input("a", type(t, {9, 31})), {.axis = 1, .start = 1, .step = 2}),
                        broadcast_to(g.input("b", type(t, {1, 11})), {15, 11})));
      });
      add(
          fmt::format("dot_epilogue_{}", name_of(t)), t,
          [&](Graph& g) {
            const Tensor a = g.input("a", type(t, {31, 50}));
            const Tensor y = matmul(a, g.input("w", type(t, {50, 50})));
            const Tensor h = relu(y + g.input("b", type(t, {50})));
            g.output("h", h);
            g.output("y", h + slice(a, {.axis = 0}));
            g.output("t", h * transpose(g.input("c", type(t, {50, 31})), {1, 0}));
          },
          2);
    }
    add("dot_long_f32", f32, [&](Graph& g) {
      g.output("y",
               matmul(g.input("a", type(f32, {8, 4096})), g.input("b", type(f32, {4096, 24}))));
    });
  }

  void views() {
    for (DType t : kDTypes) {
      add(fmt::format("views_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor x = g.input("x", type(t, {3, 4, 5}));
        g.output("reshape", reshape(x, {5, -1}));
        g.output("transpose", transpose(x, {2, 0, 1}));
        g.output("slice",
                 slice(slice(x, {.axis = 1, .start = 1, .step = 2}), {.axis = 2, .start = 3}));
        g.output("broadcast", broadcast_to(reshape(x, {3, 1, 20}), {2, 3, 6, 20}));
        g.output("same", x);
        g.output("empty", slice(x, {.axis = 0, .start = 3}));
        g.output("mixed", transpose(reshape(transpose(x, {1, 0, 2}), {2, 30}), {1, 0}));
      });
    }
    for (DType t : {f32, f16, bf16, i32, i64}) {
      add(fmt::format("iota_{}", name_of(t)), t, [&](Graph& g) {
        g.output("a", g.iota(type(t, {7}), 0));
        g.output("b", g.iota(type(t, {3, 5, 2}), 1) + g.input("x", type(t, {3, 5, 2})));
        g.output("c", g.full(type(t, {4, 3}), 2));
      });
    }
  }

  void indexing() {
    for (DType t : kDTypes) {
      add(fmt::format("concat_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor a = g.input("a", type(t, {3, 4})), b = g.input("b", type(t, {3, 1})),
                     c = g.input("c", type(t, {3, 0})), d = g.input("d", type(t, {2, 4}));
        g.output("one", concat({a, b, c, a}, 1));
        g.output("zero", concat({a, d, slice(a, {.axis = 0, .start = 1})}, 0));
        g.output("views", concat({transpose(a, {1, 0}), transpose(d, {1, 0})}, 1));
      });
      for (DType index : {i32, i64}) {
        add(fmt::format("gather_{}_{}", name_of(t), name_of(index)), t, [&](Graph& g) {
          const Tensor x = g.input("x", type(t, {5, 4, 3}));
          // 0 .. 7 less 2: some out of range on both sides.
          const Tensor i = g.input("i", type(index, {2, 6})) - 2.0;
          g.output("rows", gather(x, i, 0));
          g.output("middle", gather(x, i, 1));
          g.output("last", gather(x, g.input("j", type(index, {})), -1));
          g.output("after", select(less(gather(cast(x, f32), i, 0), 0.5), 1.0, 2.0));
          g.output("none", gather(x, g.input("k", type(index, {0})), 0));
        });
      }
    }
  }

  void state() {
    for (DType t : kDTypes) {
      add(fmt::format("assign_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor p = g.param("p", type(t, {6, 7}));
        const Tensor old = g.read(p);
        g.assign(p, select(g.input("c", type(b1, {6, 7})), p, g.input("x", type(t, {6, 7}))));
        g.output("old", old);
        g.output("new", p);
        g.output("turned", transpose(p, {1, 0}));
      });
      add(fmt::format("swap_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor a = g.param("a", type(t, {40})), b = g.param("b", type(t, {40}));
        const Tensor x = g.read(a), y = g.read(b);
        g.assign(a, y);
        g.assign(b, x);
        g.output("a", a);
      });
      add(fmt::format("transpose_in_place_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor a = g.param("a", type(t, {9, 9}));
        g.assign(a, transpose(g.read(a), {1, 0}));
        g.output("a", a);
      });
      for (DType index : {i32, i64}) {
        add(fmt::format("update_{}_{}", name_of(t), name_of(index)), t, [&](Graph& g) {
          const Tensor cache = g.param("cache", type(t, {4, 10, 3}));
          const Tensor at = g.input("at", type(index, {}));
          g.update(cache, g.input("x", type(t, {4, 2, 3})), {0.0, at, 0.0});
          g.output("first", slice(cache, {.axis = 1, .start = 2}));
          // Far outside: clamped, so that the box fits.
          g.update(cache, g.input("y", type(t, {1, 1, 3})), {at, at * 100.0 - 300.0, 1.0});
          g.output("second", cache);
        });
      }
    }
    add("accumulate_f32", f32, [&](Graph& g) {
      const Tensor total = g.param("total", {f32, {}}), count = g.param("count", {i32, {}});
      g.assign(total, total + sum(g.input("x", {f32, {100}})));
      g.assign(count, count + 1.0);
      g.output("mean", total / cast(count, f32));
    });
  }

  void compositions() {
    for (DType t : {f32, f16, bf16}) {
      for (const Extents& e : {Extents{5, 33}, Extents{2, 3, 700}, Extents{1, 1}, Extents{2, 5000},
                               Extents{0, 4}, Extents{600, 40}}) {
        const std::string tag = fmt::format("{}_{}", name_of(t), cases_.size());
        add("softmax_" + tag, t, [&](Graph& g) {
          const Tensor x = g.input("x", type(t, e));
          // In f16 and bf16 the product would be rounded once more without fusion.
          g.output("y", softmax(t == f32 ? x * 3.0 : x));
        });
        add("layer_norm_" + tag, t, [&](Graph& g) {
          g.output("y",
                   layer_norm(g.input("x", type(t, e)) + 0.7, g.input("g", type(t, {e.back()})),
                              g.input("b", type(t, {e.back()}))));
        });
      }
      add(fmt::format("softmax_axis_{}", name_of(t)), t, [&](Graph& g) {
        g.output("y", softmax(g.input("x", type(t, {7, 20, 9})), 1));
        g.output("z", softmax(transpose(g.input("u", type(t, {7, 20})), {1, 0}), 1));
      });
      // Scores are kept in memory between kernels; for f16 and bf16 that is f32 but for the
      // weights, which are rounded once more.
      add(
          fmt::format("attention_{}", name_of(t)), t,
          [&](Graph& g) {
            const auto in = [&](const char* n, int64_t rows) {
              return g.input(n, type(t, {2, rows, 24}));
            };
            g.output("y",
                     attention(in("q", 9), in("k", 9), in("v", 9), {.heads = 3, .causal = true}));
            g.output("z", attention(in("q2", 5), in("k2", 12), in("v2", 12), {.heads = 2}));
          },
          2);
      add(fmt::format("mean_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor x = g.input("x", type(t, {6, 50}));
        g.output("y", x - mean(x, {.axes = {1}, .keep = true}));
        g.output("z", mean(x * x, {.axes = {}}));
      });
      add(
          fmt::format("mlp_{}", name_of(t)), t,
          [&](Graph& g) {
            const Tensor h = gelu(linear(g, "l1", g.input("x", type(t, {33, 40})), 72));
            g.output("y", linear(g, "l2", h, 17) + 1.0);
          },
          2);
      add(fmt::format("siblings_{}", name_of(t)), t, [&](Graph& g) {
        const Tensor x = g.input("x", type(t, {12, 31}));
        const Tensor a = exp(x), b = a * 2.0, c = sum(a, {.axes = {1}});
        g.output("b", b);
        g.output("c", c);
        g.output("d", transpose(b, {1, 0}) + 1.0);
        g.output("e", sum(b, {.axes = {0}}));
      });
    }
  }

  std::mt19937_64 random_;
  std::vector<OpCase> cases_;
};

}  // namespace

double tolerance_of(DType t) {
  switch (t) {
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 1.6e-2;
    case DType::f64:
      return 1e-12;
    default:
      return 0;
  }
}

std::vector<OpCase> op_cases(uint64_t seed) { return List(seed).run(); }

}  // namespace braid
