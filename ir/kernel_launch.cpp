#include "ir/kernel_launch.hpp"

#include <algorithm>

#include "ir/tensor.hpp"

namespace braid {

std::array<std::byte, 8> scalar_bytes(const Parameter& parameter) {
  HostTensor one(TensorType{parameter.dtype, {}});
  one.set(0, parameter.number);
  std::array<std::byte, 8> bytes{};
  std::copy(one.bytes.begin(), one.bytes.end(), bytes.begin());
  return bytes;
}

uint32_t most_shared_bytes(const Program& program, const Kernel& kernel) {
  uint32_t most = kernel.launch.shared_bytes;
  if (kernel.code != Code::user) return most;
  for (const Kernel& k : program.kernels) {
    if (k.module == kernel.module && k.symbol == kernel.symbol) {
      most = std::max(most, k.launch.shared_bytes);
    }
  }
  return most;
}

}  // namespace braid
