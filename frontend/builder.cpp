#include "frontend/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/builder_impl.hpp"
#include "ir/text.hpp"

namespace braid {

bool number_fits(double x, DType t) {
  switch (t) {
    case DType::b1:
      return x == 0 || x == 1;
    case DType::i32:
      return x == std::trunc(x) && x >= -0x1p31 && x < 0x1p31;
    case DType::i64:
      return x == std::trunc(x) && x >= -0x1p63 && x < 0x1p63;
    case DType::i8:
      return x == std::trunc(x) && x >= -128 && x < 128;
    case DType::u8:
      return x == std::trunc(x) && x >= 0 && x < 256;
    default:
      return true;
  }
}

std::string Graph::Impl::scoped(std::string_view name) const {
  return scope.empty() ? std::string(name) : fmt::format("{}/{}", scope, name);
}

ir::Loc loc_in(ir::Graph& graph, const Place& p) {
  if (!p.known()) return {};
  return {graph.strings.intern(p.file), p.line, p.column, p.end_line > p.line ? 0 : p.end_column};
}

ir::Loc Graph::Impl::loc(const Where& where) { return loc_in(ir, where.place); }

ir::ValueId Graph::Impl::emit(ir::OpKind kind, ir::Attrs attrs, std::vector<ir::ValueId> operands,
                              std::optional<TensorType> type, const Where& where,
                              std::string_view name) {
  for (ir::ValueId v : operands) {
    if (!v.valid()) return {};
  }
  std::vector<std::string> details;
  const ir::Graph::Added added = ir.try_add({kind,
                                             std::move(attrs),
                                             operands,
                                             std::move(type),
                                             ir.strings.intern(scoped(name)),
                                             loc(where),
                                             {},
                                             outside && ir::can_stand_outside(kind)});
  if (!added.error.empty()) {
    // As they were given: before this op broadcast them.
    for (ir::ValueId& v : operands) v = before_broadcast(v, loc(where));
    for (ir::ValueId v : operands) details.push_back(describe(v));
    if (type && added.error.find("number of elements") != std::string::npos) {
      details.push_back(fmt::format("{} against {} elements; -1 takes what is left",
                                    count(ir.type(operands[0]).shape), count(type->shape)));
    }
    fail("E0301", added.error, where, std::move(details), dtype_advice(operands, added.error));
    return {};
  }
  if (!call.empty()) written_as[added.value.index] = call;
  return added.value;
}

ir::ValueId Graph::Impl::view(ir::ViewAttr attr, ir::ValueId x, std::optional<TensorType> type,
                              const Where& where) {
  return emit(ir::OpKind::view, attr, {x}, std::move(type), where, ir::name_of(attr.kind));
}

ir::ValueId Graph::Impl::reshape(ir::ValueId x, Shape shape, const Where& where) {
  if (!x.valid()) return {};
  const TensorType& t = ir.type(x);
  if (t.shape == shape) return x;
  return view({ir::ViewKind::reshape, {}, {}}, x, TensorType{t.dtype, shape}, where);
}

ir::ValueId Graph::Impl::broadcast(ir::ValueId x, Shape shape, std::span<const int64_t> axes,
                                   const Where& where) {
  if (!x.valid()) return {};
  ir::ViewAttr attr{ir::ViewKind::broadcast, {}, {}};
  std::copy(axes.begin(), axes.end(), attr.a.begin());
  return view(attr, x, TensorType{ir.type(x).dtype, shape}, where);
}

ir::ValueId Graph::Impl::broadcast_last(ir::ValueId x, Shape shape, const Where& where) {
  if (!x.valid() || ir.type(x).shape == shape) return x;
  const int rank = ir.type(x).shape.rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(shape.rank() - rank + i);
  return broadcast(x, shape, axes, where);
}

std::optional<Shape> Graph::Impl::broadcast_shape(std::span<const ir::ValueId> operands,
                                                  std::string_view op, const Where& where) {
  int rank = 0;
  for (ir::ValueId v : operands) rank = std::max(rank, ir.type(v).shape.rank());
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    Dim extent(1);
    for (ir::ValueId v : operands) {
      const Shape& s = ir.type(v).shape;
      const int axis = i - (rank - s.rank());
      if (axis < 0 || s[axis] == Dim(1) || s[axis] == extent) continue;
      if (extent == Dim(1)) {
        extent = s[axis];
        continue;
      }
      std::vector<std::string> details;
      for (ir::ValueId o : operands) details.push_back(describe(o));
      details.push_back(fmt::format("axis {} from the end: {} against {}", rank - i,
                                    ir.dims.str(extent), ir.dims.str(s[axis])));
      fail("E0301", fmt::format("{}: the shapes do not broadcast", op), where, std::move(details),
           broadcast_advice(operands, where));
      return std::nullopt;
    }
    shape.push_back(extent);
  }
  return shape;
}

std::optional<Shape> Graph::Impl::shape_of(const std::vector<DimArg>& args, const Where& where) {
  if (args.size() > static_cast<size_t>(kMaxRank)) {
    fail("E0301", fmt::format("a shape has at most {} axes, not {}", kMaxRank, args.size()), where);
    return std::nullopt;
  }
  Shape shape;
  for (const DimArg& a : args) {
    if (a.text.empty() && a.value < 0) {
      fail("E0301", fmt::format("an extent cannot be {}", a.value), where);
      return std::nullopt;
    }
    const std::optional<Dim> d = a.text.empty() ? Dim(a.value) : ir.dims.parse(a.text);
    if (!d) {
      fail("E0401",
           fmt::format("'{}' is no extent: integers, names, + - * and parentheses", a.text), where);
      return std::nullopt;
    }
    shape.push_back(*d);
  }
  return shape;
}

std::optional<TensorType> Graph::Impl::type_of(const TypeArg& t, const Where& where) {
  const std::optional<Shape> shape = shape_of(t.shape, where);
  if (!shape) return std::nullopt;
  return TensorType{t.dtype, *shape};
}

std::optional<int> Graph::Impl::axis_of(int axis, int rank, std::string_view op,
                                        const Where& where) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  fail("E0302",
       rank == 0 ? fmt::format("{}: a scalar has no axis {}", op, axis)
                 : fmt::format("{}: axis {} is not in {} .. {}", op, axis, -rank, rank - 1),
       where);
  return std::nullopt;
}

ir::ValueId Graph::Impl::number(double x, DType dtype, Shape shape, const Where& where) {
  if (!number_fits(x, dtype)) {
    fail("E0301", fmt::format("the number {} cannot be {}", x, name_of(dtype)), where, {},
         x == std::trunc(x) ? "use one that fits, or cast the tensor to a wider dtype"
                            : "cast the tensor to a float dtype first");
    return {};
  }
  const ir::StrId name = ir.strings.intern(scoped(kNumberName));
  const ir::ValueId scalar = ir.splat({dtype, {}}, x, name, loc(where));
  return broadcast_last(scalar, shape, where);
}

void throw_misuse(std::string message, const Where& where) {
  Diagnostic d;
  d.code = "E0305";
  d.message = std::move(message);
  d.place = where.place;
  throw Error(std::move(d));
}

Graph& graph_of(std::span<const In> operands) {
  Graph* graph = nullptr;
  for (const In& in : operands) {
    const Tensor* t = std::get_if<Tensor>(&in.value);
    if (!t) continue;
    if (!t->valid()) throw_misuse(kNoGraph, in.where);
    if (!graph) graph = &t->graph();
    if (graph != &t->graph()) throw_misuse(kTwoGraphs, in.where);
  }
  if (!graph) {
    throw_misuse("at least one operand must be a tensor",
                 operands.empty() ? Where() : operands[0].where);
  }
  return *graph;
}

Scope::~Scope() {
  std::string& scope = graph_->impl().scope;
  scope.resize(length_);
}

Graph::Graph(std::string name) : impl_(std::make_unique<Impl>(std::move(name))) {}
Graph::~Graph() = default;

bool Graph::poisoned(Tensor t) const { return t.id_ == UINT32_MAX; }
void Graph::collect_errors(bool on) { impl_->collect = on; }
std::vector<Diagnostic>& Graph::diagnostics() { return impl_->diagnostics; }
const ir::Graph& Graph::ir_graph() const { return impl_->ir; }

Tensor Graph::input(std::string_view name, TypeArg type, Where w) {
  return wrap(impl_->input(name, "input", type, {}, w));
}

Tensor Graph::scalar(std::string_view name, DType dtype, double value, Where w) {
  return wrap(impl_->input(name, "scalar", {dtype, {}}, ir::ScalarAttr{value}, w));
}

ir::ValueId Graph::Impl::input(std::string_view name, std::string_view what, const TypeArg& type,
                               ir::Attrs attrs, const Where& w) {
  const std::string full = scoped(name);
  const std::string_view an = what == "input" ? "an" : "a";
  if (!may_declare(fmt::format("{} {}", an, what), w)) return {};
  if (name.empty()) {
    fail("E0201", fmt::format("{} {} needs a name", an, what), w);
    return {};
  }
  if (input_names.contains(full)) {
    fail("E0201", fmt::format("there is an input or scalar '{}' already", full), w);
    return {};
  }
  const std::optional<TensorType> t = type_of(type, w);
  if (!t) return {};
  const ir::ValueId v = emit(ir::OpKind::input, std::move(attrs), {}, t, w, name);
  if (v.valid()) input_names.insert(full);
  remember_labels(v, type);
  return v;
}

Tensor Graph::constant(const HostTensor& value, Where w) {
  const uint32_t literal = impl_->ir.add_literal({value.type, false, value.bytes});
  return wrap(
      impl_->emit(ir::OpKind::constant, ir::ConstAttr{literal}, {}, value.type, w, "constant"));
}

Tensor Graph::full(TypeArg type, double value, Where w) {
  const std::optional<TensorType> t = impl_->type_of(type, w);
  return wrap(t ? impl_->number(value, t->dtype, t->shape, w) : ir::ValueId{});
}

Tensor Graph::iota(TypeArg type, int axis, Where w) {
  const std::optional<TensorType> t = impl_->type_of(type, w);
  if (!t) return wrap({});
  const std::optional<int> a = impl_->axis_of(axis, t->shape.rank(), "iota", w);
  return wrap(a ? impl_->emit(ir::OpKind::iota, ir::AxisAttr{*a}, {}, t, w, "iota")
                : ir::ValueId{});
}

void Graph::output(std::string_view name, In value) {
  const std::string full = impl_->scoped(name);
  if (name.empty() || impl_->output_names.contains(full)) {
    impl_->fail("E0201",
                name.empty() ? std::string("an output needs a name")
                             : fmt::format("there is an output '{}' already", full),
                value.where);
    return;
  }
  if (std::holds_alternative<double>(value.value)) {
    impl_->fail("E0301", fmt::format("output '{}' is a number, not a tensor", full), value.where);
    return;
  }
  if (!impl_->may_declare("an output", value.where)) return;
  const ir::ValueId v = unwrap(value);
  impl_->output_names.insert(full);
  if (v.valid()) impl_->ir.outputs.push_back({full, v, impl_->loc(value.where)});
}

Scope Graph::scope(std::string_view name) {
  const size_t length = impl_->scope.size();
  if (!name.empty()) impl_->scope = impl_->scoped(name);
  return Scope(this, length);
}

void Graph::repeat(std::string_view prefix, int64_t count) {
  impl_->level(0).ir.repeats.push_back({impl_->scoped(prefix), count});
}

void Graph::dim(std::string_view name, std::optional<int64_t> default_value,
                std::optional<int64_t> max, Where w) {
  DimTable alone;
  alone.parse(name);
  if (alone.symbols().size() != 1 || alone.symbols()[0].name != name) {
    impl_->fail("E0401", fmt::format("'{}' is no name for a dim", name), w);
    return;
  }
  // An earlier call may have given the other one.
  std::optional<int64_t> usual = default_value, most = max;
  for (const DimTable::Symbol& s : impl_->ir.dims.symbols()) {
    if (s.name != name) continue;
    if (!usual) usual = s.default_value;
    if (!most) most = s.max;
  }
  if ((usual && *usual < 0) || (most && *most < 0) || (usual && most && *usual > *most)) {
    impl_->fail("E0402", fmt::format("dim '{}': 0 <= default <= max must hold", name), w);
    return;
  }
  impl_->ir.dims.symbol(name, default_value, max);
}

}  // namespace braid
