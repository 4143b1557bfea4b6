#include "passes/kernels/chain.hpp"

#include "passes/kernels/chain_writer.hpp"

namespace braid::kernels {

Emitted chain_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                   const Use& use) {
  const Signature signature(body, use);
  const std::vector<Sink> sinks = sinks_of(body, signature);
  if (sinks.empty()) return empty_kernel(body, signature, symbol);
  const std::unique_ptr<ChainPlan> plan = ChainPlan::best(body, signature, sinks, target);
  return ChainWriter(body, signature, *plan).emit(symbol);
}

Work chain_work(const ir::Graph& body, const Target& target, uint32_t parts) {
  const Signature signature(body, {.parts = parts});
  const std::vector<Sink> sinks = sinks_of(body, signature);
  if (sinks.empty()) return {.blocks = 1, .threads = 32};
  return ChainPlan::best(body, signature, sinks, target)->work(target);
}

std::string chain_refuses(const ir::Graph& body) {
  try {
    chain_emit(body, "kernel", Target{}, {});
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
