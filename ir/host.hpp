// Functions of the host's that a graph calls by name.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/tensor.hpp"

namespace braid {

/// Gets the arguments, row-major, and fills the results, which come zeroed and with the types that
/// the graph declares. May throw: the launch then fails with its message.
using HostFunction =
    std::function<void(std::span<const HostTensor> arguments, std::span<HostTensor> results)>;
using HostFunctions = std::map<std::string, HostFunction, std::less<>>;

/// Throws Error E0806 if there is none of that name.
const HostFunction& find_host_function(const HostFunctions& functions, std::string_view name);

}  // namespace braid
