// What every kernel of a matrix product shares: the product's extents and indices, which tile of
// the result a block computes, and the pointwise ops and stores on the result.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/kernels/packs.hpp"

namespace braid::kernels {

/// result[batch, m, n] = sum over k of lhs[batch, m, k] * rhs[batch, k, n].
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType operands = DType::f32, result = DType::f32;
  bool tf32 = false;
};

/// Throws Refusal where an axis has more than 2^30 elements.
Product product_of(const ir::Graph& body, const ir::Op& dot);

class DotFrame {
 public:
  DotFrame(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
           const std::vector<Sink>& sinks);

 protected:
  /// The operand whose axis beside k is m ('m') or n ('n').
  ir::ValueId operand(char outer) const { return dot_.operands[outer == 'm' ? 0 : 1]; }
  At operand_at(char outer, Index at_outer, Index at_k) const;
  static char name_of_side(char outer) { return outer == 'm' ? 'a' : 'b'; }
  int64_t extent(char outer) const { return outer == 'm' ? product_.m : product_.n; }

  /// Constants M, N, K, BM, BN, BK and THREADS, and the block's `m0`, `n0` and `batch`. Where
  /// `cluster` blocks share a tile, its `rank` among them as well.
  void write_head(int64_t bm, int64_t bn, int64_t bk, int64_t threads, int64_t cluster = 1);

  /// The test that `axis` ('m', 'n' or 'k') lies inside; empty where blocks of that size fit.
  std::string within(char axis, int64_t block) const;
  /// Which elements a thread finishes: of bm x bn in shared memory, of which `share` blocks have
  /// equal parts by their `rank`. Where they are one pack, whatever else goes into them is loaded
  /// at once, so this stands before the main loop, while the product is on its way.
  void choose_results(int64_t bm, int64_t bn, int64_t threads, std::string_view sum_type,
                      int64_t share = 1);
  /// The pointwise ops and stores for the sums of all `slices`, which stand in shared memory as
  /// partial[slice][m - m0][n - n0], or in share_of[rank][pack] those of all ranks.
  void write_results(int64_t slices);
  /// "totals", the pack whose slices, in the text `count`, stand at such places, added in order.
  void write_totals(int64_t slices, std::string_view count,
                    const std::function<std::string(std::string_view)>& place);
  Emitted finish(std::string_view symbol, int64_t bm, int64_t bn, int64_t threads,
                 int64_t shared_bytes = 0, int64_t cluster = 1);

  const ir::Graph& body_;
  const Signature& signature_;
  const ir::Op& dot_;
  IndexPool pool_;
  ExprWriter writer_;
  Product product_;

 private:
  /// Every sink at the thread's element, where the product stands at `result_at`.
  std::vector<PlacedSink> placed(const At& result_at);
  void define_result(const At& at, const std::string& sum);
  /// One element of the product at `m` and `n`.
  void write_element(const std::string& sum);
  /// kPack elements from n = kPack * n_pack on; `sums` will be a braid_pack.
  PackedSinks pack(const std::string& sums, bool early);
  void write_elements(int64_t slices);

  const std::vector<Sink>& sinks_;
  At batch_at_;
  std::vector<PlacedSink> placed_;  // as written

  // Of choose_results.
  std::string_view sum_type_;
  int64_t bm_ = 0, bn_ = 0, threads_ = 0, share_ = 1;
  int64_t rows_ = 0;     // of the result in a block
  bool packed_ = false;  // the result's rows are packs
  bool early_ = false;   // a thread has one, and pack_.before is written
  PackedSinks pack_;
  std::string inside_;  // the test of a pack
};

/// "A", or "A && B": conditions in a row, the empty ones left out.
std::string all_of(const std::vector<std::string>& conditions);

int64_t divide_up(int64_t a, int64_t b);

}  // namespace braid::kernels
