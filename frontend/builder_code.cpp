// What kernels and library ops of the user's share: the tensors that they change in place, and how
// they become an op.
#include <fmt/format.h>

#include "frontend/builder_impl.hpp"

namespace braid {

using ir::ValueId;

std::optional<Graph::Impl::Changed> Graph::Impl::changed(const In& in, ValueId value,
                                                         std::string label, const Where& where) {
  Changed c{value, {}, std::move(label)};
  const Tensor* tensor = std::get_if<Tensor>(&in.value);
  if (!tensor || tensors[tensor->id_].body != kVariable) return c;
  c.variable = tensors[tensor->id_].index;
  if (!may_change("change a param", where)) return std::nullopt;
  return c;
}

const std::string* Graph::Impl::given_before(const Changed& c,
                                             const std::vector<Changed>& before) const {
  for (const Changed& other : before) {
    if (c.variable && other.variable == c.variable) return &variables[*c.variable].name;
  }
  return nullptr;
}

ValueId Graph::Impl::version_to_change(const Changed& c, std::string_view owner,
                                       const Where& where) {
  if (c.variable) return versions_of(*this, *c.variable).newest;
  std::string free;
  for (int n = 0; free.empty() || param_names.contains(free); ++n) {
    free = scoped(fmt::format("{}.{}.{}", owner, c.label, n));
  }
  param_names.insert(free);
  const ValueId local = ir.add({ir::OpKind::param,
                                ir::LocalAttr{},
                                {},
                                ir.type(c.value),
                                ir.strings.intern(free),
                                loc(where)});
  return emit(ir::OpKind::assign, {}, {local, c.value}, {}, where, c.label);
}

ValueId Graph::Impl::value_after(const Changed& c, ValueId next, const Where& where) {
  if (!c.variable) return emit(ir::OpKind::read, {}, {next}, {}, where, c.label);
  advance(*c.variable, next);
  return read(*c.variable);
}

ir::Graph::Added Graph::Impl::add_code(ir::OpKind kind, ir::Attrs attrs,
                                       std::vector<ValueId> operands,
                                       const std::vector<TensorType>& types, std::string_view name,
                                       const Where& where) {
  ir::Graph::NewOp op{kind, std::move(attrs), std::move(operands)};
  if (!types.empty()) {
    op.type = types[0];
    op.more.assign(types.begin() + 1, types.end());
  }
  op.name = ir.strings.intern(scoped(name));
  op.loc = loc(where);
  op.outside = outside;
  return ir.try_add(std::move(op));
}

}  // namespace braid
