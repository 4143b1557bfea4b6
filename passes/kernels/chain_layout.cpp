// How threads share the products of a chain, and where everything lies in shared memory.
#include <algorithm>
#include <bit>

#include "passes/kernels/chain_plan.hpp"

namespace braid::kernels {
namespace {

int64_t up_to(int64_t x, int64_t unit) { return divide_up(x, unit) * unit; }

}  // namespace

/// Few rows: each element of the other operand is needed once, by the one thread that has it, so
/// that it goes to registers. A thread's 16 bytes are eight terms of an element of n; two mmas take
/// them, whose own order of terms does not matter.
bool ChainPlan::lay_out_stream(ChainStage& s) {
  constexpr int64_t kMostVectors = 16;
  if (s.rows > 8 || !is_last(s) || !s.b.copied || !s.b.k_fastest || !s.a.k_fastest) return false;
  const bool half = s.columns == 8;
  if (!half && (s.columns % 16 != 0 || s.columns / 16 > kWarps || kWarps % (s.columns / 16) != 0)) {
    return false;
  }
  const int64_t groups = half ? 1 : s.columns / 16;
  s.slices = kWarps / groups;
  if (s.k % (32 * s.slices) != 0 || s.k / 32 / s.slices * (half ? 1 : 2) > kMostVectors) {
    s.slices = 1;
    return false;
  }
  s.b.streamed = true;
  s.a.stride = s.k + 8;
  s.a.elements = s.rows * s.a.stride;
  s.pitch = s.columns + 4;
  s.plane = s.rows * s.pitch;
  return true;
}

/// Warps share the result, and what is left over of them its terms.
void ChainPlan::lay_out_mma(ChainStage& s) {
  const bool swapped = s.rows <= 8;
  const int64_t rows = up_to(swapped ? s.columns : s.rows, 16);
  const int64_t columns = up_to(swapped ? s.rows : s.columns, 8);
  MmaTile best{};
  double least = 0;
  for (const int64_t warp_rows : {16, 32, 64}) {
    for (const int64_t warp_columns : {8, 16, 32, 64}) {
      if (rows % warp_rows != 0 || columns % warp_columns != 0) continue;
      const int64_t parts = rows / warp_rows * (columns / warp_columns);
      for (int64_t slices = 1; slices <= 8; slices *= 2) {
        if (parts * slices > kWarps || s.k / 16 % slices != 0) continue;
        const auto steps = static_cast<double>(s.k / 16 / slices);
        const auto mmas = static_cast<double>(warp_rows / 16 * warp_columns / 8);
        const auto fragments = static_cast<double>(warp_rows / 16 + warp_columns / 16 + 1);
        const double cost =
            steps * (mmas * 9 + fragments * 8 + 10) + 60.0 * static_cast<double>(slices);
        if (best.rows != 0 && cost >= least) continue;
        least = cost;
        best = {rows, columns, warp_rows, warp_columns, slices, s.k, swapped, 1};
      }
    }
  }
  if (best.rows == 0) throw Refusal{"a block's part of a matrix product is too large"};
  s.tile = best;
  s.slices = best.slices;
  const MmaProblem problem{
      product_of(body_, body_.op(s.op)), {s.a.k_fastest, true}, {s.b.k_fastest, true}};
  for (ChainOperand* x : {&s.a, &s.b}) {
    // With what an mma reads beside the operand's own elements.
    const int64_t room = (x->outer == 'm') == swapped ? columns : rows;
    const DotOperand& how = x->outer == 'm' ? problem.a : problem.b;
    x->stride = row_stride(problem, how, room, s.k);
    x->elements = tile_elements(problem, how, room, s.k);
  }
  s.pitch = (swapped ? rows : columns) + 4;
  s.plane = (swapped ? columns : rows) * s.pitch;
}

void ChainPlan::lay_out_simt(ChainStage& s) {
  for (ChainOperand* x : {&s.a, &s.b}) {
    // Rows apart by an odd number of 16 bytes begin in different banks.
    const int64_t length = up_to(x->k_fastest ? s.k : x->side, 16 / x->element_bytes);
    x->stride = length + 16 / x->element_bytes;
    x->elements = (x->k_fastest ? x->side : s.k) * x->stride;
  }
  s.pitch = s.columns + 4;
  s.plane = s.rows * s.pitch;
  if (s.b.k_fastest) return;  // a few threads side by side share the terms of each element
  if (s.columns % 4 == 0 && s.rows * s.columns >= 4 * kThreads) s.thread_columns = 4;
  for (const int64_t rows : {8, 4, 2}) {
    if (s.rows % rows == 0 && s.rows / rows * (s.columns / s.thread_columns) >= kThreads) {
      s.thread_rows = rows;
      break;
    }
  }
  const int64_t parts = s.rows / s.thread_rows * (s.columns / s.thread_columns);
  const int64_t most = std::min<int64_t>(8, std::max<int64_t>(1, s.k / 8));
  s.slices = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(kThreads / parts, 1, most))));
}

void ChainPlan::place_memory() {
  const auto take = [&](int64_t bytes) {
    const int64_t at = shared_bytes;
    shared_bytes = up_to(at + bytes, 16);
    return at;
  };
  for (ChainStage& s : stages) {
    if (s.is_dot) {
      s.a.offset = take(s.a.bytes());
      if (!s.b.streamed) s.b.offset = take(s.b.bytes());
    }
    if (s.is_dot || s.stored) s.offset = take(s.bytes);
  }
  if (tile_.split > 1) shares_offset = take(tile_.packs() * 16);
}

}  // namespace braid::kernels
