#include "runtime/nvrtc_version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace braid::runtime {
namespace {

/// What decides which file is loaded.
std::string key_of(const std::vector<std::string>& files) {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  return fmt::format("version of nvrtc\n{}\n{}", path ? path : "", fmt::join(files, "\n"));
}

/// Tells a file from one that replaces it; empty if there is none.
std::string state_of(const std::string& file) {
  struct stat s{};
  if (::stat(file.c_str(), &s) != 0) return {};
  return fmt::format("{}:{}.{}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

}  // namespace

std::optional<NvrtcVersion> noted_version(const Cache& cache,
                                          const std::vector<std::string>& files) {
  const auto note = cache.get(key_of(files));
  if (!note) return {};
  std::istringstream text(std::string(reinterpret_cast<const char*>(note->data()), note->size()));
  NvrtcVersion version;
  std::string state, file;
  if (!(text >> version.major >> version.minor >> state >> std::ws)) return {};
  if (!std::getline(text, file) || state_of(file) != state) return {};
  return version;
}

void note_version(const Cache& cache, const std::vector<std::string>& files,
                  const NvrtcVersion& version, const std::string& loaded) {
  const std::string state = state_of(loaded);
  if (state.empty()) return;
  const std::string note =
      fmt::format("{} {} {} {}\n", version.major, version.minor, state, loaded);
  std::vector<std::byte> bytes(note.size());
  std::transform(note.begin(), note.end(), bytes.begin(), [](char c) { return std::byte(c); });
  cache.put(key_of(files), bytes);
}

}  // namespace braid::runtime
