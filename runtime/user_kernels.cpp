#include "runtime/user_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/diagnostic.hpp"
#include "ir/host_lookup.hpp"
#include "ir/kernel_launch.hpp"

namespace braid::runtime {
namespace {

/// The op that the kernel stands for, with its place, by the first node that launches it.
std::string caller_text(const Program& program, size_t kernel) {
  for (const Body& body : program.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel != kernel || node.ops.empty()) continue;
      return node.ops[0] + (node.place.empty() ? "" : ", " + node.place);
    }
  }
  return program.kernels[kernel].symbol;
}

}  // namespace

KernelArguments::KernelArguments(const Kernel& kernel, const std::vector<CUdeviceptr>& slots) {
  const auto pointer = [&](size_t slot) { return const_cast<CUdeviceptr*>(&slots[slot]); };
  if (kernel.code != Code::user) {
    for (size_t i = 0; i < slots.size(); ++i) pointers_.push_back(pointer(i));
    return;
  }
  scalars_.reserve(kernel.parameters.size());  // pointers go into it
  for (const Parameter& p : kernel.parameters) {
    if (p.slot != UINT32_MAX) {
      pointers_.push_back(pointer(p.slot));
    } else {
      pointers_.push_back(scalars_.emplace_back(scalar_bytes(p)).data());
    }
  }
}

std::string simulated_symbol(const Program& program, size_t kernel) {
  const Kernel& k = program.kernels[kernel];
  if (k.code != Code::user) return k.symbol;
  const auto first = std::find_if(
      program.kernels.begin(), program.kernels.end(),
      [&](const Kernel& other) { return other.module == k.module && other.symbol == k.symbol; });
  return &*first == &k ? k.symbol : fmt::format("{}.{}", k.symbol, kernel);
}

void require_references(const Program& program, const HostFunctions& functions) {
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& k = program.kernels[i];
    if (k.code != Code::user) continue;
    for (const ir::Op& op : k.body.ops()) {
      const auto* attr = std::get_if<ir::KernelAttr>(&op.attrs);
      if (!attr) continue;
      const std::string_view reference = k.body.strings[attr->reference];
      if (!reference.empty()) {
        find_host_function(functions, reference, {}, caller_text(program, i));
        continue;
      }
      throw_error("E0808",
                  fmt::format("kernel '{}' ({}) has no reference function, so only a GPU can "
                              "compute it",
                              k.body.strings[attr->name], caller_text(program, i)),
                  "name a host function that computes the same as its reference");
    }
  }
}

}  // namespace braid::runtime
