// Whether products can be left to cuBLASLt. This header does not include cuda.h.
#pragma once

namespace braid::runtime {

/// Looks for the library, and loads it if it is there. Throws nothing.
bool cublaslt_found();

}  // namespace braid::runtime
