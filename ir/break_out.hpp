// Taking a node out of its graph, once it has turned out that no graph can hold it.
#pragma once

#include <string>

#include "ir/program.hpp"

namespace braid {

/// The conditional node, by its region, that keeps a node from being taken out of a body: the one
/// that runs the body, or one behind the node whose value is set by a kernel that the node needs.
/// UINT32_MAX if there is none.
uint32_t uncut(const Program& p, uint32_t body, uint32_t node);

/// Splits a body that is a graph into up to three, which follow each other in its script: what does
/// not depend on the node; the node alone, launched on the stream; the rest. Edges inside a part
/// stay, those across go, as steps are in order. Orders of nodes are only added, so memory stays as
/// it is. Later bodies and runs get other numbers, and Program::breaks an entry, in which `reason`
/// says what is wrong and `remedy` what helps; the certificates go, as they prove less than what
/// the plan has now. The node is a kernel without a guard that nothing keeps (uncut). Guarded
/// kernels of one branch may come to several parts; what sets the value of a conditional node stays
/// in its graph.
void break_out(Program& p, uint32_t body, uint32_t node, std::string reason, std::string remedy);

}  // namespace braid
