// Inside the runtime: functions of the user's as part of a launch: what they throw, what they do to
// their results, and the references that stand for others on the simulator.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/host.hpp"
#include "ir/program.hpp"

namespace braid::runtime {

/// "r (host), model.toml:14:23", of an op and its place.
std::string caller_text(const std::string& op, const std::string& place);
/// "host function 'sample' (r (host), model.toml:14:23)".
std::string text_of(const Call& c);
std::string text_of(const Exchange& e);
/// "library function 'f' (y (library), model.toml:12:3)", "kernel 'rope' (...)", of a node of a
/// body.
std::string user_code_text(const Program& program, const Node& node);

/// To be called while an exception is handled: what it says, as a clause.
std::string thrown_text();

/// Calls the function as an InHostCall, with results of these types, zeroed. Returns nothing if it
/// filled them, else what it threw, or that it changed the type or the size of one.
std::optional<std::string> call_host_function(const HostFunction& function,
                                              std::span<const HostTensor> arguments,
                                              std::span<const TensorType> types,
                                              std::vector<HostTensor>& results);

/// For the simulator, which evaluates kernels and library functions of the user's by their
/// references: throws Error E0808 for one that has none, E0806 for one whose reference is not among
/// `functions`.
void require_references(const Program& program, const HostFunctions& functions);

}  // namespace braid::runtime
