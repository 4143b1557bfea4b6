// softmax, mean, layer_norm, attention and linear, by their definitions in terms of the other ops.
// f16 and bf16 compute in f32. Reduced values go back by broadcast views straight from the reduced
// shape, so that fusion sees one domain.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/builder_impl.hpp"

namespace braid {
namespace {

using ir::ValueId;

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

/// The place of an op for the ops that stand in for it.
In at(Tensor t, const Where& w) { return In(t, w); }
In at(double x, const Where& w) { return In(x, w); }

Tensor widened(Tensor x, const Where& w) { return is_half(x.dtype()) ? cast(at(x, w), f32) : x; }

/// Whether x is a tensor of floats; an error otherwise.
bool need_floats(const In& x, std::string_view op) {
  Graph& g = graph_of(std::array{x});
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return false;
  if (is_float(g.ir_graph().type(v).dtype)) return true;
  g.impl().fail("E0301", fmt::format("{} takes a float dtype", op), x.where,
                {g.impl().describe(v)});
  return false;
}

/// `row` is x without `axis`: the same values along it again.
Tensor along(Tensor row, Tensor x, int axis, const Where& w) {
  Graph& g = x.graph();
  if (g.poisoned(row)) return row;
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  return g.wrap(g.impl().broadcast(g.unwrap(at(row, w)), x.type().shape, axes, w));
}

/// A poison tensor of the operand's graph.
Tensor poison(const In& x) { return graph_of(std::array{x}).wrap({}); }

}  // namespace

Tensor mean(In x, ReduceOpts o) {
  if (!need_floats(x, "mean")) return poison(x);
  const Where w = x.where;
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  const Tensor total = sum(at(widened(t, w), w), o);
  if (g.poisoned(total)) return total;
  const Shape& s = t.type().shape;
  double count = 1;
  bool is_static = true;
  for (int i = 0; i < s.rank(); ++i) {
    bool reduced = o.axes.empty();
    for (int axis : o.axes) reduced = reduced || (axis < 0 ? axis + s.rank() : axis) == i;
    if (!reduced) continue;
    is_static = is_static && s[i].is_const();
    if (s[i].is_const()) count *= static_cast<double>(s[i].value());
  }
  if (!is_static) {
    g.impl().fail("E0303",
                  "mean over a symbolic axis: divide the sum by an input that holds the count", w,
                  {g.impl().describe(g.unwrap(at(t, w)))});
    return g.wrap({});
  }
  return cast(at(at(total, w) * at(1 / count, w), w), t.dtype());
}

Tensor softmax(In x, int axis) {
  if (!need_floats(x, "softmax")) return poison(x);
  const Where w = x.where;
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  const auto a = g.impl().axis_of(axis, t.rank(), "softmax", w);
  if (!a) return g.wrap({});
  const Tensor wide = widened(t, w);
  const Tensor largest = max(at(wide, w), {.axes = {*a}});
  const Tensor e = exp(at(at(wide, w) - at(along(largest, wide, *a, w), w), w));
  const Tensor total = sum(at(e, w), {.axes = {*a}});
  return cast(at(at(e, w) / at(along(total, wide, *a, w), w), w), t.dtype());
}

Tensor layer_norm(In x, In gamma, In beta, double eps) {
  if (!need_floats(x, "layer_norm")) return poison(x);
  const Where w = x.where;
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  if (t.rank() == 0) {
    g.impl().fail("E0302", "layer_norm: a scalar has no last axis", w);
    return g.wrap({});
  }
  const int last = t.rank() - 1;
  const auto scale = [&](const In& in) -> Tensor {
    graph_of(std::array{in, x});
    const ValueId v = g.unwrap(in);
    if (!v.valid()) return g.wrap({});
    const TensorType want{t.dtype(), {t.type().shape[last]}};
    const TensorType have = g.ir_graph().type(v);
    if (have.shape != want.shape || !is_float(have.dtype)) {
      g.impl().fail("E0301",
                    fmt::format("layer_norm: gamma and beta must be {}", g.impl().str(want)), w,
                    {g.impl().describe(g.unwrap(at(t, w))), g.impl().describe(v)});
      return g.wrap({});
    }
    return cast(at(g.wrap(v), w), is_half(t.dtype()) ? f32 : t.dtype());
  };
  const Tensor wide = widened(t, w), by = scale(gamma), plus = scale(beta);
  const Tensor centre = mean(at(wide, w), {.axes = {last}});
  const Tensor d = at(wide, w) - at(along(centre, wide, last, w), w);
  const Tensor variance = mean(at(at(d, w) * at(d, w), w), {.axes = {last}});
  const Tensor inverse = rsqrt(at(at(variance, w) + at(eps, w), w));
  const Tensor unit = at(d, w) * at(along(inverse, wide, last, w), w);
  return cast(at(at(at(unit, w) * at(by, w), w) + at(plus, w), w), t.dtype());
}

Tensor attention(In q, In k, In v, AttentionOpts o) {
  for (const In* x : {&q, &k, &v}) {
    if (!need_floats(*x, "attention")) return poison(q);
  }
  const Where w = q.where;
  Graph& g = graph_of(std::array{q, k, v});
  Graph::Impl& impl = g.impl();
  const Tensor tq = g.wrap(g.unwrap(q)), tk = g.wrap(g.unwrap(k)), tv = g.wrap(g.unwrap(v));
  const int rank = tq.rank();
  const auto refuse = [&](std::string why) {
    impl.fail("E0301", "attention: " + why, w,
              {impl.describe(g.unwrap(at(tq, w))), impl.describe(g.unwrap(at(tk, w))),
               impl.describe(g.unwrap(at(tv, w)))});
    return g.wrap({});
  };
  if (rank < 2 || rank >= kMaxRank || tk.rank() != rank || tv.rank() != rank) {
    return refuse(fmt::format("q, k and v need the same rank, 2 to {}", kMaxRank - 1));
  }
  const Shape sq = tq.type().shape, sk = tk.type().shape, sv = tv.type().shape;
  const Dim features = sq[rank - 1];
  if (sk[rank - 1] != features || sv[rank - 1] != features || sk[rank - 2] != sv[rank - 2]) {
    return refuse("k must have q's last axis, and v k's shape");
  }
  for (int i = 0; i + 2 < rank; ++i) {
    for (Dim d : {sk[i], sv[i]}) {
      if (d != sq[i] && d != Dim(1)) {
        return refuse("the leading axes of k and v must be q's, or 1");
      }
    }
  }
  if (o.heads < 1 || !features.is_const() || features.value() % o.heads != 0) {
    return refuse(fmt::format("{} heads do not divide the last axis, {}", o.heads,
                              impl.ir.dims.str(features)));
  }
  const int64_t size = features.value() / o.heads;
  // [.., T, D] -> [.., H, T, d]
  const auto split = [&](Tensor t) {
    const Shape s = t.type().shape;
    Shape shape(std::span(s.begin(), static_cast<size_t>(rank - 1)));
    shape.push_back(Dim(o.heads));
    shape.push_back(Dim(size));
    std::vector<int> perm;
    for (int i = 0; i + 2 < rank; ++i) perm.push_back(i);
    perm.insert(perm.end(), {rank - 1, rank - 2, rank});
    return transpose(at(g.wrap(impl.reshape(g.unwrap(at(t, w)), shape, w)), w), perm);
  };
  const DType wide = is_half(tq.dtype()) ? f32 : tq.dtype();
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
  const Tensor raw = matmul(at(split(tq), w), at(split(tk), w), {.tb = true, .out = wide});
  Tensor scores = at(raw, w) * at(scale, w);
  if (o.causal) {
    // The last query sees every key: query i sees keys up to i + S - T.
    const Shape s{sq[rank - 2], sk[rank - 2]};
    const auto index = [&](int axis) {
      return g.wrap(
          impl.emit(ir::OpKind::iota, ir::AxisAttr{axis}, {}, TensorType{i32, s}, w, "iota"));
    };
    if (s[0] != s[1] && !(s[0].is_const() && s[1].is_const())) {
      return refuse("a causal mask needs equal or constant lengths");
    }
    if (s[0] != s[1] && s[0].value() > s[1].value()) {
      return refuse("with a causal mask and more queries than keys the first ones see no key");
    }
    const double ahead = s[0] == s[1] ? 0 : static_cast<double>(s[1].value() - s[0].value());
    const Tensor row = ahead == 0 ? index(0) : at(index(0), w) + at(ahead, w);
    const Tensor seen = less_equal(at(index(1), w), at(row, w));
    scores = select(at(seen, w), at(scores, w), at(-std::numeric_limits<double>::infinity(), w));
  }
  const Tensor weights = cast(at(softmax(at(scores, w)), w), tv.dtype());
  const Tensor mixed = matmul(at(weights, w), at(split(tv), w));
  if (g.poisoned(mixed)) return mixed;
  std::vector<int> perm;
  for (int i = 0; i + 2 < rank; ++i) perm.push_back(i);
  perm.insert(perm.end(), {rank - 1, rank - 2, rank});
  const Tensor joined = transpose(at(mixed, w), perm);
  return g.wrap(impl.reshape(g.unwrap(at(joined, w)), sq, w));
}

Tensor linear(Graph& g, std::string_view name, In x, int64_t out, bool bias) {
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const TensorType t = g.ir_graph().type(v);
  const Where w = x.where;
  if (t.shape.rank() < 2) {
    g.impl().fail("E0301", "linear: the input needs two axes or more", w, {g.impl().describe(v)});
    return g.wrap({});
  }
  const Dim in = t.shape[t.shape.rank() - 1];
  if (!in.is_const()) {
    g.impl().fail("E0301", "linear: the input's last axis must be a constant", w,
                  {g.impl().describe(v)});
    return g.wrap({});
  }
  const Scope scope = g.scope(name);
  const double scale = 1 / std::sqrt(std::max(1.0, static_cast<double>(in.value())));
  const Tensor weight = g.param("w", {t.dtype, {in.value(), out}}, {.scale = scale}, w);
  if (g.poisoned(weight)) return weight;
  const Tensor product = matmul(at(g.wrap(v), w), at(weight, w));
  if (!bias) return product;
  const Tensor b = g.param("b", {t.dtype, {out}}, {.scale = 0.02}, w);
  return at(product, w) + at(b, w);
}

}  // namespace braid
