// The builder's ops: each checks its arguments, inserts broadcasts, and adds ops to the graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/composites.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

/// Operands of one op as values; numbers become constants of `like`'s dtype.
struct Operands {
  Graph& g;
  std::vector<ValueId> values;
  bool poison = false;
};

Where where_of(const std::vector<In>& ins) { return ins.empty() ? Where() : ins[0].where; }

/// The tensors among the operands decide the dtype of the numbers; `skip` operands do not count.
Operands take(const std::vector<In>& ins, size_t skip = 0) {
  Operands out{graph_of(ins), {}, false};
  std::optional<DType> dtype;
  for (size_t i = 0; i < ins.size(); ++i) {
    ValueId v;
    if (std::holds_alternative<Tensor>(ins[i].value)) {
      v = out.g.unwrap(ins[i]);
      if (!v.valid()) out.poison = true;
      if (v.valid() && !dtype && i >= skip) dtype = out.g.ir_graph().type(v).dtype;
    }
    out.values.push_back(v);
  }
  if (out.poison) return out;
  for (size_t i = 0; i < ins.size(); ++i) {
    const double* x = std::get_if<double>(&ins[i].value);
    if (!x) continue;
    const DType t = i < skip ? DType::b1 : dtype.value_or(DType::f32);
    out.values[i] = out.g.impl().number(*x, t, {}, ins[i].where);
    if (!out.values[i].valid()) out.poison = true;
  }
  return out;
}

/// The value of a tensor operand; nothing if it is poison.
std::optional<ValueId> tensor(const In& in) {
  const ValueId v = graph_of(std::array{in}).unwrap(in);
  if (!v.valid()) return std::nullopt;
  return v;
}

Graph& graph_of_one(const In& in) { return graph_of(std::array{in}); }

const Shape& shape(Graph& g, ValueId v) { return g.ir_graph().type(v).shape; }

}  // namespace

Tensor apply(Fn fn, std::vector<In> operands) {
  const ScalarInfo& f = info(fn);
  Operands in = take(operands, f.rule == TypeRule::select ? 1 : 0);
  Graph::Impl& g = in.g.impl();
  if (in.poison) return in.g.wrap({});
  const Where where = where_of(operands);
  const std::optional<Shape> s = g.broadcast_shape(in.values, f.name, where);
  if (!s) return in.g.wrap({});
  std::vector<ValueId> values;
  for (ValueId v : in.values) values.push_back(g.broadcast_last(v, *s, where));
  return in.g.wrap(
      g.emit(OpKind::map, ir::MapAttr{fn}, std::move(values), std::nullopt, where, f.name));
}

Tensor operator+(In a, In b) { return apply(Fn::add, {a, b}); }
Tensor operator-(In a, In b) { return apply(Fn::sub, {a, b}); }
Tensor operator*(In a, In b) { return apply(Fn::mul, {a, b}); }
Tensor operator/(In a, In b) { return apply(Fn::div, {a, b}); }
Tensor operator-(In a) { return apply(Fn::neg, {a}); }

Tensor cast(In x, DType to) {
  Graph& g = graph_of_one(x);
  const auto v = tensor(x);
  if (!v) return g.wrap({});
  const TensorType from = g.ir_graph().type(*v);
  if (from.dtype == to) return g.wrap(*v);
  return g.wrap(g.impl().emit(OpKind::map, ir::MapAttr{Fn::cast}, {*v}, TensorType{to, from.shape},
                              x.where, "cast"));
}

Tensor reduce(Fn combiner, In x, ReduceOpts o) {
  Graph& graph = graph_of_one(x);
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x);
  if (!v) return graph.wrap({});
  const std::string name = fmt::format("reduce_{}", info(combiner).name);
  if (o.count.valid()) return composites::counted_reduce(combiner, x, o, name);
  const TensorType t = g.ir.type(*v);
  if (t.dtype == DType::b1 && (info(combiner).classes & kBool) == 0) {
    g.fail("E0301", fmt::format("{} takes numbers, not b1: use any or all, or cast first", name),
           x.where, {g.describe(*v)});
    return graph.wrap({});
  }
  ir::ReduceAttr attr{combiner, 0};
  if (o.axes.empty()) attr.axes = (1u << t.shape.rank()) - 1;
  for (int axis : o.axes) {
    const auto a = g.axis_of(axis, t.shape.rank(), name, x.where);
    if (!a) return graph.wrap({});
    if (attr.axes >> *a & 1) {
      g.fail("E0302", fmt::format("{}: axis {} is named twice", name, axis), x.where);
      return graph.wrap({});
    }
    attr.axes |= 1u << *a;
  }
  const ValueId r = g.emit(OpKind::reduce, attr, {*v}, std::nullopt, x.where, name);
  if (!o.keep || !r.valid()) return graph.wrap(r);
  Shape kept;
  for (int i = 0; i < t.shape.rank(); ++i) kept.push_back(attr.axes >> i & 1 ? Dim(1) : t.shape[i]);
  return graph.wrap(g.reshape(r, kept, x.where));
}

Tensor sum(In x, ReduceOpts o) { return reduce(Fn::add, x, std::move(o)); }
Tensor max(In x, ReduceOpts o) { return reduce(Fn::max, x, std::move(o)); }
Tensor min(In x, ReduceOpts o) { return reduce(Fn::min, x, std::move(o)); }
Tensor prod(In x, ReduceOpts o) { return reduce(Fn::mul, x, std::move(o)); }
Tensor any(In x, ReduceOpts o) { return reduce(Fn::or_, x, std::move(o)); }
Tensor all(In x, ReduceOpts o) { return reduce(Fn::and_, x, std::move(o)); }

Tensor matmul(In a, In b, MatmulOpts o) {
  Operands in = take({a, b});
  Graph& graph = in.g;
  Graph::Impl& g = graph.impl();
  if (in.poison) return graph.wrap({});
  const Where where = a.where;
  ValueId l = in.values[0], r = in.values[1];
  const Shape ls = shape(graph, l), rs = shape(graph, r);
  if (ls.rank() < 2 || rs.rank() < 2) {
    g.fail("E0301", "matmul: both operands need two axes or more", where,
           {g.describe(l), g.describe(r)});
    return graph.wrap({});
  }
  const Dim lk = ls[ls.rank() - (o.ta ? 2 : 1)], rk = rs[rs.rank() - (o.tb ? 1 : 2)];
  if (lk != rk) {
    // What mends it: the other orientation of an operand, or another shape of a matrix of weights.
    std::vector<std::string> ways;
    const auto flip = [&](std::string_view attr, bool now) {
      const bool other = g.call == "linear" && attr == "ta";  // which linear lacks
      ways.push_back(fmt::format("{} {} = {}", other ? "use matmul with" : "set", attr,
                                 now ? "false" : "true"));
    };
    if (lk == rs[rs.rank() - (o.tb ? 2 : 1)]) {
      flip("tb", o.tb);
    } else if (rk == ls[ls.rank() - (o.ta ? 1 : 2)]) {
      flip("ta", o.ta);
    }
    if (rs.rank() == 2 && g.param_of(r)) {
      const Dim n = lk == rs[o.tb ? 0 : 1] ? rs[o.tb ? 1 : 0] : rs[o.tb ? 0 : 1];
      const Dim fitting[] = {o.tb ? n : lk, o.tb ? lk : n};
      const std::string_view name = g.ir.strings[g.ir.def(r).name];  // with its scopes
      ways.push_back(fmt::format("declare '{}' as {}", name.substr(name.rfind('/') + 1),
                                 g.declaration(fitting, where)));
    }
    std::string hint = fmt::format("{} vs {}", g.ir.dims.str(lk), g.ir.dims.str(rk));
    if (!ways.empty()) hint += fmt::format(": {}", fmt::join(ways, ", or "));
    g.fail("E0301", "matmul: inner dimensions differ", where, {g.describe(l), g.describe(r), hint});
    return graph.wrap({});
  }
  const auto dot = [&](ValueId x, ValueId y, const Shape& batch, Dim m, Dim n) {
    std::optional<TensorType> type;
    if (o.out) {
      type = TensorType{*o.out, batch};
      type->shape.push_back(m);
      type->shape.push_back(n);
    }
    return g.emit(OpKind::dot, ir::DotAttr{o.ta, o.tb}, {x, y}, type, where, "dot");
  };
  const Dim m = ls[ls.rank() - (o.ta ? 1 : 2)], n = rs[rs.rank() - (o.tb ? 2 : 1)];
  if (rs.rank() == 2 && ls.rank() > 2 && !o.ta) {
    // One large product instead of a batch of small ones with the same right side.
    Dim rows(1);
    Shape result;
    for (int i = 0; i + 1 < ls.rank(); ++i) {
      rows = g.ir.dims.mul(rows, ls[i]);
      result.push_back(ls[i]);
    }
    result.push_back(n);
    const ValueId flat = g.reshape(l, Shape{rows, lk}, where);
    return graph.wrap(g.reshape(dot(flat, r, {}, rows, n), result, where));
  }
  // Leading axes broadcast as in NumPy.
  Shape batch;
  const int rank = std::max(ls.rank(), rs.rank());
  for (int i = 0; i + 2 < rank; ++i) {
    const int li = i - (rank - ls.rank()), ri = i - (rank - rs.rank());
    const Dim ld = li < 0 ? Dim(1) : ls[li], rd = ri < 0 ? Dim(1) : rs[ri];
    if (ld != rd && ld != Dim(1) && rd != Dim(1)) {
      g.fail("E0301", "matmul: the leading axes do not broadcast", where,
             {g.describe(l), g.describe(r),
              fmt::format("{} vs {}", g.ir.dims.str(ld), g.ir.dims.str(rd))});
      return graph.wrap({});
    }
    batch.push_back(ld == Dim(1) ? rd : ld);
  }
  const auto spread = [&](ValueId v, const Shape& s) {
    Shape full = batch;
    full.push_back(s[s.rank() - 2]);
    full.push_back(s[s.rank() - 1]);
    return g.broadcast_last(v, full, where);
  };
  l = spread(l, ls);
  r = spread(r, rs);
  return graph.wrap(dot(l, r, batch, m, n));
}

Tensor reshape(In x, std::vector<DimArg> dims) {
  Graph& graph = graph_of_one(x);
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x);
  if (!v) return graph.wrap({});
  const auto is_open = [](const DimArg& d) { return d.text.empty() && d.value == -1; };
  const auto open = std::count_if(dims.begin(), dims.end(), is_open);
  if (open > 1) {
    g.fail("E0303", "reshape: only one extent may be -1", x.where);
    return graph.wrap({});
  }
  if (open == 0) {
    const std::optional<Shape> s = g.shape_of(dims, x.where);
    return graph.wrap(s ? g.reshape(*v, *s, x.where) : ValueId{});
  }
  const auto at = std::find_if(dims.begin(), dims.end(), is_open) - dims.begin();
  dims[static_cast<size_t>(at)] = DimArg(1);
  std::optional<Shape> s = g.shape_of(dims, x.where);
  if (!s) return graph.wrap({});
  Dim total(1), known(1);
  for (Dim d : shape(graph, *v)) total = g.ir.dims.mul(total, d);
  for (Dim d : *s) known = g.ir.dims.mul(known, d);
  const std::optional<Dim> rest = known == Dim(0) ? std::nullopt : g.ir.dims.div(total, known);
  if (!rest) {
    g.fail("E0301",
           fmt::format("reshape: {} elements are not a multiple of {}, so -1 has no value",
                       g.ir.dims.str(total), g.ir.dims.str(known)),
           x.where, {g.describe(*v)});
    return graph.wrap({});
  }
  (*s)[static_cast<int>(at)] = *rest;
  return graph.wrap(g.reshape(*v, *s, x.where));
}

Tensor transpose(In x, std::vector<int> perm) {
  Graph& graph = graph_of_one(x);
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x);
  if (!v) return graph.wrap({});
  const int rank = shape(graph, *v).rank();
  ir::ViewAttr attr{ir::ViewKind::transpose, {}, {}};
  std::vector<int> seen;
  for (int p : perm) {
    const auto axis = g.axis_of(p, rank, "transpose", x.where);
    if (!axis) return graph.wrap({});
    if (seen.size() < static_cast<size_t>(kMaxRank)) attr.a[seen.size()] = *axis;
    seen.push_back(*axis);
  }
  std::sort(seen.begin(), seen.end());
  if (static_cast<int>(seen.size()) != rank ||
      std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    g.fail("E0302", fmt::format("transpose: perm must name each of the {} axes once", rank),
           x.where, {g.describe(*v)});
    return graph.wrap({});
  }
  return graph.wrap(g.view(attr, *v, std::nullopt, x.where));
}

Tensor broadcast_to(In x, std::vector<DimArg> dims) {
  Graph& graph = graph_of_one(x);
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x);
  if (!v) return graph.wrap({});
  const std::optional<Shape> s = g.shape_of(dims, x.where);
  if (!s) return graph.wrap({});
  if (s->rank() < shape(graph, *v).rank()) {
    g.fail("E0301", "broadcast: the result needs at least as many axes", x.where, {g.describe(*v)});
    return graph.wrap({});
  }
  return graph.wrap(g.broadcast_last(*v, *s, x.where));
}

Tensor slice(In x, SliceOpts o) {
  Graph& graph = graph_of_one(x);
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x);
  if (!v) return graph.wrap({});
  const TensorType t = g.ir.type(*v);
  const auto axis = g.axis_of(o.axis, t.shape.rank(), "slice", x.where);
  if (!axis) return graph.wrap({});
  const Dim extent = t.shape[*axis];
  if (o.step < 1) {
    g.fail("E0303", fmt::format("slice: the step must be 1 or more, not {}", o.step), x.where);
    return graph.wrap({});
  }
  Dim size;
  if (extent.is_const()) {
    // As in Python: bounds are clamped.
    const int64_t n = extent.value();
    const auto bound = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
    o.start = bound(o.start);
    const int64_t stop = std::max(bound(o.stop.value_or(n)), o.start);
    size = Dim(stop == o.start ? 0 : (stop - o.start - 1) / o.step + 1);
  } else if (o.start >= 0 && o.step == 1 && (!o.stop || *o.stop >= o.start)) {
    size = o.stop ? Dim(*o.stop - o.start) : g.ir.dims.sub(extent, Dim(o.start));
  } else {
    g.fail(
        "E0303",
        fmt::format("slice: axis {} is symbolic ({}), so start and stop count from its begin and "
                    "the step is 1",
                    *axis, g.ir.dims.str(extent)),
        x.where, {g.describe(*v)});
    return graph.wrap({});
  }
  ir::ViewAttr attr{ir::ViewKind::slice, {}, {}};
  attr.b.fill(1);
  attr.a[static_cast<size_t>(*axis)] = o.start;
  attr.b[static_cast<size_t>(*axis)] = o.step;
  TensorType r = t;
  r.shape[*axis] = size;
  for (int i = t.shape.rank(); i < kMaxRank; ++i) attr.b[static_cast<size_t>(i)] = 0;
  return graph.wrap(g.view(attr, *v, r, x.where));
}

Tensor concat(std::vector<In> xs, int axis) {
  Operands in = take(xs);
  Graph::Impl& g = in.g.impl();
  if (in.poison) return in.g.wrap({});
  const Where where = where_of(xs);
  const auto a = g.axis_of(axis, shape(in.g, in.values[0]).rank(), "concat", where);
  if (!a) return in.g.wrap({});
  return in.g.wrap(
      g.emit(OpKind::concat, ir::AxisAttr{*a}, in.values, std::nullopt, where, "concat"));
}

Tensor gather(In x, In indices, int axis) {
  Graph& graph = graph_of(std::array{x, indices});
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x), i = tensor(indices);
  if (!v || !i) return graph.wrap({});
  const auto a = g.axis_of(axis, shape(graph, *v).rank(), "gather", x.where);
  if (!a) return graph.wrap({});
  return graph.wrap(
      g.emit(OpKind::gather, ir::AxisAttr{*a}, {*v, *i}, std::nullopt, x.where, "gather"));
}

Tensor scatter(In x, In indices, In updates, ScatterOpts o) {
  Graph& graph = graph_of(std::array{x, indices, updates});
  Graph::Impl& g = graph.impl();
  const auto v = tensor(x), i = tensor(indices), u = tensor(updates);
  if (!v || !i || !u) return graph.wrap({});
  const auto a = g.axis_of(o.axis, shape(graph, *v).rank(), "scatter", x.where);
  if (!a) return graph.wrap({});
  return graph.wrap(
      g.emit(OpKind::scatter, ir::ScatterAttr{*a, o.combine}, {*v, *i, *u}, std::nullopt, x.where,
             o.combine ? fmt::format("scatter_{}", info(*o.combine).name) : "scatter"));
}

}  // namespace braid
