// The disk cache: what it gives back is what was put under that very key, or nothing.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "ir/tensor.hpp"
#include "runtime/cache.hpp"
#include "temp_folder.hpp"

using namespace braid;
using namespace braid::runtime;
namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(int64_t count, uint64_t seed) {
  return random_tensor({DType::u8, Shape::of({{count}})}, seed, "bytes", 1.0, 0, 256).bytes;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

const std::string kKey = "nvrtc 13.0 --arch=sm_90\n__global__ void k() {}";

}  // namespace

TEST_CASE("an entry comes back under its key alone") {
  const testing::TempFolder folder;
  const Cache cache(folder.path + "/made/on/demand");
  CHECK(!cache.get(kKey));
  for (const int64_t size : {0, 1, 1000, 300'000}) {
    const Bytes value = random_bytes(size, 3);
    REQUIRE(cache.put(kKey, value));
    const auto got = cache.get(kKey);
    REQUIRE(got.has_value());
    CHECK(*got == value);
    CHECK(!cache.get(kKey + " "));
    CHECK(!cache.get(""));
  }
  REQUIRE(cache.put("", random_bytes(9, 1)));
  CHECK(*cache.get("") == random_bytes(9, 1));
  CHECK(*Cache(cache.folder()).get(kKey) == random_bytes(300'000, 3));
  CHECK(files_in(cache.folder()) == 2);  // nothing temporary is left
}

TEST_CASE("every damage makes an entry count as missing") {
  const testing::TempFolder folder;
  const Cache cache(folder.path);
  const Bytes value = random_bytes(200, 4);
  REQUIRE(cache.put(kKey, value));
  const std::string path = cache.path_of(kKey);
  const std::string good = file_text(path);
  REQUIRE(good.size() > kKey.size() + value.size());
  for (size_t i = 0; i < good.size(); ++i) {  // magic, lengths, checksum, key, value
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_text(path, bad);
    CHECK_MESSAGE(!cache.get(kKey), "byte ", i);
    write_text(path, good.substr(0, i));
    CHECK_MESSAGE(!cache.get(kKey), "cut at ", i);
  }
  write_text(path, good + "x");
  CHECK(!cache.get(kKey));
  write_text(path, good);
  CHECK(*cache.get(kKey) == value);
  write_text(path, "rubbish");
  REQUIRE(cache.put(kKey, value));  // mended by the next put
  CHECK(*cache.get(kKey) == value);
}

TEST_CASE("an entry in another key's file is not taken for it") {
  const testing::TempFolder folder;
  const Cache cache(folder.path);
  std::string other = kKey;
  other.back() = '!';  // of the same length
  REQUIRE(cache.put(other, random_bytes(50, 1)));
  fs::rename(cache.path_of(other), cache.path_of(kKey));
  CHECK(!cache.get(kKey));
}

TEST_CASE("a place that cannot be written keeps nothing and says so") {
  const testing::TempFolder folder;
  write_text(folder.path + "/file", "x");
  const Cache below_a_file(folder.path + "/file/cache");
  CHECK(!below_a_file.put(kKey, random_bytes(10, 1)));
  CHECK(!below_a_file.get(kKey));
  const Cache off;
  CHECK(!off.put(kKey, random_bytes(10, 1)));
  CHECK(!off.get(kKey));

  const Cache taken(folder.path);  // a folder stands where the entry would
  fs::create_directories(taken.path_of(kKey) + "/x");
  CHECK(!taken.put(kKey, random_bytes(10, 1)));
  CHECK(!taken.get(kKey));
  CHECK(files_in(folder.path) == 2);

  if (::geteuid() == 0) return;  // root may write anywhere
  fs::create_directories(folder.path + "/closed");
  fs::permissions(folder.path + "/closed", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(!Cache(folder.path + "/closed").put(kKey, random_bytes(10, 1)));
  fs::permissions(folder.path + "/closed", fs::perms::owner_all);
}

TEST_CASE("what is not kept has a reason, and nothing half-written stays") {
  const testing::TempFolder folder;
  std::string why = "left from before";
  write_text(folder.path + "/file", "x");
  CHECK(!Cache(folder.path + "/file/cache").put(kKey, random_bytes(10, 1), &why));
  CHECK(why.find("cannot make folder " + folder.path + "/file/cache: ") == 0);
  CHECK(!Cache("/proc/self").put(kKey, random_bytes(10, 1), &why));
  CHECK(why.find("cannot write to folder /proc/self: ") == 0);
  why.clear();
  CHECK(!Cache().put(kKey, random_bytes(10, 1), &why));
  CHECK(why.empty());

  // A disk that is full after 4096 bytes of a file.
  fs::create_directories(folder.path + "/full");
  const Cache full(folder.path + "/full");
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit little = old;
  little.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  const bool kept = full.put(kKey, random_bytes(100'000, 2), &why);
  const bool small = full.put(kKey + "small", random_bytes(100, 2));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(!kept);
  CHECK(small);
  CHECK(why.find("cannot write " + full.path_of(kKey) + ": ") == 0);
  CHECK(files_in(full.folder()) == 1);
}

TEST_CASE("threads that write and read one key see whole entries only") {
  const testing::TempFolder folder;
  const Cache cache(folder.path);
  const Bytes a = random_bytes(70'000, 1), b = random_bytes(50'000, 2);
  std::atomic<int> wrong{0}, found{0};
  {
    std::vector<std::jthread> threads;
    for (const Bytes* mine : {&a, &b}) {
      threads.emplace_back([&, mine] {
        for (int i = 0; i < 100; ++i) {
          if (!cache.put(kKey, *mine)) ++wrong;
          const auto got = cache.get(kKey);
          if (got) ++found;
          if (!got || (*got != a && *got != b)) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(found == 200);
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("the environment says where the cache is") {
  const testing::Environment set_cache("BRAID_CACHE", "/somewhere");
  const testing::Environment set_xdg("XDG_CACHE_HOME", "/xdg");
  const testing::Environment set_home("HOME", "/home/me");
  CHECK(Cache::from_environment().folder() == "/somewhere");
  {
    const testing::Environment empty("BRAID_CACHE", "");
    CHECK(Cache::from_environment().folder().empty());
  }
  const testing::Environment unset_cache("BRAID_CACHE", nullptr);
  CHECK(Cache::from_environment().folder() == "/xdg/braid");
  const testing::Environment unset_xdg("XDG_CACHE_HOME", nullptr);
  CHECK(Cache::from_environment().folder() == "/home/me/.cache/braid");
  const testing::Environment unset_home("HOME", nullptr);
  CHECK(Cache::from_environment().folder().empty());
}
