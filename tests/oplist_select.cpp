// The part of the op list about what the device decides the size of.
#include "frontend/selection.hpp"
#include "oplist_build.hpp"

namespace braid {
namespace {

void give(Graph& g, const std::string& name, const Selected& s) {
  g.output(name, s.values);
  g.output(name + "_count", s.count);
}

}  // namespace

void OpList::selections() {
  for (int number = 0; number < kNumDTypes; ++number) {
    const auto t = static_cast<DType>(number);
    const std::string name(name_of(t));
    add("compact_" + name, t, [&](Graph& g) {
      const int64_t n = pick(1, 90), columns = pick(1, 30);
      const Tensor mask = disguised(g, "mask", b1, {n});
      give(g, "rows", compact(mask, disguised(g, "x", t, {n, columns})));
      give(g, "elements", compact(mask, g.input("y", type(t, {n}))));
      give(g, "none",
           compact(less(g.input("z", type(f32, {n})), -1e30), g.input("w", type(t, {n}))));
      give(g, "all", compact(g.full({b1, {n}}, 1), g.input("u", type(t, {n, 2}))));
      give(g, "empty", compact(g.input("m", type(b1, {0})), g.input("e", type(t, {0, 3}))));
      give(g, "narrow", compact(mask, g.input("f", type(t, {n, 0}))));
      const Tensor kept = g.param("kept", type(t, {n}));
      g.assign(kept, compact(mask, kept).values);
    });
    add("nonzero_" + name, t, [&](Graph& g) {
      const Tensor x = disguised(g, "x", t, {pick(1, 9), pick(1, 20), 3});
      give(g, "rows", nonzero(x));
      give(g, "flat", flatnonzero(x));
      give(g, "vector", nonzero(g.input("y", type(t, {pick(1, 400)}))));
      give(g, "one", flatnonzero(g.input("z", type(t, {}))));
    });
    add("masked_select_" + name, t, [&](Graph& g) {
      const int64_t rows = pick(1, 30), columns = pick(1, 40);
      const Tensor x = disguised(g, "x", t, {rows, columns});
      give(g, "some", masked_select(x, g.input("m", type(b1, {rows, 1}))));
      give(g, "row",
           masked_select(g.input("y", type(t, {columns})), g.input("k", type(b1, {columns}))));
    });
    add("unique_" + name, t, [&](Graph& g) {
      const Tensor x = disguised(g, "x", t, {pick(1, 9), pick(1, 20)});
      const Unique u = unique(is_float(t) ? floor(x * 4.0) : x);
      g.output("values", u.values);
      g.output("count", u.count);
      g.output("inverse", u.inverse);
    });
  }
  // One block and many, one tile and several, masks whose ends are no whole words.
  for (int64_t n : {1, 33, 1000, 4096, 4097, 33000, 70001, 600007}) {
    add(fmt::format("compact_{}_rows", n), f32, [&](Graph& g) {
      const Tensor x = g.input("x", type(f32, {n}));
      give(g, "some", compact(greater(x, pick(0, 1) == 0 ? -0.3 : 0.9), x));
      give(g, "indices", flatnonzero(greater(x, 1.5)));
    });
  }
  for (int64_t n : {3, 200, 2000}) {
    add(fmt::format("compact_{}_wide_rows", n), bf16, [&](Graph& g) {
      give(g, "rows", compact(g.input("m", type(b1, {n})), g.input("x", type(bf16, {n, 3, 257}))));
    });
  }
  add("compact_side_by_side_f32", f32, [&](Graph& g) {
    for (const char* name : {"a", "b", "c"}) {
      const Scope scope = g.scope(name);
      const Tensor x = g.input(fmt::format("x_{}", name), type(f32, {700, 5}));
      const Tensor m = g.input(fmt::format("m_{}", name), type(b1, {700}));
      give(g, name, compact(m, x));
    }
  });
  for (DType t : {f32, f16, bf16, f64}) {
    add(
        fmt::format("counted_{}", name_of(t)), t,
        [&](Graph& g) {
          const int64_t n = pick(2, 300);
          const Tensor x = signed_input(g, "x", t, {4, n});
          for (const double threshold : {-99.0, 0.5, 99.0}) {
            const Selected chosen = flatnonzero(
                greater(g.input(fmt::format("s{}", threshold), type(f32, {n})), threshold));
            const std::string name = fmt::format("over_{}", threshold);
            const Tensor rows = gather(x, chosen.values, 1);
            const ReduceOpts o{.axes = {1}, .count = chosen.count};
            g.output(name + "_sum", sum(rows, o) * (1.0 / static_cast<double>(n)));
            g.output(name + "_mean", mean(rows, o));
            g.output(name + "_max", max(rows, o));
            g.output(name + "_min", min(rows, o));
            g.output(name + "_softmax", softmax(rows, 1, chosen.count));
            g.output(name + "_valid", valid(chosen.count, {4, n}, 1));
          }
        },
        4);
  }
}

}  // namespace braid
