#include <fmt/format.h>

#include "frontend/cli/cli.hpp"
#include "ir/file.hpp"

namespace braid::cli {

int compile_command(const CompileArgs& a, const GlobalArgs& g) {
  if (is_program_file(a.plan.file)) {
    throw UsageError(fmt::format("{} is compiled already", a.plan.file));
  }
  Program p = load_program(a.plan, g);
  compile_kernels(p, g);
  const std::vector<std::byte> bytes = write_program(p);
  write_file(a.output, bytes.data(), bytes.size());
  note(g, fmt::format("wrote {}: {} kernels for {}, {} bytes", a.output, p.kernels.size(),
                      p.target.arch, bytes.size()));
  return kOk;
}

}  // namespace braid::cli
