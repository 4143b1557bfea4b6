// The part of the op list with odd sizes, in every family of kernels: one, a few, next to whole
// warps and blocks, and a million and a bit, where whatever a kernel rounds up or down shows.
#include <fmt/ranges.h>

#include <cmath>
#include <tuple>

#include "frontend/selection.hpp"
#include "oplist_build.hpp"

namespace braid {
namespace {

/// 999999 has odd factors alone, by which long reductions are split; 1000003 is a prime.
constexpr int64_t kSplit = 999'999, kMillion = 1'000'003;

std::string sized(const char* what, DType t, std::initializer_list<int64_t> extents) {
  return fmt::format("odd_{}_{}_{}", what, name_of(t), fmt::join(extents, "x"));
}

}  // namespace

void OpList::odd_maps() {
  for (const DType t : {f32, bf16, i64, i8}) {
    for (const int64_t n : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{129}, kMillion}) {
      if (n == kMillion && t != f32 && t != i8) continue;  // packs of 4 and of 16 elements
      add(sized("map", t, {n}), t, [&](Graph& g) {
        const Tensor x = g.input("x", type(t, {n}));
        g.output("y", maximum(x, g.input("z", type(t, {n}))));
        g.output("later", slice(x, {.axis = 0, .start = n > 1 ? 1 : 0}));  // begins off alignment
        g.output("ends", concat({g.input("a", type(t, {3})), x, g.input("b", type(t, {17}))}, 0));
        // Random indices are 0 .. 7: further ones by a factor, and past the end.
        const Tensor at = g.input("i", type(i32, {n})) * static_cast<double>(n / 5 + 1);
        g.output("gathered", gather(g.input("rows", type(t, {129, 3})), at, 0));
        g.output("elements", gather(x, g.input("k", type(i64, {17})), 0));
        if (n == kMillion) return;
        const Tensor sides = g.input("sides", type(t, {3, n}));
        g.output("wide", concat({sides, g.input("c", type(t, {3, 129})), sides}, 1));
      });
    }
  }
}

void OpList::odd_reductions() {
  for (const DType t : {f32, f16, i32}) {
    for (const int64_t n : {1, 3, 17, 129, 1031, 8209}) {
      const std::vector<int64_t> all =
          n > 2000 ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 3, 17, 129};
      add(sized("rows", t, {n}), t, [&](Graph& g) {  // a warp or a block a row
        for (const int64_t rows : all) {
          const auto named = [&](const char* what) { return fmt::format("{}{}", what, rows); };
          const Tensor x = g.input(named("x"), type(t, {rows, n}));
          g.output(named("max"), max(x, {.axes = {1}}));
          g.output(named("at"), argmax(x, {.axes = {1}}));
          if (!is_float(t)) continue;
          g.output(named("mean"), mean(x * x, {.axes = {1}}));
          g.output(named("softmax"), softmax(x));
        }
      });
      add(sized("columns", t, {n}), t, [&](Graph& g) {  // threads of a block share a column
        for (const int64_t columns : all) {
          const auto named = [&](const char* what) { return fmt::format("{}{}", what, columns); };
          const Tensor x = g.input(named("x"), type(t, {n, columns}));
          g.output(named("max"), max(x, {.axes = {0}}));
          const ReduceOpts o{.axes = {0}};
          g.output(named("sum"), is_float(t) ? mean(x * x, o) : sum(x, o));
        }
      });
    }
  }
  for (const int64_t n : {kSplit, kMillion}) {
    add(sized("all", f32, {n}), f32, [&](Graph& g) {
      const Tensor x = g.input("x", type(f32, {n}));
      g.output("mean", mean(x * x, {.axes = {0}}));
      g.output("max", max(x, {.axes = {0}}));
    });
  }
  add(sized("all", bf16, {3, kSplit / 3, 1}), bf16, [&](Graph& g) {
    g.output("mean", mean(abs(g.input("x", type(bf16, {3, kSplit / 3}))), {.axes = {1}}));
  });
  add(sized("all", f32, {kSplit / 3, 3}), f32, [&](Graph& g) {
    const Tensor x = g.input("x", type(f32, {kSplit / 3, 3}));
    g.output("columns", mean(x * x, {.axes = {0}}));
    g.output("rows", max(x, {.axes = {1}}));
  });
}

void OpList::odd_dots() {
  const std::vector<int64_t> sizes{1, 3, 17, 129};
  for (const int64_t m : sizes) {
    for (const int64_t k : sizes) {
      const auto products = [&](DType t) -> Body {
        return [=](Graph& g) {
          for (const int64_t n : sizes) {
            const auto named = [&](const char* what) { return fmt::format("{}{}", what, n); };
            const bool tb = t != f32;
            const Tensor a = g.input(named("a"), type(t, {m, k}));
            const Tensor b = g.input(named("b"), type(t, tb ? Extents{n, k} : Extents{k, n}));
            // Away from zero: a single sum that cancels has a large relative error.
            const Tensor bias =
                g.input(named("c"), type(t, {n})) + 4 * std::sqrt(static_cast<double>(k));
            g.output(named("y"), matmul(a, b, {.tb = tb}) + bias);
          }
        };
      };
      add(sized("dot", f32, {m, k}), f32, products(f32), 2);
      tensor_cores(sized("mma", f32, {m, k}), f32, products(f32), 2);
      tensor_cores(sized("mma", bf16, {m, k}), bf16, products(bf16), 2);
    }
  }
  // Few elements of many terms, which blocks of a cluster share; many elements of few terms.
  for (const DType t : {f32, f16}) {
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 3, 100'003},
                                  {3, 17, 10'007},
                                  {17, 129, 2'053},
                                  {4099, 3, 17},
                                  {1, 50'021, 17}}) {
      add(
          sized("product", t, {m, n, k}), t,
          [&](Graph& g) {
            g.output("y", matmul(g.input("a", type(t, {m, k})) * 0.25,
                                 g.input("b", type(t, {k, n})) * 0.25));
          },
          4);
    }
  }
}

/// Products and reductions that one kernel computes, by rows and by heads.
void OpList::odd_chains() {
  for (const DType t : {f32, f16, bf16}) {
    for (const int64_t m : {1, 3, 17, 129}) {
      add(
          sized("perceptron", t, {m}), t,
          [&](Graph& g) {
            for (const auto& [k, hidden, n] :
                 {std::tuple<int64_t, int64_t, int64_t>{3, 17, 129}, {129, 33, 3}, {48, 80, 17}}) {
              const auto in = [&](const char* what, Extents extents) {
                return g.input(fmt::format("{}{}", what, k), type(t, std::move(extents)));
              };
              const Tensor h = relu(matmul(in("x", {m, k}), in("w", {k, hidden})) * 0.25);
              g.output(fmt::format("y{}", k), matmul(h, in("v", {n, hidden}), {.tb = true}) + 3.0);
            }
          },
          8);
      add(
          sized("norm_in_front", t, {m}), t,
          [&](Graph& g) {
            for (const int64_t k : {3, 17, 129, 768}) {
              const auto in = [&](const char* what, Extents extents) {
                return g.input(fmt::format("{}{}", what, k), type(t, std::move(extents)));
              };
              const Tensor norm = layer_norm(in("x", {m, k}), in("g", {k}), in("b", {k}));
              const Tensor w = in("w", {51, k}) * (1.0 / static_cast<double>(k));
              g.output(fmt::format("y{}", k), matmul(norm, w, {.tb = true}) + 3.0);
              if (k != 17) continue;
              g.output("norm", norm);  // which the kernel stores as well
            }
          },
          8);
      add(
          sized("heads", t, {m}), t,
          [&](Graph& g) {
            for (const auto& [seen, heads, depth] : {std::tuple<int64_t, int, int64_t>{1, 1, 17},
                                                     {17, 3, 5},
                                                     {129, 2, 16},
                                                     {33, 3, 32}}) {
              const auto in = [&](const char* what, int64_t rows) {
                return g.input(fmt::format("{}{}", what, seen), type(t, {rows, heads * depth}));
              };
              g.output(fmt::format("y{}", seen),
                       attention(in("q", m), in("k", seen), in("v", seen) + 2.0, {.heads = heads}));
            }
          },
          8);
    }
  }
}

/// Concats that take in what computes their parts, and are read by products in place: the features
/// of a recommendation model.
void OpList::odd_interactions() {
  for (const DType t : {f32, f16, bf16}) {
    for (const int64_t rows : {1, 3, 16, 129}) {
      add(
          sized("interaction", t, {rows}), t,
          [&](Graph& g) {
            const Tensor dense = g.input("dense", type(t, {rows, 17}));
            const Tensor others = g.input("others", type(t, {rows, 4, 17}));
            const Tensor all = concat({unsqueeze(dense, 1), others}, 1);
            const Tensor products = matmul(all * 0.25, all * 0.25, {.tb = true});
            g.output(
                "products",
                matmul(concat({unsqueeze(dense, 1), others * 0.25}, 1), all, {.tb = true}) + 8.0);
            const Tensor flat = reshape(products, {rows, 25});
            const Tensor pairs = g.input("pairs", type(i32, {10}));
            const Tensor features = concat({dense, gather(flat, pairs, 1)}, 1);
            g.output("y", matmul(features, g.input("w", type(t, {27, 72})) * 0.25) + 8.0);
          },
          8);
    }
  }
}

void OpList::odd_selections() {
  for (const int64_t n : {int64_t{3}, int64_t{17}, int64_t{129}, kMillion}) {
    add(sized("compact", i8, {n}), i8, [&](Graph& g) {
      const Tensor x = g.input("x", type(f32, {n}));
      const Selected rows = compact(greater(x, 0.7), g.input("z", type(i8, {n})));
      g.output("rows", rows.values);
      g.output("count", rows.count);
      if (n > 5000) return;
      const Selected wide = compact(less(x, 0.7), g.input("w", type(i8, {n, 3, 129})));
      g.output("wide", wide.values);
    });
  }
}

void OpList::odd_sizes() {
  odd_maps();
  odd_interactions();
  odd_reductions();
  odd_dots();
  odd_chains();
  odd_selections();
}

}  // namespace braid
