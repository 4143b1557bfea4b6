// Kernels and library calls of the user's: what such an op gives, and its attributes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/region.hpp"

namespace braid::ir {

/// Whether ops of the kind run code of the user's on the device.
constexpr bool runs_code(OpKind kind) { return kind == OpKind::kernel || kind == OpKind::library; }

/// What an op of kind kernel or library gives: `values`, then the next version of every state
/// operand, in order. The error says what is wrong with operands, results and parameters: state
/// that is no param of a Store or local, no result at all, a parameter that names none of them, a
/// kernel that gets an operand or a result twice or not at all.
RegionResults code_results(const Graph& graph, OpKind kind, const Attrs& attrs,
                           const std::vector<ValueId>& operands,
                           const std::vector<TensorType>& values);

/// The results of an op that are no versions of state.
std::vector<TensorType> value_types(const Graph& graph, const Op& op);

/// Replaces every extent in the attributes of such an op by what `dim` gives for it.
template <class Replace>
void replace_extents(Attrs& attrs, const Replace& dim) {
  if (auto* library = std::get_if<LibraryAttr>(&attrs))
    library->workspace = dim(library->workspace);
  auto* kernel = std::get_if<KernelAttr>(&attrs);
  if (!kernel) return;
  const auto replace = [&](Extent& e) {
    e = {dim(e.factor), dim(e.dividend), dim(e.divisor)};
    if (const std::optional<int64_t> n = e.value()) e = Dim(*n);
  };
  for (Extent& e : kernel->grid) replace(e);
  for (Extent& e : kernel->block) replace(e);
  replace(kernel->shared_bytes);
  for (CodeParameter& p : kernel->parameters) {
    if (p.extent) replace(*p.extent);
  }
}

/// Replaces every string in the attributes of such an op by what `carry` gives for it.
template <class Carry>
void replace_strings(Attrs& attrs, const Carry& carry) {
  if (auto* library = std::get_if<LibraryAttr>(&attrs)) {
    library->function = carry(library->function);
    library->reference = carry(library->reference);
  }
  auto* kernel = std::get_if<KernelAttr>(&attrs);
  if (!kernel) return;
  for (StrId* s :
       {&kernel->name, &kernel->function, &kernel->code, &kernel->file, &kernel->reference}) {
    *s = carry(*s);
  }
  for (StrId& s : kernel->include) s = carry(s);
  for (CodeParameter& p : kernel->parameters) p.name = carry(p.name);
}

/// "B*T", "ceil(T, 4)", "ceil(T, 4)*(B + 1)".
std::string to_string(const Extent& e, const DimTable& dims);

/// What no device of the architecture can launch, as sentences: blocks of more than 1024 threads,
/// an extent of 0 or above what a grid has, more shared memory than a block may have. Extents that
/// are not known yet are left out.
std::vector<std::string> launch_errors(const DimTable& dims, const KernelAttr& attr,
                                       int64_t most_shared_bytes);
/// The most shared memory of any architecture's blocks.
inline constexpr int64_t kMostSharedBytes = 227 * 1024;
/// That of a block of "sm_90", ... which asks for it.
int64_t most_shared_bytes(std::string_view arch);

/// As .bir text has them, between braces.
std::string attributes_text(const Graph& graph, const KernelAttr& attr);
std::string attributes_text(const Graph& graph, const LibraryAttr& attr);

}  // namespace braid::ir
