// Host functions by name, for one op of a model.
#pragma once

#include <string_view>

#include "ir/diagnostic.hpp"
#include "ir/host.hpp"

namespace braid {

/// Throws Error E0806 if there is none of that name: at the place of the op that calls it, or,
/// where that is not known, with what `caller` says of the op.
const HostFunction& find_host_function(const HostFunctions& functions, std::string_view name,
                                       const Place& place, std::string_view caller = {});

}  // namespace braid
