#include "ir/matmul_table.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace braid {
namespace {

std::string work_text(double flops) {
  constexpr std::array<const char*, 5> kUnits{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  size_t unit = 0;
  while (flops >= 1000 && unit + 1 < kUnits.size()) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", flops, kUnits[unit]);
}

}  // namespace

/// Measured on one H200 (CUDA 13.0), squares and skinny products: where the library saves a
/// microsecond or more, which a kernel that it cannot take into its epilogue would cost. Below 64
/// rows either may be faster by half, whatever the work.
LibraryFrom library_from(DType dtype, bool tf32) {
  if (dtype != DType::f32) return {0x1p28, 64};
  return {tf32 ? 0x1p29 : 0x1.8p29, 64};
}

std::string why_library(const Kernel& kernel, const std::string& options) {
  if (kernel.function != kCublasLtMatmul) return {};
  const std::optional<MatmulBody> product = matmul_body(kernel.body);
  if (!product) return {};
  if (options.find(" dots=cublaslt") != std::string::npos) {
    return "cuBLASLt: asked for by dots=cublaslt";
  }
  const LibraryFrom from = library_from(product->dtype, product->tf32);
  return fmt::format("cuBLASLt: {} of work, from {} on it is faster", work_text(product->flops()),
                     work_text(from.flops));
}

}  // namespace braid
