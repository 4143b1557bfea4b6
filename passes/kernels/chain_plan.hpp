// What a block of a chain kernel does, stage by stage, and where everything lies in shared memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "passes/kernels/dot_mma.hpp"

namespace braid::kernels {

/// The elements of a value that a block has: those at `base` plus [0, extent) along every axis.
struct Box {
  At base;
  std::vector<int64_t> extents;
  int64_t numel() const;
};

/// How threads are laid over rows and columns: all of them over the one row, or a warp over each.
struct RowLayout {
  bool by_block = false;
  int64_t rows = 1, columns = 1;
  static RowLayout of(int64_t rows, int64_t columns);
  int64_t turns() const;  // rows of a warp
  int64_t items() const;  // columns of a thread
  bool operator==(const RowLayout&) const = default;
};

/// An operand of a product in shared memory: `side` elements along m or n, by all terms of K.
struct ChainOperand {
  char outer = 'm';
  ir::ValueId value;
  std::optional<ExprWriter::Load> copied;  // by 16 bytes, from an argument; else computed
  bool fixed = false;                      // may be copied before the kernel waits
  bool streamed = false;                   // copied to registers, and in no shared memory
  bool k_fastest = true;
  int64_t side = 0;    // elements along m or n
  int64_t stride = 0;  // between rows, in elements
  int64_t offset = 0;  // bytes
  int64_t bytes() const { return elements * element_bytes; }
  int64_t elements = 0, element_bytes = 4;
};

/// A product or a reduction, whose results the block keeps. Neighbouring reductions of the same
/// rows, and the computed operand of a product behind them, are one run: a thread walks the same
/// elements in each, and the results stay in registers.
struct ChainStage {
  ir::OpId op;
  size_t number = 0;  // names its variables
  Box box;            // of the result
  int64_t offset = 0, bytes = 0;

  // A product: result elements [rows, columns], of which `slices` sums each are kept.
  bool is_dot = false;
  bool mma = false;
  int64_t rows = 0, columns = 0, k = 0;
  int64_t slices = 1;
  int64_t pitch = 0, plane = 0;  // elements between rows, and between the slices' sums
  MmaTile tile{};                // if mma
  int64_t thread_rows = 1, thread_columns = 1;  // else: of one thread
  ChainOperand a, b;

  // What it walks first: of a reduction its rows, of a product those of a computed operand.
  std::optional<RowLayout> walk;
  bool follows = false;  // the stage before is of the same run
  bool stored = false;   // a reduction whose result is asked for outside of its run
};

/// Rows of the last product, and columns of it, that a block has; or, with a stretch of its terms
/// each, the `split` blocks of a cluster, which then add up a share of the elements each.
struct ChainTile {
  int64_t rows = 1, columns = 1, split = 1;
  int64_t packs() const { return rows * columns / kPack; }
};

/// Of the body, whatever the tile.
struct WholeRefusal : Refusal {
  using Refusal::Refusal;
};

class ChainPlan {
 public:
  static constexpr int64_t kThreads = 256, kWarps = kThreads / 32;

  /// Throws Refusal if blocks of that tile cannot compute the body.
  ChainPlan(const ir::Graph& body, const Signature& signature, const std::vector<Sink>& sinks,
            ChainTile tile, bool may_stand_alone);

  /// The tile with the least estimate for the target, as its plan. `may_stand_alone`: one product
  /// without reductions will do.
  static std::unique_ptr<ChainPlan> best(const ir::Graph& body, const Signature& signature,
                                         const std::vector<Sink>& sinks, const Target& target,
                                         bool may_stand_alone = false);

  Work work(const Target& target) const;
  int64_t blocks() const { return batch_ * (m_ / tile_.rows) * (n_ / tile_.columns) * tile_.split; }

  // In the order in which a block computes them.
  std::vector<ChainStage> stages;
  int64_t shared_bytes = 0;
  std::vector<PlacedSink> results;  // at the last product's elements
  bool packed = false;              // four of them a thread
  bool early = false;               // what they need beside may be loaded while the stages run
  int64_t shares_offset = 0;        // bytes: what the blocks of a cluster send
  struct Extra {
    Sink sink;
    Box box;
  };
  std::vector<Extra> extras;  // of earlier values: stored by the blocks of the first columns

  ChainTile tile() const { return tile_; }
  int64_t batch() const { return batch_; }
  int64_t row_tiles() const { return m_ / tile_.rows; }
  int64_t column_tiles() const { return n_ / tile_.columns; }
  const ChainStage* stage_of(ir::ValueId result) const;
  bool is_last(const ChainStage& s) const { return s.op == root_; }
  /// Where the last product's element of a thread stands, by the variables `i`, `j`, or `i`,
  /// `n_pack` and `lane_of_pack`.
  At result_at();
  /// The operand's element at the tile's `outer` and `k`.
  At operand_at(const ChainStage& s, const ChainOperand& x, Index outer, Index k);
  /// The reduction's operand at a row and a column.
  At reduced_at(const ChainStage& s, Index row, Index column);
  At in_box(const Box& box, const At& local);
  std::string name(const char* what, const ChainStage& s) const;
  IndexPool& pool() { return pool_; }
  /// The variables that say which block it is.
  const std::vector<Index>& places() const { return places_; }

 private:
  void find_ops(const std::vector<Sink>& sinks, bool may_stand_alone);
  void place_results(const std::vector<Sink>& sinks);
  void record(ir::ValueId v, const At& at);
  Box box_at(ir::ValueId v, const At& at);
  void add_stage(ir::OpId op);
  void add_dot(ChainStage& s, const ir::Op& op);
  ChainOperand operand_of(const ChainStage& s, const ir::Op& op, char outer);
  std::optional<ExprWriter::Load> packs(const ChainStage& s, const ChainOperand& x, bool along_k);
  void lay_out_mma(ChainStage& s);
  bool lay_out_stream(ChainStage& s);
  void lay_out_simt(ChainStage& s);
  void find_runs();
  void store_what_makes_extras();
  void check_extras();
  void place_memory();

  const ir::Graph& body_;
  const Signature& signature_;
  IndexPool pool_;
  ExprWriter probe_;
  ChainTile tile_;
  ir::OpId root_;
  int64_t batch_ = 1, m_ = 1, n_ = 1;
  std::vector<Index> places_;  // variables of the block
  At batch_at_;
  Index m0_, n0_, rank_;
  std::vector<bool> needed_;          // by value
  std::map<ir::ValueId, Box> boxes_;  // of what is kept, and of extra sinks
  std::set<ir::ValueId> wanted_;      // values of extra sinks
  bool reads_ahead_ = true;
  bool off_place_ = false;  // results ask for the last product where the thread does not have it
  bool boxes_final_ = false;
  /// Where a stage, or with the greatest number the results, asks for what was reduced.
  struct Ask {
    size_t by;
    ir::ValueId value;
    At at;
  };
  std::vector<Ask> asks_;
  size_t asker_ = SIZE_MAX;
};

}  // namespace braid::kernels
