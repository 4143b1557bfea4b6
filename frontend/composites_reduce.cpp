// Reductions that are no fold with a combiner: mean, argmax and argmin.
#include <fmt/format.h>

#include "frontend/composites.hpp"

namespace braid {

using namespace composites;

Tensor mean(In x, ReduceOpts o) {
  const Calling calling(graph_of(std::array{x}).impl(), "mean");
  if (!need_floats(x, "mean")) return poison(x);
  const At at{x.where};
  Graph& g = graph_of(std::array{x});
  const Tensor t = g.wrap(g.unwrap(x));
  const Tensor total = sum(at(widened(t, at)), o);
  if (g.poisoned(total)) return total;
  if (o.count.valid()) {
    const int axis = o.axes[0] < 0 ? o.axes[0] + t.rank() : o.axes[0];
    const Dim extent = t.type().shape[axis];
    Tensor count = maximum(at(o.count), at(1.0));
    if (extent.is_const() && extent.value() > 0) {
      count = minimum(at(count), at(static_cast<double>(extent.value())));
    }
    return cast(at(at(total) / at(cast(at(count), total.dtype()))), t.dtype());
  }
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
                  "mean over a symbolic axis: divide the sum by an input that holds the count",
                  x.where, {g.impl().describe(g.unwrap(at(t)))});
    return g.wrap({});
  }
  return cast(at(at(total) * at(1 / count)), t.dtype());
}

namespace {

/// The least index among the elements that equal the extreme one or are NaN. The extreme of a row
/// with a NaN is NaN, which equals nothing, so that only NaNs remain.
Tensor arg_reduce(Fn extreme, std::string_view op, const In& x, const ArgOpts& o) {
  const Calling calling(graph_of(std::array{x}).impl(), op);
  const At at{x.where};
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const ir::ValueId v = g.unwrap(x);
  if (!v.valid()) return g.wrap({});
  const auto refuse = [&](const char* code, std::string why) {
    impl.fail(code, fmt::format("{}: {}", op, why), x.where, {impl.describe(v)});
    return g.wrap({});
  };
  const Shape whole = impl.ir.type(v).shape;
  Shape kept = whole;
  Tensor t = g.wrap(v);
  int axis = 0;
  if (!is_index(o.dtype)) {
    return refuse("E0303",
                  fmt::format("the dtype of indices is i32 or i64, not {}", name_of(o.dtype)));
  }
  if (o.axes.size() > 1) return refuse("E0302", "axes names one axis, or none for all of them");
  if (o.axes.empty()) {
    Dim all(1);
    for (Dim d : whole) all = impl.ir.dims.mul(all, d);
    t = g.wrap(impl.reshape(v, Shape{all}, x.where));
    for (int i = 0; i < kept.rank(); ++i) kept[i] = Dim(1);
  } else {
    const auto a = impl.axis_of(o.axes[0], whole.rank(), op, x.where);
    if (!a) return g.wrap({});
    axis = *a;
    kept[axis] = Dim(1);
  }
  const Dim extent = t.type().shape[axis];
  if (extent == Dim(0)) return refuse("E0303", "an empty axis has no such element");
  if (o.dtype == i32 && extent.is_const() && extent.value() > INT32_MAX) {
    return refuse(
        "E0303", fmt::format("i32 cannot index {} elements: set the dtype to i64", extent.value()));
  }
  if (t.dtype() == b1) t = cast(at(t), i32);
  const Tensor most = reduce(extreme, at(t), {.axes = {axis}});
  Tensor hit = equal(at(t), at(along(most, t, axis, at)));
  if (is_float(t.dtype())) {
    const Tensor is_nan = not_equal(at(t), at(t));
    hit = logical_or(at(hit), at(is_nan));
  }
  const Tensor index = g.wrap(impl.emit(ir::OpKind::iota, ir::AxisAttr{axis}, {},
                                        TensorType{o.dtype, t.type().shape}, x.where, "iota"));
  // No index is as large: a tensor has at most 2^62 elements.
  const double none = o.dtype == i32 ? INT32_MAX : 0x1p62;
  const Tensor first = min(at(select(at(hit), at(index), at(none))), {.axes = {axis}});
  return o.keep ? g.wrap(impl.reshape(g.unwrap(at(first)), kept, x.where)) : first;
}

}  // namespace

Tensor argmax(In x, ArgOpts o) { return arg_reduce(Fn::max, "argmax", x, o); }
Tensor argmin(In x, ArgOpts o) { return arg_reduce(Fn::min, "argmin", x, o); }

}  // namespace braid
