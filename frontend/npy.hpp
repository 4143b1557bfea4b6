// NumPy's .npy files, format 1.0 to 3.0: C order, little endian.
#pragma once

#include <string>

#include "ir/tensor.hpp"

namespace braid {

/// Throws Error for a file that is not a well-formed .npy of a known dtype (f2 f4 f8 i1 u1 i4 i8
/// b1).
HostTensor read_npy(const std::string& path);
/// The type alone, without reading the elements.
TensorType npy_type(const std::string& path);
/// bf16, which NumPy lacks, is written as f4. Written under another name and renamed.
void write_npy(const std::string& path, const HostTensor& t);

}  // namespace braid
