// Locals and handles hold a value before it is needed, as far as the order of ops proves.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace braid::ir {

/// Errors E0908: a local is read, or a branch or loop decided, though no way that leads there has
/// assigned it. A body's way in is the op it belongs to; a loop's body is looked at as in the first
/// iteration. What some ways assign and others do not is not decided, and no error. Nor is a read
/// in a graph that has no bodies and is none: a kernel's body gets what others assigned. The graph
/// must be well formed otherwise.
std::vector<Diagnostic> verify_locals(const Graph& graph);

}  // namespace braid::ir
