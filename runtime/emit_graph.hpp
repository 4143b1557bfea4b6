// Inside the runtime: a Program's body becomes a CUDA graph.
#pragma once

#include <string>
#include <vector>

#include "ir/program.hpp"
#include "runtime/context.hpp"
#include "runtime/library_calls.hpp"

namespace braid::runtime {

class Mailbox;

/// A body as a CUDA graph. The graph stays: patching a node of an exec takes the node's handle in
/// the graph it came from.
struct BodyGraph {
  OwnedGraph graph;  // empty for the body of a conditional node, whose graph is the
  OwnedExec exec;    // driver's and runs with the exec of the body `outermost`
  uint32_t outermost = 0;
  /// By node index: what others must wait for. A library op may have made several nodes, of which
  /// these are the last, or none: then it is what that op itself would have waited for. All other
  /// nodes are one.
  std::vector<std::vector<CUgraphNode>> nodes;
};

/// Arguments of every node of a body, by node and slot: pointers, and handles of conditional nodes.
/// A conditional node has none.
using BodyArgs = std::vector<std::vector<CUdeviceptr>>;

/// What graphs are built from, and what comes of it.
struct Emission {
  const std::vector<CUfunction>& functions;  // by kernel
  std::vector<CUdeviceptr>& bases;           // by buffer; those of handles are filled in
  std::vector<BodyArgs>& args;               // by body
  std::vector<BodyGraph>& graphs;            // by body
  const LibraryCalls& libraries;
  Mailbox* mailbox = nullptr;  // where there are host nodes
};

/// A library op that could be captured by itself, but not into its graph, which is lost.
struct CaptureFailed {
  uint32_t body = 0, node = 0;
  std::string reason;
};

/// Makes `body` and the bodies of all conditional nodes in it, then instantiates and uploads on
/// `stream` (not waited for). In each graph first come the handles of its conditional nodes, as the
/// kernels that set them take them as arguments; then one cuGraphAddNode per node, with all its
/// dependencies and their edge records in the order of Body::edges; a library op is captured in its
/// place, on `stream`. Debug builds read the edges back. The context must be current. Throws
/// CudaError that names the call and the node, and CaptureFailed.
void emit_graph(const ContextPtr& context, const Program& program, uint32_t body,
                const Emission& emission, CUstream stream);

/// The arguments of a kernel's node, and of all nodes of a body.
std::vector<CUdeviceptr> arguments_of(const Program& program, const Node& node,
                                      const std::vector<CUdeviceptr>& bases);
BodyArgs arguments_of(const Program& program, const Body& body,
                      const std::vector<CUdeviceptr>& bases);

/// Whether a conditional node runs the body.
inline bool is_nested(const Program& program, const Body& body) {
  return body.region != UINT32_MAX && program.regions[body.region].kind == Region::Kind::node;
}

/// Replaces the arguments of one kernel node in its instantiated graph, for launches from now on.
CUresult patch_node(Driver& driver, const std::vector<BodyGraph>& graphs, const Program& program,
                    uint32_t body, uint32_t node, const std::vector<CUfunction>& functions,
                    const std::vector<CUdeviceptr>& args);

/// "node 3, dot_relu_1a2b (l1/dot, l1/relu)" or "node 4, a WHILE (layers)".
std::string node_text(const Program& program, const Body& body, uint32_t node);

}  // namespace braid::runtime
