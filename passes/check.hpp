// The independent checker: proves a finished Program from its own data, with no planner helpers.
#pragma once

#include <string>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// Everything wrong with the Program, one sentence each with nodes and buffers named; empty if it
/// holds that: indices are in range; views lie in their buffers and buffers in their segments;
/// argument types equal the kernel's slots and kernel slots equal its body; nodes stand in
/// topological order; lanes are chains and number at most Body::lanes; every pair of nodes that
/// touch the same bytes, one of them writing, is ordered by the edges; every argument holds, under
/// that order, the value that the node expects, inputs and params included; outputs hold their
/// value at the end; runs are convex; programmatic edges end in kernels that wait; launch shapes
/// are legal. O((V+E) * lanes) plus the address sweep.
std::vector<std::string> check(const Program& p);

}  // namespace braid
