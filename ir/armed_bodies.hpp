// Bodies of conditional nodes that have not run yet, and what they cost the whole process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/program.hpp"

namespace braid {

/// Uploading a graph arms each body of its conditional nodes until it first runs. While the armed
/// ones of a process add up to more than so many units, every dependent kernel in every graph of
/// the process starts later by kArmedUs. Measured on one H200 (driver 580, CUDA 13.0): 12 units
/// were never slow, 14 sometimes and 15 always; destroying the graph does not take them back.
inline constexpr int64_t kArmedUnits = 12;
inline constexpr double kArmedUs = 0.18;

/// Of one body: its kernels and its chains; an empty one has none.
constexpr int64_t armed_units(size_t kernels, size_t chains) {
  return kernels == 0 ? 0 : static_cast<int64_t>(kernels + chains);
}

/// Of all bodies that may never run: sides of branches, and loops of which no constant says that
/// they begin. Lanes stand for chains, conditional nodes inside count as kernels.
int64_t armed_units(const Program& p);

}  // namespace braid
