#include "passes/control_inline.hpp"

#include <fmt/format.h>

#include "ir/region.hpp"

namespace braid {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using ir::ViewKind;

Draft::Draft(const ir::Graph& like) : graph(like.name) {
  graph.dims = like.dims;
  graph.repeats = like.repeats;
}

void Draft::reserve(const ir::Graph& from) {
  for (const ir::Op& op : from.ops()) {
    if (op.kind == OpKind::input || op.kind == OpKind::param) {
      ++taken_[std::string(from.strings[op.name])];
    }
  }
}

void Draft::stand_for(std::string_view name, ir::Loc loc) {
  name_ = name.empty() ? ir::StrId{} : graph.strings.intern(name);
  loc_ = loc;
}

ir::Loc Draft::place(const ir::Graph& from, ir::Loc loc) {
  if (loc.file.valid()) loc.file = graph.strings.intern(from.strings[loc.file]);
  return loc;
}

ir::StrId Draft::fresh(std::string_view name) {
  std::string text(name);
  while (true) {
    const uint32_t before = taken_[text]++;
    if (before == 0) return graph.strings.intern(text);
    text = fmt::format("{}.{}", name, before + 1);
  }
}

ValueId Draft::add(OpKind kind, ir::Attrs attrs, std::vector<ValueId> operands) {
  return graph.add({kind, std::move(attrs), std::move(operands), {}, name_, loc_});
}

ValueId Draft::input(std::string_view name, const TensorType& type) {
  return graph.add({OpKind::input, {}, {}, type, fresh(name), loc_});
}

ValueId Draft::param(std::string_view name, const TensorType& type, ir::Attrs sort) {
  return graph.add({OpKind::param, std::move(sort), {}, type, fresh(name), loc_});
}

ValueId Draft::read(ValueId version) { return add(OpKind::read, {}, {version}); }

ValueId Draft::assign(ValueId version, ValueId value) {
  return add(OpKind::assign, {}, {version, value});
}

ValueId Draft::update_rows(ValueId version, ValueId rows, ValueId at) {
  std::vector<ValueId> operands{version, rows, at};
  if (graph.type(version).shape.rank() > 1) {
    operands.resize(static_cast<size_t>(graph.type(version).shape.rank()) + 2, number(0));
  }
  return add(OpKind::update, {}, std::move(operands));
}

ValueId Draft::map(Fn fn, std::vector<ValueId> operands) {
  return add(OpKind::map, ir::MapAttr{fn}, std::move(operands));
}

ValueId Draft::number(int64_t x) {
  return graph.splat({DType::i32, {}}, static_cast<double>(x), name_, loc_);
}

ValueId Draft::truth(bool x) { return graph.splat({DType::b1, {}}, x ? 1 : 0, name_, loc_); }

ValueId Draft::as_row(ValueId v) {
  TensorType type{graph.type(v).dtype, {}};
  type.shape.push_back(Dim(1));
  for (Dim d : graph.type(v).shape) type.shape.push_back(d);
  return graph.add({OpKind::view, ir::ViewAttr{ViewKind::reshape}, {v}, type, name_, loc_});
}

std::vector<ValueId> Draft::numbers_from(ValueId at, int64_t count) {
  const TensorType type{DType::i32, {Dim(count)}};
  const ValueId steps = graph.add({OpKind::iota, ir::AxisAttr{0}, {}, type, name_, loc_});
  const ValueId all = map(Fn::add, {spread(at, type.shape), steps});
  std::vector<ValueId> numbers;
  for (int64_t i = 0; i < count; ++i) {
    ir::ViewAttr slice{ViewKind::slice};
    slice.a[0] = i;
    slice.b[0] = 1;
    const ValueId one =
        graph.add({OpKind::view, slice, {all}, TensorType{DType::i32, {Dim(1)}}, name_, loc_});
    numbers.push_back(graph.add({OpKind::view,
                                 ir::ViewAttr{ViewKind::reshape},
                                 {one},
                                 TensorType{DType::i32, {}},
                                 name_,
                                 loc_}));
  }
  return numbers;
}

ValueId Draft::spread(ValueId scalar, const Shape& shape) {
  if (shape.rank() == 0) return scalar;
  const TensorType type{graph.type(scalar).dtype, shape};
  return graph.add({OpKind::view, ir::ViewAttr{ViewKind::broadcast}, {scalar}, type, name_, loc_});
}

ValueId Draft::clone(const ir::Graph& from, OpId id, std::vector<ValueId> operands) {
  const ValueId copy = graph.clone_op(from, id, std::move(operands));
  ir::Op& op = graph.op(graph.value(copy).def);
  if (op.kind == OpKind::input || op.kind == OpKind::param) {
    op.name = fresh(std::string(graph.strings[op.name]));
  }
  return copy;
}

Inliner::Inliner(const ir::Graph& body, size_t arguments)
    : body_(&body), newest_(arguments), used_(arguments, false) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> argument_of(body.values().size(), kNone);
  for (size_t k = 0; k < arguments; ++k) {
    newest_[k] = body.ops()[k].result;
    argument_of[newest_[k].index] = k;
  }
  const auto use = [&](ValueId v) {
    if (v.index < body.values().size() && body.value(v).def.index < arguments) {
      used_[body.value(v).def.index] = true;
    }
  };
  for (const ir::Op& op : body.ops()) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      use(v);
      if (op.kind == OpKind::read || !body.value(v).state || argument_of[v.index] == kNone ||
          i < ir::first_argument(op)) {
        continue;
      }
      const ValueId next = ir::next_version(body, op, i);
      argument_of[next.index] = argument_of[v.index];
      newest_[argument_of[v.index]] = next;
    }
  }
  for (const ir::Output& o : body.outputs) use(o.value);
}

Inliner::Result Inliner::into(Draft& to, std::span<const ValueId> args,
                              std::span<const std::pair<ValueId, ValueId>> made) const {
  std::vector<ValueId> copy(body_->values().size());
  for (size_t k = 0; k < args.size(); ++k) copy[body_->ops()[k].result.index] = args[k];
  for (const auto& [value, there] : made) copy[value.index] = there;
  for (size_t i = args.size(); i < body_->ops().size(); ++i) {
    const ir::Op& op = body_->ops()[i];
    if (copy[op.result.index].valid()) continue;
    std::vector<ValueId> operands;
    operands.reserve(op.operands.size());
    for (ValueId v : op.operands) operands.push_back(copy[v.index]);
    if (op.kind == OpKind::read && !to.graph.value(operands[0]).state) {
      copy[op.result.index] = operands[0];
      continue;
    }
    map_results(copy, op, to.clone(*body_, OpId{static_cast<uint32_t>(i)}, std::move(operands)));
  }
  Result result;
  for (const ir::Output& o : body_->outputs) result.outputs.push_back(copy[o.value.index]);
  for (ValueId v : newest_) result.versions.push_back(copy[v.index]);
  return result;
}

}  // namespace braid
