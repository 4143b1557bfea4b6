#include "runtime/user_code.hpp"

#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "ir/diagnostic.hpp"
#include "ir/host_lookup.hpp"
#include "runtime/gate.hpp"

namespace braid::runtime {
namespace {

/// The name of the reference in the body of a kernel of the user's or a library kernel: empty if
/// there is none, nothing if the kernel needs none.
std::optional<std::string_view> reference_of(const Kernel& k) {
  if (k.code != Code::user && k.code != Code::library) return {};
  for (const ir::Op& op : k.body.ops()) {
    const auto* kernel = std::get_if<ir::KernelAttr>(&op.attrs);
    if (kernel) return k.body.strings[kernel->reference];
    const auto* library = std::get_if<ir::LibraryAttr>(&op.attrs);
    if (library) return k.body.strings[library->reference];
  }
  return {};  // a product, of our own ops
}

std::string_view name_of_code(const Kernel& k) {
  for (const ir::Op& op : k.body.ops()) {
    const auto* kernel = std::get_if<ir::KernelAttr>(&op.attrs);
    if (kernel) return k.body.strings[kernel->name];
  }
  return k.function;
}

}  // namespace

std::string caller_text(const std::string& op, const std::string& place) {
  return op + (place.empty() ? "" : ", " + place);
}

std::string text_of(const Call& c) {
  return fmt::format("host function '{}' ({})", c.function, caller_text(c.op, c.place));
}

std::string text_of(const Exchange& e) {
  return fmt::format("host function '{}' ({})", e.function, caller_text(e.op, e.place));
}

std::string user_code_text(const Program& program, const Node& node) {
  const Kernel& k = program.kernels[node.kernel];
  return fmt::format("{} '{}' ({})", k.code == Code::library ? "library function" : "kernel",
                     name_of_code(k),
                     caller_text(node.ops.empty() ? std::string() : node.ops.back(), node.place));
}

std::string thrown_text() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

std::optional<std::string> call_host_function(const HostFunction& function,
                                              std::span<const HostTensor> arguments,
                                              std::span<const TensorType> types,
                                              std::vector<HostTensor>& results) {
  for (size_t i = 0; i < types.size(); ++i) {
    // The function may have changed both the last time.
    results[i].type = types[i];
    results[i].bytes.assign(static_cast<size_t>(types[i].bytes()), std::byte{0});
  }
  try {
    const InHostCall inside;
    function(arguments, results);
  } catch (...) {
    return thrown_text();
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const HostTensor& t = results[i];
    if (t.type == types[i] && static_cast<int64_t>(t.bytes.size()) == types[i].bytes()) continue;
    return fmt::format("its result {} must stay {}, but is now {} in {} bytes", i,
                       to_string(types[i]), to_string(t.type), t.bytes.size());
  }
  return {};
}

void require_references(const Program& program, const HostFunctions& functions) {
  for (const Body& body : program.bodies) {
    for (const Node& node : body.nodes) {
      if (node.kernel == kNoKernel) continue;
      const std::optional<std::string_view> reference = reference_of(program.kernels[node.kernel]);
      if (!reference) continue;
      const std::string caller = user_code_text(program, node);
      if (reference->empty()) {
        throw_error("E0808", caller + " has no reference function, so only a GPU can compute it",
                    "name a host function that computes the same as its reference");
      }
      find_host_function(functions, *reference, {}, caller);
    }
  }
}

}  // namespace braid::runtime
