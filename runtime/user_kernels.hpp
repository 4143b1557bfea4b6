// Inside the runtime: what kernels of the user's need beyond ours.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "runtime/driver.hpp"

namespace braid::runtime {

/// The array of pointers to arguments that launches take: of our kernels the slots in order, of the
/// user's its parameters. `slots` must outlive it.
class KernelArguments {
 public:
  KernelArguments(const Kernel& kernel, const std::vector<CUdeviceptr>& slots);
  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;
  void** data() { return pointers_.data(); }

 private:
  std::vector<std::array<std::byte, 8>> scalars_;
  std::vector<void*> pointers_;
};

/// What the simulator calls a kernel: several launches of one function have one symbol in an image.
std::string simulated_symbol(const Program& program, size_t kernel);

}  // namespace braid::runtime
