// The row family: pointwise ops over one domain, and reductions of its rows.
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/sinks.hpp"

namespace braid::kernels {

std::string row_refuses(const ir::Graph& body);
Emitted row_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                 const Use& use);
Work row_work(const ir::Graph& body, const Target& target, uint32_t parts);

/// Without reductions: a thread per element, or per four where that fills the device.
Emitted emit_elementwise(const ir::Graph& body, const Signature& signature, std::vector<Sink> sinks,
                         std::string_view symbol, const Target& target);
Work elementwise_work(const ir::Graph& body, const Signature& signature,
                      const std::vector<Sink>& sinks, const Target& target);
/// Whether a thread loads its elements of a row once, before the first result is stored.
bool keeps_rows(int64_t rows, int64_t cols, const Target& target);
/// With `reduces` (in op order, all needed): a warp, a block or a slice of a block per row.
Emitted emit_reduction(const ir::Graph& body, const Signature& signature,
                       const std::vector<Sink>& sinks, const std::vector<ir::OpId>& reduces,
                       std::string_view symbol, const Target& target);
Work reduction_work(const ir::Graph& body, const Signature& signature,
                    const std::vector<Sink>& sinks, const std::vector<ir::OpId>& reduces,
                    const Target& target);

}  // namespace braid::kernels
