// What .bir text calls ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace braid::ir {

/// Sets kind and the part of the attributes that the name implies. False if there is no such op.
bool find_op(std::string_view name, Graph::NewOp& op);
/// All of them, for suggestions.
std::vector<std::string> op_names();

}  // namespace braid::ir
