// The compact family: the rows where a mask holds, in order, then rows of zeros; and how many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

/// One kernel in which no block waits for another: each has a stretch of rows and counts for itself
/// those that the mask chooses before it, and in all. So the same rows stand at the same places
/// every time. The mask is read from memory; rows may be computed by index. Up to 2^30 rows.
std::string compact_refuses(const ir::Graph& body);
Emitted compact_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                     const Use& use);
Work compact_work(const ir::Graph& body, const Target& target, uint32_t parts);

}  // namespace braid::kernels
