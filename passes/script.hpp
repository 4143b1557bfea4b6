// Script: the bodies and calls of a Program, and what the host does in order.
// needs: fusion. breaks: nothing.
#pragma once

#include "ir/program.hpp"

namespace braid {

/// Where `order` is how the work stands: bodies by Step::launch, regions by Step::region and calls
/// by Step::call. Each call gets its other steps: the read of its arguments right after the last of
/// them is there, so that what is launched afterwards does not delay the call; wait, call and write
/// at its own place.
std::vector<Step> write_script(const Program& p, const std::vector<Step>& order);

}  // namespace braid
