#include "runtime/device.hpp"

#include <fmt/format.h>

#include <charconv>

#include "ir/diagnostic.hpp"
#include "runtime/context.hpp"
#include "runtime/simulator.hpp"

namespace braid {
namespace {

int ordinal_from(std::string_view which) {
  int ordinal = 0;
  const char* end = which.data() + which.size();
  const auto [stop, error] = std::from_chars(which.data(), end, ordinal);
  if (error == std::errc() && stop == end && ordinal >= 0) return ordinal;
  Diagnostic d;
  d.code = "E0801";
  d.message = fmt::format("there is no device '{}': give auto, sim, or a device number", which);
  throw Error(std::move(d));
}

}  // namespace

Device Device::open(std::string_view which) {
  if (which == "sim") return on(runtime::make_simulator());
  if (which != "auto") {
    const int ordinal = ordinal_from(which);
    return on(runtime::load_cuda_driver(), ordinal);
  }
  try {
    return on(runtime::load_cuda_driver());
  } catch (const NoDevice& reason) {
    Device simulator = on(runtime::make_simulator());
    simulator.context_->note = reason.reason();
    return simulator;
  }
}

Device Device::on(std::shared_ptr<runtime::Driver> driver, int ordinal) {
  runtime::InHostCall::refuse();
  Device device;
  device.context_ = runtime::make_context(std::move(driver), ordinal);
  return device;
}

bool Device::simulated() const { return context_->driver->simulated(); }
std::string Device::name() const { return context_->name; }
std::string Device::note() const { return context_->note; }

Target Device::target() const {
  if (simulated()) return Target{};
  const std::string arch = fmt::format("sm_{}{}", context_->major, context_->minor);
  if (const std::optional<Target> target = target_from_name(arch)) return *target;
  throw NoDevice(
      fmt::format("device {} ({}) has architecture {}", context_->ordinal, context_->name, arch),
      "Braid compiles for sm_80 to sm_121; run with --device=sim");
}

}  // namespace braid
