// Inside the runtime: where libraries of the CUDA toolkit lie.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace braid::runtime {

/// What to give dlopen, in order, for a library of these file names, the newest first: files that
/// exist in the toolkit of $CUDA_HOME, in `folders`, in the folder that Braid was built to find
/// NVRTC in, and in /usr/local/cuda; then the names alone, for the loader's own search.
std::vector<std::string> cuda_library_files(std::span<const char* const> names,
                                            const std::vector<std::string>& folders = {});

}  // namespace braid::runtime
