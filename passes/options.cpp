#include "passes/options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace braid {

std::string_view name_of(Math m) { return m == Math::tf32 ? "tf32" : "strict"; }

std::string to_string(const Options& o) {
  const auto on = [](bool b) { return b ? "on" : "off"; };
  std::string s =
      fmt::format("target={} sms={} math={} streams={} simplify={} fuse={} reuse={} reduce={}",
                  o.target.arch, o.target.sms, name_of(o.math), o.streams, on(o.simplify),
                  on(o.fuse), on(o.reuse), on(o.reduce));
  DimTable::Bindings dims = o.dims;
  std::sort(dims.begin(), dims.end());
  for (const auto& [name, value] : dims) s += fmt::format(" {}={}", name, value);
  return s;
}

}  // namespace braid
