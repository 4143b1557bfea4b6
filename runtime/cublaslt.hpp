// Inside the runtime: cuBLASLt, found at run time, for matrix products inside graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/matmul_body.hpp"
#include "ir/program.hpp"
#include "runtime/driver.hpp"

namespace braid::runtime {

/// A handle of the library in the context that is current. Used by one thread at a time.
class LtLibrary {
 public:
  /// Throws Error E0891 with where it looked for the library, or with what that says.
  LtLibrary();
  ~LtLibrary();
  LtLibrary(const LtLibrary&) = delete;
  LtLibrary& operator=(const LtLibrary&) = delete;

 private:
  friend class LtMatmul;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// One product: its descriptors, and the algorithm that the library's heuristic gives first.
class LtMatmul {
 public:
  /// For a kernel whose function is kCublasLtMatmul. Throws Error E0891 if the library has no
  /// algorithm for it within the kernel's workspace, and Error E0830 for another body.
  LtMatmul(std::shared_ptr<const LtLibrary> library, const Kernel& kernel);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  /// `args` by slot of the body. Throws Error E0891 with the library's status.
  void enqueue(const std::vector<CUdeviceptr>& args, CUdeviceptr workspace, CUstream stream) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace braid::runtime
