// The numbers that kernels of the user's take by value.
#pragma once

#include <array>
#include <cstddef>

#include "ir/program.hpp"

namespace braid {

/// The bytes of a scalar parameter as the kernel takes them, then zeros.
std::array<std::byte, 8> scalar_bytes(const Parameter& parameter);

}  // namespace braid
