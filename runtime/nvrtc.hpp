// NVRTC, found at run time, and compiling a Program's modules with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.hpp"
#include "runtime/cache.hpp"

namespace braid::runtime {

struct NvrtcInfo {
  int major = 0, minor = 0;
  std::string path;
};

/// Loads NVRTC (12.8 or newer) if that has not happened yet. Search: the file BRAID_NVRTC, the
/// toolkits of CUDA_HOME and /usr/local/cuda, the build's BRAID_NVRTC_FOLDER, the library path.
/// Throws NoDevice with what was tried and the remedy.
const NvrtcInfo& nvrtc();

/// Compiles one source to a cubin. Throws CudaError with NVRTC's log; `what` names the source in
/// it. `log`, if given, receives the log of a good compile (ptxas resource use).
std::vector<std::byte> compile_cubin(const std::string& source, std::string_view arch,
                                     const std::string& what, std::string* log = nullptr);

struct CompileStats {
  int compiled = 0;
  int from_cache = 0;
  int kernels_compiled = 0;
  /// Why the cache did not keep what was compiled: the first reason, one clause; else empty.
  std::string not_kept{};
};

/// Called as modules finish, from one thread at a time. False cancels: compile_modules throws
/// Error.
using CompileProgress = std::function<bool(int64_t done, int64_t total)>;

/// Fills the image of every module that has none, on up to `threads` threads (0: one per core).
/// Throws CudaError naming the kernels of the module that failed, with NVRTC's log.
CompileStats compile_modules(Program& program, const Cache& cache, int threads = 0,
                             const CompileProgress& progress = {});

}  // namespace braid::runtime
