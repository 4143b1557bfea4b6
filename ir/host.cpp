#include "ir/host.hpp"

#include <fmt/format.h>

#include "ir/diagnostic.hpp"
#include "ir/host_lookup.hpp"

namespace braid {
namespace {

constexpr std::string_view kHow =
    "the braid tool has identity and print alone; a program gives its own as HostFunctions to "
    "build() or Executable";

}  // namespace

const HostFunction& find_host_function(const HostFunctions& functions, std::string_view name,
                                       const Place& place, std::string_view caller) {
  const auto it = functions.find(name);
  if (it != functions.end() && it->second) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, function] : functions) known.push_back(key);
  const std::string near = suggest(name, known);
  Diagnostic d;
  d.code = "E0806";
  d.place = place;
  d.message = fmt::format("no host function '{}' is registered", name);
  if (!caller.empty()) d.message += fmt::format(" for {}", caller);
  d.suggestion = near.empty() ? std::string(kHow) : fmt::format("{} {}", near, kHow);
  throw Error(std::move(d));
}

const HostFunction& find_host_function(const HostFunctions& functions, std::string_view name) {
  return find_host_function(functions, name, {});
}

}  // namespace braid
