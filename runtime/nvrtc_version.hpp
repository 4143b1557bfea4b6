// Inside the runtime: which version of NVRTC is installed, known without loading it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cache.hpp"

namespace braid::runtime {

struct NvrtcVersion {
  int major = 0, minor = 0;
};

/// The version that was noted when one of `files` was last loaded, if that file is what it was then
/// (size and time of its last change) and the library path too. Nothing if it has to be loaded to
/// know.
std::optional<NvrtcVersion> noted_version(const Cache& cache,
                                          const std::vector<std::string>& files);
/// Notes in the cache that loading one of `files` gave `version`, from `loaded`, a full path.
void note_version(const Cache& cache, const std::vector<std::string>& files,
                  const NvrtcVersion& version, const std::string& loaded);

}  // namespace braid::runtime
