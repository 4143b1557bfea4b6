#include "passes/kernels/row.hpp"

namespace braid::kernels {

Emitted row_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                 uint32_t parts) {
  const Signature signature(body, parts);
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const std::vector<bool> needed = needed_by(body, sinks);
  std::vector<ir::OpId> reduces;
  for (uint32_t i = 0; i < body.ops().size(); ++i) {
    const ir::Op& op = body.ops()[i];
    if (!needed[op.result.index]) continue;
    if (op.kind == ir::OpKind::dot)
      throw Refusal{"it multiplies matrices, which is the dot family's"};
    if (op.kind == ir::OpKind::reduce) reduces.push_back({i});
  }
  if (sinks.empty()) return empty_kernel(body, signature, symbol);
  return reduces.empty() ? emit_elementwise(body, signature, sinks, symbol, target)
                         : emit_reduction(body, signature, sinks, reduces, symbol, target);
}

std::string row_refuses(const ir::Graph& body) {
  try {
    row_emit(body, "kernel", Target{}, 1);
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
