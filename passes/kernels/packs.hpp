// Neighbours in memory, moved together by the thread that computes them.
#pragma once

#include <functional>
#include <vector>

#include "passes/kernels/sinks.hpp"

namespace braid::kernels {

/// Elements that move as one: at most two accesses of 16 bytes.
inline constexpr int64_t kPack = 4;

/// Splits linear = count * pack + lane if it has that form; the pack's number does not depend on
/// the lane, a variable in [0, count).
bool split_pack(IndexPool& pool, Index linear, Index lane, int64_t count, Index* pack);

/// Writes the sinks for kPack elements in a loop over `lane`; what lies consecutive in memory moves
/// as packs before and after it. `define` runs inside the loop, before anything is written there.
void write_packed_sinks(ExprWriter& writer, Index lane, const std::vector<PlacedSink>& sinks,
                        const std::function<void()>& define);

}  // namespace braid::kernels
