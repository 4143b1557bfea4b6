// Kernels that call host functions through the mailbox: ir/mailbox.hpp is the protocol.
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

// The body of each holds one host op, whose operands are inputs or reshapes of them. The kernel has
// two arguments more, the last: the slot of the exchange and the header of the mailbox. One block,
// one part, no guard.

/// Hands over the operands, asks, waits for the answer, and takes the results; where there are none
/// (the deadline passed, the function failed) they become zeros.
Emitted exchange_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                      const Use& use);
/// Hands over the operands for a host node, which comes next. The body has no outputs.
Emitted post_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                  const Use& use);
/// Takes the results that a host node has left. Of the operands of the body's host op only the
/// types count.
Emitted fetch_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                   const Use& use);

std::string exchange_refuses(const ir::Graph& body);
std::string fetch_refuses(const ir::Graph& body);
Work exchange_work(const ir::Graph& body, const Target& target, uint32_t parts);

}  // namespace braid::kernels
