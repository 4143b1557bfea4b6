// What a chain kernel costs, and the tile that costs least.
#include <algorithm>

#include "passes/kernels/chain_writer.hpp"

namespace braid::kernels {
namespace {

// Cycles and bytes of an H200.
constexpr double kStart = 700;        // first bytes of what is no operand, last stores
constexpr double kLatency = 400;      // of the operands' copies beyond that
constexpr double kBytesPerSm = 48;    // a cycle, that one SM draws from L2
constexpr double kBytesInAll = 3200;  // a cycle, that L2 gives
constexpr double kStage = 80;         // barriers, addresses
constexpr double kElement = 12;       // instructions to compute one element of an operand
constexpr double kReduced = 8;        // the same of a reduction
constexpr double kWarpReduce = 200, kBlockReduce = 280;
constexpr double kCluster = 700;  // to meet, and to send sums
constexpr double kIssue = 128;    // instructions of threads a cycle
/// Of an SM's shared memory what dynamic memory cannot have: the block's 1 KiB, and static scratch.
constexpr int64_t kReserved = 4 * 1024;

/// A thread's walk of a row, for each pass over it.
double cycles_of(const RowLayout& walk, double instructions) {
  const auto elements = static_cast<double>(walk.turns() * walk.items());
  return elements * instructions * ChainPlan::kThreads / kIssue;
}

double cycles_of(const ChainStage& s) {
  constexpr auto kThreads = static_cast<double>(ChainPlan::kThreads);
  if (!s.is_dot) {
    return (s.follows ? 0 : kStage) + (s.walk->by_block ? kBlockReduce : kWarpReduce) +
           cycles_of(*s.walk, kReduced);
  }
  double cycles = 2 * kStage;
  if (s.walk) cycles += cycles_of(*s.walk, kElement);
  if (!s.b.copied) {
    cycles += kStage + static_cast<double>(s.columns * s.k) * kElement / kIssue;
  }
  const auto k = static_cast<double>(s.k);
  if (s.b.streamed) {
    cycles += 100 + k / 32 / static_cast<double>(s.slices) * 40;
  } else if (s.mma) {
    const double steps = k / 16 / static_cast<double>(s.slices);
    const auto mmas = static_cast<double>(s.tile.warp_rows / 16 * s.tile.warp_columns / 8);
    cycles += 60 + steps * (mmas * 9 + 25);
  } else if (s.b.k_fastest) {
    cycles += static_cast<double>(divide_up(s.rows * s.columns * 8, ChainPlan::kThreads)) *
              (k / 8 * 6 + 60);
  } else {
    const int64_t parts = s.rows / s.thread_rows * (s.columns / s.thread_columns) * s.slices;
    const auto of_thread = static_cast<double>(s.thread_rows * s.thread_columns);
    const auto reads = static_cast<double>(s.thread_rows + s.thread_columns);
    const double step = (of_thread + reads * 2) * kThreads / kIssue;
    cycles += static_cast<double>(divide_up(parts, ChainPlan::kThreads)) *
              (60 + k / static_cast<double>(s.slices) * std::max(step, 8.0));
  }
  return cycles + (s.slices > 1 ? kStage + 10 * static_cast<double>(s.slices) : 0);
}

}  // namespace

Work ChainPlan::work(const Target& target) const {
  const int64_t blocks_in_all = blocks() * signature_.parts;
  // Clusters of more than two blocks leave some SMs unused: 120 of 132 were found to do.
  const int64_t sms = tile_.split > 2 ? std::max<int64_t>(1, target.sms * 10 / 11) : target.sms;
  const auto per_sm = static_cast<double>(divide_up(blocks_in_all, sms));
  const auto busy = static_cast<double>(std::min<int64_t>(blocks_in_all, target.sms));
  double bytes = 0, stages_cycles = 0;
  for (const ChainStage& s : stages) {
    stages_cycles += cycles_of(s);
    if (!s.is_dot) continue;
    for (const ChainOperand* x : {&s.a, &s.b}) {
      if (x->copied) bytes += static_cast<double>(x->side * s.k * x->element_bytes);
    }
  }
  double stored = static_cast<double>(tile_.rows * tile_.columns);
  if (packed) stored /= kPack;
  const double stores = 60 * std::max(1.0, stored / static_cast<double>(kThreads));
  const double cluster = tile_.split > 1 ? kCluster : 0;
  const double copies = bytes / std::min(kBytesPerSm, kBytesInAll / busy);
  const double once = copies + stages_cycles + stores + cluster;
  const double spread = static_cast<double>(blocks_in_all) / target.sms;
  return {.blocks = blocks_in_all,
          .threads = static_cast<uint32_t>(kThreads),
          .shared_bytes = shared_bytes,
          .cycles = kStart + (bytes > 0 ? kLatency : 0) + per_sm * once,
          .busy_cycles = spread * std::max(bytes / (kBytesInAll / target.sms), once / 2)};
}

std::unique_ptr<ChainPlan> ChainPlan::best(const ir::Graph& body, const Signature& signature,
                                           const std::vector<Sink>& sinks, const Target& target,
                                           bool may_stand_alone) {
  const ir::Op* root = nullptr;
  const std::vector<bool> needed = needed_by(body, sinks);
  for (const ir::Op& op : body.ops()) {
    if (op.kind == ir::OpKind::dot && needed[op.result.index]) root = &op;
  }
  if (!root) throw Refusal{"it has no matrix product, which is the row family's"};
  const Product p = product_of(body, *root);
  if (p.batch * p.m * p.n == 0) throw Refusal{"its last matrix product is empty"};
  const auto sides = [](int64_t extent, std::initializer_list<int64_t> wanted) {
    std::vector<int64_t> found;
    for (int64_t w : wanted) {
      if (w > extent) w = extent;
      while (w > 1 && extent % w != 0) --w;
      if (std::find(found.begin(), found.end(), w) == found.end()) found.push_back(w);
    }
    return found;
  };
  std::unique_ptr<ChainPlan> best;
  double least = 0;
  std::optional<Refusal> refusal;
  const auto consider = [&](ChainTile tile) {
    try {
      auto plan = std::make_unique<ChainPlan>(body, signature, sinks, tile, may_stand_alone);
      if (plan->shared_bytes > shared_bytes_per_sm(target) - kReserved) {
        throw Refusal{"a block's part does not fit in shared memory"};
      }
      const double cycles = plan->work(target).cycles;
      if (best && cycles >= least) return;
      least = cycles;
      best = std::move(plan);
    } catch (const WholeRefusal&) {
      throw;
    } catch (const Refusal& r) {
      if (!refusal) refusal = r;
    }
  };
  // Few tiles, since plans are made for every pair of kernels that may become one. Eight columns
  // are for few rows, whose other operand goes to registers.
  const std::vector<int64_t> rows = p.m <= 8 ? sides(p.m, {p.m}) : sides(p.m, {16, 32, 8});
  std::vector<int64_t> columns = sides(p.n, {p.n, 128, 64, 32, 16});
  if (p.m <= 8 && p.n % 8 == 0 && p.n > 8) columns.push_back(8);
  // Of narrow columns the two narrowest whose blocks find an SM each: each block has less to do.
  std::sort(columns.begin(), columns.end());
  for (const int64_t r : rows) {
    int taken = 0;
    for (const int64_t c : columns) {
      const int64_t blocks = p.batch * signature.parts * (p.m / r) * (p.n / c);
      if (blocks > target.sms && c != columns.back()) continue;
      consider({r, c, 1});
      if (++taken == 2) break;
    }
  }
  if (has_clusters(target)) {
    const ChainTile alone = best ? best->tile() : ChainTile{rows[0], p.n};
    std::vector<ChainTile> shared{alone, {rows[0], p.n}};
    if (shared[0].rows == shared[1].rows && shared[0].columns == shared[1].columns) {
      shared.pop_back();
    }
    for (const ChainTile& t : shared) {
      const int64_t blocks = p.batch * signature.parts * (p.m / t.rows) * (p.n / t.columns);
      for (const int64_t split : {2, 4, 8}) {
        if (blocks * split <= target.sms) consider({t.rows, t.columns, split});
      }
    }
  }
  if (!best) throw refusal.value_or(Refusal{"no tile fits"});
  return best;
}

std::unique_ptr<ChainPlan> streamed_product(const ir::Graph& body, const Signature& signature,
                                            const std::vector<Sink>& sinks, const Target& target) {
  std::unique_ptr<ChainPlan> plan;
  try {
    plan = ChainPlan::best(body, signature, sinks, target, true);
  } catch (const Refusal&) {
    return nullptr;
  }
  return plan->stages.size() == 1 && plan->stages[0].b.streamed ? std::move(plan) : nullptr;
}

}  // namespace braid::kernels
