// The part of the op list about scatter, random numbers and the composites of other ops.
#include <cmath>
#include <limits>

#include "oplist_build.hpp"

namespace braid {

void OpList::scatters() {
  for (int number = 0; number < kNumDTypes; ++number) {
    const auto t = static_cast<DType>(number);
    add(
        fmt::format("scatter_{}", name_of(t)), t,
        [&](Graph& g) {
          const Tensor x = g.input("x", type(t, {5, 4, 3})), u = g.input("u", type(t, {5, 12, 3}));
          // 0 .. 7 less 2: repeated, and out of range on both sides.
          const Tensor i = g.input("i", type(i32, {12})) - 2.0;
          g.output("set", scatter(x, i, u, {1}));
          for (const ScalarInfo& f : scalar_functions()) {
            if (!f.combiner || !(f.classes & class_of(t))) continue;
            g.output(std::string(f.name), scatter(x, i, u, {1, f.fn}));
          }
        },
        2);
  }
  for (DType t : kDTypes) {
    const Fn fn = t == b1 ? Fn::or_ : Fn::add;
    for (DType index : {i32, i64}) {
      add(fmt::format("scatter_rows_{}_{}", name_of(t), name_of(index)), t, [&](Graph& g) {
        const int64_t rows = pick(1, 12), n = pick(1, 40), columns = pick(1, 70);
        const Tensor i = g.input("i", type(index, {n, 2})) - 1.0;
        const Tensor u = disguised(g, "u", t, {n, 2, columns});
        g.output("rows", scatter(disguised(g, "x", t, {rows, columns}), i, u, {0, fn}));
        const Tensor table = g.param("table", type(t, {rows, columns}));
        g.assign(table, scatter(table, i, u, {0, fn}));
        g.output("table", table);
        g.output("one", scatter(table, g.input("j", type(index, {})), g.input("v", type(t, {rows})),
                                {-1}));
        g.output("none", scatter(table, g.input("k", type(index, {0})),
                                 g.input("w", type(t, {0, columns})), {0, fn}));
      });
    }
  }
  // With what fuses before and after; a histogram; large.
  add("scatter_fused_f32", f32, [&](Graph& g) {
    const Tensor x = exp(g.input("x", type(f32, {6, 33}))), i = g.input("i", type(i32, {20}));
    const Tensor s = scatter(x, i, g.input("u", type(f32, {20, 33})), {0, Fn::max});
    g.output("y", s * 2.0 + g.input("z", type(f32, {33})));
    g.output("rows", sum(s, {.axes = {1}}));
    g.output("x", x);
    const Tensor of = g.input("of", type(i32, {500}));
    g.output("counts", scatter(g.full({i32, {8}}, 0), of, g.full({i32, {500}}, 1), {0, Fn::add}));
    g.output("large", scatter(g.input("l", type(f32, {1500, 200})), i,
                              g.input("m", type(f32, {1500, 20})), {1, Fn::add}));
  });
}

void OpList::randoms() {
  add("random_i64", f32, [&](Graph& g) {
    const Tensor seed = disguised(g, "seed", i64, {37}), index = g.iota({i64, {4, 37}}, 1);
    g.output("y", apply(Fn::random, {seed, g.input("launch", {i64, {}}), index}));
  });
  for (DType t : {f32, f16, bf16, f64}) {
    const auto shapes = [&](Graph& g, const std::string& name, auto make) {
      int n = 0;
      for (const Extents& e : {shape(), Extents{}, Extents{3, 0}, Extents{7, 40}}) {
        const std::string own = fmt::format("{}{}", name, n++);
        g.output(own, make(own, e));
      }
    };
    add(fmt::format("random_uniform_{}", name_of(t)), t, [&](Graph& g) {
      shapes(g, "u", [&](const std::string& name, const Extents& e) {
        return random_uniform(g, name, type(t, e), {.low = -2, .high = 3});
      });
      g.output("large", random_uniform(g, "large", type(t, {700, 400}), {.seed = 11}));
      g.output("shared", random_uniform(g, "shared", type(t, {50}),
                                        {.seed = 5, .counter = g.input("c", {i64, {}})}));
    });
    add(
        fmt::format("random_normal_{}", name_of(t)), t,
        [&](Graph& g) {
          shapes(g, "x", [&](const std::string& name, const Extents& e) {
            return random_normal(g, name, type(t, e), {.seed = pick(-9, 9)});
          });
        },
        10);  // the cosine of an angle near a quarter turn
    add(fmt::format("dropout_{}", name_of(t)), t, [&](Graph& g) {
      shapes(g, "y", [&](const std::string& name, const Extents& e) {
        return dropout(g, name, disguised(g, (name + "x").c_str(), t, e), 0.3);
      });
    });
  }
  add("random_bernoulli", b1, [&](Graph& g) {
    g.output("hit", random_bernoulli(g, "hit", {30, 40}, 0.2, {.seed = 1}));
    g.output("any", any(random_bernoulli(g, "rare", {30, 40}, 0.02, {.seed = 2})));
  });
}

void OpList::arrangements() {
  for (DType t : kDTypes) {
    add(fmt::format("argmax_{}", name_of(t)), i32, [&](Graph& g) {
      const Extents e{pick(1, 9), pick(2, 200), pick(1, 5)};
      const Tensor x = disguised(g, "x", t, e);
      for (int axis = 0; axis < 3; ++axis) {
        g.output(fmt::format("max{}", axis), argmax(x, {.axes = {axis}, .keep = axis == 1}));
        g.output(fmt::format("min{}", axis), argmin(x, {.axes = {axis}, .dtype = i64}));
      }
      g.output("all", argmax(x, {.axes = {}}));
      g.output("long", argmin(disguised(g, "l", t, {3, 5000})));
      g.output("value", x);
    });
    add(fmt::format("pad_{}", name_of(t)), t, [&](Graph& g) {
      const Tensor x = disguised(g, "x", t, {pick(1, 6), pick(0, 9), pick(1, 30)});
      const Tensor p = pad(x, {pick(0, 3), 2, 0}, {1, 0, pick(0, 3)}, 1);
      g.output("p", p);
      g.output("around", select(equal(p, 1.0), p, p));
      g.output("stacked", stack({x, x,
                                 disguised(g, "y", t,
                                           {x.type().shape[0].value(), x.type().shape[1].value(),
                                            x.type().shape[2].value()})},
                                1));
      g.output("squeezed", squeeze(unsqueeze(x, -1), {3}));
      g.output("part", split(disguised(g, "s", t, {4, 12}), 3, 1)[1]);
    });
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (DType t : {f32, f16, bf16, f64}) {
    add(fmt::format("special_argmax_{}", name_of(t)), i32, [&](Graph& g) {
      const Tensor x = g.constant(HostTensor::from(
          {t, {Dim(4), Dim(4)}}, std::vector<double>{1, NAN, 2, NAN, inf, -inf, inf, 0, -inf, -inf,
                                                     -inf, -inf, -0.0, 0.0, -0.0, 0.0}));
      g.output("rows", argmax(x));
      g.output("columns", argmin(x, {.axes = {0}}));
    });
  }
}

void OpList::norms_and_losses() {
  for (DType t : {f32, f16, bf16}) {
    for (const Extents& e :
         {Extents{5, 33}, Extents{2, 3, 700}, Extents{2, 5000}, Extents{0, 9}, Extents{600, 40}}) {
      const std::string tag = fmt::format("{}_{}", name_of(t), cases_.size());
      add("norms_" + tag, t, [&](Graph& g) {
        const Tensor x = disguised(g, "x", t, e);
        g.output("log_softmax", log_softmax(x));
        g.output("rms_norm", rms_norm(x, g.input("g", type(t, {e.back()}))));
        g.output("l2_normalize", l2_normalize(x));
      });
      add("cross_entropy_" + tag, f32, [&](Graph& g) {
        const Extents rows(e.begin(), e.end() - 1);
        g.output("y", cross_entropy(disguised(g, "x", t, e), g.input("l", type(i32, rows))));
        g.output("mean",
                 sum(cross_entropy(g.input("z", type(t, {30, 8})), g.input("m", type(i64, {30}))),
                     {.axes = {}}));
      });
    }
    add(fmt::format("norms_axis_{}", name_of(t)), t, [&](Graph& g) {
      const Tensor x = disguised(g, "x", t, {7, 20, 9});
      g.output("y", log_softmax(x, 1));
      g.output("z", l2_normalize(x, 0));
    });
  }
  add("special_cross_entropy", f32, [&](Graph& g) {  // labels out of range
    g.output("y", cross_entropy(g.input("x", type(f32, {40, 4})), g.input("l", type(i32, {40}))));
    g.output("z", cross_entropy(g.input("x2", type(f32, {40, 9})),
                                g.input("l2", type(i64, {40})) - 4.0));
  });
}

void OpList::masked_attention() {
  for (DType t : {f32, f16, bf16}) {
    add(
        fmt::format("attention_masked_{}", name_of(t)), t,
        [&](Graph& g) {
          const auto in = [&](const char* n, int64_t rows, int64_t width) {
            return g.input(n, type(t, {2, rows, width}));
          };
          // Grouped heads; random booleans; floats that are added.
          g.output("grouped", attention(in("q", 9, 48), in("k", 9, 16), in("v", 9, 16),
                                        {.heads = 6, .causal = true, .kv_heads = 2}));
          const Tensor k = in("k1", 5, 16), v = in("v1", 5, 16);
          g.output("masked",
                   attention(
                       in("q1", 3, 32), k, v,
                       {.heads = 4, .kv_heads = 2, .mask = g.input("m1", type(b1, {2, 1, 3, 5}))}));
          g.output(
              "biased",
              attention(in("q2", 3, 32), k, v,
                        {.heads = 4, .kv_heads = 2, .mask = g.input("m2", type(t, {4, 3, 5}))}));
          g.output("dark",
                   attention(in("q3", 3, 16), k, v, {.heads = 2, .mask = g.full({b1, {3, 5}}, 0)}));
        },
        2);
    // One step of decoding: a cache that grows by a row, at a position known at run time.
    add(
        fmt::format("attention_cache_{}", name_of(t)), t,
        [&](Graph& g) {
          const Tensor keys = g.param("keys", type(t, {1, 16, 16})),
                       values = g.param("values", type(t, {1, 16, 16}));
          const Tensor at = g.input("at", {i64, {}});
          g.update(keys, g.input("k", type(t, {1, 1, 16})), {0.0, at, 0.0});
          g.update(values, g.input("v", type(t, {1, 1, 16})), {0.0, at, 0.0});
          g.output("y", attention(g.input("q", type(t, {1, 1, 32})), keys, values,
                                  {.heads = 4,
                                   .kv_heads = 2,
                                   .mask = less_equal(g.iota({i64, {16}}, 0), at)}));
        },
        2);
  }
}

}  // namespace braid
