// Waits: which kernels wait for others by themselves, and what they may read before.
// needs: chosen kernels. breaks: nothing.
//
// A kernel behind a programmatic edge starts while those before it still run, and executes
// griddepcontrol.wait before it touches what they touch. All that our families write can do that,
// from sm_90 on, whichever edges the plan has in the end; kernels of the user's and of libraries
// cannot, and those that call host functions need not. What no part of the program ever writes,
// such as weights, needs no wait: the kernel may be on its way to registers and shared memory
// before.
#include <set>
#include <utility>

#include "passes/plan.hpp"

namespace braid {
namespace {

/// Whether nothing writes the buffer while the program runs. Inputs are left out: where they lie is
/// the caller's affair.
std::vector<bool> constant_buffers(const Program& p) {
  std::vector<bool> constant(p.buffers.size());
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    constant[b] = p.buffers[b].segment == Segment::constant;
  }
  for (const ParamBinding& b : p.params) constant[b.buffer] = !b.written;
  return constant;
}

void find_fixed_slots(Program& p) {
  const std::vector<bool> constant = constant_buffers(p);
  std::set<std::pair<uint32_t, size_t>> others;
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      for (size_t s = 0; s < node.args.size() && node.kernel != kNoKernel; ++s) {
        if (!constant[p.views[node.args[s]].buffer]) others.emplace(node.kernel, s);
      }
    }
  }
  for (uint32_t k = 0; k < p.kernels.size(); ++k) {
    Kernel& kernel = p.kernels[k];
    if (!kernel.waits) continue;
    const size_t own = kernel.args.size() - extra_arguments(kernel), each = own / kernel.parts;
    for (size_t s = 0; s < own; ++s) {
      // The text is one for all parts.
      bool fixed = kernel.args[s].role == Role::in;
      for (size_t part = 0; part < kernel.parts; ++part) {
        fixed = fixed && !others.contains({k, part * each + s % each});
      }
      kernel.args[s].fixed = fixed;
    }
  }
}

}  // namespace

void choose_waits(Program& p) {
  if (!has_programmatic_edges(p.target)) return;
  for (Kernel& k : p.kernels) k.waits = k.code == Code::generated && !k.exchanges;
  find_fixed_slots(p);
}

}  // namespace braid
