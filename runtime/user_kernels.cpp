#include "runtime/user_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel_launch.hpp"

namespace braid::runtime {

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

}  // namespace braid::runtime
