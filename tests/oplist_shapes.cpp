// The part of the op list whose shapes are random: other seeds, other shapes. Odd and empty
// extents, long axes, operands that are broadcast, transposed or begin off alignment.
#include <algorithm>
#include <numeric>

#include "oplist_build.hpp"

namespace braid {

/// 1 to 5 axes of at most `limit` elements in all; now and then one is empty or long.
Extents OpList::any_extents(int64_t min_rank, int64_t limit) {
  Extents e;
  int64_t numel = 1;
  for (int64_t r = pick(min_rank, 5); r > 0; --r) {
    const int64_t kind = pick(0, 11);
    const int64_t most = std::max<int64_t>(1, limit / std::max<int64_t>(numel, 1));
    int64_t n = kind == 0 ? 1 : kind == 1 ? pick(50, 400) : pick(1, 9);
    n = std::min(n, most);
    if (kind == 2 && pick(0, 3) == 0) n = 0;
    numel *= n;
    e.push_back(n);
  }
  if (pick(0, 7) == 0)
    e.back() = std::min<int64_t>(pick(1000, 9000), limit / std::max<int64_t>(1, numel) + 1);
  return e;
}

int64_t OpList::any_axis(const Extents& e) { return pick(0, static_cast<int64_t>(e.size()) - 1); }

/// Some extents become 1, or leading axes go away: broadcasts to e.
Extents OpList::narrowed(const Extents& e) {
  Extents n(e.begin() + pick(0, static_cast<int64_t>(e.size()) - 1), e.end());
  for (int64_t& x : n) {
    if (pick(0, 2) == 0) x = 1;
  }
  return n;
}

/// Three views in a row.
Tensor OpList::viewed(Tensor x) {
  for (int i = 0; i < 3; ++i) {
    Extents e = x.type().shape.extents();
    if (e.empty()) e = {1};
    const int64_t axis = any_axis(e);
    switch (pick(0, 3)) {
      case 0: {
        std::vector<int> perm(e.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), random_);
        if (x.rank() > 0) x = transpose(x, perm);
        break;
      }
      case 1: {  // merge two axes, or split off the factors of one
        std::vector<DimArg> shape(e.begin(), e.end());
        const auto a = static_cast<size_t>(axis);
        if (a + 1 < e.size()) {
          shape[a] = e[a] * e[a + 1];
          shape.erase(shape.begin() + axis + 1);
        } else if (e.size() < 7) {
          const int64_t f = e[a] % 3 == 0 ? 3 : e[a] % 2 == 0 ? 2 : 1;
          shape[a] = e[a] / f;
          shape.emplace_back(f);
        }
        x = reshape(x, shape);
        break;
      }
      case 2: {
        if (x.rank() == 0) break;
        const int64_t n = e[static_cast<size_t>(axis)], start = pick(0, n);
        x = slice(x, {.axis = static_cast<int>(axis),
                      .start = start == n && n > 0 ? n - 1 : start,
                      .step = pick(1, 3)});
        break;
      }
      default: {
        if (x.rank() >= 6 || x.type().shape.numel() > 4000) break;
        std::vector<DimArg> shape(e.begin(), e.end());
        for (size_t k = 0; k < e.size(); ++k) {
          if (e[k] == 1) shape[k] = pick(1, 4);
        }
        shape.insert(shape.begin(), DimArg(pick(1, 3)));
        x = broadcast_to(reshape(x, std::vector<DimArg>(e.begin(), e.end())), shape);
        break;
      }
    }
  }
  return x;
}

void OpList::random_shapes() {
  for (DType t : kDTypes) {
    for (int round = 0; round < 3; ++round) {
      const auto named = [&](const char* op) {
        return fmt::format("shapes_{}_{}_{}", op, name_of(t), round);
      };
      const Fn both = t == b1 ? Fn::xor_ : Fn::mul;
      add(named("map"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 30000);
        const Tensor x = disguised(g, "x", t, e), y = disguised(g, "y", t, narrowed(e));
        g.output("y", apply(both, {x, y}));
        g.output("first", apply(Fn::select, {disguised(g, "p", b1, narrowed(e)), x, y}));
      });
      add(named("views"), t, [&](Graph& g) {
        const Tensor v = viewed(disguised(g, "x", t, any_extents(1, 4000)));
        g.output("v", v);
        g.output("w", apply(both, {v, v}));
      });
      add(named("reduce"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 30000);
        const Tensor x = disguised(g, "x", t, e);
        std::vector<int> axes;
        for (int a = 0; a < static_cast<int>(e.size()); ++a) {
          if (pick(0, 1) == 0) axes.push_back(a);
        }
        const ReduceOpts o{axes, pick(0, 1) == 0};  // no axes: all
        if (t == b1) {
          g.output("any", any(x, o));
          g.output("all", all(x, o));
        } else {
          g.output("sum", sum(apply(Fn::mul, {x, x}), o));
          g.output("max", max(x, o));
        }
      });
      add(named("index"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 3000);
        Extents indexed = e;
        const int64_t axis = any_axis(e);
        int64_t& n = indexed[static_cast<size_t>(axis)];
        n = std::max<int64_t>(n, 1);
        const Tensor x = disguised(g, "x", t, indexed);
        const DType index = pick(0, 1) == 0 ? i32 : i64;
        Extents at;
        for (int64_t r = pick(0, 2); r > 0; --r) at.push_back(pick(0, 6));
        const Tensor i = g.input("i", type(index, at)) - 1.0;
        Extents rows(indexed.begin(), indexed.begin() + axis);
        rows.insert(rows.end(), at.begin(), at.end());
        rows.insert(rows.end(), indexed.begin() + axis + 1, indexed.end());
        g.output("gather", gather(x, i, static_cast<int>(axis)));
        g.output(
            "scatter",
            scatter(x, i, rows.empty() ? g.input("u", type(t, {})) : disguised(g, "u", t, rows),
                    {static_cast<int>(axis), t == b1 ? Fn::or_ : Fn::max}));
      });
      add(named("join"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 3000);
        const auto axis = static_cast<size_t>(any_axis(e));
        std::vector<In> parts;
        for (int64_t k = pick(1, 4); k > 0; --k) {
          Extents part = e;
          part[axis] = pick(0, 9);
          parts.emplace_back(disguised(g, fmt::format("x{}", k).c_str(), t, part));
        }
        const Tensor joined = concat(parts, static_cast<int>(axis));
        g.output("joined", joined);
        std::vector<int64_t> low, high;
        for (size_t k = 0; k < e.size(); ++k) {
          low.push_back(pick(0, 2) == 0 ? pick(1, 5) : 0);
          high.push_back(pick(0, 2) == 0 ? pick(1, 5) : 0);
        }
        g.output("padded", pad(disguised(g, "p", t, e), low, high, 1));
      });
      add(named("argmax"), i32, [&](Graph& g) {
        Extents e = any_extents(1, 20000);
        for (int64_t& n : e) n = std::max<int64_t>(n, 1);
        const Tensor x = disguised(g, "x", t, e);
        g.output("one", argmax(x, {.axes = {static_cast<int>(any_axis(e))}}));
        g.output("all", argmin(x, {.axes = {}, .dtype = i64}));
      });
      add(named("update"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 5000);
        const Tensor p = g.param("p", type(t, e));
        Extents box;
        std::vector<In> starts;
        for (size_t k = 0; k < e.size(); ++k) {
          box.push_back(pick(0, e[k]));
          const Tensor at = g.input(fmt::format("at{}", k), {pick(0, 1) == 0 ? i32 : i64, {}});
          starts.emplace_back(at * 3.0 - 5.0);  // over the edge on both sides
        }
        g.update(p, disguised(g, "x", t, box), starts);
        g.output("p", p);
      });
      if (t == b1) continue;
      add(named("dot"), t, [&](Graph& g) {
        const int64_t m = pick(1, 70), n = pick(1, 70), k = pick(0, 9) == 0 ? 0 : pick(1, 150);
        const bool ta = pick(0, 1) == 0, tb = pick(0, 1) == 0;
        Extents batch;
        for (int64_t r = pick(0, 3); r > 0; --r) batch.push_back(pick(1, 3));
        const auto operand = [&](const char* name, int64_t rows, int64_t columns) {
          Extents e = batch.empty() ? Extents{} : narrowed(batch);
          e.push_back(rows);
          e.push_back(columns);
          return disguised(g, name, t, e);
        };
        const Tensor a = operand("a", ta ? k : m, ta ? m : k);
        g.output("y", matmul(a, operand("b", tb ? n : k, tb ? k : n), {.ta = ta, .tb = tb}));
      });
      if (!is_float(t)) continue;
      add(named("softmax"), t, [&](Graph& g) {
        const Extents e = any_extents(1, 20000);
        const Tensor x = disguised(g, "x", t, e);
        const auto axis = static_cast<int>(any_axis(e));
        g.output("softmax", softmax(x, axis));
        g.output("log_softmax", log_softmax(x, axis));
        g.output("rms_norm", rms_norm(x, g.input("g", type(t, {e.back()}))));
      });
    }
  }
  // No axis at all: only the IR can say it.
  for (DType t : kDTypes) {
    ir::Graph g("reduce_nothing");
    const ir::ValueId x = g.add(
        {ir::OpKind::input, {}, {}, TensorType{t, {Dim(3), Dim(5)}}, g.strings.intern("x"), {}});
    const Fn fn = t == b1 ? Fn::or_ : Fn::add;
    g.outputs.push_back(
        {"y", g.add({ir::OpKind::reduce, ir::ReduceAttr{fn, 0}, {x}, {}, {}, {}}), {}});
    cases_.push_back({fmt::format("reduce_nothing_{}", name_of(t)), g, tolerance_of(t)});
  }
}

}  // namespace braid
