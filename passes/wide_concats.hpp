// Concats of very many operands become concats of concats.
#pragma once

#include <cstddef>

#include "ir/graph.hpp"

namespace braid {

/// A kernel takes 4096 bytes of arguments on every device and driver: 512 pointers, one of them the
/// result's. Concat is the one op whose operands are not bounded.
inline constexpr size_t kMaxConcatOperands = 500;

/// Splits concats of more operands into runs of about equal length, joined by another. O(V+E).
void split_wide_concats(ir::Graph& graph);

}  // namespace braid
