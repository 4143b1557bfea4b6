// Matrix products by tensor cores: mma.sync m16n8k16 for f16 and bf16, m16n8k8 for tf32, sums in
// f32. What a fragment holds where follows the PTX ISA, "Matrix Fragments for mma".
#pragma once

#include "passes/kernels/dot_pipeline.hpp"

namespace braid::kernels {

/// Whether the product's operands are what tensor cores multiply, and long enough to be worth it.
bool wants_mma(const Product& p);

struct MmaProblem {
  Product product;  // of all parts: each multiplies the batch
  DotOperand a, b;
  int64_t bytes() const { return product.tf32 ? 4 : 2; }   // of an operand's element
  int64_t depth() const { return product.tf32 ? 8 : 16; }  // terms of K in one mma
  int64_t vector() const { return 16 / bytes(); }          // elements of a 16-byte copy
  std::string_view element() const { return product.tf32 ? "float" : "unsigned short"; }
};

/// How a block computes its part of the result. One mma makes 16 rows x 8 columns of it.
struct MmaTile {
  int64_t rows, columns;            // of the block
  int64_t warp_rows, warp_columns;  // of a warp: multiples of 16 and 8
  int64_t slices;                   // warps that share a part and its steps along k
  int64_t bk;                       // terms of K in a chunk
  bool swapped = false;             // rows run along n and columns along m, for few m
  int64_t stages = 1;               // chunks that shared memory holds

  int64_t bm() const { return swapped ? columns : rows; }
  int64_t bn() const { return swapped ? rows : columns; }
  int64_t row_warps() const { return rows / warp_rows; }
  int64_t column_warps() const { return columns / warp_columns; }
  int64_t threads() const { return 32 * row_warps() * column_warps() * slices; }
};

/// How far rows of an operand's tile lie apart, in elements: a multiple of 16 bytes such that
/// eight rows begin in different banks.
int64_t row_stride(const MmaProblem& p, const DotOperand& x, int64_t side, int64_t bk);
/// Elements of one operand's part of a stage.
int64_t tile_elements(const MmaProblem& p, const DotOperand& x, int64_t side, int64_t bk);
/// What the block needs: its stages, later the slices' sums in their place.
int64_t shared_bytes(const MmaProblem& p, const MmaTile& t);

/// A warp's `row`, `column` and `slice` in the block's tile, by its number `warp`.
std::vector<std::string> place_lines(const MmaTile& t);
/// A thread's sums to shared memory: `to` is the place by `slice`, `of_row` and `of_column`.
std::vector<std::string> sum_lines(const std::string& to);
/// The lambda `multiply`, which adds the products of a chunk, at its argument, to `sum`.
std::vector<std::string> multiply_lines(const MmaProblem& p, const MmaTile& t);

/// All tiles that can be had, in an order of their own.
std::vector<MmaTile> mma_tiles(const MmaProblem& p, const Target& target);
/// Estimated cycles of the kernel, without its launch.
double estimate_cycles(const MmaProblem& p, const MmaTile& t, const Target& target);
/// What the kernel costs; its busy cycles are those of the unit that has most to do.
Work estimate_work(const MmaProblem& p, const MmaTile& t, const Target& target);
/// The tile with the least estimate.
MmaTile choose_mma_tile(const MmaProblem& p, const Target& target);

/// The kernel with the tile that `choose` picks.
Emitted emit_dot_mma(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                     const std::vector<Sink>& sinks, std::string_view symbol,
                     const std::function<MmaTile(const MmaProblem&)>& choose);
Work dot_mma_work(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                  const std::vector<Sink>& sinks, const Target& target);

}  // namespace braid::kernels
