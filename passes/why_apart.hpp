// Why two groups of ops that hand on a value are two kernels.
#pragma once

#include <string>

#include "ir/graph.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/options.hpp"

namespace braid {

/// Half a sentence for people: the first of fusion's rules that keeps apart the group `from`, which
/// makes `value`, and the group `to`, which reads it. The rules are those of fuse_greedy.cpp, tried
/// on the finished groups, behind what the chain pass says of the two. Empty if the two are one, or
/// one of them is none (UINT32_MAX).
std::string why_apart(const ir::Graph& graph, const HomePlan& homes, const Fusion& fusion,
                      uint32_t from, uint32_t to, ir::ValueId value, const Options& options);

}  // namespace braid
