// Ops whose size the device decides: what they choose stands in front, zeros behind, and a count
// says how much it is.
#include <fmt/format.h>

#include "frontend/composites.hpp"
#include "frontend/selection.hpp"

namespace braid {

using namespace composites;

namespace {

using ir::ValueId;

/// [N]: all elements in row-major order.
Shape flat(Graph::Impl& impl, const Shape& shape) {
  Dim all(1);
  for (Dim d : shape) all = impl.ir.dims.mul(all, d);
  return Shape{all};
}

Tensor reshaped(Tensor t, const Shape& shape, const At& at) {
  Graph& g = t.graph();
  return g.wrap(g.impl().reshape(g.unwrap(at(t)), shape, at.where));
}

Tensor counting(Graph& g, const Shape& shape, int axis, const At& at) {
  return g.wrap(g.impl().emit(ir::OpKind::iota, ir::AxisAttr{axis}, {}, TensorType{i32, shape},
                              at.where, "iota"));
}

Selected chosen_rows(Tensor mask, Tensor rows, std::string_view name, const At& at) {
  Graph& g = rows.graph();
  const ValueId made =
      g.impl().emit(ir::OpKind::compact, {}, {g.unwrap(at(mask)), g.unwrap(at(rows))}, std::nullopt,
                    at.where, name);
  if (!made.valid()) return {g.wrap({}), g.wrap({})};
  return {g.wrap(made), g.wrap(ValueId{made.index + 1})};
}

/// The elements of x that are not 0 as a mask [N]; nothing after an error.
struct Mask {
  Tensor flat;
  Shape shape;  // of x
};
std::optional<Mask> nonzero_mask(const In& x, std::string_view op, int least_rank) {
  Graph& g = graph_of(std::array{x});
  const At at{x.where};
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return std::nullopt;
  const Shape shape = g.ir_graph().type(v).shape;
  const auto refuse = [&](std::string why, std::string fix) {
    g.impl().fail("E0340", fmt::format("{}: {}", op, why), x.where, {g.impl().describe(v)},
                  std::move(fix));
    return std::nullopt;
  };
  if (shape.rank() < least_rank) {
    return refuse("a scalar has no axes that indices could name", "reshape it to [1]");
  }
  const Shape all = flat(g.impl(), shape);
  if (all[0].is_const() && all[0].value() > INT32_MAX) {
    return refuse(fmt::format("indices are i32, which cannot name {} elements", all[0].value()),
                  "take parts of it");
  }
  const Tensor t = g.wrap(v);
  const Tensor mask = t.dtype() == b1 ? t : not_equal(at(t), at(0.0));
  return Mask{reshaped(mask, all, at), shape};
}

}  // namespace

Selected compact(In mask, In x) {
  const Calling calling(graph_of(std::array{x}).impl(), "compact");
  Graph& g = graph_of(std::array{mask, x});
  const At at{x.where};
  const ValueId m = g.unwrap(mask), v = g.unwrap(x);
  if (!m.valid() || !v.valid()) return {g.wrap({}), g.wrap({})};
  const TensorType have = g.ir_graph().type(m);
  if (have.dtype != b1) {
    g.impl().fail("E0340", "compact: the mask is b1", x.where,
                  {g.impl().describe(m), g.impl().describe(v)},
                  "compare first, as in mask > 0; the mask is the first operand");
    return {g.wrap({}), g.wrap({})};
  }
  return chosen_rows(g.wrap(m), g.wrap(v), "compact", at);
}

Selected nonzero(In x) {
  const Calling calling(graph_of(std::array{x}).impl(), "nonzero");
  Graph& g = graph_of(std::array{x});
  const At at{x.where};
  const auto mask = nonzero_mask(x, "nonzero", 1);
  if (!mask) return {g.wrap({}), g.wrap({})};
  const int rank = mask->shape.rank();
  const Shape column{flat(g.impl(), mask->shape)[0], Dim(1)};
  std::vector<In> columns;
  for (int axis = 0; axis < rank; ++axis) {
    columns.push_back(at(reshaped(counting(g, mask->shape, axis, at), column, at)));
  }
  const Tensor rows = rank == 1 ? std::get<Tensor>(columns[0].value) : concat(columns, 1);
  return chosen_rows(mask->flat, rows, "nonzero", at);
}

Selected flatnonzero(In x) {
  const Calling calling(graph_of(std::array{x}).impl(), "flatnonzero");
  Graph& g = graph_of(std::array{x});
  const At at{x.where};
  const auto mask = nonzero_mask(x, "flatnonzero", 0);
  if (!mask) return {g.wrap({}), g.wrap({})};
  const Shape all = mask->flat.type().shape;
  return chosen_rows(mask->flat, counting(g, all, 0, at), "flatnonzero", at);
}

Selected masked_select(In x, In mask) {
  const Calling calling(graph_of(std::array{x}).impl(), "masked_select");
  Graph& g = graph_of(std::array{x, mask});
  Graph::Impl& impl = g.impl();
  const At at{x.where};
  const Selected none{g.wrap({}), g.wrap({})};
  const ValueId v = g.unwrap(x), m = g.unwrap(mask);
  if (!v.valid() || !m.valid()) return none;
  if (impl.ir.type(m).dtype != b1) {
    impl.fail("E0340", "masked_select: the mask is b1", x.where,
              {impl.describe(v), impl.describe(m)},
              "compare first, as in mask > 0; the mask is the second operand");
    return none;
  }
  const auto shape = impl.broadcast_shape(std::array{v, m}, "masked_select", x.where);
  if (!shape) return none;
  const Shape all = flat(impl, *shape);
  const auto spread = [&](ValueId t) {
    return reshaped(g.wrap(impl.broadcast_last(t, *shape, x.where)), all, at);
  };
  return chosen_rows(spread(m), spread(v), "masked_select", at);
}

Unique unique(In x) {
  const Calling calling(graph_of(std::array{x}).impl(), "unique");
  Graph& g = graph_of(std::array{x});
  Graph::Impl& impl = g.impl();
  const At at{x.where};
  const Unique none{g.wrap({}), g.wrap({}), g.wrap({})};
  const ValueId v = g.unwrap(x);
  if (!v.valid()) return none;
  const Shape all = flat(impl, impl.ir.type(v).shape);
  if (all[0].is_const() && all[0].value() > kMaxUnique) {
    impl.fail("E0341",
              fmt::format("unique: {} elements are too many: each is compared with each, and {} "
                          "is the most",
                          all[0].value(), kMaxUnique),
              x.where, {impl.describe(v)}, "take parts of it");
    return none;
  }
  const Tensor t = reshaped(g.wrap(v), all, at);
  const Tensor key = t.dtype() == b1 ? cast(at(t), i32) : t;
  const Shape square{all[0], all[0]};
  const auto along_axis = [&](Tensor row, int axis) {
    return g.wrap(impl.broadcast(g.unwrap(at(row)), square, std::array<int64_t, 1>{axis}, x.where));
  };
  // Element i looks at all elements j.
  const Tensor mine = along_axis(key, 0), other = along_axis(key, 1);
  const Tensor i = counting(g, square, 0, at), j = counting(g, square, 1, at);
  const Tensor earlier = less(at(j), at(i));
  const ReduceOpts others{.axes = {1}};
  const Tensor seen = any(at(logical_and(at(equal(at(other), at(mine))), at(earlier))), others);
  const Tensor first = logical_not(at(seen));
  Tensor before = less(at(other), at(mine));
  if (is_float(key.dtype())) {  // NaNs come last, each a value of its own
    const Tensor nan = not_equal(at(mine), at(mine)), number = equal(at(other), at(other));
    // Not `earlier` once more: one op for both reductions would go to memory, a square of n.
    const Tensor above = greater(at(i), at(j));
    const Tensor less_than_nan = logical_or(at(number), at(above));
    before = logical_or(at(before), at(logical_and(at(nan), at(less_than_nan))));
  }
  const Tensor counts = logical_and(at(before), at(along_axis(first, 1)));
  const Tensor rank = sum(at(cast(at(counts), i32)), others);
  const Tensor place = select(at(first), at(rank), at(-1.0));
  const Tensor zeros = g.full({t.dtype(), {}}, 0, at.where);
  const Tensor empty = g.wrap(impl.broadcast(g.unwrap(at(zeros)), all, {}, x.where));
  return {scatter(at(empty), at(place), at(t)), sum(at(cast(at(first), i32)), {.axes = {0}}), rank};
}

}  // namespace braid
