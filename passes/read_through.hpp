// Which kernels a reader may compute where it reads them, with nothing kept in between.
#pragma once

#include "passes/fuse_greedy.hpp"

namespace braid {

/// Whether all its ops give one element after the other: maps, gathers and concats.
bool is_elementwise(const ir::Graph& graph, const Group& group);

/// Whether `user`, the only group that waits for `maker`, may compute what that makes: elements
/// that maps and gathers make one by one and that are those of one operand of a concat, once each;
/// or a concat that a product reads, which takes no more than finding the operand that has the
/// element. No concat computes another: views between multiply index arithmetic from level to
/// level.
bool may_read_through(const ir::Graph& graph, const FuseFacts& facts, const Fusion& fusion,
                      uint32_t maker, uint32_t user);

}  // namespace braid
