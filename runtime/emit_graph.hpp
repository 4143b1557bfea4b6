// Inside the runtime: a Program's body becomes a CUDA graph.
#pragma once

#include <string>
#include <vector>

#include "ir/program.hpp"
#include "runtime/context.hpp"

namespace braid::runtime {

/// The graph and what was instantiated from it. The graph stays: patching a node of `exec` takes
/// the node's handle in the graph it came from.
struct BodyGraph {
  OwnedGraph graph;
  OwnedExec exec;
  std::vector<CUgraphNode> nodes;  // by node index
};

/// Pointer arguments of every node of a body, by node and slot.
using BodyArgs = std::vector<std::vector<CUdeviceptr>>;

/// One cuGraphAddNode per node, with all its dependencies and their edge records in the order of
/// Body::edges; then instantiates and uploads on `stream` (not waited for). Debug builds read the
/// edges back. `functions` by kernel index. The context must be current. Throws CudaError that
/// names the call and the node.
BodyGraph emit_graph(const ContextPtr& context, const Program& program, const Body& body,
                     const std::vector<CUfunction>& functions, const BodyArgs& args,
                     CUstream stream);

/// Replaces the arguments of one node in the instantiated graph, for launches from now on.
CUresult patch_node(Driver& driver, const BodyGraph& built, const Program& program,
                    const Body& body, uint32_t node, const std::vector<CUfunction>& functions,
                    const std::vector<CUdeviceptr>& args);

/// The array of pointers to arguments that launches take.
std::vector<void*> argument_pointers(const std::vector<CUdeviceptr>& args);

/// "node 3, dot_relu_1a2b (l1/dot, l1/relu)".
std::string node_text(const Program& program, const Body& body, uint32_t node);

}  // namespace braid::runtime
