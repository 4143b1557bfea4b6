// The partition report: what people ask of a plan, computed from a finished Program alone. Plain
// data, from which text, JSON and explanations are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/report/dag.hpp"
#include "ir/program.hpp"

namespace braid::report {

struct StreamUse {
  uint32_t stream = 0;
  size_t kernels = 0;
  double busy_us = 0;  // the kernels' estimates, added up
};

struct EdgeCounts {
  size_t raw = 0, war = 0, waw = 0, lane = 0;  // by reason; together all
  size_t programmatic = 0;                     // of them
  /// Pairs that values and streams order, before the reduction. What only shared bytes order is
  /// not among them.
  size_t asked_for = 0;
  size_t all() const { return raw + war + waw + lane; }
};

/// A graph, kernels launched one by one, or a call of a host function; in the order of the script.
struct Fragment {
  enum class Kind : uint8_t { graph, stream, call } kind = Kind::graph;
  std::string name;               // "g0", "s1", "c0"
  uint32_t index = 0;             // of the body or call
  uint32_t run = 0;               // of the levels pass
  uint32_t region = UINT32_MAX;   // in whose bodies or scripts it stands
  uint32_t side = 0;              // of that region
  size_t ops = 0;                 // that its kernels stand for
  size_t kernels = 0;             // launches, also in bodies of its conditional nodes
  size_t conditional = 0;         // conditional nodes, however deep
  std::vector<std::string> from;  // scopes, the copies of repeats folded
  std::string place;              // of a call
  int64_t live_bytes = 0;         // the most of the arena that holds something needed, in order
  double predicted_us = 0, chain_us = 0;  // 0: not predicted
  double kernel_us = 0;                   // all kernels, one after another, without edges
  Path critical;                          // by data
  Width width_before, width_after;        // by data; by the edges of the plan
  std::vector<std::string> widest;        // ops of width_before.at, folded, at most four
  std::vector<StreamUse> streams;
  EdgeCounts edges;
};

/// An op outside graphs.
struct BreakRow {
  std::string op, folded;  // the copies of repeats folded in the second
  std::string place, reason, remedy;
  uint32_t run = 0;
  std::string before, after;  // the graphs that it stands between, "" for none
};

/// What could have been a break and is none.
struct Avoided {
  std::string op, place, how;
  bool operator==(const Avoided&) const = default;
};

/// A branch or loop that is left in the plan.
struct RegionRow {
  std::string name;  // "r0"
  std::string what;  // "IF", "predicated if", "while by the host"
  std::string op, place, why;
  std::string where;  // its node "g0.n3", the body "g0" of its guarded kernels, or "script"
  uint32_t around = UINT32_MAX,
           side = 0;               // the region that it stands in, and as which of its sides
  std::vector<std::string> sides;  // "false", "true", "2"
  std::vector<size_t> kernels;     // by side, however deep
  std::vector<std::vector<std::string>> parts;  // by side: the bodies and calls that it runs
  bool loop = false;
  uint32_t unrolled = 1;
  double us = 0;           // for the costlier side, or one run of a loop's
  int64_t slab_bytes = 0;  // in which the temporaries of its sides lie
};

/// A host function that a graph calls without ending.
struct ExchangeRow {
  std::string name;  // "x0"
  std::string function, way;
  std::string op, place, why;
  std::string where;  // its node "g0.n3", or those of a host node "g0.n3 .. g0.n5"
  bool pure = false;
  double us = 0;  // beyond what the function takes
};

/// Bodies of conditional nodes that may stay unrun: see ir/armed_bodies.hpp.
struct ArmedBodies {
  int64_t units = 0, safe = 0;
  double us = 0;  // later, each dependent kernel of the process
  bool slow() const { return units > safe; }
};
/// The sentence that warns of them; empty if there is nothing to warn of.
std::string warning_of(const ArmedBodies& armed);
ArmedBodies armed_bodies(const Program& p);

struct Temporary {
  std::string name, type, place;
  int64_t bytes = 0, offset = 0;
  std::string made_by;              // "g0.n3", "c0"
  std::vector<std::string> shares;  // other temporaries with some of its bytes
  uint32_t region = UINT32_MAX;     // in whose slab it lies
};

struct Memory {
  int64_t arena = 0, lower_bound = 0, unshared = 0;
  int64_t params = 0, constants = 0, inputs = 0, outputs = 0, scalars = 0;
  MemoryCut cut;  // limit 0: nothing had to change
  size_t temporaries = 0;
  std::vector<Temporary> largest;  // at most eight, largest first
};

struct KernelRow {
  std::string symbol, family;
  size_t uses = 0;
  uint32_t parts = 1;
  LaunchShape launch;
  int64_t flops = 0, bytes = 0;
  double us = 0;                 // one launch
  std::vector<std::string> ops;  // of its first use
  // Of a library kernel: the function that it calls, bytes of memory for that alone, and why it is
  // not one of ours. Empty for others.
  std::string function{};
  int64_t workspace = 0;
  std::string why{};
};

/// A node that is a library call or a kernel of the user's.
struct CodeRow {
  std::string function;  // "cublaslt.matmul", "rope<64>"
  std::string where;     // "g0.n3"
  std::string op, place, why;
  double us = 0;
};

/// The same ops cut as others cut them.
struct Comparison {
  struct Cut {
    uint32_t graphs = 0, runs = 0;
  };
  Cut in_order;           // where the colour changes in the model's order
  Cut host_first;         // all host ops that are ready, then all others, and so on
  bool reordered = true;  // false: host_first's order takes too much memory, so it is in_order's
};

/// Graphs of one launch, with those of regions that the host drives: of the side with the most.
struct Launched {
  size_t graphs = 0, each_iteration = 0;  // the second of loops of the host, all added up
};

/// What torch.compile would make of the model, by the rules of passes/reference_breaks.hpp.
struct Reference {
  struct At {
    std::string rule, op, place;
    int64_t times = 1;
    bool each_iteration = false;
  };
  int64_t graphs = 0, breaks = 0, each_iteration = 0;
  std::vector<At> where{};
};

/// Measured on one H200 (driver 580, CUDA 13.0), like the cost model's: what cuGraphLaunch
/// takes the host, what the launch of one kernel does, and how much longer than the graphs alone a
/// graph, a synchronisation and a graph take.
inline constexpr double kGraphLaunchUs = 2, kKernelLaunchUs = 4.5, kHostWaitUs = 6.4;

/// What one launch of the program takes, predicted: its parts one after another, and what launching
/// them and waiting for copies costs besides. Host functions take no time.
struct LaunchTime {
  size_t graphs = 0, stretches = 0, waits = 0;
  size_t regions = 0;     // that the host drives
  double regions_us = 0;  // of them, the costlier side and one iteration of loops
  double parts_us = 0, graphs_us = 0, waits_us = 0;
  double copies_us = 0;     // of calls between graphs: arguments to the host, results from it
  double stretches_us = 0;  // of each its first kernel: the others' are in its prediction
  double us() const {
    return parts_us + graphs_us + stretches_us + waits_us + copies_us + regions_us;
  }
};

struct Report {
  std::string name, target, options;
  DimTable::Bindings dims;
  uint32_t source_ops = 0;  // as the model has them
  size_t kernels = 0;       // launches
  size_t grouped = 0;       // of them, those of several like kernels
  size_t distinct = 0;
  uint32_t graphs = 0, runs = 0;  // proved to be the fewest
  Launched launched;
  uint32_t streams_allowed = 0;     // 0: the options do not say
  uint32_t streams_used = 0;        // by the widest fragment
  std::vector<Fragment> fragments;  // what the script runs, also in regions that the host drives
  std::vector<Fragment> bodies;     // of conditional nodes
  std::vector<RegionRow> regions;
  std::vector<ExchangeRow> exchanges;
  std::vector<CodeRow> codes;
  ArmedBodies armed;
  LaunchTime launch;
  std::vector<BreakRow> breaks;
  size_t ops_outside = 0;  // ops that the breaks stand for
  std::vector<Avoided> avoided;
  std::optional<Comparison> comparison;  // needs the model
  std::optional<Reference> reference;    // likewise; without breaks it is not shown
  std::vector<std::string> certificate, second_certificate;
  Memory memory;
  std::vector<KernelRow> kernel_rows;  // by first use

  /// The fragments, then the bodies.
  std::vector<Fragment> with_bodies() const;
};

Report make_report(const Program& p);

/// What a reader wants to see of it.
enum class Section : uint8_t { partitions, breaks, streams, memory, edges, kernels };
std::string_view name_of(Section s);
/// "partitions,breaks", "all" (every section). Throws std::invalid_argument with a sentence.
std::vector<Section> sections_from(std::string_view list);
/// Of `inspect` without --show.
inline constexpr std::string_view kUsualSections = "partitions,breaks,streams,memory";

/// Whether the streams of a graph pay, or why it has one; a sentence.
std::string streams_verdict(const Report& r, const Fragment& f);
/// For a terminal or a log. Long lists are cut and say how much is left out.
std::string to_text(const Report& r, const Program& p, const std::vector<Section>& sections);
/// JSON with "schema": "braid.report/1", keys in a fixed order, nothing cut.
std::string to_json(const Report& r, const Program& p, const std::vector<Section>& sections);

}  // namespace braid::report
