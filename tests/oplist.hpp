// One list of small graphs, run on the simulator and on a GPU, against the interpreter: every op
// kind that in_op_list() names and every scalar function in every dtype that the type rules allow,
// over shapes of all sorts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// Inputs and params are made by random_tensor() from their names; the graphs keep their own
/// domains safe (log of abs(x) + 0.5, say).
struct OpCase {
  std::string name;
  ir::Graph graph;
  /// Bound for relative_error() against the wide interpreter; 0 for integers and b1.
  double tolerance;
};

/// What one rounding of results, and of f32 sums, may cost.
double tolerance_of(DType t);

/// The same list for the same seed; shapes vary with it.
std::vector<OpCase> op_cases(uint64_t seed);

/// Whether the list has cases of the kind. Calls, kernels and library functions of the user's are
/// tested with them; branches, loops and messages, of every dtype that they take, by
/// control_tests.cpp and message_runs.hpp on every device.
inline bool in_op_list(ir::OpKind kind) {
  return kind != ir::OpKind::host && kind != ir::OpKind::branch && kind != ir::OpKind::loop &&
         kind != ir::OpKind::send && kind != ir::OpKind::kernel && kind != ir::OpKind::library;
}

}  // namespace braid
