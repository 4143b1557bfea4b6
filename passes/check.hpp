// The independent checker: proves a finished Program from its own data, with no planner helpers.
#pragma once

#include <string>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// Everything wrong with the Program, one sentence each with nodes and buffers named (at most a
/// hundred or so of those about order and values); empty if all this holds:
///
/// Shape. Indices are in range; views are row-major, lie in their buffers and buffers in their
/// segments; views of one value have one dtype and number of elements. Argument types equal the
/// kernel's slots, and the slots are those of the kernel's body, once per part. Launch shapes are
/// legal, with one row of blocks for each part where there are several. A slot stands in
/// Kernel::in_place only over an input of as many elements of as many bytes, each of which no other
/// thread needs than the one that writes the output's (the rule is in check_kernels.cpp).
/// Inputs, constants and scalars are never written.
///
/// Script. Every body that is none of a conditional node is launched once, by the script or by that
/// of the side it belongs to. Every call is there once, in one of these scripts, as read, wait,
/// call, write, in this order; read and wait may be absent (both) iff the call has no arguments,
/// write iff it has no results. Launches, calls and writes follow the runs; a read may come before
/// its run, so that it overlaps other work. Runs alternate between graphs and host work (calls,
/// bodies launched as streams); a run has one graph at most, and Program::graphs is the number of
/// runs of that colour: one of them has no body only where none of its ops needs a kernel. Regions
/// that the host drives are host work; scripts of their sides have runs of their own. Nodes are in
/// their body's run, and each run lies in the window of what belongs to it.
///
/// Order. Lanes are chains and number at most Body::lanes, which is at most kMaxStreams, so no
/// antichain is larger. Every two nodes of a body that touch the same bytes, one of them writing,
/// are ordered by a path. An edge puts the end of its source before the accesses of its target: a
/// full edge because the target starts later, a programmatic one only because the target executes
/// griddepcontrol.wait, which returns when its direct prerequisites have ended. A target that waits
/// ends after that too, so paths add up as long as every kernel that a programmatic edge enters
/// waits, also one that needs nothing itself. Such an edge into any other kernel is refused, and
/// orders nothing. A stream's kernels run one after the other; so do the steps of the script that
/// use the device.
///
/// Values. Every argument of a node or call holds, at that point, the value that it expects, inputs
/// and params included; outputs and params hold theirs at the end. Arguments of one node overlap
/// only if all are read, or where Kernel::in_place allows it on the very same bytes.
///
/// Regions. They nest, each body belongs to the script or to one side, each conditional node to one
/// region and the other way round, and a guarded kernel asks its region's flag for its own side.
/// Around a region its slots say what its sides read and write; each side is proved by itself, with
/// clocks of its own, to rely on nothing else, to write nothing else, and to leave in every state
/// what the region promises. A loop's entry is a name for whatever an iteration finds. Different
/// sides of one predicated region never conflict; who uses what it leaves behind needs all sides to
/// have made it. Handles are set in every run of the body that holds their node, or by the loop's
/// own body, and nowhere else. The nodes that can run at once, those of the widest side of each
/// conditional node too, are at most as many as the options have streams. Kernels send only what
/// Program::messages knows.
///
/// Since the script follows the runs, and everything it orders is proved, no data or conflict leads
/// from a later run to an earlier one: runs are convex. O((V+E) * lanes) plus the address sweep,
/// which is near-linear for any Program whose bytes hold what is expected.
std::vector<std::string> check(const Program& p);

}  // namespace braid
