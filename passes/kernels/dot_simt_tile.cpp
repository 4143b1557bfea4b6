#include <algorithm>
#include <bit>
#include <limits>

#include "passes/kernels/dot_simt.hpp"

namespace braid::kernels {
namespace {

/// From many elements a block to few: large tiles read least, small ones fill more SMs.
constexpr SimtTile kTiles[] = {
    {128, 128, 8, 8}, {128, 64, 8, 8}, {128, 64, 8, 4}, {64, 64, 8, 8}, {64, 64, 8, 4},
    {32, 64, 8, 8},   {64, 32, 8, 8},  {32, 32, 8, 8},  {32, 32, 8, 4}, {16, 32, 8, 4},
    {16, 32, 4, 4},   {32, 16, 4, 4},  {16, 16, 4, 4},  {8, 32, 2, 4},  {8, 16, 4, 4},
    {16, 8, 4, 4},    {8, 8, 4, 4},    {8, 8, 2, 4},    {4, 64, 4, 4},  {4, 16, 4, 4},
    {4, 8, 2, 4},     {1, 64, 1, 4},   {1, 16, 1, 4},   {64, 4, 4, 4},  {16, 4, 4, 4},
    {64, 1, 4, 1},    {16, 1, 4, 1},
};
constexpr int64_t kMostTeams = 8;

/// Every target gives a block this much when asked.
constexpr int64_t kSharedBytes = 96 * 1024;
/// The size that every GPU with clusters has.
constexpr int64_t kLargestCluster = 8;

// Cycles and bytes of an H200: least squares over 855 tiles of 16 products. For those that take at
// most 1.3 times what the best takes, times are off by 8 % (root mean square), and by 20 % at most
// for those that are chosen. Not measured: one row of activations, elements through registers, f64.
constexpr double kStart = 860;        // launch, first bytes, last stores
constexpr double kBytesPerSm = 64;    // a cycle, that one SM draws from L2
constexpr double kBytesInAll = 3580;  // a cycle, that L2 gives
constexpr double kLine = 64;          // bytes that a row of an operand costs at least
constexpr double kFmas = 128;         // a cycle, of an SM
constexpr double kReads = 4.9;        // multiply-adds that reading a pack from shared memory costs
constexpr double kWarps = 3.1;        // of an SM, below which multiply-adds wait for one another
constexpr double kCopy = 3.4;         // instructions of an asynchronous copy
constexpr double kElement = 10;       // instructions to bring one element through registers
constexpr double kHidden = 0.63;      // of the lesser of loading and multiplying
constexpr double kSlice = 9.8;        // instructions to add one element of a slice
constexpr double kCluster = 700;      // to meet, and to send sums
/// Clusters of more than two blocks find places for so many blocks on so many SMs: one block more
/// waits until others have ended, and then the kernel takes twice the time.
constexpr int64_t kClusterSms = 120, kSms = 132;

/// A team's chunk and its stages, if the tile can be had.
bool fit(SimtTile& t, const SimtProblem& p, const Target& target) {
  if (t.lanes() > 32 && t.teams > 1) return false;
  // Copies do not reach beyond the tile.
  if (p.a.async && !p.a.k_fastest && t.bm % p.a.vector != 0) return false;
  if (p.b.async && !p.b.k_fastest && t.bn % p.b.vector != 0) return false;
  // Registers: many sums leave few for the addresses of single elements, and of words.
  if (t.tm * t.tn > 16 && p.bytes > 4) return false;
  if (t.tm * t.tn > 32 && (p.a.vector == 1 || p.b.vector == 1)) return false;
  const int64_t each = divide_up(std::max<int64_t>(p.product.k, 1), t.split * t.teams);
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(each)));
  const int64_t least = kPack * t.team_slices();
  t.bk = std::clamp(whole, least, std::max<int64_t>(least, t.lanes() < 16 ? 32 : 16));
  // Every team of every block has some terms of K, and every block elements to add up.
  if (t.teams * t.split > 1 && (t.teams * t.split - 1) * t.bk >= p.product.k) return false;
  if (t.split > 1) {
    if ((t.split - 1) * t.stretch(p.product.k) >= p.product.k) return false;
    if (t.bn % kPack != 0 || t.bm * t.bn / kPack % t.split != 0) return false;
  }
  const int64_t blocks =
      p.product.batch * divide_up(p.product.m, t.bm) * divide_up(p.product.n, t.bn) * t.split;
  const int64_t per_sm = std::max<int64_t>(1, divide_up(blocks, target.sms));
  const int64_t budget = std::min(kSharedBytes, 2 * kSharedBytes / per_sm);
  const int64_t stage = p.bytes * t.teams * (tile_elements(p, t, 'm') + tile_elements(p, t, 'n'));
  const int64_t most = p.a.async || p.b.async ? 4 : 2;
  t.stages = std::max<int64_t>(
      1, std::min({t.chunks(p.product.k), most, std::max<int64_t>(2, budget / stage)}));
  return shared_bytes(p, t) <= kSharedBytes;
}

}  // namespace

int64_t tile_elements(const SimtProblem& p, const SimtTile& t, char outer) {
  const DotOperand& x = outer == 'm' ? p.a : p.b;
  return (x.k_fastest ? (outer == 'm' ? t.bm : t.bn) : t.bk) * row_stride(p, t, outer);
}

int64_t share_at(const SimtProblem& p, const SimtTile& t) {
  return std::max(t.teams * t.stages * (tile_elements(p, t, 'm') + tile_elements(p, t, 'n')),
                  t.slices() * t.bm * (t.bn + 4));
}

int64_t shared_bytes(const SimtProblem& p, const SimtTile& t) {
  return p.bytes * (share_at(p, t) + (t.split > 1 ? t.bm * t.bn : 0));
}

Work estimate_work(const SimtProblem& p, const SimtTile& t, const Target& target) {
  const Product& d = p.product;
  const int64_t blocks = d.batch * divide_up(d.m, t.bm) * divide_up(d.n, t.bn) * t.split;
  const int64_t places =
      t.split > 2 ? std::max(t.split, target.sms * kClusterSms / kSms) : target.sms;
  const auto per_sm = static_cast<double>(divide_up(blocks, places));
  const auto busy = static_cast<double>(std::min<int64_t>(blocks, target.sms));
  const auto k = static_cast<double>(t.stretch(d.k));

  // Bytes and instructions that an operand costs a block, per term of K.
  double bytes = 0, instructions = 0;
  const auto count = [&](const DotOperand& x, int64_t side, int64_t extent) {
    const auto row = static_cast<double>(std::min(side, extent) * p.bytes);
    bytes += x.k_fastest ? row : std::max(row, kLine);
    instructions +=
        static_cast<double>(side) * (x.async ? kCopy / static_cast<double>(x.vector) : kElement);
  };
  count(p.a, t.bm, d.m);
  count(p.b, t.bn, d.n);
  const auto elements = static_cast<double>(t.bm * t.bn);
  const double packs = static_cast<double>(t.tm + t.tn) / kPack / static_cast<double>(t.tm * t.tn);
  const double wide = static_cast<double>(p.bytes) / 4;
  const double warps = static_cast<double>(t.threads()) / 32 * std::min(per_sm, 2.0);
  const double fmas = per_sm * k * elements * wide * (1 + kReads * packs) / kFmas;
  const double issue = per_sm * k * instructions / kFmas;
  const double load = per_sm * k * bytes / std::min(kBytesPerSm, kBytesInAll / busy);
  const double multiply = fmas * std::max(1.0, kWarps / warps) + issue;
  const double results = per_sm * elements * kSlice * static_cast<double>(t.slices()) / kFmas;
  const double cycles = kStart + std::max(load, multiply) +
                        (1 - kHidden) * std::min(load, multiply) + results +
                        (t.split > 1 ? kCluster : 0);
  // What all SMs do together, were the blocks spread evenly and every wait filled.
  const double spread = static_cast<double>(blocks) / target.sms / per_sm;
  const double draw = static_cast<double>(blocks) * k * bytes / kBytesInAll;
  return {.blocks = blocks,
          .threads = static_cast<uint32_t>(t.threads()),
          .shared_bytes = shared_bytes(p, t),
          .cycles = cycles,
          .busy_cycles = std::min(cycles, std::max(draw, spread * (fmas + issue + results)))};
}

std::vector<SimtTile> simt_tiles(const SimtProblem& p, const Target& target) {
  std::vector<SimtTile> tiles;
  const Product& d = p.product;
  const bool clusters = p.may_split && has_clusters(target);
  for (SimtTile t : kTiles) {
    const int64_t alone = d.batch * divide_up(d.m, t.bm) * divide_up(d.n, t.bn);
    // Where tiles fill the SMs nothing is left to share.
    const int64_t largest = clusters && alone < target.sms ? kLargestCluster : 1;
    for (t.split = 1; t.split <= largest; t.split *= 2) {
      for (t.teams = 1; t.teams <= kMostTeams; t.teams *= 2) {
        SimtTile fitted = t;
        if (fit(fitted, p, target)) tiles.push_back(fitted);
      }
    }
  }
  return tiles;
}

SimtTile choose_simt_tile(const SimtProblem& p, const Target& target) {
  SimtTile best{};
  double least = std::numeric_limits<double>::infinity();
  for (const SimtTile& t : simt_tiles(p, target)) {
    const double cycles = estimate_work(p, t, target).cycles;
    if (cycles < least) {
      least = cycles;
      best = t;
    }
  }
  return best;
}

}  // namespace braid::kernels
