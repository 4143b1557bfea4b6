#include "passes/check.hpp"

#include "passes/check_parts.hpp"

namespace braid {
namespace checking {

std::string node_name(const Program& p, const Body& body, uint32_t node) {
  const uint32_t k = body.nodes[node].kernel;
  return fmt::format("node {} ({})", node, k < p.kernels.size() ? p.kernels[k].symbol : "?");
}

std::string buffer_name(const Program& p, uint32_t buffer) {
  return fmt::format("buffer {} '{}'", buffer, p.buffers[buffer].name);
}

std::string call_name(const Program& p, uint32_t call) {
  return fmt::format("call {} ({})", call, p.calls[call].function);
}

Range range_of(const Program& p, uint32_t view) {
  const View& v = p.views[view];
  const Buffer& b = p.buffers[v.buffer];
  const int64_t lo = b.offset + v.offset;
  const int64_t space = b.segment == Segment::temp       ? -1
                        : b.segment == Segment::constant ? -2
                                                         : int64_t{v.buffer};
  return {space, lo, lo + v.type.bytes()};
}

}  // namespace checking

std::vector<std::string> check(const Program& p) {
  checking::Findings found;
  checking::check_kernels(p, found);
  checking::check_shape(p, found);
  // What follows indexes freely.
  if (found.empty()) checking::check_script(p, found);
  if (found.empty()) checking::check_flow(p, found);
  return found.take();
}

}  // namespace braid
