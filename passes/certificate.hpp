// What the levels pass proved, in words.
#pragma once

#include <string>
#include <vector>

#include "passes/levels.hpp"

namespace braid {

/// The labels of an alternating path, by op (Levels::certificate), first to last. Where an op does
/// not use what the one before makes, but something on the way only keeps the order of side effects
/// or of a param's versions, its label says so: "b (host), which runs after print (host)". O(V+E).
std::vector<std::string> path_labels(const ir::Graph& graph, const HomePlan& homes,
                                     const std::vector<uint32_t>& path);

}  // namespace braid
