// Which ops run in kernels, and from which memory the others are read.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// Neither an input or param, nor free: it runs in some kernel.
bool is_work(const ir::Op& op);

/// By op: whether outputs, state, or host ops with side effects need it.
std::vector<bool> needed_ops(const ir::Graph& graph);

/// A splat constant or an iota: written into kernel text, read from no memory.
bool is_inline(const ir::Graph& graph, ir::ValueId v);

/// For every value, the one it is read from through views and reads: the result of an op that
/// works, an input, a constant, an iota, or a version of a param.
std::vector<ir::ValueId> memory_sources(const ir::Graph& graph);

/// The value whose memory serves `v` as a whole: `v` without the reshapes on top. After plan_homes
/// that of a graph's output is the result of an op that works, and belongs to no second output.
ir::ValueId memory_root(const ir::Graph& graph, ir::ValueId v);

}  // namespace braid
