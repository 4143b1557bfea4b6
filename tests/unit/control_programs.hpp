// Programs with regions of every kind, compiled from random graphs with branches and loops.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "passes/pipeline.hpp"
#include "random_control.hpp"

namespace braid::test {

/// Settings that lower branches and loops in all ways, by number.
inline Options lowerings(uint64_t n) {
  using enum ir::Lowering;
  constexpr ir::Lowering kBranches[] = {predicate, node, host, automatic, node};
  constexpr ir::Lowering kLoops[] = {node, host, automatic, node};
  Options o;
  o.branches = kBranches[n % 5];
  o.loops = kLoops[n / 5 % 4];
  o.unroll = static_cast<int>(n / 20 % 4);
  o.simplify = n % 9 != 0;
  o.force_lanes = n % 3 != 0;
  o.streams = 1 + static_cast<int>(n % 8);
  o.reuse = n % 5 != 4;
  o.fuse = n % 7 != 6;
  return o;
}

/// Up to their edges: texts have no part in this.
inline Program control_program(uint64_t seed) {
  RandomControlOptions random;
  random.lowerings = seed % 3 == 0;
  return run_passes(random_control(seed, random), lowerings(seed), "edges").program;
}

}  // namespace braid::test
