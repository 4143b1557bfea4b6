// Cost model: how long a kernel runs, from what it moves and computes.
#pragma once

#include "ir/program.hpp"

namespace braid {

/// Bytes that a kernel with this body reads and writes, each argument once: of a param that it only
/// updates the box, and of an input that it only gathers from or slices no more than it takes.
int64_t bytes_moved(const ir::Graph& body);

/// Microseconds of one launch inside a graph, without the edge to it. Rates are the target's
/// checked-in numbers: an estimate to compare plans with, not a promise.
double estimate_us(const Kernel& k, const Target& t);

}  // namespace braid
