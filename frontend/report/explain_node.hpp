// The answers of explain(), one per kind of question.
#pragma once

#include <string>

#include "frontend/report/explain.hpp"

namespace braid::report {

/// A node or a call: part, stream, kernel, memory, edges.
std::string explain_node(const Program& p, const PlanIndex& index, Ref r, const WhyApart& why);
/// A graph ("g0"), a stretch ("s1") or a call ("c0") by its name in the report; empty if there is
/// none: what keeps it apart, what comes before and after it, and its streams.
std::string explain_part(const Program& p, const PlanIndex& index, const std::string& name,
                         const WhyApart& why);
/// A branch or loop by its name in the report ("r0"); empty if there is none: what decides, what
/// its sides are, what they leave behind, and where their temporaries lie.
std::string explain_region(const Program& p, const PlanIndex& index, const std::string& name);
/// Where a buffer lies, who makes and reads it, and with whom it shares bytes.
std::string explain_buffer(const Program& p, const PlanIndex& index, uint32_t buffer);
/// Launch shape and work of a node's kernel, in a line.
std::string kernel_text(const Program& p, const Node& node);

}  // namespace braid::report
