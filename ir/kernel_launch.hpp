// What launches of kernels of the user's need: numbers by value, shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ir/program.hpp"

namespace braid {

/// The bytes of a scalar parameter as the kernel takes them, then zeros.
std::array<std::byte, 8> scalar_bytes(const Parameter& parameter);

/// The most dynamic shared memory that a launch of the kernel's function takes: several kernels of
/// the user's may be launches of one function.
uint32_t most_shared_bytes(const Program& program, const Kernel& kernel);

}  // namespace braid
