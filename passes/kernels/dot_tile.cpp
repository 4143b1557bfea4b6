#include <algorithm>
#include <bit>
#include <limits>

#include "passes/kernels/dot.hpp"

namespace braid::kernels {
namespace {

// From many elements a block to few: large tiles read least, small ones fill more SMs.
constexpr DotTile kTiles[] = {
    {128, 128, 16, 8, 8, 1}, {64, 64, 16, 4, 4, 1},  {64, 32, 32, 4, 4, 2},
    {32, 32, 32, 4, 4, 4},   {32, 16, 64, 4, 4, 8},  {16, 16, 128, 4, 4, 16},
    {8, 16, 128, 4, 4, 32},  {8, 8, 128, 4, 4, 64},  {4, 64, 64, 4, 4, 16},
    {4, 16, 128, 4, 4, 64},  {1, 64, 64, 1, 4, 16},  {1, 16, 128, 1, 4, 64},
    {64, 4, 64, 4, 4, 16},   {16, 4, 128, 4, 4, 64}, {64, 1, 64, 4, 1, 16},
    {16, 1, 128, 4, 1, 64},
};

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cycles, roughly: FMA units and shared memory of an SM, its share of L2, and a round trip to
/// memory per chunk of bk.
double estimate(const DotTile& t, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                const Target& target) {
  const auto per_sm =
      static_cast<double>(divide_up(batch * divide_up(m, t.bm) * divide_up(n, t.bn), target.sms));
  const auto depth = static_cast<double>(std::max<int64_t>(k, 1));
  const auto area = static_cast<double>(t.bm * t.bn);
  const auto edge = static_cast<double>(t.bm + t.bn);
  const double fma = area / 128;
  const double shared =
      area * (1.0 / static_cast<double>(t.tm) + 1.0 / static_cast<double>(t.tn)) / 32;
  const double fetch = edge * static_cast<double>(bytes) / 32;
  const double chunk_latency = 400;
  const double combine =
      30.0 * static_cast<double>(std::bit_width(static_cast<uint64_t>(t.slices)));
  return per_sm * depth * std::max({fma, shared, fetch}) +
         static_cast<double>(divide_up(k, t.bk)) * chunk_latency + combine;
}

}  // namespace

int64_t DotTile::shared_elements() const {
  const int64_t tiles = bk * (bm + 4) + bk * (bn + 4);
  return slices > 1 ? std::max(tiles, slices * bm * bn) : tiles;
}

DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target) {
  DotTile best = kTiles[0];
  double least = std::numeric_limits<double>::infinity();
  for (DotTile t : kTiles) {
    const auto depth =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(k, 1))));
    t.bk = std::clamp(depth, t.slices, t.bk);
    const bool spills = t.tm * t.tn > 16 && bytes > 4;
    if (spills || t.shared_elements() * bytes > target.shared_bytes_per_block) continue;
    const double cycles = estimate(t, batch, m, n, k, bytes, target);
    if (cycles < least) {
      least = cycles;
      best = t;
    }
  }
  return best;
}

}  // namespace braid::kernels
