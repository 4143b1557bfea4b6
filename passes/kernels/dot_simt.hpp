// Matrix products by ordinary multiply-adds, strictly in the type of the sum.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "passes/kernels/dot_pipeline.hpp"

namespace braid::kernels {

struct SimtProblem {
  Product product;  // of all parts: each multiplies the batch
  DotOperand a, b;
  int64_t bytes = 4;       // of a sum, and of an element in shared memory
  bool may_split = false;  // sums are float, so clusters can share them
};

/// How a block computes bm x bn elements of the result. Every thread has tm x tn of them, over one
/// of several slices of the terms: four of each chunk in turn. Threads form teams of a warp, or one
/// of the whole block, that fetch and multiply chunks of their own, of `bk` terms, and so wait for
/// no other. The `split` blocks of a cluster share the elements, each with a stretch of K; then
/// each adds up the sums of all of them for a part of the elements, always in the same order.
struct SimtTile {
  int64_t bm, bn, tm, tn;
  int64_t teams = 1, bk = 16;
  int64_t split = 1;
  int64_t stages = 1;  // chunks of each team in shared memory

  int64_t lanes() const { return bm / tm * (bn / tn); }
  int64_t team() const { return std::max<int64_t>(32, lanes()); }
  int64_t threads() const { return teams * team(); }
  int64_t team_slices() const { return team() / lanes(); }
  int64_t slices() const { return teams * team_slices(); }
  /// Of each team.
  int64_t chunks(int64_t k) const { return divide_up(divide_up(k, split), bk * teams); }
  /// Terms of K for each block of a cluster: whole chunks of all teams.
  int64_t stretch(int64_t k) const { return chunks(k) * bk * teams; }
};

/// How far rows of an operand's tile lie apart, in elements, so that lanes read different banks.
int64_t row_stride(const SimtProblem& p, const SimtTile& t, char outer);
/// Elements of one operand's part of a stage.
int64_t tile_elements(const SimtProblem& p, const SimtTile& t, char outer);
/// Where in shared memory, in elements, the sums of other blocks of the cluster arrive: behind the
/// stages, in whose place the slices' sums come.
int64_t share_at(const SimtProblem& p, const SimtTile& t);
int64_t shared_bytes(const SimtProblem& p, const SimtTile& t);

/// The lambda `multiply`, which adds the products of a chunk, at its argument, to `sum`.
std::vector<std::string> multiply_lines(const SimtProblem& p, const SimtTile& t,
                                        std::string_view type);
/// Where in the block's tile a thread's element `i` along m or `j` along n stands.
std::string element_place(const DotOperand& x, const SimtTile& t, char outer);

/// All tiles that can be had, in an order of their own.
std::vector<SimtTile> simt_tiles(const SimtProblem& p, const Target& target);
/// What the kernel costs; its busy cycles are those of the unit that has most to do.
Work estimate_work(const SimtProblem& p, const SimtTile& t, const Target& target);
/// The tile with the least estimate.
SimtTile choose_simt_tile(const SimtProblem& p, const Target& target);

/// The kernel with the tile that `choose` picks.
Emitted emit_dot_simt(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                      const std::vector<Sink>& sinks, std::string_view symbol,
                      const std::function<SimtTile(const SimtProblem&)>& choose);
Work dot_simt_work(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                   const std::vector<Sink>& sinks, const Target& target);

}  // namespace braid::kernels
