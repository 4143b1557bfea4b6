// Inside the runtime: is a Program safe to build from?
#pragma once

#include "ir/program.hpp"

namespace braid::runtime {

/// Throws Error (E0830) unless every index, offset and size that the runtime follows is in range,
/// kernel arguments have their slots' types, and edges go forward. That the plan is right is
/// braid::check's business. O(size of the program).
void check_program(const Program& program);

}  // namespace braid::runtime
