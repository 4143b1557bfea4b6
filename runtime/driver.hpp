// The driver as a table of calls: the seam behind which stand the CUDA driver and the simulator.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ir/host.hpp"

namespace braid::runtime {

/// One virtual function per driver call, with the driver's own signature (see driver_calls.inc).
/// Implementations are safe to call from several threads.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Runs Program kernels by the interpreter: images are kernel records, not cubins.
  virtual bool simulated() const = 0;
  /// What is known about failed launches beyond their code, a line each; empty for a GPU.
  virtual std::string last_report() const { return {}; }
  /// The simulator alone: references that kernels of the user's in this library are evaluated with,
  /// for launches made from now on.
  virtual void provide(CUlibrary, const std::shared_ptr<const HostFunctions>&) {}

#define BRAID_CALL(name, version, params, args) virtual CUresult name params = 0;
#include "runtime/driver_calls.inc"
#undef BRAID_CALL
};

/// libcuda, found at run time. Throws NoDevice with the reason and the remedy.
std::shared_ptr<Driver> load_cuda_driver();

/// Wraps a driver; before each call asks `fail(call_index, name)`; a nonzero answer is returned
/// instead of making the call. Counts calls from 0.
std::shared_ptr<Driver> failing_driver(std::shared_ptr<Driver> inner,
                                       std::function<CUresult(int64_t, const char*)> fail);

/// Throws CudaError: "cuGraphAddNode (node 3, row_relu_1a2b): CUDA_ERROR_INVALID_VALUE (1)".
void check_call(CUresult result, const char* call, const std::string& what = {});
std::string_view result_name(CUresult result);

}  // namespace braid::runtime
