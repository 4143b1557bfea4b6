// What knows how many elements of an axis count: valid, reductions and softmax with a count.
#include <fmt/format.h>

#include <limits>

#include "frontend/composites.hpp"
#include "frontend/selection.hpp"
#include "ir/tensor.hpp"

namespace braid {

using namespace composites;

namespace composites {

Tensor within(Tensor count, const Shape& shape, int axis, std::string_view op, const At& at) {
  Graph& g = count.graph();
  const ir::ValueId n = g.unwrap(at(count));
  if (!n.valid()) return g.wrap({});
  const TensorType have = g.ir_graph().type(n);
  if (!is_index(have.dtype) || have.shape.rank() != 0) {
    g.impl().fail("E0342", fmt::format("{}: the count is an i32 or i64 of shape []", op), at.where,
                  {g.impl().describe(n)},
                  "compact, nonzero, masked_select and unique give one as their second result");
    return g.wrap({});
  }
  const Tensor index = g.wrap(g.impl().emit(ir::OpKind::iota, ir::AxisAttr{axis}, {},
                                            TensorType{have.dtype, shape}, at.where, "iota"));
  return less(at(index), at(count));
}

Tensor counted_reduce(Fn combiner, const In& x, ReduceOpts o, std::string_view op) {
  Graph& g = graph_of(std::array{x, In(o.count, x.where)});
  const At at{x.where};
  const Tensor t = g.wrap(g.unwrap(x));
  if (o.axes.size() != 1) {
    g.impl().fail("E0342",
                  fmt::format("{}: a count is of one axis, and this reduces {}", op,
                              o.axes.empty() ? "all" : std::to_string(o.axes.size())),
                  x.where, {g.impl().describe(g.unwrap(x))}, "name the axis: axes = [-1]");
    return g.wrap({});
  }
  const auto axis = g.impl().axis_of(o.axes[0], t.rank(), op, x.where);
  if (!axis) return g.wrap({});
  const Tensor count = std::exchange(o.count, Tensor());
  const Tensor counts = within(count, t.type().shape, *axis, op, at);
  if (g.poisoned(counts)) return counts;
  HostTensor none(TensorType{t.dtype(), {}});
  const Identity identity = identity_of(combiner, t.dtype());
  if (is_float(t.dtype())) {
    none.set(0, identity.f);
  } else {
    none.set_int(0, identity.i);
  }
  const uint32_t literal = g.impl().ir.add_literal({none.type, true, std::move(none.bytes)});
  const Tensor neutral = g.wrap(g.impl().emit(ir::OpKind::constant, ir::ConstAttr{literal}, {},
                                              none.type, x.where, "constant"));
  const Tensor all = select(at(counts), at(t), at(neutral));
  const Tensor folded = reduce(combiner, at(all), std::move(o));
  if (combiner != Fn::max && combiner != Fn::min) return folded;
  return select(at(greater(at(count), at(0.0))), at(folded), at(0.0));
}

}  // namespace composites

Tensor valid(In count, std::vector<DimArg> shape, int axis) {
  const Calling calling(graph_of(std::array{count}).impl(), "valid");
  Graph& g = graph_of(std::array{count});
  const At at{count.where};
  const ir::ValueId n = g.unwrap(count);
  const auto s = g.impl().shape_of(shape, count.where);
  if (!n.valid() || !s) return g.wrap({});
  const auto a = g.impl().axis_of(axis, s->rank(), "valid", count.where);
  if (!a) return g.wrap({});
  return within(g.wrap(n), *s, *a, "valid", at);
}

Tensor softmax(In x, int axis, In count) {
  const Calling calling(graph_of(std::array{x}).impl(), "softmax");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const At at{x.where};
  if (!need_floats(x, "softmax")) return poison(x);
  Graph& g = graph_of(std::array{x, count});
  const Tensor t = g.wrap(g.unwrap(x));
  const ir::ValueId n = g.unwrap(count);
  const auto a = g.impl().axis_of(axis, t.rank(), "softmax", x.where);
  if (!a || !n.valid()) return g.wrap({});
  const Tensor wide = widened(t, at);
  const Tensor counts = within(g.wrap(n), t.type().shape, *a, "softmax", at);
  const Tensor scores = select(at(counts), at(wide), at(-kInf));
  const Tensor most = max(at(scores), {.axes = {*a}});
  const Tensor none = equal(at(most), at(-kInf));
  const Tensor top = select(at(none), at(0.0), at(most));
  const Tensor e = exp(at(at(scores) - at(along(top, wide, *a, at))));
  const Tensor total = select(at(none), at(1.0), at(sum(at(e), {.axes = {*a}})));
  return cast(at(at(e) / at(along(total, wide, *a, at))), t.dtype());
}

}  // namespace braid
