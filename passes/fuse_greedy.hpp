// The decision which group an op joins, in op order.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/levels.hpp"

namespace braid {

/// What fusion knows of the ops beyond the graph.
struct FuseFacts {
  std::vector<ir::ValueId> source;            // memory_sources()
  std::vector<bool> needed;                   // by op: reaches an output or a last version
  std::vector<std::vector<ir::OpId>> before;  // by op: order edges that end in it
  std::vector<bool> is_output;                // by value: memory_root of an output
};
FuseFacts fuse_facts(const ir::Graph& graph, const HomePlan& homes);

/// The distinct values that an op reads from memory or from other ops, states that it replaces
/// included; splats and iotas are not.
std::vector<ir::ValueId> values_used(const ir::Graph& graph, const FuseFacts& facts,
                                     const ir::Op& op);

/// Groups in the order in which they were begun, some empty (merged into others); `outputs` are
/// not filled and `ops` not sorted. `group_of` as in Fusion. `given`: as in library_dots.hpp.
struct GrownGroups {
  std::vector<Group> groups;
  std::vector<uint32_t> group_of;
};
/// Puts groups in an order in which each follows those it depends on, without the empty ones, and
/// finds their outputs.
Fusion arrange_groups(const ir::Graph& graph, const FuseFacts& facts, GrownGroups grown);

GrownGroups grow_groups(const ir::Graph& graph, const FuseFacts& facts, const Levels& levels,
                        bool fuse_on, const std::vector<uint32_t>& given = {});

}  // namespace braid
