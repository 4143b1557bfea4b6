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

/// One run of NVRTC.
struct NvrtcJob {
  const std::string& source;
  std::string name;  // of the source, in messages
  std::vector<std::string> options;
  std::vector<std::string> functions;  // kernels as the source names them
};
struct NvrtcResult {
  int code = 0;  // 0: good
  std::string log;
  std::vector<std::byte> image;      // cubin; empty after a failure
  std::vector<std::string> symbols;  // in the image, of the job's functions
};
/// Throws CudaError for what is no matter of the source; `what` names it.
NvrtcResult run_nvrtc(const NvrtcJob& job, const std::string& what);
/// Throws CudaError with the log.
[[noreturn]] void refused(const NvrtcResult& result, const std::string& what);

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
/// Throws CudaError naming the kernels of the module that failed, with NVRTC's log, and Error
/// E0880 to E0882 with all mistakes in users' code.
CompileStats compile_modules(Program& program, const Cache& cache, int threads = 0,
                             const CompileProgress& progress = {});

}  // namespace braid::runtime
