// The op list: like nodes that are ready together, which become one launch.
#include "oplist_build.hpp"

namespace braid {

void OpList::grouped() {
  const auto each = [](const char* name, int64_t part) { return fmt::format("{}{}", name, part); };
  for (DType t : {f32, f16, bf16}) {
    for (int64_t parts = 2; parts <= 9; ++parts) {
      // relu(x @ w + b) for every part, of any size or of whole packs; some share their x.
      const int64_t unit = parts % 2 == 0 ? 8 : 1;
      const int64_t m = pick(1, 70), n = unit * pick(1, 70 / unit), k = 8 + unit * pick(1, 9);
      const bool tb = pick(0, 1);
      const Body layers = [=](Graph& g) {
        const Tensor shared = g.input("x", type(t, {m, k}));
        for (int64_t part = 0; part < parts; ++part) {
          const Tensor x = part % 3 == 1 ? g.input(each("x", part), type(t, {m, k})) : shared;
          const Tensor w = g.input(each("w", part), type(t, tb ? Extents{n, k} : Extents{k, n}));
          const Tensor y = matmul(x, w, {.tb = tb}) + g.input(each("b", part), type(t, {n}));
          g.output(each("y", part), relu(y));
        }
      };
      const std::string name =
          fmt::format("{}_x{}_{}x{}x{}{}", name_of(t), parts, m, n, k, tb ? "_b" : "");
      tensor_cores("grouped_mma_" + name, t, layers, 2);
      if (t == f32) add("grouped_dot_" + name, t, layers, 2);
      const int64_t rows = pick(1, 60), columns = pick(1, 300);
      add(fmt::format("grouped_rows_{}_x{}_{}x{}", name_of(t), parts, rows, columns), t,
          [&](Graph& g) {
            for (int64_t part = 0; part < parts; ++part) {
              const Tensor x = g.input(each("x", part), type(t, {rows, columns}));
              g.output(each("softmax", part), softmax(x));
              g.output(each("columns", part), max(x, {.axes = {0}}));
              g.output(each("map", part), sigmoid(x) * 0.5);
            }
          });
    }
  }
  // Two layers deep; params that each part writes in place; more parts than one launch takes.
  add(
      "grouped_towers", f32,
      [&](Graph& g) {
        const Tensor x = g.input("x", type(f32, {19, 33}));
        std::vector<In> ends;
        for (int64_t part = 0; part < 5; ++part) {
          const Tensor h = tanh(matmul(x, g.input(each("w", part), type(f32, {33, 21}))));
          ends.push_back(tanh(matmul(h, g.input(each("v", part), type(f32, {21, 13})))));
        }
        g.output("y", concat(ends, 1));
      },
      4);
  add("grouped_state", f32, [&](Graph& g) {
    const Tensor x = g.input("x", type(f32, {1, 7})), at = g.scalar("at", i32, 2);
    for (int64_t part = 0; part < 6; ++part) {
      const Tensor p = g.param(each("p", part), type(f32, {5, 7}));
      g.update(p, x * static_cast<double>(part % 2 + 1), {at, 0.0});
      const Tensor q = g.param(each("q", part), type(f32, {3, 11}));
      g.assign(q, q * 0.5 + 1.0);
    }
    g.output("y", x + 1.0);
  });
  add("grouped_many", i32, [&](Graph& g) {
    for (int64_t part = 0; part < 200; ++part) {
      g.output(each("y", part), g.input(each("x", part), type(i32, {part < 190 ? 3 : 0})) * 5.0);
    }
  });
}

}  // namespace braid
