// Recompute, second part: a norm of few rows in front of several products becomes one for each.
// needs: a static graph. breaks: equal ops are one.
#pragma once

#include "ir/graph.hpp"

namespace braid {

/// Where a value of at most kMostRowsRepeated rows is computed by reductions, and only the lhs of
/// several products reads it, every product gets maps, views and reductions of its own for it, up
/// to what others read as well: the chain pass can then put them into the product's kernel, where
/// every block computes them anew.
void repeat_rows(ir::Graph& graph);

inline constexpr int64_t kMostRowsRepeated = 8;
inline constexpr int64_t kMostElementsRepeated = 16384;
inline constexpr size_t kMostProductsBehind = 4;
inline constexpr size_t kMostOpsRepeated = 40;

}  // namespace braid
