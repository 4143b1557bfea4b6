#include "ir/host.hpp"

#include <fmt/format.h>

#include "ir/diagnostic.hpp"

namespace braid {

const HostFunction& find_host_function(const HostFunctions& functions, std::string_view name) {
  const auto it = functions.find(name);
  if (it != functions.end() && it->second) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, function] : functions) known.push_back(key);
  throw_error("E0806", fmt::format("no host function '{}' is registered", name),
              known.empty() ? "give the functions by name where the program is built or interpreted"
                            : suggest_or_list(name, known));
}

}  // namespace braid
