#include "ir/file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ir/diagnostic.hpp"

namespace braid {

void write_file(const std::string& path, const void* data, size_t bytes) {
  std::error_code ec;
  const std::filesystem::file_status target = std::filesystem::status(path, ec);
  const bool in_place =
      std::filesystem::exists(target) && !std::filesystem::is_regular_file(target);
  const std::string temp = in_place ? path : fmt::format("{}.{}.tmp", path, ::getpid());
  std::FILE* f = std::fopen(temp.c_str(), "wb");
  bool good = f != nullptr;
  if (good) {
    good = std::fwrite(data, 1, bytes, f) == bytes;
    good = std::fclose(f) == 0 && good;
    good = good && (in_place || std::rename(temp.c_str(), path.c_str()) == 0);
  }
  if (good) return;
  const int why = errno;
  if (!in_place) std::remove(temp.c_str());
  Diagnostic d;
  d.code = "E0701";
  d.message = fmt::format("cannot write {}: {}", path, std::strerror(why));
  throw Error(std::move(d));
}

}  // namespace braid
