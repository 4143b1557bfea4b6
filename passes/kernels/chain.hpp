// The chain family: products and reductions one after the other in one block, which keeps what it
// makes in shared memory. A block has some rows of the last product, all columns of everything
// before, and some or all columns of the last: attention by heads, perceptrons by rows, a norm in
// front of a product. What several blocks need each of them computes.
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

std::string chain_refuses(const ir::Graph& body);
Emitted chain_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                   const Use& use);
Work chain_work(const ir::Graph& body, const Target& target, uint32_t parts);

}  // namespace braid::kernels
