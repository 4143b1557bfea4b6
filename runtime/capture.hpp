// Inside the runtime: work that a function enqueues on a stream becomes nodes of a graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/context.hpp"

namespace braid::runtime {

/// Enqueues on the stream; throws if it cannot.
using Enqueue = std::function<void(CUstream)>;

/// Captures what `enqueue` does on `stream`, which is capturing nothing, into a graph that is
/// thrown away. Returns why that failed: what it threw, or what the driver says; empty if all is
/// well. A failed capture into a graph that is needed would leave that one unusable, so this comes
/// first. Throws CudaError if no capture can begin, or if the context is lost.
std::string try_capture(const ContextPtr& context, CUstream stream, const Enqueue& enqueue);

struct Captured {
  std::vector<CUgraphNode> tails;  // what comes after the work must wait for these: all, or none
  std::string failure;             // as of try_capture: then the graph can no longer be used
  bool graph_is_gone = false;      // the driver has destroyed the graph
};
/// Captures into `graph`, behind the nodes `from` with edges of those kinds. On return the stream
/// captures nothing, whatever happened.
Captured capture_into(const ContextPtr& context, CUstream stream, CUgraph graph,
                      const std::vector<CUgraphNode>& from,
                      const std::vector<CUgraphEdgeData>& edges, const Enqueue& enqueue);

}  // namespace braid::runtime
