// Inside the runtime: the library functions that an executable's kernels are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/host.hpp"
#include "ir/program.hpp"
#include "runtime/context.hpp"
#include "runtime/cublaslt.hpp"
#include "runtime/library.hpp"

namespace braid::runtime {

/// What enqueues the work of each kernel of the code `library`. On the simulator that is a kernel
/// of its own, which evaluates the body.
class LibraryCalls {
 public:
  LibraryCalls() = default;
  /// `functions`: by kernel, those of the simulator. Chooses cuBLASLt's algorithms, so that nothing
  /// is left to do in a capture. Throws Error E0892 for a function that is not there, E0891 for
  /// cuBLASLt. The context must be current, here and below, and `program` must outlive the object.
  LibraryCalls(const ContextPtr& context, const Program& program, const LibraryFunctions& given,
               const std::vector<CUfunction>& functions);

  /// Enqueues the work of a library kernel; `args` are by slot. Throws what the function throws.
  void enqueue(uint32_t kernel, const std::vector<CUdeviceptr>& args, CUstream stream) const;

 private:
  struct Place {  // of an argument or a result
    TensorType type;
    size_t slot = 0;
  };
  struct Entry {
    std::shared_ptr<const LibraryFunction> function;
    std::vector<Place> arguments, results;
    std::shared_ptr<const LtMatmul> matmul;
    CUfunction simulated = nullptr;
  };
  static void find_places(const Kernel& kernel, Entry& entry);

  ContextPtr context_;
  const Program* program_ = nullptr;
  std::vector<Entry> entries_;  // by kernel; empty ones for other kernels
};

}  // namespace braid::runtime
