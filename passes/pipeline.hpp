// The pipeline: a table of passes over one record.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/levels.hpp"
#include "passes/options.hpp"

namespace braid {

/// What is planned for a graph and, by index, for its bodies.
struct PlannedGraph {
  HomePlan homes;
  Levels levels;
  Fusion fusion;
  std::vector<PlannedGraph> bodies;
};

/// What the passes hand on. Each fills the part named after it.
struct Compilation : PlannedGraph {
  ir::Graph graph;
  uint32_t source_ops = 0;           // of the graph as given
  DimTable::Bindings dims;           // the value of each of its dims
  std::vector<Dissolved> dissolved;  // by the control pass
  std::vector<Body> unscheduled;     // Program::bodies before the lanes pass, for a memory limit
  Program program;
};

struct Pass {
  std::string_view name;
  std::string_view what;  // one line for --list-passes
  void (*run)(Compilation&, const Options&);
  std::string (*print)(const Compilation&);  // the state after it, for dumps
  std::string_view extension;                // of its dump file: "bir" or "txt"
};
std::span<const Pass> passes();

/// Milliseconds per pass, in order.
using PassTimes = std::vector<std::pair<std::string_view, double>>;

/// Runs the passes up to and including `stop_after` (all, if empty) on a well-formed `graph`.
/// Throws Error for dims (E06..), streams (E0704) or a dump folder (E0701) that cannot be, for
/// breaks and graphs that options do not allow (E0707, E0708), and when options.progress cancels
/// (E0703); InternalError where the verifier or the checker finds fault with what the passes made.
/// With options.dump_dir set writes 00-input.bir, 01-NAME.ext, ..., and after the last pass
/// program.txt, .json and .dot and kernels/*.cu.
Compilation run_passes(ir::Graph graph, const Options& options, std::string_view stop_after = {},
                       PassTimes* times = nullptr);

}  // namespace braid
