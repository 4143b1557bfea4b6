// Control: what becomes of every branch and loop, and the numbers of messages.
// needs: a static graph; branches and loops of the value form. breaks: equal ops are one.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "passes/options.hpp"

namespace braid {

/// Innermost first, each branch and loop becomes plain ops (`select`, `unroll`, an index that is a
/// constant) or an op of the effect form (`predicate`, `node`, `host`; see ir/region.hpp): as the
/// op asks for, or `options`, or by the prices of control_price.hpp, which BranchAttr::why and
/// LoopAttr::why then quote. What a lowering cannot serve gets what the price says; what holds work
/// of the host is driven by it. Those that became plain ops are added to `dissolved`.
///
/// Then every send has its id, equal for copies of one, counted from 0 without gaps, and the last
/// op on the ring is a send that ends the launch: one of the graph's own, or one more, a check that
/// never fails.
///
/// Near-linear in what comes out, times the depth of nesting.
void lower_control(ir::Graph& graph, const Options& options, std::vector<Dissolved>& dissolved);

}  // namespace braid
