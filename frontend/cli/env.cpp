#include <fmt/format.h>

#include "frontend/cli/cli.hpp"
#include "runtime/nvrtc.hpp"

namespace braid::cli {

int env_command(const GlobalArgs&) {
  std::string out = "braid    " BRAID_VERSION "\n";
  try {
    const Device d = Device::open("0");
    out += fmt::format("device   0: {}, {}\n", d.name(), d.target().arch);
  } catch (const NoDevice& e) {
    out += fmt::format("device   none: {}\n", e.what());
  }
  try {
    const runtime::NvrtcInfo& n = runtime::nvrtc();
    out += fmt::format("nvrtc    {}.{} at {}\n", n.major, n.minor, n.path);
  } catch (const NoDevice& e) {
    out += fmt::format("nvrtc    none: {}\n", e.what());
  }
  const std::string folder = runtime::Cache::from_environment().folder();
  out += fmt::format("cache    {}\n", folder.empty() ? "off" : folder);
  print_out(out);
  return kOk;
}

}  // namespace braid::cli
