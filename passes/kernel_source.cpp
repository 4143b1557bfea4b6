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

/// Where the model asks for what no kernel can do.
[[noreturn]] void refuse(const Program& p, uint32_t kernel, const std::string& why) {
  Diagnostic d;
  d.code = "E0705";
  d.message = fmt::format("kernel {} is too large: {}", p.kernels[kernel].symbol, why);
  for (const Body& body : p.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel != kernel || !d.details.empty()) continue;
      d.details.push_back(fmt::format("it computes {}{}{}", fmt::join(node.ops, ", "),
                                      node.place.empty() ? "" : " at ", node.place));
    }
  }
  for (const ArgSlot& slot : p.kernels[kernel].args) {
    d.details.push_back(fmt::format("argument {}: {}", slot.name, to_string(slot.type)));
  }
  d.suggestion = "make its extents smaller";
  throw Error(std::move(d));
}

kernels::Emitted emit(const Program& p, uint32_t kernel, const Target& target) {
  const Kernel& k = p.kernels[kernel];
  const kernels::Family& family = kernels::family(k.family);
  try {
    std::optional<kernels::Guard> guard;
    if (k.guard) guard = {k.args.back().type.dtype, *k.guard};
    return family.emit(k.body, k.symbol, target, k.parts, guard);
  } catch (const kernels::TooLarge& large) {
    refuse(p, kernel, large.what());
  } catch (const kernels::Refusal& refusal) {
    throw InternalError("kernel " + k.symbol + ": " + refusal.reason);
  }
}

}  // namespace

void write_sources(Program& p, const Options& o) {
  p.modules.clear();
  size_t written = 0;
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    Kernel& k = p.kernels[i];
    if (k.code == Code::library) continue;
    kernels::Emitted emitted = emit(p, static_cast<uint32_t>(i), o.target);
    if (written++ % kKernelsPerModule == 0) {
      p.modules.push_back({std::string(kernels::prelude()), o.target.arch, {}});
    }
    p.modules.back().source += "\n" + emitted.text;
    k.launch = emitted.launch;
    k.module = static_cast<uint32_t>(p.modules.size() - 1);
    if (o.progress && !o.progress("kernel source", static_cast<int64_t>(i + 1),
                                  static_cast<int64_t>(p.kernels.size()))) {
      throw_error("E0703", "compilation was cancelled");
    }
  }
}

}  // namespace braid
