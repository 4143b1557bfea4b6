#include <algorithm>
#include <bit>
#include <limits>

#include "passes/kernels/dot_mma.hpp"

namespace braid::kernels {
namespace {

// bk for 2-byte elements; 4-byte ones take half.
constexpr MmaTile kTiles[] = {
    {128, 128, 64, 32, 1, 32}, {128, 64, 32, 32, 1, 64}, {128, 32, 32, 32, 2, 64},
    {64, 64, 32, 32, 2, 64},   {64, 32, 32, 32, 4, 64},  {32, 32, 32, 32, 8, 128},
    {64, 16, 32, 16, 4, 128},  {32, 16, 32, 16, 8, 128}, {16, 16, 16, 16, 8, 256},
    {64, 8, 32, 8, 4, 128},    {32, 8, 32, 8, 8, 256},   {16, 8, 16, 8, 8, 256},
};

/// Every target gives a block this much when asked.
constexpr int64_t kSharedBytes = 96 * 1024;

// Cycles and bytes of an H200.
constexpr double kStart = 900;        // launch, first bytes, last stores
constexpr double kLatency = 700;      // from asking for a chunk to having it
constexpr double kBytesPerSm = 48;    // a cycle, that one SM draws from L2
constexpr double kBytesInAll = 3200;  // a cycle, that L2 gives
constexpr double kMmaPerSm = 2.2;     // cycles an mma occupies an SM, all four parts at work
constexpr double kChunk = 150;        // cycles: barrier, addresses, the first fragments
constexpr double kElement = 10;       // instructions to bring one element through registers
// A tile whose mma rows run along m stores fewer neighbours at once: measured beside its swapped
// twin at eight sizes, 0 to 1000 cycles more.
constexpr double kStores = 200;

MmaTile fitted(MmaTile t, const MmaProblem& p, int64_t blocks_per_sm) {
  const auto whole_k = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.product.k)));
  t.bk = std::clamp(whole_k, p.depth(), t.bk * 2 / p.bytes());
  t.slices = std::min(t.slices, t.bk / p.depth());
  const int64_t stage =
      p.bytes() * (tile_elements(p, p.a, t.bm(), t.bk) + tile_elements(p, p.b, t.bn(), t.bk));
  const int64_t chunks = divide_up(p.product.k, t.bk);
  const int64_t budget = std::min(kSharedBytes, 2 * kSharedBytes / blocks_per_sm);
  const int64_t most = p.a.async || p.b.async ? 6 : 2;
  t.stages = std::min({chunks, most, std::max<int64_t>(2, budget / stage)});
  return t;
}

}  // namespace

int64_t row_stride(const MmaProblem& p, const DotOperand& x, int64_t side, int64_t bk) {
  const int64_t length = x.k_fastest ? bk : side;
  // ldmatrix reads 16 bytes a row; tf32 across k reads eight neighbours of four rows.
  const int64_t unit = x.k_fastest ? p.vector() : 8;
  return length / unit % 2 == 0 ? length + unit : length;
}

int64_t tile_elements(const MmaProblem& p, const DotOperand& x, int64_t side, int64_t bk) {
  return (x.k_fastest ? side : bk) * row_stride(p, x, side, bk);
}

int64_t shared_bytes(const MmaProblem& p, const MmaTile& t) {
  const int64_t stage = tile_elements(p, p.a, t.bm(), t.bk) + tile_elements(p, p.b, t.bn(), t.bk);
  return std::max(t.stages * stage * p.bytes(), t.slices * t.bm() * (t.bn() + 4) * 4);
}

Work estimate_work(const MmaProblem& p, const MmaTile& t, const Target& target) {
  const Product& d = p.product;
  const int64_t blocks = d.batch * divide_up(d.m, t.bm()) * divide_up(d.n, t.bn());
  const auto per_sm = static_cast<double>(divide_up(blocks, target.sms));
  const auto busy = static_cast<double>(std::min<int64_t>(blocks, target.sms));
  const auto k = static_cast<double>(d.k);
  const auto chunks = static_cast<double>(divide_up(d.k, t.bk));

  // Bytes and instructions that an operand costs a block, per term of K.
  double bytes = 0, instructions = 0;
  const auto count = [&](const DotOperand& x, int64_t side, int64_t extent) {
    double b = static_cast<double>(std::min(side, extent) * p.bytes());
    if (!x.k_fastest) b = std::max(b, 32.0);  // a sector of L2
    bytes += b;
    instructions += x.async ? static_cast<double>(side) / static_cast<double>(p.vector()) * 4
                            : static_cast<double>(side) * kElement;
  };
  count(p.a, t.bm(), d.m);
  count(p.b, t.bn(), d.n);
  const auto warps = static_cast<double>(t.threads() / 32);
  const auto ahead = static_cast<double>(t.stages - (d.k > t.bk * t.stages ? 1 : 0)) *
                     static_cast<double>(t.bk);  // terms of K on their way
  const double share = std::min({kBytesPerSm, kBytesInAll / busy,
                                 std::max(1.0, ahead) * bytes / kLatency * std::min(per_sm, 2.0)});
  const double load = per_sm * k * bytes / share;
  const double issue = per_sm * k * instructions / 128;
  const double steps = chunks * static_cast<double>(t.bk / p.depth());
  const double mmas = static_cast<double>(t.rows / 16 * (t.columns / 8)) * steps;
  const double fragments = steps *
                           static_cast<double>(t.rows / t.warp_rows * (t.columns / t.warp_columns) *
                                               (t.warp_rows + t.warp_columns)) *
                           32 / 128;
  const double multiply =
      per_sm *
      std::max(mmas * kMmaPerSm * 4 / std::min(warps * std::min(per_sm, 2.0), 4.0), fragments);
  const double results = per_sm * static_cast<double>(t.bm() * t.bn()) / 32 / warps *
                         (20 + 2 * static_cast<double>(t.slices));
  const double cycles = kStart + std::max(load + issue, multiply) +
                        chunks * kChunk * std::min(per_sm, 4.0) + results +
                        (t.swapped ? 0 : kStores);
  // What all SMs do together, were the blocks spread evenly and every wait filled.
  const double spread = static_cast<double>(blocks) / target.sms / per_sm;
  const double draw = static_cast<double>(blocks) * k * bytes / kBytesInAll;
  const double threads = spread * (issue + results);
  const double multiplies = spread * per_sm * std::max(mmas * kMmaPerSm, fragments);
  return {.blocks = blocks,
          .threads = static_cast<uint32_t>(t.threads()),
          .shared_bytes = shared_bytes(p, t),
          .cycles = cycles,
          .busy_cycles = std::min(cycles, std::max({draw, threads, multiplies}))};
}

double estimate_cycles(const MmaProblem& p, const MmaTile& t, const Target& target) {
  return estimate_work(p, t, target).cycles;
}

std::vector<MmaTile> mma_tiles(const MmaProblem& p, const Target& target) {
  std::vector<MmaTile> tiles;
  for (MmaTile t : kTiles) {
    for (const bool swapped : {false, true}) {
      t.swapped = swapped;
      const Product& d = p.product;
      const int64_t blocks = d.batch * divide_up(d.m, t.bm()) * divide_up(d.n, t.bn());
      tiles.push_back(fitted(t, p, std::max<int64_t>(1, divide_up(blocks, target.sms))));
    }
  }
  return tiles;
}

MmaTile choose_mma_tile(const MmaProblem& p, const Target& target) {
  MmaTile best{};
  double least = std::numeric_limits<double>::infinity();
  for (const MmaTile& t : mma_tiles(p, target)) {
    const double cycles = estimate_cycles(p, t, target);
    if (cycles < least) {
      least = cycles;
      best = t;
    }
  }
  return best;
}

}  // namespace braid::kernels
