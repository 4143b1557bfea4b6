// Which ops run in kernels, and from which memory the others are read.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// Neither an input or param, nor free: it runs in some kernel.
bool is_work(const ir::Op& op);

/// Whether it makes a version of state.
bool makes_state(const ir::Graph& graph, const ir::Op& op);

/// Whether it stores into state itself, its second operand into its first: branches, loops and code
/// of the user's hand state on.
bool stores_state(const ir::Graph& graph, const ir::Op& op);

/// Whether it is a host op with side effects, or a branch or loop with such in its bodies: these
/// keep the order in which they are written.
bool acts_on_host(const ir::Graph& graph, const ir::Op& op);

/// By op: whether outputs, state, or host ops with side effects need it.
std::vector<bool> needed_ops(const ir::Graph& graph);

/// A splat constant or an iota: written into kernel text, read from no memory.
bool is_inline(const ir::Graph& graph, ir::ValueId v);

/// For every value, the one it is read from through views and reads: the result of an op that
/// works, an input, a constant, an iota, or a version of a param.
std::vector<ir::ValueId> memory_sources(const ir::Graph& graph);

/// The value whose memory serves `v` as a whole: `v` without the reshapes on top. After plan_homes
/// that of a graph's output may_be_output, and belongs to no second output.
ir::ValueId memory_root(const ir::Graph& graph, ir::ValueId v);
/// Whether a memory_root can lie where the caller wants an output: it is the result of an op that
/// works, or read from a variable, of which it then should be the last version.
bool may_be_output(const ir::Graph& graph, ir::ValueId root);

}  // namespace braid
