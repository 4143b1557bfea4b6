#include "runtime/cuda_library.hpp"

#include <cstdlib>
#include <filesystem>

namespace braid::runtime {

std::vector<std::string> cuda_library_files(std::span<const char* const> names,
                                            const std::vector<std::string>& folders) {
  std::vector<std::string> all, files;
  if (const char* home = std::getenv("CUDA_HOME"); home && *home) {
    all.push_back(std::string(home) + "/lib64");
    all.push_back(std::string(home) + "/lib");
  }
  all.insert(all.end(), folders.begin(), folders.end());
  if (*BRAID_NVRTC_FOLDER) all.push_back(BRAID_NVRTC_FOLDER);
  all.push_back("/usr/local/cuda/lib64");
  for (const std::string& folder : all) {
    for (const char* name : names) {
      std::string file = folder + "/" + name;
      std::error_code ec;  // a folder that nobody may look into holds no library
      if (std::filesystem::exists(file, ec)) files.push_back(std::move(file));
    }
  }
  files.insert(files.end(), names.begin(), names.end());
  return files;
}

}  // namespace braid::runtime
