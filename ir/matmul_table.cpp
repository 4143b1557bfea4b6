#include "ir/matmul_table.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

namespace braid {
namespace {

std::string power_of_two(double x) { return fmt::format("2^{:.0f}", std::log2(x)); }

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

LibraryFrom library_from(DType dtype, bool tf32) {
  const bool strict = dtype == DType::f32 && !tf32;
  return {strict ? 0x1p31 : 0x1p33, 64};
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
                     power_of_two(from.flops));
}

}  // namespace braid
