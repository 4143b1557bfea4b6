// Cost model: how long a kernel runs, from what it moves and computes.
#pragma once

#include "ir/program.hpp"

namespace braid {

/// Microseconds of one launch inside a graph, without the edge to it. Rates are the target's
/// checked-in numbers: an estimate to compare plans with, not a promise.
double estimate_us(const Kernel& k, const Target& t);

}  // namespace braid
