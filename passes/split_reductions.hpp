// Long reductions become two: the first by many blocks.
#pragma once

#include "ir/graph.hpp"
#include "ir/program.hpp"

namespace braid {

/// A row of a reduction is one block's, so a sum of a million elements would use one SM. Where rows
/// are long and fill less than a quarter of the SMs, each is cut into equal parts, which are
/// reduced side by side, and then their results: in an order that depends on the shape and the
/// target alone. Parts of f16 and bf16 are combined in f32, as a single kernel would. A row whose
/// length has no fitting divisor stays whole. O(V+E).
void split_reductions(ir::Graph& graph, const Target& target);

}  // namespace braid
