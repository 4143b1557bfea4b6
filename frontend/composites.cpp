// softmax, norms, losses and linear, by their definitions in terms of the other ops. f16 and bf16
// compute in f32.
#include "frontend/composites.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace braid {
namespace composites {

using ir::ValueId;

bool need_floats(const In& x, std::string_view op) {
  Graph& g = graph_of(std::array{x});
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return false;
  if (is_float(g.ir_graph().type(v).dtype)) return true;
  g.impl().fail("E0301", fmt::format("{} takes a float dtype", op), x.where, {g.impl().describe(v)},
                fmt::format("cast '{}' to f32", g.ir_graph().strings[g.ir_graph().def(v).name]));
  return false;
}

Tensor poison(const In& x) { return graph_of(std::array{x}).wrap({}); }

Tensor along(Tensor row, Tensor x, int axis, const At& at) {
  Graph& g = x.graph();
  if (g.poisoned(row)) return row;
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  return g.wrap(g.impl().broadcast(g.unwrap(at(row)), x.type().shape, axes, at.where));
}

}  // namespace composites

using namespace composites;

namespace {

/// x in f32 at least, less its largest element along an axis; exp cannot overflow on it.
struct Shifted {
  Tensor x;   // as given
  Tensor by;  // wide, all elements <= 0
  int axis = 0;
};

std::optional<Shifted> shifted(const In& in, int axis, std::string_view op) {
  if (!need_floats(in, op)) return std::nullopt;
  const At at{in.where};
  Graph& g = graph_of(std::array{in});
  const Tensor x = g.wrap(g.unwrap(in));
  const auto a = g.impl().axis_of(axis, x.rank(), op, in.where);
  if (!a) return std::nullopt;
  const Tensor wide = widened(x, at);
  const Tensor largest = max(at(wide), {.axes = {*a}});
  return Shifted{x, at(wide) - at(along(largest, wide, *a, at)), *a};
}

/// A vector operand of a norm over the last axis of x, in the dtype it computes in.
Tensor norm_vector(const In& in, Tensor x, std::string_view op, std::string_view what,
                   const At& at) {
  Graph& g = graph_of(std::array{in, at(x)});
  const ValueId v = g.unwrap(in);
  if (!v.valid()) return g.wrap({});
  const TensorType want{x.dtype(), {x.type().shape[x.rank() - 1]}};
  const TensorType have = g.ir_graph().type(v);
  if (have.shape != want.shape || !is_float(have.dtype)) {
    g.impl().fail("E0301", fmt::format("{}: {} must be {}", op, what, g.impl().str(want)), at.where,
                  {g.impl().describe(g.unwrap(at(x))), g.impl().describe(v)});
    return g.wrap({});
  }
  return cast(at(g.wrap(v)), is_half(x.dtype()) ? f32 : x.dtype());
}

/// The tensor of a norm over its last axis; nothing after an error.
std::optional<Tensor> norm_operand(const In& x, std::string_view op) {
  if (!need_floats(x, op)) return std::nullopt;
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  if (t.rank() != 0) return t;
  g.impl().fail("E0302", fmt::format("{}: a scalar has no last axis", op), x.where);
  return std::nullopt;
}

}  // namespace

Tensor softmax(In x, int axis) {
  const Calling calling(graph_of(std::array{x}).impl(), "softmax");
  const At at{x.where};
  const auto s = shifted(x, axis, "softmax");
  if (!s) return poison(x);
  const Tensor e = exp(at(s->by));
  const Tensor total = sum(at(e), {.axes = {s->axis}});
  return cast(at(at(e) / at(along(total, e, s->axis, at))), s->x.dtype());
}

Tensor log_softmax(In x, int axis) {
  const Calling calling(graph_of(std::array{x}).impl(), "log_softmax");
  const At at{x.where};
  const auto s = shifted(x, axis, "log_softmax");
  if (!s) return poison(x);
  const Tensor total = log(at(sum(at(exp(at(s->by))), {.axes = {s->axis}})));
  return cast(at(at(s->by) - at(along(total, s->by, s->axis, at))), s->x.dtype());
}

Tensor layer_norm(In x, In gamma, In beta, double eps) {
  const Calling calling(graph_of(std::array{x}).impl(), "layer_norm");
  const At at{x.where};
  const auto t = norm_operand(x, "layer_norm");
  if (!t) return poison(x);
  const int last = t->rank() - 1;
  constexpr std::string_view kVectors = "gamma and beta";
  const Tensor wide = widened(*t, at), by = norm_vector(gamma, *t, "layer_norm", kVectors, at),
               plus = norm_vector(beta, *t, "layer_norm", kVectors, at);
  const Tensor centre = mean(at(wide), {.axes = {last}});
  const Tensor d = at(wide) - at(along(centre, wide, last, at));
  const Tensor variance = mean(at(at(d) * at(d)), {.axes = {last}});
  const Tensor inverse = rsqrt(at(at(variance) + at(eps)));
  const Tensor unit = at(d) * at(along(inverse, wide, last, at));
  return cast(at(at(at(unit) * at(by)) + at(plus)), t->dtype());
}

Tensor rms_norm(In x, In gamma, double eps) {
  const Calling calling(graph_of(std::array{x}).impl(), "rms_norm");
  const At at{x.where};
  const auto t = norm_operand(x, "rms_norm");
  if (!t) return poison(x);
  const int last = t->rank() - 1;
  const Tensor wide = widened(*t, at), by = norm_vector(gamma, *t, "rms_norm", "gamma", at);
  const Tensor square = mean(at(at(wide) * at(wide)), {.axes = {last}});
  const Tensor inverse = rsqrt(at(at(square) + at(eps)));
  return cast(at(at(at(wide) * at(along(inverse, wide, last, at))) * at(by)), t->dtype());
}

Tensor l2_normalize(In x, int axis, double eps) {
  const Calling calling(graph_of(std::array{x}).impl(), "l2_normalize");
  const At at{x.where};
  if (!need_floats(x, "l2_normalize")) return poison(x);
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  const auto a = g.impl().axis_of(axis, t.rank(), "l2_normalize", x.where);
  if (!a) return g.wrap({});
  const Tensor wide = widened(t, at);
  const Tensor length = sqrt(at(sum(at(at(wide) * at(wide)), {.axes = {*a}})));
  const Tensor divisor = maximum(at(length), at(eps));
  return cast(at(at(wide) / at(along(divisor, wide, *a, at))), t.dtype());
}

Tensor cross_entropy(In logits, In labels) {
  const Calling calling(graph_of(std::array{logits}).impl(), "cross_entropy");
  const At at{logits.where};
  Graph& g = graph_of(std::array{logits, labels});
  Graph::Impl& impl = g.impl();
  const auto s = shifted(logits, -1, "cross_entropy");
  const ValueId label = g.unwrap(labels);
  if (!s || !label.valid()) return g.wrap({});
  const Shape& shape = s->x.type().shape;
  const TensorType have = impl.ir.type(label);
  if (!is_index(have.dtype) ||
      have.shape != Shape(std::span(shape.begin(), static_cast<size_t>(s->axis)))) {
    impl.fail("E0301",
              "cross_entropy: labels are i32 or i64 and have all axes of the logits but the last",
              at.where, {impl.describe(g.unwrap(at(s->x))), impl.describe(label)});
    return g.wrap({});
  }
  const Tensor spread = along(g.wrap(label), s->x, s->axis, at);
  const Tensor index = g.wrap(impl.emit(ir::OpKind::iota, ir::AxisAttr{s->axis}, {},
                                        TensorType{have.dtype, shape}, at.where, "iota"));
  const Tensor hit = equal(at(index), at(spread));
  const ReduceOpts last{.axes = {s->axis}};
  const Tensor chosen = sum(at(select(at(hit), at(s->by), at(0.0))), last);
  const Tensor loss = at(log(at(sum(at(exp(at(s->by))), last)))) - at(chosen);
  return select(at(any(at(hit), last)), at(loss), at(std::numeric_limits<double>::quiet_NaN()));
}

Tensor linear(Graph& g, std::string_view name, In x, int64_t out, bool bias) {
  const Calling calling(g.impl(), "linear");
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const TensorType t = g.ir_graph().type(v);
  const At at{x.where};
  if (t.shape.rank() < 2) {
    g.impl().fail("E0301", "linear: the input needs two axes or more", x.where,
                  {g.impl().describe(v)});
    return g.wrap({});
  }
  const Dim in = t.shape[t.shape.rank() - 1];
  if (!in.is_const()) {
    g.impl().fail("E0301", "linear: the input's last axis must be a constant", x.where,
                  {g.impl().describe(v)});
    return g.wrap({});
  }
  const Scope scope = g.scope(name);
  const double scale = 1 / std::sqrt(std::max(1.0, static_cast<double>(in.value())));
  const Tensor weight = g.param("w", {t.dtype, {in.value(), out}}, {.scale = scale}, x.where);
  if (g.poisoned(weight)) return weight;
  const Tensor product = matmul(at(g.wrap(v)), at(weight));
  if (!bias) return product;
  const Tensor b = g.param("b", {t.dtype, {out}}, {.scale = 0.02}, x.where);
  return at(product) + at(b);
}

}  // namespace braid
