#include "ir/armed_bodies.hpp"

#include <algorithm>

namespace braid {
namespace {

/// Whether the kernel assigns `true` to the handle, whatever it is given.
bool always_true(const Program& p, const Node& node, uint32_t handle) {
  if (node.kernel == kNoKernel || p.kernels[node.kernel].parts != 1) return false;
  const Kernel& k = p.kernels[node.kernel];
  for (size_t s = 0; s < node.args.size() && s < k.args.size(); ++s) {
    if (k.args[s].role == Role::in || p.views[node.args[s]].buffer != handle) continue;
    for (const ir::Op& op : k.body.ops()) {
      if (op.kind != ir::OpKind::assign) continue;
      const ir::Op& param = k.body.op(k.body.value(op.operands[0]).def);
      if (k.body.strings[param.name] != k.args[s].name) continue;
      const std::optional<double> value = k.body.splat_value(op.operands[1]);
      return value && *value != 0;
    }
  }
  return false;
}

/// The kernel before the loop's node that sets its handle assigns a constant.
bool begins(const Program& p, const Region& loop) {
  if (loop.kind != Region::Kind::node) return false;
  const uint32_t handle = p.views[loop.flag].buffer;
  return std::any_of(p.bodies.begin(), p.bodies.end(), [&](const Body& body) {
    const bool around = std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& n) {
      return n.kernel == kNoKernel && &p.regions[n.region] == &loop;
    });
    return around && std::any_of(body.nodes.begin(), body.nodes.end(),
                                 [&](const Node& n) { return always_true(p, n, handle); });
  });
}

/// It runs at least once in every launch.
bool runs(const Program& p, const Region& r) {
  return r.loop && begins(p, r) && (r.region == UINT32_MAX || runs(p, p.regions[r.region]));
}

}  // namespace

int64_t armed_units(const Program& p) {
  int64_t units = 0;
  for (const Region& r : p.regions) {
    if (runs(p, r)) continue;
    for (uint32_t b : r.bodies) units += armed_units(p.bodies[b].nodes.size(), p.bodies[b].lanes);
  }
  return units;
}

}  // namespace braid
