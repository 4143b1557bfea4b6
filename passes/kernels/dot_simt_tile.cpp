#include <algorithm>
#include <bit>
#include <limits>

#include "passes/kernels/dot_simt.hpp"

namespace braid::kernels {
namespace {

/// Cycles of an H200 (f32, measured over twelve shapes), in which blocks of other targets and types
/// rank alike: per term of K for a block alone on its SM and for each of several that share one,
/// and per block for its results.
struct Measured {
  DotTile tile;
  double alone, shared, results;
};
// From many elements a block to few: large tiles read least, small ones fill more SMs.
constexpr Measured kTiles[] = {
    {{128, 128, 16, 8, 8, 1}, 197, 108, 24000}, {{64, 64, 16, 4, 4, 1}, 73, 65, 2700},
    {{64, 32, 32, 4, 4, 2}, 48, 39, 550},       {{32, 32, 32, 4, 4, 4}, 29, 21.6, 540},
    {{32, 16, 64, 4, 4, 8}, 16.5, 14, 440},     {{16, 16, 128, 4, 4, 16}, 10, 8.1, 430},
    {{8, 16, 128, 4, 4, 32}, 7, 5.5, 500},      {{8, 8, 128, 4, 4, 64}, 7, 4.2, 790},
    {{4, 64, 64, 4, 4, 16}, 15, 11.2, 500},     {{4, 16, 128, 4, 4, 64}, 7, 4.7, 600},
    {{1, 64, 64, 1, 4, 16}, 12.5, 9.1, 300},    {{1, 16, 128, 1, 4, 64}, 6, 3.4, 350},
    {{64, 4, 64, 4, 4, 16}, 19, 15.2, 600},     {{16, 4, 128, 4, 4, 64}, 9, 5.3, 850},
    {{64, 1, 64, 4, 1, 16}, 18, 14.2, 350},     {{16, 1, 128, 4, 1, 64}, 9, 5.1, 400},
};

Work estimate(const Measured& t, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
              const Target& target) {
  const int64_t blocks = batch * divide_up(m, t.tile.bm) * divide_up(n, t.tile.bn);
  const auto per_sm = static_cast<double>(divide_up(blocks, target.sms));
  // A chunk of bk is fetched and multiplied whole.
  const auto depth = static_cast<double>(divide_up(k, t.tile.bk) * t.tile.bk);
  return {.blocks = blocks,
          .threads = static_cast<uint32_t>(t.tile.threads()),
          .shared_bytes = t.tile.shared_elements() * bytes,
          .cycles = depth * std::max(t.alone, per_sm * t.shared) + per_sm * t.results,
          .busy_cycles = static_cast<double>(blocks) / target.sms * depth * t.shared};
}

}  // namespace

int64_t DotTile::shared_elements() const {
  const int64_t tiles = bk * (bm + 4) + bk * (bn + 4);
  return slices > 1 ? std::max(tiles, slices * bm * bn) : tiles;
}

DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target, Work* work) {
  DotTile best = kTiles[0].tile;
  double least = std::numeric_limits<double>::infinity();
  const auto whole_k =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(k, 1))));
  for (Measured t : kTiles) {
    t.tile.bk = std::clamp(whole_k, t.tile.slices, t.tile.bk);
    const bool spills = t.tile.tm * t.tile.tn > 16 && bytes > 4;
    if (spills || t.tile.shared_elements() * bytes > target.shared_bytes_per_block) continue;
    const Work of_tile = estimate(t, batch, m, n, k, bytes, target);
    if (of_tile.cycles < least) {
      least = of_tile.cycles;
      best = t.tile;
      if (work) *work = of_tile;
    }
  }
  return best;
}

}  // namespace braid::kernels
