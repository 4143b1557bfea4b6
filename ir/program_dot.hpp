// The plan as a picture for Graphviz.
#pragma once

#include <string>

#include "ir/program.hpp"

namespace braid {

/// Whether the copies of a repeated block are drawn once.
enum class Fold : uint8_t { automatic, on, off };
/// Above this many nodes they are, unless asked otherwise: layouts of more take minutes and cannot
/// be read.
inline constexpr size_t kFoldAbove = 300;

/// A box per node and a cluster per graph, streams as colours, edges by reason, programmatic ones
/// dashed; host calls between the graphs, and what crosses, dotted. Folded: nodes that differ by
/// the copy of a repeat alone are one box, and edges to the next copy do not shape the layout.
std::string to_dot(const Program& p, Fold fold);

}  // namespace braid
