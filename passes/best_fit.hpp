// Places very many temporaries in the script's order.
#pragma once

#include "passes/place.hpp"

namespace braid {

/// Each temporary takes the smallest free block that is over when it begins, else new bytes at the
/// end. Near-linear. Returns the end of the last.
int64_t place_best_fit(std::vector<Temp>& temps, const Timeline& timeline, const Over& over);

}  // namespace braid
