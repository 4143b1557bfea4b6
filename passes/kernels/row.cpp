#include "passes/kernels/row.hpp"

#include "passes/kernels/in_place.hpp"
#include "passes/kernels/messages.hpp"

namespace braid::kernels {

namespace {

/// The reductions that a sink needs, in op order.
std::vector<ir::OpId> reduces_of(const ir::Graph& body, const std::vector<Sink>& sinks) {
  const std::vector<bool> needed = needed_by(body, sinks);
  std::vector<ir::OpId> reduces;
  for (uint32_t i = 0; i < body.ops().size(); ++i) {
    const ir::Op& op = body.ops()[i];
    if (!needed[op.result.index]) continue;
    if (op.kind == ir::OpKind::dot)
      throw Refusal{"it multiplies matrices, which is the dot family's"};
    if (op.kind == ir::OpKind::reduce) reduces.push_back({i});
  }
  return reduces;
}

}  // namespace

Emitted row_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                 const Use& use) {
  Signature signature(body, use);
  signature.set_in_place(in_place_slots(body, target));
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const std::vector<ir::OpId> reduces = reduces_of(body, sinks);
  if (sinks.empty()) return empty_kernel(body, signature, symbol);
  if (sends_tensors(body, sinks)) return emit_messages(body, signature, sinks, symbol);
  return reduces.empty() ? emit_elementwise(body, signature, sinks, symbol, target)
                         : emit_reduction(body, signature, sinks, reduces, symbol, target);
}

Work row_work(const ir::Graph& body, const Target& target, uint32_t parts) {
  const Signature signature(body, {.parts = parts});
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const std::vector<ir::OpId> reduces = reduces_of(body, sinks);
  if (sinks.empty()) return {.blocks = 1, .threads = 32};
  if (sends_tensors(body, sinks)) return messages_work(body, sinks);
  Work work = reduces.empty() ? elementwise_work(body, signature, sinks, target)
                              : reduction_work(body, signature, sinks, reduces, target);
  work.cycles += cycles_to_send(sinks);
  return work;
}

std::string row_refuses(const ir::Graph& body) {
  try {
    row_emit(body, "kernel", Target{}, {});
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
