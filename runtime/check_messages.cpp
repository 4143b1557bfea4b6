#include <algorithm>

#include "runtime/check_program.hpp"

namespace braid::runtime {
namespace {

/// The name of the kernel's ring, or nothing.
std::string_view ring_of(const Kernel& k) {
  for (const ir::Op& op : k.body.ops()) {
    if (std::holds_alternative<ir::RingAttr>(op.attrs)) return k.body.strings[op.name];
  }
  return {};
}

void check_sends(const Program& p, const Kernel& k) {
  for (const ir::Op& op : k.body.ops()) {
    const auto* attr = std::get_if<ir::SendAttr>(&op.attrs);
    if (!attr) continue;
    require(p, k.parts == 1, "kernel {} sends messages in {} parts", k.symbol, k.parts);
    require(p, attr->id < p.messages.size(), "kernel {} sends message {} of {}", k.symbol, attr->id,
            p.messages.size());
    const MessageSource& m = p.messages[attr->id];
    require(p,
            m.kind == attr->kind && m.type == k.body.type(op.operands[1]) &&
                m.loops == op.operands.size() - 2,
            "kernel {} sends message {} in another form than it has", k.symbol, attr->id);
  }
}

}  // namespace

void check_messages(const Program& p) {
  for (const MessageSource& m : p.messages) {
    require(p, m.type.shape.is_static(), "the message '{}' has no fixed size", m.text);
  }
  for (const Buffer& b : p.buffers) {
    require(p, b.segment != Segment::ring || (b.type == ir::kRingType && !p.messages.empty()),
            "buffer {} is no ring of its messages", b.name);
  }
  std::vector<std::string_view> rings;
  for (const Kernel& k : p.kernels) {
    check_sends(p, k);
    rings.push_back(ring_of(k));
  }
  const auto ends = [](const Kernel& k) {
    return std::any_of(k.body.ops().begin(), k.body.ops().end(), [](const ir::Op& op) {
      const auto* send = std::get_if<ir::SendAttr>(&op.attrs);
      return send && send->ends_launch;
    });
  };
  require(p, p.messages.empty() || std::any_of(p.kernels.begin(), p.kernels.end(), ends),
          "no send ends a launch");
  const auto is_ring = [&](uint32_t view) {
    return p.buffers[p.views[view].buffer].segment == Segment::ring;
  };
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel == kNoKernel) continue;
      const Kernel& k = p.kernels[node.kernel];
      for (size_t a = 0; a < node.args.size(); ++a) {
        const bool takes = !rings[node.kernel].empty() && k.args[a].name == rings[node.kernel];
        require(p, takes == is_ring(node.args[a]), "argument {} of {} is {}", k.args[a].name,
                k.symbol,
                takes ? "not the ring that it takes" : "the ring, which it does not take");
      }
    }
  }
  for (const Call& c : p.calls) {
    require(p,
            std::none_of(c.args.begin(), c.args.end(), is_ring) &&
                std::none_of(c.results.begin(), c.results.end(), is_ring),
            "the call of '{}' takes the ring", c.function);
  }
}

}  // namespace braid::runtime
