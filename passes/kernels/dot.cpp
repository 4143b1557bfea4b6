#include "passes/kernels/dot.hpp"

#include "passes/kernels/chain_writer.hpp"
#include "passes/kernels/dot_mma.hpp"
#include "passes/kernels/dot_simt.hpp"

namespace braid::kernels {

namespace {

/// The one product of a body that the family can compute.
const ir::Op& dot_of(const ir::Graph& body, const std::vector<Sink>& sinks) {
  const std::vector<bool> needed = needed_by(body, sinks);
  const ir::Op* dot = nullptr;
  for (const ir::Op& op : body.ops()) {
    if (op.kind == ir::OpKind::dot) {
      if (dot) throw Refusal{"it has more than one matrix product"};
      dot = &op;
    }
    if (op.kind == ir::OpKind::reduce && needed[op.result.index]) {
      throw Refusal{"it reduces an axis, which is the row family's"};
    }
  }
  if (!dot) throw Refusal{"it has no matrix product"};
  return *dot;
}

/// How it is computed by the other operand in registers, where that costs less than by tiles.
std::unique_ptr<ChainPlan> few_rows(const ir::Graph& body, const Signature& signature,
                                    const ir::Op& dot, const std::vector<Sink>& sinks,
                                    const Target& target) {
  if (product_of(body, dot).m > 8) return nullptr;
  std::unique_ptr<ChainPlan> plan = streamed_product(body, signature, sinks, target);
  if (!plan) return nullptr;
  const double by_tiles = dot_mma_work(body, signature, dot, sinks, target).cycles;
  return plan->work(target).cycles < by_tiles ? std::move(plan) : nullptr;
}

}  // namespace

Emitted dot_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                 const Use& use) {
  const Signature signature(body, use);
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const ir::Op& dot = dot_of(body, sinks);
  if (sinks.empty()) return empty_kernel(body, signature, symbol);
  if (wants_mma(product_of(body, dot))) {
    if (const auto plan = few_rows(body, signature, dot, sinks, target)) {
      return ChainWriter(body, signature, *plan).emit(symbol);
    }
    return emit_dot_mma(body, signature, dot, sinks, symbol,
                        [&](const MmaProblem& p) { return choose_mma_tile(p, target); });
  }
  return emit_dot_simt(body, signature, dot, sinks, symbol,
                       [&](const SimtProblem& p) { return choose_simt_tile(p, target); });
}

Work dot_work(const ir::Graph& body, const Target& target, uint32_t parts) {
  const Signature signature(body, {.parts = parts});
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const ir::Op& dot = dot_of(body, sinks);
  if (sinks.empty()) return {.blocks = 1, .threads = 32};
  if (!wants_mma(product_of(body, dot))) {
    return dot_simt_work(body, signature, dot, sinks, target);
  }
  if (const auto plan = few_rows(body, signature, dot, sinks, target)) return plan->work(target);
  return dot_mma_work(body, signature, dot, sinks, target);
}

std::string dot_refuses(const ir::Graph& body) {
  try {
    dot_emit(body, "kernel", Target{}, {});
    return {};
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace braid::kernels
