// Long chains of views get memory in between.
#pragma once

#include "ir/graph.hpp"

namespace braid {

/// Views cost index arithmetic in every kernel that reads through them, and chains that do not
/// simplify multiply it. So many in a row are left to kernels; then a copy follows.
inline constexpr int kMaxViewChain = 8;

/// Inserts a map(cast) to the same dtype after every kMaxViewChain views in a row. O(V+E).
void cap_view_chains(ir::Graph& graph);

}  // namespace braid
