#include "frontend/report/report_codes.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "ir/matmul_table.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr size_t kRows = 24;

std::string why(const Program& p, const Kernel& k) {
  if (k.code == Code::user) {
    return fmt::format("a kernel of yours, of {}", code_file(p, k));
  }
  const std::string chosen = why_library(k, p.options);
  return chosen.empty() ? "a library function of yours; what it enqueues is part of the graph"
                        : chosen;
}

}  // namespace

std::string code_file(const Program& p, const Kernel& k) {
  if (k.module >= p.modules.size()) return "the model";
  return std::filesystem::path(p.modules[k.module].file).filename().string();
}

std::vector<CodeRow> code_rows(const Program& p) {
  std::vector<CodeRow> rows;
  for (size_t b = 0; b < p.bodies.size(); ++b) {
    for (size_t n = 0; n < p.bodies[b].nodes.size(); ++n) {
      const Node& node = p.bodies[b].nodes[n];
      if (node.kernel == kNoKernel) continue;
      const Kernel& k = p.kernels[node.kernel];
      if (k.code != Code::user && k.code != Code::library) continue;
      rows.push_back({k.function, name_of_node(p, b, n), node.ops.empty() ? "" : node.ops.back(),
                      node.place, why(p, k), node.estimate_us});
    }
  }
  return rows;
}

std::string codes_text(const Report& r) {
  if (r.codes.empty()) return {};
  TextTable t;
  t.row({"not our kernels", "at", "predicted", "of", "why"});
  for (size_t i = 0; i < r.codes.size() && i < kRows; ++i) {
    const CodeRow& c = r.codes[i];
    t.row({c.function, c.where, fmt::format("{:.1f} us", c.us),
           c.op + (c.place.empty() ? "" : "   " + c.place), c.why});
  }
  std::string out = t.str();
  if (r.codes.size() > kRows) {
    out += fmt::format("  and {} more; --format=json has all\n", r.codes.size() - kRows);
  }
  return out;
}

}  // namespace braid::report
