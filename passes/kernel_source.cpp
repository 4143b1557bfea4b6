// Kernel source: CUDA C++ text and launch shapes by the kernel families, several kernels a module.
// needs: chosen kernels. breaks: nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/family.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

/// Parsing the prelude costs as much as a small kernel, and modules compile side by side: a few
/// kernels each serve both.
constexpr size_t kKernelsPerModule = 6;

/// A body that is too large is the model's mistake, any other that no family takes is ours.
[[noreturn]] void refuse(const Program& p, uint32_t kernel, const kernels::Family& family,
                         const Options& o, const std::string& why) {
  const Kernel& k = p.kernels[kernel];
  try {
    family.emit(k.body, k.symbol, o.target);
  } catch (const kernels::TooLarge& e) {
    Diagnostic d;
    d.code = "E0705";
    d.message = "a kernel is too large: " + e.reason;
    for (const Body& body : p.bodies) {
      for (const Node& n : body.nodes) {
        if (n.kernel != kernel || !d.details.empty()) continue;
        d.details.push_back(fmt::format("it computes {}{}", fmt::join(n.ops, ", "),
                                        n.place.empty() ? "" : " at " + n.place));
      }
    }
    throw Error(std::move(d));
  } catch (const kernels::Refusal&) {
  }
  throw InternalError("kernel " + k.symbol + ": " + why);
}

}  // namespace

void write_sources(Program& p, const Options& o) {
  p.modules.clear();
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    Kernel& k = p.kernels[i];
    const kernels::Family& family = kernels::family(k.family);
    const std::string why = family.refuses(k.body);
    if (!why.empty()) refuse(p, static_cast<uint32_t>(i), family, o, why);
    kernels::Emitted emitted = family.emit(k.body, k.symbol, o.target);
    if (i % kKernelsPerModule == 0) {
      p.modules.push_back({std::string(kernels::prelude()), o.target.arch, {}});
    }
    p.modules.back().source += "\n" + emitted.text;
    k.launch = emitted.launch;
    k.module = static_cast<uint32_t>(p.modules.size() - 1);
    if (o.progress && !o.progress("kernel source", static_cast<int64_t>(i + 1),
                                  static_cast<int64_t>(p.kernels.size()))) {
      Diagnostic d;
      d.code = "E0703";
      d.message = "compilation was cancelled";
      throw Error(std::move(d));
    }
  }
}

}  // namespace braid
