// Why something in a plan is where it is: its part, stream, kernel and place in memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "frontend/report/plan_index.hpp"
#include "ir/program.hpp"

namespace braid::report {

/// Why the kernel that makes a value and one that reads it are two, in half a sentence; needs the
/// model, which the plan does not hold. Empty where it cannot tell.
using WhyApart = std::function<std::string(Ref maker, Ref user, uint32_t value)>;

/// What the plan knows of `what`: a node ("n3" where there is one graph, "g0.n3"), a part ("g0",
/// "s1", "c0"), a region ("r0"), an op or a scope of ops ("block3/mlp"), a kernel by its symbol, or
/// a buffer. Where a name stands for several nodes, a list of them; where it is that of a part and
/// of an op, both. Throws std::invalid_argument with a sentence and suggestions for anything else.
std::string explain(const Program& p, std::string_view what, const WhyApart& why = {});

}  // namespace braid::report
