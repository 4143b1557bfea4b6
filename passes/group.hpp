// Group: like kernels that are ready together become one launch (horizontal fusion).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// No kernel takes more pointers for the sake of grouping: half of the 4 KB that parameters may
/// have.
inline constexpr size_t kMostPointers = 256;
/// Microseconds of the whole device's work, of all parts, above which one launch more is not worth
/// saving.
inline constexpr double kFullLaunchUs = 10;

/// How many parts of this kernel one launch may compute; 1: it is not grouped, as no guarded kernel
/// and none that calls a host function is.
uint32_t most_parts(const Kernel& k, const Target& t);

/// The nodes of a body by the launch that they are to share, in an order that keeps every hazard;
/// nodes inside a launch in launch order. All of a launch have one kernel and one level; a
/// conditional node is a launch of its own.
///
/// Every node v gets a step s(v) from 0 to D - 1, D being the nodes on the longest path of hazards,
/// such that s(u) < s(v) for each hazard u -> v. Nodes of one kernel, level and step are one
/// launch. No launch then conflicts with itself: two nodes that touch the same bytes, one of them
/// writing, are joined by a path of hazards, so their steps differ. And the launches form no cycle:
/// every hazard between two of them leads to a higher step. The longest path still has D launches.
///
/// Steps are found twice. In one go every node is launched as soon as it is ready. In the other a
/// node with slack may wait, up to the last step that leaves D as it is, for nodes of its kernel
/// that are not ready yet, so that branches of unequal length meet. The cheaper plan is taken, the
/// first if both are equal: the longest path by estimated times, and half a microsecond a launch,
/// which is what one adds to a chain. O((V+E) log V).
std::vector<std::vector<uint32_t>> plan_launches(const Program& p, const Body& body);

}  // namespace braid
