// From which size on cuBLASLt computes a product faster than our kernels.
#pragma once

#include <cstdint>
#include <string>

#include "ir/matmul_body.hpp"
#include "ir/program.hpp"

namespace braid {

/// From so many operations on cuBLASLt is taken to be faster, if the product has `rows` rows, of
/// all its batch, or more.
struct LibraryFrom {
  double flops = 0;
  int64_t rows = 0;
};
/// The checked-in table.
LibraryFrom library_from(DType dtype, bool tf32);

/// "cuBLASLt: 2.1 GFLOP of work, from 805.3 MFLOP on it is faster" or "cuBLASLt: asked for by
/// dots=cublaslt", for a library kernel of a program that these options, as text, made. Empty for
/// one of the user's.
std::string why_library(const Kernel& kernel, const std::string& options);

}  // namespace braid
