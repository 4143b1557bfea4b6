// Where torch.compile would break a model into several graphs: a yardstick for what control flow
// and messages cost elsewhere. No plan is made this way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// What makes Dynamo, the frontend of torch.compile, end a graph; each needs the host to go on.
enum class BreakRule : uint8_t {
  branch = 0,  // `if` or `match` on a tensor's value: the bytecode jumps on what only the GPU knows
  loop = 1,    // `while` on a tensor's value: the same jump, once an iteration
  print = 2,   // `print` of a tensor
  item = 3,    // `.item()`: capture_scalar_outputs is off unless somebody sets it
  check = 4,  // `if not ...: raise`. A bare `assert` becomes an op (pytorch pull 98878) and is none
  host = 5,   // a Python function that is no op, and what torch.compiler.disable keeps out
  size =
      6,  // nonzero and the like: capture_dynamic_output_shape_ops is off unless somebody sets it
};
/// "an if on data", "a print".
std::string_view text_of(BreakRule rule);

struct ReferenceBreak {
  BreakRule rule = BreakRule::branch;
  std::string op, place;        // as in Node::ops and Node::place
  int64_t times = 1;            // in the copies of counted loops, which are unrolled
  bool each_iteration = false;  // of a loop on data
};

/// The fewest graphs and breaks of one call, along the sides that break most.
struct ReferenceGraphs {
  int64_t graphs = 0, breaks = 0;       // outside of loops on data
  int64_t each_iteration = 0;           // graphs more per iteration, all loops on data added up
  std::vector<ReferenceBreak> where{};  // in program order, also of sides that are not counted
};

/// Program order, cut at every op that one of the rules names: what lies between two cuts and has
/// work for a kernel is a graph. The side that is taken stands in the graph that resumes after the
/// cut. A loop that only numbers known to the host bound is unrolled, as a trace is; one on data
/// takes at least a graph an iteration, even if it is empty. What is said of data holds for
/// everything that tensors decide; runtime scalars are numbers of the host and break nothing.
/// Kind to others: in a Python loop a break makes Dynamo give up the whole frame (pytorch pull
/// 88857), which leaves no graph of it.
/// `graph`: static, before the control pass. Linear in the graph with its bodies, times the values
/// that loops carry. Counts stay at the largest number.
ReferenceGraphs reference_breaks(const ir::Graph& graph);

}  // namespace braid
