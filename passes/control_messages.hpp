// Numbers of messages, and which send ends a launch.
#pragma once

#include "ir/graph.hpp"

namespace braid {

/// Gives every send of the graph and its bodies a number of its own.
void number_sends(ir::Graph& graph);

/// Closes the gaps that dropped sends left, and lets the last op on the ring be a send that ends
/// the launch: where a branch or loop is last, one more is added, a check that never fails.
void finish_sends(ir::Graph& graph);

}  // namespace braid
