#include <fmt/format.h>

#include <filesystem>

#include "frontend/cli/cli.hpp"
#include "frontend/report/report.hpp"
#include "ir/file.hpp"

namespace braid::cli {

int compile_command(const CompileArgs& a, const GlobalArgs& g) {
  if (is_program_file(a.plan.file)) {
    throw UsageError(fmt::format("{} is compiled already", a.plan.file));
  }
  for (const std::string_view model : {".toml", ".bir"}) {
    if (a.output.size() > model.size() && a.output.ends_with(model)) {
      throw UsageError(
          fmt::format("-o {}: that is a model's name, the output is a .braid file", a.output));
    }
  }
  // Pipes, devices and links have the names that they have.
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(a.output, ignored);
  const bool plain = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  if (plain && !is_program_file(a.output)) {
    throw UsageError(fmt::format("-o {}: the name of a compiled model ends in .braid", a.output));
  }
  Plan plan = load_program(a.plan, g);
  Program& p = plan.program;
  if (!plan.origins.empty()) note(g, "settings: " + plan.origins);
  const std::string slow = report::warning_of(report::armed_bodies(p));
  if (!slow.empty()) note(g, "warning: " + slow);
  const InterruptGuard guard;  // also while the file is written
  compile_kernels(p, g);
  if (InterruptGuard::seen_signal()) throw Interrupted();
  const std::vector<std::byte> bytes = write_program(p);
  write_file(a.output, bytes.data(), bytes.size());
  note(g, fmt::format("wrote {}: {} kernels for {}, {} bytes", a.output, p.kernels.size(),
                      p.target.arch, bytes.size()));
  return kOk;
}

}  // namespace braid::cli
