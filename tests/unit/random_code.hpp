// Kernels of the user's for random graphs, and the functions of the host's that such graphs name.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/code_op.hpp"
#include "ir/host.hpp"
#include "ir/tensor.hpp"

namespace braid::test {

/// Attributes of a kernel op, its parameters in some order.
inline ir::KernelAttr random_kernel(ir::Graph& g, uint64_t seed, size_t operands, size_t results,
                                    ir::StrId reference) {
  using Kind = ir::CodeParameter::Kind;
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  ir::KernelAttr a;
  a.name = g.strings.intern("kernel" + std::to_string(below(1000)));
  a.function = g.strings.intern("scale<64>");
  a.code = g.strings.intern("template <int N> __global__ void scale(float* \"x\") {\n}\n");
  if (below(2) == 0) a.file = g.strings.intern("kernels/scale.cu");
  if (below(2) == 0) a.line = 1 + static_cast<uint32_t>(below(90));
  if (below(2) == 0) a.include = {g.strings.intern("include"), g.strings.intern("a \"b\"")};
  const auto put = [&](ir::CodeParameter p) {
    const auto at = static_cast<std::ptrdiff_t>(below(a.parameters.size() + 1));
    a.parameters.insert(a.parameters.begin() + at, p);
  };
  for (uint32_t k = 0; k < operands; ++k) put({Kind::operand, k});
  for (uint32_t r = 0; r < results; ++r) put({Kind::result, r});
  if (below(2) == 0) put({Kind::scalar, 0, DType::i64, Dim(static_cast<int64_t>(below(99)))});
  if (below(2) == 0) put({Kind::scalar, 0, DType::f32, {}, -1.25e-3});
  for (ir::Extent& e : a.grid) e = Dim(static_cast<int64_t>(1 + below(9)));
  a.block[0] = Dim(static_cast<int64_t>(32 * (1 + below(4))));
  if (below(2) == 0) a.shared_bytes = Dim(1024);
  a.reference = reference;
  return a;
}

/// The functions that the graph's host ops name, and the references of kernels and library calls.
/// Result i takes its elements from the first argument of its dtype, from argument i on, in turn.
/// The impure ones begin one element later at every call, and write their names down in `said`.
inline HostFunctions host_functions_of(const ir::Graph& g, std::vector<std::string>& said) {
  HostFunctions functions;
  const auto add = [&](const std::string& name, bool pure) {
    functions[name] = [name, pure, calls = int64_t{0}, &said](std::span<const HostTensor> in,
                                                              std::span<HostTensor> out) mutable {
      if (!pure) said.push_back(name);
      if (!pure) ++calls;
      for (size_t i = 0; i < out.size(); ++i) {
        const HostTensor* from = nullptr;
        for (size_t k = 0; k < in.size() && !from; ++k) {
          const HostTensor& x = in[(i + k) % in.size()];
          if (x.type.dtype == out[i].type.dtype && x.numel() > 0) from = &x;
        }
        for (int64_t e = 0; e < out[i].numel(); ++e) {
          if (!from) {
            out[i].set(e, static_cast<double>((e + calls) % 2));
          } else if (is_float(out[i].type.dtype)) {
            out[i].set(e, from->at((e + calls) % from->numel()));
          } else {
            out[i].set_int(e, from->int_at((e + calls) % from->numel()));
          }
        }
      }
    };
  };
  for (const ir::Op& op : g.ops()) {
    if (const auto* host = std::get_if<ir::HostAttr>(&op.attrs)) {
      add(std::string(g.strings[host->function]), host->pure);
    } else if (const auto* kernel = std::get_if<ir::KernelAttr>(&op.attrs)) {
      add(std::string(g.strings[kernel->reference]), true);
    } else if (const auto* library = std::get_if<ir::LibraryAttr>(&op.attrs)) {
      add(std::string(g.strings[library->reference]), true);
    }
  }
  return functions;
}

}  // namespace braid::test
