// The dot family: one batched matrix product, its operands read through any views, and pointwise
// ops on its result. Strict arithmetic: f32 sums for f16, bf16 and f32, f64 sums for f64.
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

std::string dot_refuses(const ir::Graph& body);
Emitted dot_emit(const ir::Graph& body, std::string_view symbol, const Target& target);

/// How a block computes bm x bn elements of the result: every thread tm x tn of them, over one of
/// `slices` interleaved parts of the bk terms that lie in shared memory.
struct DotTile {
  int64_t bm, bn, bk, tm, tn, slices;
  int64_t threads() const { return bm / tm * (bn / tn) * slices; }
  int64_t shared_elements() const;
};

/// The tile with the least estimated time; `bytes` is the size of a sum.
DotTile choose_dot_tile(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                        const Target& target);

}  // namespace braid::kernels
