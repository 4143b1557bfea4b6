// The answers of explain(), one per kind of question.
#pragma once

#include <string>

#include "frontend/report/explain.hpp"

namespace braid::report {

/// A node or a call: fragment, stream, kernel, memory, edges.
std::string explain_node(const Program& p, const PlanIndex& index, Ref r, const WhyApart& why);
/// Where a buffer lies, who makes and reads it, and with whom it shares bytes.
std::string explain_buffer(const Program& p, const PlanIndex& index, uint32_t buffer);
/// Launch shape and work of a node's kernel, in a line.
std::string kernel_text(const Program& p, const Node& node);

}  // namespace braid::report
