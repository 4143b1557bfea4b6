// Kernel source: CUDA C++ text and launch shapes by the kernel families, several kernels a module.
// needs: chosen kernels. breaks: nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>

#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/family.hpp"
#include "passes/kernels/user.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

/// Modules compile side by side, 50 to 100 ms a product, and each costs 20 ms more for NVRTC's
/// start and the prelude: two kernels each leave few cores idle and waste little of one.
constexpr size_t kKernelsPerModule = 2;

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

/// Bytes of shared memory of which an SM has room for two blocks and not for three, beside the
/// 1 KiB that every block has reserved.
uint32_t third_of_an_sm(const Target& target) {
  return static_cast<uint32_t>(shared_bytes_per_sm(target) / 3 / 1024 * 1024);
}

/// Kernels that start early. Their blocks come while those before still run, and go where room is:
/// all that an idle SM can hold to that one, which then computes for the longest. So that they
/// spread, products of one wave take as much shared memory as leaves room for one block of each
/// kernel on an SM: a recommendation model took 47.4 us a step in place of 57.8.
std::vector<bool> spread_kernels(const Program& p) {
  std::vector<bool> spread(p.kernels.size(), false);
  for (const Body& body : p.bodies) {
    for (const Edge& e : body.edges) {
      const uint32_t k = body.nodes[e.to].kernel;
      if (e.kind != EdgeKind::programmatic || k == kNoKernel) continue;
      spread[k] = p.kernels[k].family == "dot" || p.kernels[k].family == "chain";
    }
  }
  return spread;
}

kernels::Emitted emit(const Program& p, uint32_t kernel, const Target& target) {
  const Kernel& k = p.kernels[kernel];
  const kernels::Family& family = kernels::family(k.family);
  try {
    kernels::Use use{.parts = k.parts, .waits = k.waits};
    if (k.guard) use.guard = {k.args.back().type.dtype, *k.guard};
    const size_t each = (k.args.size() - extra_arguments(k)) / k.parts;
    for (size_t s = 0; s < each; ++s) use.fixed.push_back(k.args[s].fixed);
    return family.emit(k.body, k.symbol, target, use);
  } catch (const kernels::TooLarge& large) {
    refuse(p, kernel, large.what());
  } catch (const kernels::Refusal& refusal) {
    throw InternalError("kernel " + k.symbol + ": " + refusal.reason);
  }
}

/// The modules of a program in the making.
class Modules {
 public:
  explicit Modules(Program& p) : p_(p) { p_.modules.clear(); }

  void add(Kernel& k, const kernels::Emitted& emitted, const Target& target) {
    if (k.code == Code::user) return add_user(k, emitted.text, target);
    if (generated_++ % kKernelsPerModule == 0) {
      open_ = static_cast<uint32_t>(p_.modules.size());
      p_.modules.push_back({std::string(kernels::prelude()), target.arch, {}});
    }
    p_.modules[open_].source += "\n" + emitted.text;
    k.module = open_;
  }

 private:
  /// One module for all kernels of one text, as the text may be what several functions share.
  void add_user(Kernel& k, const std::string& checks, const Target& target) {
    Module m = kernels::user_module(k.body, target.arch);
    kernels::drop_code(k.body);
    std::string key = m.source;
    for (const std::string& folder : m.include) key += '\0' + folder;
    const auto [it, added] =
        by_code_.try_emplace(std::move(key), static_cast<uint32_t>(p_.modules.size()));
    if (added) {
      m.source += kernels::user_helpers();
      p_.modules.push_back(std::move(m));
    }
    k.module = it->second;
    p_.modules[k.module].source += checks;
  }

  Program& p_;
  size_t generated_ = 0;
  uint32_t open_ = 0;                        // the module that generated kernels go to
  std::map<std::string, uint32_t> by_code_;  // of users' code
};

}  // namespace

void write_sources(Program& p, const Options& o) {
  Modules modules(p);
  const std::vector<bool> spread = spread_kernels(p);
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    Kernel& k = p.kernels[i];
    if (k.code == Code::generated || k.code == Code::user) {
      const kernels::Emitted emitted = emit(p, static_cast<uint32_t>(i), o.target);
      k.launch = emitted.launch;
      if (spread[i] && k.launch.grid[0] * k.launch.grid[1] <= static_cast<uint32_t>(o.target.sms)) {
        k.launch.shared_bytes = std::max(k.launch.shared_bytes, third_of_an_sm(o.target));
      }
      modules.add(k, emitted, o.target);
    }
    if (o.progress && !o.progress("kernel source", static_cast<int64_t>(i + 1),
                                  static_cast<int64_t>(p.kernels.size()))) {
      throw_error("E0703", "compilation was cancelled");
    }
  }
}

}  // namespace braid
