// Which matrix products cuBLASLt computes instead of a kernel of ours.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/matmul_table.hpp"
#include "passes/fuse.hpp"
#include "passes/options.hpp"

namespace braid {

/// Whether the options want cuBLASLt for this product.
bool wants_library(const MatmulBody& product, const Options& options);

/// Bytes that cuBLASLt may use for a product.
int64_t library_workspace(const MatmulBody& product);

/// By op: the dot, by index, with which it is one library kernel; UINT32_MAX for all other ops. A
/// dot takes the epilogue that cuBLASLt has and nothing else, and values in between are used by the
/// next op alone. Empty if there is none.
using LibraryGroups = std::vector<uint32_t>;
LibraryGroups library_groups(const ir::Graph& graph, const Levels& levels, const Options& options);

/// fuse() with those groups given.
Fusion fuse_around(const ir::Graph& graph, const HomePlan& homes, const Levels& levels,
                   bool fuse_on, const LibraryGroups& given);

}  // namespace braid
