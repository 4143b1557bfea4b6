#include "passes/check.hpp"

#include "passes/check_parts.hpp"

namespace braid {
namespace checking {

std::string node_name(const Program& p, const Body& body, uint32_t node) {
  const Node& n = body.nodes[node];
  const bool inside = body.region != kNone;
  const std::string where = inside ? fmt::format(" of graph {}", &body - p.bodies.data()) : "";
  const std::string what = n.kernel == kNoKernel         ? fmt::format("region {}", n.region)
                           : n.kernel < p.kernels.size() ? p.kernels[n.kernel].symbol
                                                         : "?";
  return fmt::format("node {}{} ({})", node, where, what);
}

std::string buffer_name(const Program& p, uint32_t buffer) {
  return fmt::format("buffer {} '{}'", buffer, p.buffers[buffer].name);
}

std::string call_name(const Program& p, uint32_t call) {
  return fmt::format("call {} ({})", call, p.calls[call].function);
}

std::string region_name(const Program& p, uint32_t region) {
  return fmt::format("region {} '{}'", region, p.regions[region].op);
}

std::string side_name(const Program& p, uint32_t region, uint32_t side) {
  return fmt::format("side {} of {}", side, region_name(p, region));
}

Range range_of(const Program& p, uint32_t view) {
  const View& v = p.views[view];
  const Buffer& b = p.buffers[v.buffer];
  const int64_t lo = b.offset + v.offset;
  const int64_t space = b.segment == Segment::temp       ? kArena
                        : b.segment == Segment::constant ? kConstants
                                                         : int64_t{v.buffer};
  return {space, lo, lo + v.type.bytes()};
}

}  // namespace checking

std::vector<std::string> check(const Program& p) {
  checking::Findings found;
  checking::check_kernels(p, found);
  checking::check_shape(p, found);
  // What follows indexes freely.
  if (found.empty()) checking::check_regions(p, found);
  if (found.empty()) checking::check_exchanges(p, found);
  if (found.empty()) checking::check_script(p, found);
  if (found.empty()) checking::check_flow(p, found);
  return found.take();
}

}  // namespace braid
