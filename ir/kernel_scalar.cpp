#include "ir/kernel_scalar.hpp"

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

}  // namespace braid
