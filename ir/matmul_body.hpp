// The matrix products that a library can compute in one call, told by a kernel's body.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.hpp"

namespace braid {

/// D = act(op(lhs) op(rhs) + bias), [batch, m, n] of the dtype of all its operands; slots are those
/// of the body: its inputs in op order, then its output.
struct MatmulBody {
  enum class Act : uint8_t { none, relu, gelu };  // gelu by tanh
  DType dtype = DType::f32;                       // f32, f16 or bf16
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool ta = false, tb = false;  // lhs is [batch, k, m], rhs is [batch, n, k]
  bool tf32 = false;
  size_t lhs = 0, rhs = 0, result = 0;
  std::optional<size_t> bias;  // [n], added to each row
  Act act = Act::none;
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

/// What of it the body computes, or nothing if it computes anything else.
std::optional<MatmulBody> matmul_body(const ir::Graph& body);

/// Whether the op is of an epilogue: the bias, or what comes after it. Does not look at operands.
bool is_matmul_epilogue(const ir::Op& op);

}  // namespace braid
