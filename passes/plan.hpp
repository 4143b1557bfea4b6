// The passes that build and fill the Program, one declaration each; their files carry the details.
#pragma once

#include "passes/pipeline.hpp"

namespace braid {

/// simplify.cpp: folds constants, merges equal ops, drops dead ones, exact algebra only (x*1, x+0
/// for integers, double transpose, reshape of reshape, full slices, ...), in bodies as well, and
/// branches and loops that change nothing. `arguments`: of a body, its leading ops, which stay.
ir::Graph simplify(const ir::Graph& graph, size_t arguments = 0);
/// Only drops dead ops, in bodies as well.
ir::Graph sweep(const ir::Graph& graph, size_t arguments = 0);

/// choose.cpp: one Node per group, one Kernel per distinct body, a Buffer per value in memory.
void choose_kernels(Compilation& c, const Options& o);
/// breaks.cpp: Program::breaks and the certificates. Throws Error E0707 and E0708 where the options
/// do not allow what is found.
void find_breaks(Compilation& c, const Options& o);
/// group.cpp: like kernels that are ready together become one launch.
void group_nodes(Program& p, const Options& o);
/// waits.cpp: which kernels wait for others by themselves, and which slots are fixed.
void choose_waits(Program& p);
/// lanes.cpp: the lane, position and predicted start of every node, in the order of their starts.
void assign_lanes(Program& p, const Options& o);
/// memory.cpp: offsets of temporaries. `unscheduled`: the bodies as assign_lanes found them, which
/// a limit may schedule anew; if empty, p's own.
void plan_memory(Program& p, const Options& o, std::span<const Body> unscheduled = {});
/// edges.cpp: RAW, WAR, WAW and lane edges, reduced.
void emit_edges(Program& p, const Options& o);
/// kernel_source.cpp: module texts and launch shapes by the kernel families.
void write_sources(Program& p, const Options& o);

}  // namespace braid
