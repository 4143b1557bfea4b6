#include "runtime/cache.hpp"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace braid::runtime {
namespace {

constexpr char kMagic[8] = {'B', 'R', 'A', 'I', 'D', 'K', '0', '1'};

struct Header {
  char magic[8];
  uint64_t key_bytes;
  uint64_t value_bytes;
  uint64_t checksum;  // of key and value
};

uint64_t checksum(std::string_view key, const std::byte* value, size_t bytes) {
  return XXH3_64bits_withSeed(value, bytes, XXH3_64bits(key.data(), key.size()));
}

bool write_all(int fd, const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, p, bytes);
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Cache Cache::from_environment() {
  if (const char* set = std::getenv("BRAID_CACHE")) return Cache(set);
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) {
    return Cache(std::string(xdg) + "/braid");
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return Cache(std::string(home) + "/.cache/braid");
  }
  return Cache();
}

std::string Cache::path_of(std::string_view key) const {
  const XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  return fmt::format("{}/{:016x}{:016x}.cubin", folder_, h.high64, h.low64);
}

std::optional<std::vector<std::byte>> Cache::get(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(path_of(key), std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  const auto size = static_cast<uint64_t>(in.tellg());
  in.seekg(0);
  Header h{};
  if (size < sizeof h || !in.read(reinterpret_cast<char*>(&h), sizeof h)) return std::nullopt;
  const uint64_t rest = size - sizeof h;
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.key_bytes != key.size() ||
      h.key_bytes > rest || h.value_bytes != rest - h.key_bytes) {
    return std::nullopt;
  }
  std::string stored(h.key_bytes, '\0');
  std::vector<std::byte> value(h.value_bytes);
  if (!in.read(stored.data(), static_cast<std::streamsize>(stored.size())) ||
      !in.read(reinterpret_cast<char*>(value.data()), static_cast<std::streamsize>(value.size())) ||
      stored != key || checksum(key, value.data(), value.size()) != h.checksum) {
    return std::nullopt;
  }
  return value;
}

bool Cache::put(std::string_view key, const std::vector<std::byte>& value, std::string* why) const {
  if (folder_.empty()) return false;
  const auto refuse = [&](const char* doing, const std::string& path, const std::string& reason) {
    if (why) *why = fmt::format("cannot {} {}: {}", doing, path, reason);
    return false;
  };
  std::error_code ec;
  std::filesystem::create_directories(folder_, ec);
  if (ec) return refuse("make folder", folder_, ec.message());
  static std::atomic<uint64_t> serial{0};
  const std::string target = path_of(key);
  const std::string temp = fmt::format("{}.{}.{}.tmp", target, ::getpid(), serial++);
  const int fd = ::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return refuse("write to folder", folder_, std::strerror(errno));
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.key_bytes = key.size();
  h.value_bytes = value.size();
  h.checksum = checksum(key, value.data(), value.size());
  errno = 0;
  bool done = write_all(fd, &h, sizeof h) && write_all(fd, key.data(), key.size()) &&
              write_all(fd, value.data(), value.size());
  int error = errno;
  if (::close(fd) != 0 && done) {
    done = false;
    error = errno;
  }
  if (done && ::rename(temp.c_str(), target.c_str()) == 0) return true;
  if (done) error = errno;
  ::unlink(temp.c_str());
  return refuse("write", target, error == 0 ? "nothing is written" : std::strerror(error));
}

}  // namespace braid::runtime
