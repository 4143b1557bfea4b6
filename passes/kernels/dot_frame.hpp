// What every kernel of a matrix product shares: the product's extents and indices, which tile of
// the result a block computes, element-wise fetching of operands, and the pointwise ops and stores
// on the result.
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

  /// One element of an operand at `m` or `n` and `k`: statements that end by setting NAME_next[i],
  /// with NAME 'a' or 'b', to what `converted` makes of its register value.
  struct Element {
    char outer;
    bool k_fastest;  // neighbours in memory are neighbours along k, else along the other axis
    bool fixed;      // all that it loads may be loaded before the kernel waits
    std::vector<std::string> before;  // what does not depend on m, n and k
    std::vector<std::string> lines;
  };
  using Converted = std::function<std::string(const std::string& x)>;
  Element element(char outer, const Converted& converted);

  /// How the threads of a block bring side x bk elements of an operand to registers, one by one.
  struct Fetch {
    char outer;
    int64_t each;                    // elements per thread
    bool partial;                    // the last elements of some threads lie beyond the tile
    std::vector<std::string> lines;  // want `k0`; zeros of `type` beyond the operand's edges
    std::string outer_of_e, k_of_e;  // where element `e` stands in the tile
  };
  Fetch fetch(const Element& one, int64_t side, int64_t bk, int64_t threads,
              std::string_view type) const;
  /// The lines that move a thread's fetched elements to their `place` in terms of `e`.
  static std::vector<std::string> put(const Fetch& f, const std::string& place);

  /// The test that `axis` ('m', 'n' or 'k') lies inside; empty where blocks of that size fit.
  std::string within(char axis, int64_t block) const;
  /// The pointwise ops on one element of the product at `m` and `n`, and the stores.
  void write_element(const std::string& sum, std::string_view sum_type, int64_t bm, int64_t bn);
  /// The same for kPack elements from n = kPack * n_pack on; `sums` will be a braid_pack of floats.
  /// `early`: see packed_sinks.
  PackedSinks pack(const std::string& sums, bool early);
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
  void define_result(const At& at, const std::string& sum, std::string_view sum_type);

  const std::vector<Sink>& sinks_;
  At batch_at_;
  std::vector<PlacedSink> placed_;  // as written
};

/// "A", or "A && B": conditions in a row, the empty ones left out.
std::string all_of(const std::vector<std::string>& conditions);

int64_t divide_up(int64_t a, int64_t b);

}  // namespace braid::kernels
