#include "oplist.hpp"

#include <cmath>

#include "oplist_build.hpp"

namespace braid {

std::vector<OpCase> OpList::run() {
  scalar_functions_everywhere();
  casts();
  specials();
  other_dtypes();
  int_specials();
  reductions();
  dots();
  views();
  indexing();
  state();
  compositions();
  scatters();
  randoms();
  arrangements();
  norms_and_losses();
  masked_attention();
  random_shapes();
  grouped();
  selections();
  odd_sizes();
  return std::move(cases_);
}

void OpList::reductions() {
  struct Fold {
    Extents extents;
    std::vector<int> axes;
  };
  const std::vector<Fold> shapes{{{pick(1, 9), pick(2, 200)}, {1}},
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
  for (const Fold& s : {Fold{{3, 5000}, {1}}, Fold{{4097}, {}}, Fold{{70000}, {}},
                        Fold{{5000, 3}, {0}}, Fold{{2, 1500, 3}, {1}}}) {
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

void OpList::tensor_cores(const std::string& name, DType dtype, const Body& body, double factor) {
  // Rounding both operands to tf32 costs about what one rounding of the result to f16 does.
  add(name, dtype, body, dtype == f32 ? factor * tolerance_of(f16) / tolerance_of(f32) : factor);
  for (ir::Op& op : cases_.back().graph.ops()) {
    auto* const dot = std::get_if<ir::DotAttr>(&op.attrs);
    if (dot && dtype == f32) dot->tf32 = true;
  }
}

void OpList::dots() {
  struct Size {
    int64_t m, n, k;
  };
  const std::vector<Size> sizes{{1, 1, 1},   {3, 5, 7},    {1, 33, 130},
                                {65, 1, 17}, {16, 16, 16}, {33, 47, 129},
                                {0, 4, 5},   {4, 5, 0},    {pick(2, 70), pick(2, 70), pick(2, 70)}};
  for (DType t : kNumbers) {
    for (const Size& s : sizes) {
      for (int flags = 0; flags < 4; ++flags) {
        const bool ta = flags & 1, tb = flags & 2;
        add(fmt::format("dot_{}_{}x{}x{}_{}", name_of(t), s.m, s.n, s.k, flags), t, [&](Graph& g) {
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
  for (DType t : {f32, f16, bf16}) {
    for (int i = 0; i < 16; ++i) {
      // Half of them in whole packs of 16 bytes, half of any size.
      const int64_t unit = i % 2 == 0 ? 8 : 1;
      const Size s{pick(1, 200), unit * pick(1, 200 / unit), unit * pick(1, 200 / unit)};
      const bool ta = pick(0, 1), tb = pick(0, 1);
      tensor_cores(
          fmt::format("mma_{}_{}_{}x{}x{}_{}{}", name_of(t), i, s.m, s.n, s.k, ta ? "a" : "",
                      tb ? "b" : ""),
          t, [&](Graph& g) {
            const Tensor a = g.input("a", type(t, ta ? Extents{s.k, s.m} : Extents{s.m, s.k}));
            const Tensor b = g.input("b", type(t, tb ? Extents{s.n, s.k} : Extents{s.k, s.n}));
            g.output("y", matmul(a, b, {.ta = ta, .tb = tb}));
          });
    }
    for (const Size& s :
         {Size{1, 768, 3072}, Size{8, 50, 512}, Size{128, 256, 256},
          t == bf16 ? Size{512, 768, 3072} : Size{192, 320, 512}, Size{700, 1100, 40}}) {
      tensor_cores(fmt::format("mma_{}_{}x{}x{}", name_of(t), s.m, s.n, s.k), t, [&](Graph& g) {
        g.output("y", matmul(g.input("a", type(t, {s.m, s.k})), g.input("b", type(t, {s.k, s.n}))));
      });
    }
    tensor_cores(fmt::format("mma_batch_{}", name_of(t)), t, [&](Graph& g) {
      g.output("y",
               matmul(g.input("a", type(t, {3, 2, 40, 72})), g.input("b", type(t, {2, 72, 24}))));
      g.output("none", matmul(g.input("c", type(t, {2, 9, 0})), g.input("d", type(t, {2, 0, 16}))));
    });
    tensor_cores(fmt::format("mma_slices_{}", name_of(t)), t, [&](Graph& g) {
      // From 3 on nothing is aligned, from 16 on everything.
      for (const int64_t start : {3, 16}) {
        const Tensor a = g.input(fmt::format("a{}", start), type(t, {33, 144}));
        const Tensor b = g.input(fmt::format("b{}", start), type(t, {112, 96}));
        g.output(fmt::format("y{}", start),
                 matmul(slice(a, {.axis = 1, .start = start, .stop = start + 112}),
                        slice(b, {.axis = 1, .start = start, .stop = start + 64})));
      }
    });
    tensor_cores(
        fmt::format("mma_epilogue_{}", name_of(t)), t,
        [&](Graph& g) {
          const Tensor a = g.input("a", type(t, {65, 96}));
          const Tensor y = matmul(a, g.input("w", type(t, {96, 96})));
          const Tensor h = relu(y + g.input("b", type(t, {96})));
          g.output("h", h);
          g.output("y", h + slice(a, {.axis = 0}));
          g.output("t", h * transpose(g.input("c", type(t, {96, 65})), {1, 0}));
        },
        2);
  }
  add("dot_long_f32", f32, [&](Graph& g) {
    g.output("y", matmul(g.input("a", type(f32, {8, 4096})), g.input("b", type(f32, {4096, 24}))));
  });
}

void OpList::views() {
  for (DType t : kDTypes) {
    add(fmt::format("views_{}", name_of(t)), t, [&](Graph& g) {
      const Tensor x = g.input("x", type(t, {3, 4, 5}));
      g.output("reshape", reshape(x, {5, -1}));
      g.output("transpose", transpose(x, {2, 0, 1}));
      g.output("slice",
               slice(slice(x, {.axis = 1, .start = 1, .step = 2}), {.axis = 2, .start = 3}));
      g.output("broadcast", broadcast_to(reshape(x, {3, 1, 20}), {2, 3, 6, 20}));
      g.output("same", x);
      g.output("ones", g.full(type(t, {4, 3}), 1));
      const Tensor table = g.constant(random_tensor({t, {Dim(3), Dim(5)}}, 5, "table"));
      g.output("table", table);
      g.output("stretched", broadcast_to(reshape(table, {3, 1, 5}), {3, 4, 5}));
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

void OpList::indexing() {
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

void OpList::state() {
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

void OpList::compositions() {
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
        g.output("y", layer_norm(g.input("x", type(t, e)) + 0.7, g.input("g", type(t, {e.back()})),
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

std::vector<OpCase> op_cases(uint64_t seed) { return OpList(seed).run(); }

}  // namespace braid
