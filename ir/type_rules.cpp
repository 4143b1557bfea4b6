#include "ir/type_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/diagnostic.hpp"
#include "ir/tensor.hpp"

namespace braid::ir {
namespace {

std::string str(const TypeQuery& q, const TensorType& t) { return to_string(t, q.dims); }

std::string operands(const TypeQuery& q) {
  std::string s;
  for (const TensorType& t : q.operands) s += (s.empty() ? "" : ", ") + str(q, t);
  return s;
}

TypeAnswer refuse(std::string why) {
  TypeAnswer a;
  a.error = std::move(why);
  return a;
}

TypeAnswer accept(TensorType t, bool state = false) {
  TypeAnswer a;
  a.type = std::move(t);
  a.state = state;
  return a;
}

/// The rule's result, unless the caller declared another type.
TypeAnswer implied(const TypeQuery& q, TensorType t, std::string_view what, bool state = false) {
  if (q.declared && *q.declared != t) {
    return refuse(fmt::format("{}: the result of {} is {}, not {}", what, operands(q), str(q, t),
                              str(q, *q.declared)));
  }
  return accept(std::move(t), state);
}

bool is_index(DType t) { return t == DType::i32 || t == DType::i64; }

uint8_t class_of(DType t) { return is_float(t) ? kFloats : is_int(t) ? kInts : kBool; }

std::string class_names(uint8_t classes) {
  std::string s;
  const auto add = [&](uint8_t c, const char* name) {
    if (classes & c) s += (s.empty() ? "" : " or ") + std::string(name);
  };
  add(kFloats, "a float dtype");
  add(kInts, "an integer dtype");
  add(kBool, "b1");
  return s;
}

Dim product(DimTable& dims, const Shape& s) {
  Dim n(1);
  for (Dim d : s) n = dims.mul(n, d);
  return n;
}

}  // namespace

TypeAnswer type_input(const TypeQuery& q) {
  if (!q.declared) return refuse("input: a type is needed");
  const auto* scalar = std::get_if<ScalarAttr>(&q.attrs);
  if (scalar && q.declared->shape.rank() != 0) {
    return refuse(fmt::format("a runtime scalar has no axes, not {}", str(q, *q.declared)));
  }
  if (scalar && !std::isfinite(scalar->value)) {
    return refuse("a runtime scalar begins with a finite value");
  }
  if (scalar && !is_float(q.declared->dtype)) {
    HostTensor t({q.declared->dtype, {}});
    t.set(0, scalar->value);
    // As a double, the largest i64 is 2^63, which it is not.
    if (!(t.at(0) == scalar->value) || scalar->value >= 0x1p63) {
      return refuse(fmt::format("the runtime scalar's value {} does not fit {}", scalar->value,
                                name_of(q.declared->dtype)));
    }
  }
  return accept(*q.declared);
}

TypeAnswer type_param(const TypeQuery& q) {
  if (!q.declared) return refuse("param: a type is needed");
  if (std::holds_alternative<RingAttr>(q.attrs) && *q.declared != kRingType) {
    return refuse(fmt::format("param: the ring is {}", str(q, kRingType)));
  }
  if (std::holds_alternative<HandleAttr>(q.attrs) &&
      (q.declared->shape.rank() != 0 ||
       (q.declared->dtype != DType::b1 && q.declared->dtype != DType::i32))) {
    return refuse("param: a handle is b1[] or i32[]");
  }
  return accept(*q.declared, true);
}

TypeAnswer type_read(const TypeQuery& q) { return implied(q, q.operands[0], "read"); }

TypeAnswer type_assign(const TypeQuery& q) {
  if (q.operands[0] != q.operands[1]) {
    return refuse(fmt::format("assign: the param is {}, the value {}", str(q, q.operands[0]),
                              str(q, q.operands[1])));
  }
  return implied(q, q.operands[0], "assign", true);
}

TypeAnswer type_update(const TypeQuery& q) {
  const TensorType& state = q.operands[0];
  const TensorType& value = q.operands[1];
  const int rank = state.shape.rank();
  if (value.dtype != state.dtype || value.shape.rank() != rank) {
    return refuse(
        fmt::format("update: the value must be a box of the param's dtype and rank: {} into {}",
                    str(q, value), str(q, state)));
  }
  for (int i = 0; i < rank; ++i) {
    const Dim v = value.shape[i], s = state.shape[i];
    if (v.is_const() && s.is_const() && v.value() > s.value()) {
      return refuse(
          fmt::format("update: the value is larger than the param along axis {}: {} into {}", i,
                      str(q, value), str(q, state)));
    }
  }
  if (q.operands.size() != static_cast<size_t>(rank) + 2) {
    return refuse(fmt::format("update: a param of rank {} needs {} starts, not {}", rank, rank,
                              q.operands.size() - 2));
  }
  for (size_t i = 2; i < q.operands.size(); ++i) {
    if (!is_index(q.operands[i].dtype) || q.operands[i].shape.rank() != 0) {
      return refuse(
          fmt::format("update: a start is an i32 or i64 scalar, not {}", str(q, q.operands[i])));
    }
  }
  return implied(q, state, "update", true);
}

TypeAnswer type_constant(const TypeQuery& q) {
  if (!q.declared) return refuse("constant: a type is needed");
  return accept(*q.declared);
}

TypeAnswer type_iota(const TypeQuery& q) {
  if (!q.declared) return refuse("iota: a type is needed");
  const int axis = std::get<AxisAttr>(q.attrs).axis;
  if (axis < 0 || axis >= q.declared->shape.rank()) {
    return refuse(fmt::format("iota: {} has no axis {}", str(q, *q.declared), axis));
  }
  if (q.declared->dtype == DType::b1) return refuse("iota: b1 cannot count");
  return accept(*q.declared);
}

TypeAnswer type_map(const TypeQuery& q) {
  const ScalarInfo& f = info(std::get<MapAttr>(q.attrs).fn);
  if (q.operands.size() != static_cast<size_t>(f.arity)) {
    return refuse(fmt::format("{} takes {} operand{}, not {}", f.name, f.arity,
                              f.arity == 1 ? "" : "s", q.operands.size()));
  }
  for (const TensorType& t : q.operands) {
    if (t.shape != q.operands[0].shape) {
      return refuse(fmt::format("{}: shapes differ: {}", f.name, operands(q)));
    }
  }
  if (f.rule == TypeRule::cast) {
    if (!q.declared) return refuse("cast: the result's dtype is needed");
    if (q.declared->shape != q.operands[0].shape) {
      return refuse(
          fmt::format("cast keeps the shape: {} to {}", operands(q), str(q, *q.declared)));
    }
    return accept(*q.declared);
  }
  if (f.rule == TypeRule::random) {
    for (const TensorType& t : q.operands) {
      if (t.dtype != DType::i64) {
        return refuse(fmt::format("{} takes i64 alone: {}", f.name, operands(q)));
      }
    }
    return implied(q, {DType::f32, q.operands[0].shape}, f.name);
  }
  const bool select = f.rule == TypeRule::select;
  if (select && q.operands[0].dtype != DType::b1) {
    return refuse(fmt::format("{}: the condition must be b1: {}", f.name, operands(q)));
  }
  const size_t first = select ? 1 : 0;
  const DType dtype = q.operands[first].dtype;
  for (size_t i = first; i < q.operands.size(); ++i) {
    if (q.operands[i].dtype != dtype) {
      return refuse(fmt::format("{}: dtypes differ: {}", f.name, operands(q)));
    }
  }
  if (!(f.classes & class_of(dtype))) {
    return refuse(fmt::format("{} takes {}, not {}", f.name, class_names(f.classes), operands(q)));
  }
  return implied(q, {f.rule == TypeRule::compare ? DType::b1 : dtype, q.operands[0].shape}, f.name);
}

TypeAnswer type_reduce(const TypeQuery& q) {
  const ReduceAttr& a = std::get<ReduceAttr>(q.attrs);
  const ScalarInfo& f = info(a.fn);
  const TensorType& t = q.operands[0];
  if (!f.combiner) return refuse(fmt::format("{} cannot drive a reduction", f.name));
  if (!(f.classes & class_of(t.dtype))) {
    return refuse(
        fmt::format("reduce_{} takes {}, not {}", f.name, class_names(f.classes), str(q, t)));
  }
  if (a.axes >> t.shape.rank() != 0) {
    return refuse(
        fmt::format("reduce_{}: {} has no axis {}", f.name, str(q, t), 31 - __builtin_clz(a.axes)));
  }
  TensorType r{t.dtype, {}};
  for (int i = 0; i < t.shape.rank(); ++i) {
    if (!(a.axes >> i & 1)) r.shape.push_back(t.shape[i]);
  }
  return implied(q, r, fmt::format("reduce_{}", f.name));
}

TypeAnswer type_dot(const TypeQuery& q) {
  const DotAttr& a = std::get<DotAttr>(q.attrs);
  const TensorType& l = q.operands[0];
  const TensorType& r = q.operands[1];
  const int rank = l.shape.rank();
  const auto pair = [&] { return fmt::format("{} x {}", str(q, l), str(q, r)); };
  if (rank < 2 || r.shape.rank() != rank) {
    return refuse(fmt::format("dot: both operands need the same rank of 2 or more: {}", pair()));
  }
  if (l.dtype != r.dtype) return refuse(fmt::format("dot: dtypes differ: {}", pair()));
  if (l.dtype == DType::b1) return refuse(fmt::format("dot: b1 cannot be multiplied: {}", pair()));
  if (a.tf32 && l.dtype != DType::f32) {
    return refuse(fmt::format("dot: tf32 rounds f32 operands, and these are not f32: {}", pair()));
  }
  TensorType t{l.dtype, {}};
  for (int i = 0; i < rank - 2; ++i) {
    if (l.shape[i] != r.shape[i]) {
      return refuse(fmt::format("dot: batch axis {} differs: {}", i, pair()));
    }
    t.shape.push_back(l.shape[i]);
  }
  const Dim lk = l.shape[a.ta ? rank - 2 : rank - 1];
  const Dim rk = r.shape[a.tb ? rank - 1 : rank - 2];
  if (lk != rk) {
    const auto text = [&](Dim d) { return q.dims ? q.dims->str(d) : std::to_string(d.value()); };
    return refuse(
        fmt::format("dot: inner dimensions differ: {} ({} vs {})", pair(), text(lk), text(rk)));
  }
  t.shape.push_back(l.shape[a.ta ? rank - 1 : rank - 2]);
  t.shape.push_back(r.shape[a.tb ? rank - 2 : rank - 1]);
  if (q.declared) {
    const DType out = q.declared->dtype;
    const bool wider = is_float(l.dtype) ? (out == DType::f32 && l.dtype != DType::f64)
                                         : ((out == DType::i32 || out == DType::i64) &&
                                            size_of(out) > size_of(l.dtype));
    if (wider) t.dtype = out;
  }
  return implied(q, t, "dot");
}

namespace {

TypeAnswer type_reshape(const TypeQuery& q) {
  const TensorType& t = q.operands[0];
  if (q.declared->dtype != t.dtype) {
    return refuse(fmt::format("reshape keeps the dtype: {} to {}", str(q, t), str(q, *q.declared)));
  }
  const bool equal =
      t.shape.is_static() && q.declared->shape.is_static()
          ? t.shape.numel() == q.declared->shape.numel()
          : q.dims && product(*q.dims, t.shape) == product(*q.dims, q.declared->shape);
  if (!equal) {
    return refuse(fmt::format("reshape: {} and {} differ in their number of elements", str(q, t),
                              str(q, *q.declared)));
  }
  return accept(*q.declared);
}

TypeAnswer type_transpose(const TypeQuery& q, const ViewAttr& a) {
  const TensorType& t = q.operands[0];
  TensorType r{t.dtype, {}};
  uint32_t seen = 0;
  for (int i = 0; i < t.shape.rank(); ++i) {
    const int64_t from = a.a[static_cast<size_t>(i)];
    if (from < 0 || from >= t.shape.rank() || (seen >> from & 1)) {
      return refuse(
          fmt::format("transpose: the axes are no permutation of those of {}", str(q, t)));
    }
    seen |= 1u << from;
    r.shape.push_back(t.shape[static_cast<int>(from)]);
  }
  return implied(q, r, "transpose");
}

TypeAnswer type_broadcast(const TypeQuery& q, const ViewAttr& a) {
  const TensorType& t = q.operands[0];
  const TensorType& r = *q.declared;
  if (r.dtype != t.dtype) {
    return refuse(fmt::format("broadcast keeps the dtype: {} to {}", str(q, t), str(q, r)));
  }
  int64_t last = -1;
  for (int i = 0; i < t.shape.rank(); ++i) {
    const int64_t to = a.a[static_cast<size_t>(i)];
    if (to <= last || to >= r.shape.rank()) {
      return refuse(fmt::format("broadcast: the axes of {} must go to increasing axes of {}",
                                str(q, t), str(q, r)));
    }
    last = to;
    if (t.shape[i] != r.shape[static_cast<int>(to)] && t.shape[i] != Dim(1)) {
      return refuse(fmt::format("broadcast: axis {} of {} does not fit axis {} of {}", i, str(q, t),
                                to, str(q, r)));
    }
  }
  return accept(r);
}

TypeAnswer type_slice(const TypeQuery& q, const ViewAttr& a) {
  const TensorType& t = q.operands[0];
  const TensorType& r = *q.declared;
  if (r.dtype != t.dtype || r.shape.rank() != t.shape.rank()) {
    return refuse(fmt::format("slice keeps dtype and rank: {} to {}", str(q, t), str(q, r)));
  }
  for (int i = 0; i < t.shape.rank(); ++i) {
    const int64_t start = a.a[static_cast<size_t>(i)], step = a.b[static_cast<size_t>(i)];
    if (start < 0 || step < 1) {
      return refuse(fmt::format("slice: axis {} needs a start >= 0 and a step >= 1", i));
    }
    if (step > INT32_MAX) {
      return refuse(fmt::format("slice: the step {} along axis {} is above 2^31 - 1", step, i));
    }
    const Dim n = r.shape[i], whole = t.shape[i];
    if (n == whole && start == 0 && step == 1) continue;
    if (!n.is_const() || !whole.is_const()) continue;  // checked again when dims are bound
    // Also of an empty slice the start must lie inside, so that no address is out of range.
    int64_t last = 0;
    const bool inside = n.value() == 0 ? start <= whole.value()
                                       : !__builtin_mul_overflow(n.value() - 1, step, &last) &&
                                             !__builtin_add_overflow(last, start, &last) &&
                                             last < whole.value();
    if (!inside) {
      return refuse(fmt::format("slice: {} elements from {} by {} leave axis {} of {}", n.value(),
                                start, step, i, str(q, t)));
    }
  }
  return accept(r);
}

}  // namespace

TypeAnswer type_view(const TypeQuery& q) {
  const ViewAttr& a = std::get<ViewAttr>(q.attrs);
  if (a.kind == ViewKind::transpose) return type_transpose(q, a);
  if (!q.declared) return refuse(fmt::format("{}: the result's type is needed", name_of(a.kind)));
  if (a.kind == ViewKind::broadcast) return type_broadcast(q, a);
  if (a.kind == ViewKind::slice) return type_slice(q, a);
  return type_reshape(q);
}

TypeAnswer type_concat(const TypeQuery& q) {
  const int axis = std::get<AxisAttr>(q.attrs).axis;
  TensorType r = q.operands[0];
  if (axis < 0 || axis >= r.shape.rank()) {
    return refuse(fmt::format("concat: {} has no axis {}", str(q, r), axis));
  }
  for (size_t i = 1; i < q.operands.size(); ++i) {
    const TensorType& t = q.operands[i];
    if (t.dtype != r.dtype || t.shape.rank() != r.shape.rank()) {
      return refuse(fmt::format("concat: operands must have one {}: {}",
                                t.dtype != r.dtype ? "dtype" : "rank", operands(q)));
    }
    bool fits = true;
    for (int d = 0; fits && d < r.shape.rank(); ++d) fits = d == axis || t.shape[d] == r.shape[d];
    if (!fits) {
      return refuse(
          fmt::format("concat: operands may differ along axis {} only: {}", axis, operands(q)));
    }
    if (r.shape[axis].is_const() && t.shape[axis].is_const()) {
      int64_t sum;
      if (__builtin_add_overflow(r.shape[axis].value(), t.shape[axis].value(), &sum)) {
        return refuse("concat: the extent overflows");
      }
      r.shape[axis] = Dim(sum);
    } else {
      r.shape[axis] = q.dims->add(r.shape[axis], t.shape[axis]);
    }
  }
  return implied(q, r, "concat");
}

TypeAnswer type_gather(const TypeQuery& q) {
  const int axis = std::get<AxisAttr>(q.attrs).axis;
  const TensorType& t = q.operands[0];
  const TensorType& indices = q.operands[1];
  if (axis < 0 || axis >= t.shape.rank()) {
    return refuse(fmt::format("gather: {} has no axis {}", str(q, t), axis));
  }
  if (!is_index(indices.dtype)) {
    return refuse(fmt::format("gather: indices are i32 or i64, not {}", str(q, indices)));
  }
  if (t.shape.rank() - 1 + indices.shape.rank() > kMaxRank) {
    return refuse(fmt::format("gather: the result's rank exceeds {}: {}", kMaxRank, operands(q)));
  }
  TensorType r{t.dtype, {}};
  for (int i = 0; i < axis; ++i) r.shape.push_back(t.shape[i]);
  for (Dim d : indices.shape) r.shape.push_back(d);
  for (int i = axis + 1; i < t.shape.rank(); ++i) r.shape.push_back(t.shape[i]);
  const bool empty = std::find(r.shape.begin(), r.shape.end(), Dim(0)) != r.shape.end();
  if (t.shape[axis] == Dim(0) && !empty) {
    return refuse(
        fmt::format("gather: axis {} of {} is empty, so no index is in range", axis, str(q, t)));
  }
  return implied(q, r, "gather");
}

TypeAnswer type_scatter(const TypeQuery& q) {
  const ScatterAttr& a = std::get<ScatterAttr>(q.attrs);
  const std::string what = a.fn ? fmt::format("scatter_{}", info(*a.fn).name) : "scatter";
  const TensorType& t = q.operands[0];
  const TensorType& indices = q.operands[1];
  const TensorType& updates = q.operands[2];
  if (a.axis < 0 || a.axis >= t.shape.rank()) {
    return refuse(fmt::format("{}: {} has no axis {}", what, str(q, t), a.axis));
  }
  if (!is_index(indices.dtype)) {
    return refuse(fmt::format("{}: indices are i32 or i64, not {}", what, str(q, indices)));
  }
  if (a.fn && !info(*a.fn).combiner) return refuse(fmt::format("{} cannot combine rows", what));
  if (a.fn && !(info(*a.fn).classes & class_of(t.dtype))) {
    return refuse(
        fmt::format("{} takes {}, not {}", what, class_names(info(*a.fn).classes), str(q, t)));
  }
  if (t.shape.rank() - 1 + indices.shape.rank() > kMaxRank) {
    return refuse(
        fmt::format("{}: the rank of the updates exceeds {}: {}", what, kMaxRank, operands(q)));
  }
  TensorType rows{t.dtype, {}};
  for (int i = 0; i < a.axis; ++i) rows.shape.push_back(t.shape[i]);
  for (Dim d : indices.shape) rows.shape.push_back(d);
  for (int i = a.axis + 1; i < t.shape.rank(); ++i) rows.shape.push_back(t.shape[i]);
  if (updates != rows) {
    return refuse(fmt::format("{}: the updates must be {}: {}", what, str(q, rows), operands(q)));
  }
  return implied(q, t, what);
}

TypeAnswer type_host(const TypeQuery& q) {
  if (!q.declared) return refuse("host: the type of the result is needed");
  return accept(*q.declared);
}

TypeAnswer type_region(const TypeQuery&) {
  throw InternalError("the type of a branch or loop is that of its bodies");
}

TypeAnswer type_code(const TypeQuery&) {
  throw InternalError("the types of a kernel or library call are declared");
}

TypeAnswer type_compact(const TypeQuery& q) {
  const TensorType &mask = q.operands[0], &rows = q.operands[1];
  if (mask.dtype != DType::b1 || mask.shape.rank() != 1) {
    return refuse(fmt::format("compact: the mask must be b1[n], not {}", str(q, mask)));
  }
  if (rows.shape.rank() < 1 || rows.shape[0] != mask.shape[0]) {
    return refuse(fmt::format("compact: a mask {} cannot choose among the rows of {}", str(q, mask),
                              str(q, rows)));
  }
  return accept(rows);
}

TypeAnswer type_send(const TypeQuery& q) {
  if (q.operands[0] != kRingType) {
    return refuse(fmt::format("send: the first operand must be the ring, {}", str(q, kRingType)));
  }
  const TensorType counter{DType::i32, {}};
  if (std::get<SendAttr>(q.attrs).kind == MessageKind::check && q.operands[1] != counter) {
    return refuse(fmt::format("send: a check takes the number of elements that fail, i32[], not {}",
                              str(q, q.operands[1])));
  }
  for (size_t i = 2; i < q.operands.size(); ++i) {
    if (q.operands[i] != counter) {
      return refuse(
          fmt::format("send: operand {} must be the number of an iteration, i32[], not {}", i,
                      str(q, q.operands[i])));
    }
  }
  return implied(q, kRingType, "send", true);
}

}  // namespace braid::ir
