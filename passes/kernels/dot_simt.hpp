// Matrix products by ordinary multiply-adds, strictly in the type of the sum.
#pragma once

#include "passes/kernels/dot_frame.hpp"

namespace braid::kernels {

Emitted emit_dot_simt(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                      const std::vector<Sink>& sinks, std::string_view symbol,
                      const Target& target);

Work dot_simt_work(const Product& product, const Target& target, uint32_t parts);

/// How a block computes bm x bn elements of the result: every thread tm x tn of them, over one of
/// `slices` interleaved parts of the bk terms that lie in shared memory. The `split` blocks of a
/// cluster share the elements, each with a stretch of k; then each adds up the sums of all of them
/// for a part of the elements, always in the same order.
struct DotTile {
  int64_t bm, bn, bk, tm, tn, slices;
  int64_t split = 1;
  int64_t threads() const { return bm / tm * (bn / tn) * slices; }
  /// Terms of k for each block of a cluster: whole chunks, some for every block.
  int64_t stretch(int64_t k) const;
  int64_t shared_elements() const;
};

/// The tile with the least estimated time; `bytes` is the size of a sum. `work`, if given, becomes
/// what the tile costs. Clusters share elements only where `may_split`: sums are float.
DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target, Work* work = nullptr, bool may_split = false);

}  // namespace braid::kernels
