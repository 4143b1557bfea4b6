// Lanes: the stream of every node, and its place there.
// needs: chosen kernels. breaks: memory and edges, which follow the lanes.
#include <fmt/format.h>

#include "passes/plan.hpp"

namespace braid {

void assign_lanes(Program& p, const Options& o) {
  if (o.streams < 1 || o.streams > kMaxStreams) {
    throw Error(Diagnostic{
        .code = "E0704",
        .message = fmt::format("streams must be 1 to {}, not {}", kMaxStreams, o.streams)});
  }
  for (Body& body : p.bodies) {
    body.lanes = 1;
    std::vector<uint32_t> length(body.lanes, 0);
    for (Node& node : body.nodes) {
      node.lane = 0;
      node.position = length[node.lane]++;
    }
  }
}

}  // namespace braid
