// Which ops of a graph under rewriting somebody needs.
#pragma once

#include <vector>

#include "passes/simplify_rules.hpp"

namespace braid {

struct Liveness {
  std::vector<bool> live;  // by op
  /// By value: for a version that a branch or loop makes of state that no body of it writes, the
  /// version before, which is the same; else invalid.
  std::vector<ir::ValueId> through;
};

/// Needed is what outputs, the last versions of the Store's params, of the ring and of the graph's
/// arguments, and host ops with side effects need, also such in bodies. Inputs, the Store's params
/// and arguments always stay; variables of the program that nobody reads do not. The first
/// `arguments` ops are the graph's arguments if it is a body.
Liveness find_live(const ir::Graph& graph, const Rewriter& rewriter, size_t arguments);

}  // namespace braid
