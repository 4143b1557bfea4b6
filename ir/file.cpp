#include "ir/file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "ir/diagnostic.hpp"

namespace braid {
std::string read_file(const std::string& path) {
  // Not by a stream: its iterators throw something else for a folder.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rb"), std::fclose);
  std::string text;
  char part[1 << 16];
  for (size_t n = 1; file && n > 0;) {
    n = std::fread(part, 1, sizeof part, file.get());
    text.append(part, n);
  }
  if (file && !std::ferror(file.get())) return text;
  throw_error("E0100",
              fmt::format("cannot read {}: {}", path == "-" ? "standard input" : "'" + path + "'",
                          std::strerror(errno)));
}

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
  throw_error("E0701", fmt::format("cannot write {}: {}", path, std::strerror(why)));
}

}  // namespace braid
