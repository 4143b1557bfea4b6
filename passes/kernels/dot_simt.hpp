// Matrix products by ordinary multiply-adds, strictly in the type of the sum.
#pragma once

#include "passes/kernels/dot_frame.hpp"

namespace braid::kernels {

Emitted emit_dot_simt(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                      const std::vector<Sink>& sinks, std::string_view symbol,
                      const Target& target);

Work dot_simt_work(const Product& product, const Target& target, uint32_t parts);

/// How a block computes bm x bn elements of the result: every thread tm x tn of them, over one of
/// `slices` interleaved parts of the bk terms that lie in shared memory.
struct DotTile {
  int64_t bm, bn, bk, tm, tn, slices;
  int64_t threads() const { return bm / tm * (bn / tn) * slices; }
  int64_t shared_elements() const;
};

/// The tile with the least estimated time; `bytes` is the size of a sum. `work`, if given, becomes
/// what the tile costs.
DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target, Work* work = nullptr);

}  // namespace braid::kernels
