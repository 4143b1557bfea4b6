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

/// Two barriers of a cluster, and reading each other's sums.
constexpr double kClusterCycles = 1300;
/// Clusters where tiles alone would fill no more than one SM in so many: there the last product of
/// eight towers, 32 x 16 of 2048 terms, took 2.3 us less. Where tiles fill the device they lose:
/// the products of a recommendation model took 70 us in place of 66.
constexpr int64_t kIdle = 4;
/// The size that every GPU with clusters has.
constexpr int64_t kLargestCluster = 8;

Work estimate(const Measured& t, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
              const Target& target) {
  const int64_t split = t.tile.split;
  const int64_t blocks = batch * divide_up(m, t.tile.bm) * divide_up(n, t.tile.bn) * split;
  const auto per_sm = static_cast<double>(divide_up(blocks, target.sms));
  // A chunk of bk is fetched and multiplied whole.
  const auto depth = static_cast<double>(t.tile.stretch(k));
  const double results = split == 1 ? t.results : t.results / static_cast<double>(split);
  return {.blocks = blocks,
          .threads = static_cast<uint32_t>(t.tile.threads()),
          .shared_bytes = t.tile.shared_elements() * bytes,
          .cycles = depth * std::max(t.alone, per_sm * t.shared) + per_sm * results +
                    (split == 1 ? 0 : kClusterCycles),
          .busy_cycles = static_cast<double>(blocks) / target.sms * depth * t.shared};
}

}  // namespace

int64_t DotTile::shared_elements() const {
  const int64_t tiles = bk * (bm + 4) + bk * (bn + 4);
  return slices > 1 || split > 1 ? std::max(tiles, slices * bm * bn) : tiles;
}

int64_t DotTile::stretch(int64_t k) const { return divide_up(divide_up(k, split), bk) * bk; }

DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target, Work* work, bool may_split) {
  DotTile best = kTiles[0].tile;
  double least = std::numeric_limits<double>::infinity();
  const auto whole_k =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(k, 1))));
  const auto consider = [&](Measured t, int64_t split) {
    t.tile.bk = std::clamp(whole_k, t.tile.slices, t.tile.bk);
    t.tile.split = split;
    const bool spills = t.tile.tm * t.tile.tn > 16 && bytes > 4;
    if (spills || t.tile.shared_elements() * bytes > target.shared_bytes_per_block) return;
    // Every block has some terms of k, and elements to add up.
    if (split > 1 && (split - 1) * t.tile.stretch(k) >= k) return;
    if (t.tile.bm * t.tile.bn % split != 0) return;
    const Work of_tile = estimate(t, batch, m, n, k, bytes, target);
    if (of_tile.cycles >= least) return;
    least = of_tile.cycles;
    best = t.tile;
    if (work) *work = of_tile;
  };
  for (const Measured& t : kTiles) consider(t, 1);
  const int64_t blocks = batch * divide_up(m, best.bm) * divide_up(n, best.bn);
  if (!may_split || !has_clusters(target) || kIdle * blocks > target.sms) return best;
  for (const Measured& t : kTiles) {
    for (int64_t split = 2; split <= kLargestCluster; split *= 2) consider(t, split);
  }
  return best;
}

}  // namespace braid::kernels
