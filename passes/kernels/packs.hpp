// Neighbours in memory, moved together by the thread that computes them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "passes/kernels/sinks.hpp"

namespace braid::kernels {

/// Elements that move as one: at most two accesses of 16 bytes.
inline constexpr int64_t kPack = 4;

/// Splits linear = count * pack + lane if it has that form; the pack's number does not depend on
/// the lane, a variable in [0, count).
bool split_pack(IndexPool& pool, Index linear, Index lane, int64_t count, Index* pack);

/// The statements that store kPack elements of every sink.
struct PackedSinks {
  std::vector<std::string> before;  // loads and declarations: what does not need `define`'s values
  std::vector<std::string> after;   // a loop over the elements, then the stores
};
/// `lane` is the loop's variable. `early`: what is loaded is to be on its way where `before`
/// stands. What lies consecutive in memory moves as packs. `define` gives
/// the values that the caller has computed, as names that hold inside the loop.
PackedSinks packed_sinks(ExprWriter& writer, Index lane, const std::vector<PlacedSink>& sinks,
                         const std::function<void()>& define = {}, bool early = false);

}  // namespace braid::kernels
