// The dot family: one batched matrix product, its operands read through any views, and pointwise
// ops on its result. f16 and bf16 go through tensor cores, f32 too where its op allows tf32; sums
// are f32. Everything else is computed strictly in its own type (integers wrap).
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

std::string dot_refuses(const ir::Graph& body);
Emitted dot_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                 const Use& use);
Work dot_work(const ir::Graph& body, const Target& target, uint32_t parts);

}  // namespace braid::kernels
