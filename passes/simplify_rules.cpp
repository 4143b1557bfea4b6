#include "passes/simplify_rules.hpp"

#include <cmath>
#include <utility>

#include "ir/interpret.hpp"
#include "ir/tensor.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;
using ir::ViewKind;

/// Every value of `from` is a value of `to`.
bool holds_exactly(DType to, DType from) {
  const auto digits = [](DType t) {  // of the significand
    switch (t) {
      case DType::f64:
        return 53;
      case DType::f32:
        return 24;
      case DType::f16:
        return 11;
      case DType::bf16:
        return 8;
      case DType::i64:
        return 63;
      case DType::i32:
        return 31;
      case DType::i8:
        return 7;
      case DType::u8:
        return 8;
      case DType::b1:
        return 1;
    }
    return 0;
  };
  if (to == from || from == DType::b1) return true;
  if (to == DType::b1) return false;
  // -2^n needs one digit, so the sign costs nothing.
  if (is_int(from) && is_float(to)) return digits(from) <= digits(to);
  if (is_int(from) && is_int(to)) return digits(from) < digits(to) && to != DType::u8;
  if (is_float(from) && is_float(to))
    return from != DType::f64 && (to == DType::f64 || to == DType::f32);
  return false;
}

/// Whether a cast from `a` by way of the wider `b` to `c` is the cast from `a` to `c`: a float is
/// clamped on its way to an integer, an integer is cut off.
bool one_cast_suffices(DType a, DType b, DType c) {
  if (!holds_exactly(b, a)) return false;
  return a == c || c == DType::b1 || is_float(a) == is_float(b) || is_float(c);
}

/// The extents of a shape that are not one.
std::vector<Dim> wide_dims(const Shape& shape) {
  std::vector<Dim> dims;
  for (Dim d : shape) {
    if (d != Dim(1)) dims.push_back(d);
  }
  return dims;
}

/// Whether a view keeps all elements in their row-major order.
bool keeps_order(const ir::ViewAttr& view, const Shape& from, const Shape& to) {
  switch (view.kind) {
    case ViewKind::reshape:
      return true;
    case ViewKind::slice:
      return from == to;
    case ViewKind::broadcast:
      return wide_dims(from) == wide_dims(to);
    case ViewKind::transpose: {
      int64_t last = -1;
      for (int i = 0; i < to.rank(); ++i) {
        if (to[i] == Dim(1)) continue;
        const int64_t axis = view.a[static_cast<size_t>(i)];
        if (axis < last) return false;
        last = axis;
      }
      return true;
    }
  }
  return false;
}

/// `outer` of `inner`, which is of the same kind, as one view of `to`; nothing if its numbers would
/// be too large.
std::optional<ir::ViewAttr> compose(const ir::ViewAttr& outer, const ir::ViewAttr& inner,
                                    int rank_from, const Shape& to) {
  const int rank_to = to.rank();
  ir::ViewAttr both{outer.kind};
  switch (outer.kind) {
    case ViewKind::reshape:
      break;
    case ViewKind::transpose:
      for (size_t i = 0; i < static_cast<size_t>(rank_to); ++i) {
        both.a[i] = inner.a[static_cast<size_t>(outer.a[i])];
      }
      break;
    case ViewKind::broadcast:
      for (size_t i = 0; i < static_cast<size_t>(rank_from); ++i) {
        both.a[i] = outer.a[static_cast<size_t>(inner.a[i])];
      }
      break;
    case ViewKind::slice:
      for (size_t i = 0; i < static_cast<size_t>(rank_to); ++i) {
        const Dim n = to[static_cast<int>(i)];
        // Nothing may be taken from behind the end of what was taken, but not of the whole.
        both.a[i] = n == Dim(0) ? 0 : inner.a[i] + inner.b[i] * outer.a[i];
        both.b[i] = n == Dim(0) || n == Dim(1) ? 1 : inner.b[i] * outer.b[i];
        if (both.b[i] > INT32_MAX) return std::nullopt;
      }
      break;
  }
  return both;
}

}  // namespace

Rewriter::Rewriter(const ir::Graph& graph)
    : ops(graph.ops()), literals(graph.literals), graph_(graph) {
  to_.reserve(graph.values().size());
  for (uint32_t v = 0; v < graph.values().size(); ++v) to_.push_back(ValueId{v});
}

bool Rewriter::rewrite(uint32_t i) {
  while (true) {
    const Step done = step(ops[i]);
    if (done.value.valid()) {
      replace(ops[i].result, done.value);
      return true;
    }
    if (!done.changed) return false;
  }
}

void Rewriter::intern_literal(ir::Op& op) {
  uint32_t& mine = std::get<ir::ConstAttr>(op.attrs).literal;
  const ir::Literal& literal = literals[mine];
  uint64_t seed = static_cast<uint64_t>(literal.type.dtype);
  for (Dim d : literal.type.shape) seed = seed * 31 + (d.is_const() ? uint64_t(d.value()) : 0);
  const uint64_t hash = XXH3_64bits_withSeed(literal.bytes.data(), literal.bytes.size(), seed);
  auto [at, end] = literal_index_.equal_range(hash);
  for (; at != end; ++at) {
    if (literals[at->second] == literal) {
      mine = at->second;
      return;
    }
  }
  literal_index_.emplace(hash, mine);
}

const ir::Literal* Rewriter::splat(ValueId v) const {
  const ir::Op& op = def(v);
  if (op.kind != OpKind::constant) return nullptr;
  const ir::Literal& literal = literals[std::get<ir::ConstAttr>(op.attrs).literal];
  return literal.splat ? &literal : nullptr;
}

bool Rewriter::is_number(ValueId v, double x) const {
  const ir::Literal* literal = splat(v);
  if (!literal) return false;
  HostTensor element(TensorType{literal->type.dtype, {}});
  element.bytes = literal->bytes;
  const double y = element.at(0);
  return y == x && std::signbit(y) == std::signbit(x);
}

Rewriter::Step Rewriter::become_constant(ir::Op& op, ir::Literal literal) {
  literal.type = type(op.result);
  literal.splat = true;
  op.kind = OpKind::constant;
  op.attrs = ir::ConstAttr{static_cast<uint32_t>(literals.size())};
  op.operands.clear();
  literals.push_back(std::move(literal));
  return {true};
}

Rewriter::Step Rewriter::step(ir::Op& op) {
  switch (op.kind) {
    case OpKind::map:
      return map(op);
    case OpKind::view:
      return view(op);
    case OpKind::read:
    case OpKind::assign:
    case OpKind::update:
      return state(op);
    case OpKind::concat:
      return {false, op.operands.size() == 1 ? op.operands[0] : ValueId{}};
    case OpKind::reduce: {
      const Shape& shape = type(op.operands[0]).shape;
      const uint32_t axes = std::get<ir::ReduceAttr>(op.attrs).axes;
      for (int i = 0; i < shape.rank(); ++i) {
        if ((axes >> i & 1) && shape[i] != Dim(1)) return {};
      }
      op.kind = OpKind::view;
      op.attrs = ir::ViewAttr{ViewKind::reshape};
      return {true};
    }
    default:
      return {};
  }
}

Rewriter::Step Rewriter::map(ir::Op& op) {
  const Fn fn = std::get<ir::MapAttr>(op.attrs).fn;
  if (fn == Fn::cast) {
    const Step done = cast(op);
    if (done.changed || done.value.valid()) return done;
  }
  const Step done = arithmetic(op, fn);
  if (done.value.valid()) return done;

  for (ValueId v : op.operands) {
    if (!splat(v)) return {};
  }
  // One element stands for all; the oracle itself evaluates it.
  ir::Graph one;
  std::vector<ValueId> operands;
  for (ValueId v : op.operands) {
    ir::Literal literal = *splat(v);
    literal.type.shape = {};
    const TensorType element = literal.type;
    const uint32_t index = one.add_literal(std::move(literal));
    operands.push_back(one.add({OpKind::constant, ir::ConstAttr{index}, {}, element}));
  }
  const TensorType element{type(op.result).dtype, {}};
  one.outputs.push_back({"r", one.add({OpKind::map, op.attrs, operands, element}), {}});
  ir::TensorMap params;
  ir::TensorMap results = ir::interpret(one, {}, params, ir::Rounding::dtype);
  return become_constant(op, {element, true, narrow(results.at("r")).bytes});
}

Rewriter::Step Rewriter::arithmetic(const ir::Op& op, Fn fn) const {
  const std::vector<ValueId>& in = op.operands;
  const bool floats = is_float(type(in[0]).dtype);
  // x + 0.0 turns -0.0 into 0.0, so that only -0.0 is neutral for floats.
  const double add_zero = floats ? -0.0 : 0.0;
  const auto inner_is = [&](Fn same) {
    const ir::Op& inner = def(in[0]);
    return inner.kind == OpKind::map && std::get<ir::MapAttr>(inner.attrs).fn == same;
  };
  switch (fn) {
    case Fn::mul:
      if (is_number(in[1], 1)) return {false, in[0]};
      if (is_number(in[0], 1)) return {false, in[1]};
      return {};
    case Fn::div:
      return {false, is_number(in[1], 1) ? in[0] : ValueId{}};
    case Fn::add:
      if (is_number(in[1], add_zero)) return {false, in[0]};
      if (is_number(in[0], add_zero)) return {false, in[1]};
      return {};
    case Fn::sub:
      return {false, is_number(in[1], 0) ? in[0] : ValueId{}};
    case Fn::neg:
    case Fn::not_:
      return {false, inner_is(fn) ? def(in[0]).operands[0] : ValueId{}};
    case Fn::select:
      if (in[1] == in[2] || is_number(in[0], 1)) return {false, in[1]};
      return {false, is_number(in[0], 0) ? in[2] : ValueId{}};
    default:
      return {};
  }
}

Rewriter::Step Rewriter::cast(ir::Op& op) {
  const ValueId from = op.operands[0];
  const DType to = type(op.result).dtype;
  if (type(from).dtype == to) return {false, from};
  const ir::Op& inner = def(from);
  if (inner.kind != OpKind::map || std::get<ir::MapAttr>(inner.attrs).fn != Fn::cast) return {};
  const ValueId first = inner.operands[0];
  if (!one_cast_suffices(type(first).dtype, type(from).dtype, to)) return {};
  op.operands = {first};
  return {true};
}

Rewriter::Step Rewriter::view(ir::Op& op) {
  const ValueId from = op.operands[0];
  const Shape& shape = type(op.result).shape;
  if (const ir::Literal* literal = splat(from)) return become_constant(op, *literal);
  ir::ViewAttr& attr = std::get<ir::ViewAttr>(op.attrs);
  if (keeps_order(attr, type(from).shape, shape)) {
    if (type(from).shape == shape) return {false, from};
    if (attr.kind != ViewKind::reshape) {
      attr = ir::ViewAttr{ViewKind::reshape};
      return {true};
    }
  }
  const ir::Op& inner = def(from);
  if (inner.kind != OpKind::view) return {};
  const ir::ViewAttr& before = std::get<ir::ViewAttr>(inner.attrs);
  if (before.kind != attr.kind) return {};
  const auto both = compose(attr, before, type(inner.operands[0]).shape.rank(), shape);
  if (!both) return {};
  attr = *both;
  op.operands = {inner.operands[0]};
  return {true};
}

Rewriter::Step Rewriter::state(ir::Op& op) {
  const ir::Op& version = def(op.operands[0]);
  if (op.kind == OpKind::read) {
    return {false, version.kind == OpKind::assign ? version.operands[1] : ValueId{}};
  }
  if (op.kind == OpKind::update) {
    // A box as large as the param can only begin at its origin.
    if (type(op.operands[1]) != type(op.result)) return {};
    op.kind = OpKind::assign;
    op.operands.resize(2);
    return {true};
  }
  const ir::Op& value = def(op.operands[1]);
  if (value.kind == OpKind::read && value.operands[0] == op.operands[0]) {
    return {false, op.operands[0]};
  }
  if (version.kind == OpKind::assign) {  // its reads are gone, and it is overwritten whole
    op.operands[0] = version.operands[0];
    return {true};
  }
  return {};
}

}  // namespace braid
