#include "passes/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace braid {

std::string_view name_of(Math m) { return m == Math::tf32 ? "tf32" : "strict"; }

std::string_view name_of(OnBreak b) {
  constexpr std::array<std::string_view, 3> kNames{"allow", "warn", "error"};
  return kNames[static_cast<size_t>(b)];
}

std::string_view name_of(Dots d) {
  constexpr std::array<std::string_view, 3> kNames{"auto", "braid", "cublaslt"};
  return kNames[static_cast<size_t>(d)];
}

std::string to_string(const Options& o) {
  const auto on = [](bool b) { return b ? "on" : "off"; };
  std::string s = fmt::format(
      "target={} sms={} math={} streams={} simplify={} fuse={} group={} reuse={} reduce={}",
      o.target.arch, o.target.sms, name_of(o.math), o.streams, on(o.simplify), on(o.fuse),
      on(o.group), on(o.reuse), on(o.reduce));
  if (o.force_lanes) s += " force_lanes=on";
  if (o.branches != ir::Lowering::automatic)
    s += fmt::format(" branches={}", ir::name_of(o.branches));
  if (o.loops != ir::Lowering::automatic) s += fmt::format(" loops={}", ir::name_of(o.loops));
  if (o.host != ir::HostWay::automatic) s += fmt::format(" host={}", ir::name_of(o.host));
  if (o.dots != Dots::automatic) s += fmt::format(" dots={}", name_of(o.dots));
  if (o.unroll != 0) s += fmt::format(" unroll={}", o.unroll);
  if (o.unroll_limit != Options{}.unroll_limit) {
    s += fmt::format(" unroll_limit={}", o.unroll_limit);
  }
  if (!o.chain) s += " chain=off";
  if (!o.split) s += " split=off";
  if (!o.pdl) s += " pdl=off";
  if (o.memory_limit != 0) s += fmt::format(" memory_limit={}", o.memory_limit);
  DimTable::Bindings dims = o.dims;
  std::sort(dims.begin(), dims.end());
  for (const auto& [name, value] : dims) s += fmt::format(" {}={}", name, value);
  return s;
}

}  // namespace braid
