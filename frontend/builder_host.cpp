// Host ops, and ops that stay out of graphs.
#include <fmt/format.h>

#include "frontend/builder_impl.hpp"

namespace braid {

std::vector<Tensor> Graph::host(std::string_view function, std::vector<In> arguments,
                                std::vector<TypeArg> results, HostOpts o, Where w) {
  std::vector<Tensor> poison(results.size(), wrap({}));
  if (function.empty()) {
    impl_->fail("E0306", "a host op needs the name of its function", w, {},
                "the name that the function is registered under, as in host(\"sample\", ..)");
    return poison;
  }
  ir::Graph::NewOp op{ir::OpKind::host,
                      ir::HostAttr{impl_->ir.strings.intern(function), o.pure, o.way}};
  for (const In& in : arguments) {
    op.operands.push_back(unwrap(in));
    if (!op.operands.back().valid()) return poison;
  }
  std::vector<TensorType> types;
  for (const TypeArg& t : results) {
    const std::optional<TensorType> type = impl_->type_of(t, w);
    if (!type) return poison;
    types.push_back(*type);
  }
  op.type = types.empty() ? TensorType{i8, Shape::of(std::vector<int64_t>{0})} : types[0];
  if (types.size() > 1) op.more.assign(types.begin() + 1, types.end());
  op.name = impl_->ir.strings.intern(impl_->scoped(function));
  op.loc = impl_->loc(w);
  const ir::Graph::Added added = impl_->ir.try_add(std::move(op));
  if (!added.error.empty()) {
    impl_->fail("E0301", added.error, w);
    return poison;
  }
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < results.size(); ++i) {
    const ir::ValueId v{added.value.index + i};
    impl_->remember_labels(v, results[i]);
    tensors.push_back(wrap(v));
  }
  return tensors;
}

Outside Graph::outside_graphs(bool on) {
  const bool before = impl_->outside;
  impl_->outside = impl_->outside || on;
  return {this, before};
}

Outside::~Outside() { graph_->impl().outside = before_; }

}  // namespace braid
