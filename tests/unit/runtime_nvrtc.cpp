// NVRTC through the runtime: needs the library, but no GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ir/diagnostic.hpp"
#include "runtime/nvrtc.hpp"
#include "runtime/nvrtc_version.hpp"
#include "temp_folder.hpp"

using namespace braid;
using namespace braid::runtime;
using testing::TempFolder;
namespace fs = std::filesystem;

namespace {

/// False, with a message, where there is no NVRTC.
bool have_nvrtc() {
  try {
    nvrtc();
    return true;
  } catch (const NoDevice& e) {
    MESSAGE("skipped: ", e.what());
    return false;
  }
}

std::string source_of(const std::string& symbol, const std::string& body) {
  return "extern \"C\" __global__ void " + symbol + "(float* x) { " + body + " }\n";
}

bool is_elf(const std::vector<std::byte>& image) {
  return image.size() > 4 && std::memcmp(image.data(),
                                         "\x7f"
                                         "ELF",
                                         4) == 0;
}

bool contains(const std::vector<std::byte>& image, const std::string& text) {
  const auto* begin = reinterpret_cast<const char*>(image.data());
  return std::search(begin, begin + image.size(), text.begin(), text.end()) != begin + image.size();
}

/// `count` modules of one kernel each, "kernel0" ...
Program modules(int count) {
  Program p;
  p.name = "modules";
  for (int i = 0; i < count; ++i) {
    Kernel k;
    k.symbol = "kernel" + std::to_string(i);
    k.module = static_cast<uint32_t>(i);
    const std::string n = std::to_string(i + 2);
    p.modules.push_back({source_of(k.symbol, "x[threadIdx.x] *= " + n + ".f;"), "sm_90", {}});
    p.kernels.push_back(std::move(k));
  }
  return p;
}

/// What compile_modules throws, which must be an E.
template <class E>
std::string message_of(Program& p, const Cache& cache, int threads = 1,
                       const CompileProgress& progress = {}) {
  try {
    compile_modules(p, cache, threads, progress);
  } catch (const E& e) {
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("a small kernel becomes a cubin that holds it, and its resources are logged") {
  if (!have_nvrtc()) return;
  CHECK(nvrtc().major >= 12);
  const std::string source = source_of("three", "x[threadIdx.x] += 3.f;");
  for (const char* arch : {"sm_80", "sm_90", "sm_120"}) {
    std::string log;
    const auto image = compile_cubin(source, arch, "a test", &log);
    CHECK(is_elf(image));
    CHECK(contains(image, "three"));
    CHECK(log.find("registers") != std::string::npos);
    CHECK((compile_cubin(source, arch, "a test") == compile_cubin(source, arch, "again")));
  }
}

TEST_CASE("a source that NVRTC refuses is a CudaError with its log and what it was") {
  if (!have_nvrtc()) return;
  try {
    compile_cubin(source_of("broken", "return nonsense;"), "sm_90", "module 7 (broken)");
    FAIL("it was compiled");
  } catch (const CudaError& e) {
    const std::string text = e.what();
    CHECK(e.code() != 0);
    CHECK(text.find("module 7 (broken)") != std::string::npos);
    CHECK(text.find("nonsense") != std::string::npos);     // from the log, ...
    CHECK(text.find("braid.cu(1)") != std::string::npos);  // ... with its place
  }
  CHECK_THROWS_AS(compile_cubin("", "sm_1", "an old target"), CudaError);
}

TEST_CASE("modules are compiled once, then come from the cache") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  const Cache cache(folder.path);
  Program p = modules(3);
  p.kernels.push_back(p.kernels[1]);  // two kernels in module 1
  p.kernels.back().symbol = "other";
  CompileStats s = compile_modules(p, cache, 2);
  CHECK(s.compiled == 3);
  CHECK(s.kernels_compiled == 4);
  CHECK(s.from_cache == 0);
  for (size_t m = 0; m < 3; ++m) {
    CHECK(contains(p.modules[m].image, p.kernels[m].symbol));
    CHECK(is_elf(p.modules[m].image));
  }
  s = compile_modules(p, cache);  // all there
  CHECK(s.compiled + s.from_cache == 0);

  Program again = modules(4);
  again.modules[0].arch = "sm_80";  // another target is another entry
  s = compile_modules(again, cache, 1);
  CHECK(s.from_cache == 2);
  CHECK(s.compiled == 2);
  CHECK(s.kernels_compiled == 2);
  CHECK(again.modules[1].image == p.modules[1].image);
  CHECK(again.modules[0].image != p.modules[0].image);

  Program without = modules(1);
  CHECK(compile_modules(without, Cache(), 1).compiled == 1);
  CHECK(without.modules[0].image == p.modules[0].image);
}

TEST_CASE("a damaged cache entry is compiled again and mended") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  const Cache cache(folder.path);
  Program p = modules(1);
  compile_modules(p, cache);
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('?').put('!');
  }
  Program again = modules(1);
  CompileStats s = compile_modules(again, cache);
  CHECK(s.compiled == 1);
  CHECK(again.modules[0].image == p.modules[0].image);
  Program third = modules(1);
  s = compile_modules(third, cache);
  CHECK(s.from_cache == 1);
  CHECK(third.modules[0].image == p.modules[0].image);
}

TEST_CASE("the module that fails is named with its kernels; the others are kept in the cache") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  Program p = modules(2);
  p.modules[1].source = source_of("kernel1", "syntax error");
  const std::string text = message_of<CudaError>(p, Cache(folder.path));
  CHECK(text.find("module 1 (kernel1)") != std::string::npos);
  CHECK(text.find("kernel0") == std::string::npos);
  CHECK(p.modules[1].image.empty());
  Program good = modules(2);
  CHECK(compile_modules(good, Cache(folder.path), 1).from_cache == 1);
}

TEST_CASE("progress counts every module once, from one thread at a time, and can cancel") {
  if (!have_nvrtc()) return;
  for (const int threads : {1, 4}) {
    Program p = modules(5);
    std::vector<int64_t> seen;
    std::atomic<int> inside{0}, crowded{0};
    compile_modules(p, Cache(), threads, [&](int64_t done, int64_t total) {
      if (++inside > 1) ++crowded;
      seen.push_back(done);
      CHECK(total == 5);
      std::this_thread::yield();
      --inside;
      return true;
    });
    CHECK(seen == std::vector<int64_t>{1, 2, 3, 4, 5});
    CHECK(crowded == 0);
  }
  const TempFolder folder;
  Program p = modules(5);
  int calls = 0;
  const std::string text = message_of<Error>(p, Cache(folder.path), 1, [&](int64_t done, int64_t) {
    ++calls;
    return done < 2;
  });
  CHECK(text.find("cancelled") != std::string::npos);
  CHECK(calls == 2);
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
}

TEST_CASE("cancelled on many threads: E0703, and whole entries alone in the cache") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  const Cache cache(folder.path);
  Program p = modules(8);
  try {
    compile_modules(p, cache, 4, [](int64_t done, int64_t) { return done < 2; });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    REQUIRE(error.diagnostics().size() == 1);
    CHECK(error.diagnostics()[0].code == "E0703");
  }
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    CHECK(entry.path().extension() == ".cubin");
    ++entries;
  }
  CHECK(entries >= 2);
  Program again = modules(8);  // what was kept is good
  CHECK(compile_modules(again, cache, 2).from_cache == entries);
}

TEST_CASE("a cache that cannot be written: the work goes on, and why is said once") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  std::ofstream(folder.path + "/file") << "x";
  Program p = modules(3);
  const CompileStats s = compile_modules(p, Cache(folder.path + "/file/cache"), 2);
  CHECK(s.compiled == 3);
  CHECK(s.not_kept.find("cannot make folder ") == 0);
  CHECK(is_elf(p.modules[2].image));
  Program q = modules(1);
  CHECK(compile_modules(q, Cache(folder.path + "/good")).not_kept.empty());
  Program off = modules(1);
  CHECK(compile_modules(off, Cache()).not_kept.empty());
}

TEST_CASE("a progress callback that throws stops the work with what it threw") {
  if (!have_nvrtc()) return;
  Program p = modules(4);
  struct Mine {};
  CHECK_THROWS_AS(compile_modules(p, Cache(), 3, [](int64_t, int64_t) -> bool { throw Mine(); }),
                  Mine);
}

TEST_CASE("the version of NVRTC is noted, and forgotten with the file it was found in") {
  const TempFolder folder;
  const Cache cache(folder.path + "/cache");
  const std::string file = folder.path + "/libnvrtc.so";
  std::ofstream(file) << "a library";
  CHECK(!noted_version(cache, {file}));
  note_version(cache, {file}, {13, 2}, file);
  REQUIRE(noted_version(cache, {file}));
  CHECK(noted_version(cache, {file})->major == 13);
  CHECK(noted_version(cache, {file})->minor == 2);
  CHECK(!noted_version(cache, {file, "another"}));
  CHECK(!noted_version(Cache(), {file}));
  std::ofstream(file) << "a longer library";
  CHECK(!noted_version(cache, {file}));
  note_version(cache, {file}, {13, 3}, file);
  CHECK(noted_version(cache, {file})->minor == 3);
  fs::remove(file);
  CHECK(!noted_version(cache, {file}));
  note_version(cache, {file}, {13, 4}, file);  // nothing to know it by
  CHECK(!noted_version(cache, {file}));
}

TEST_CASE("NVRTC is not loaded where the cache has every module") {
  const TempFolder folder;
  const Cache cache(folder.path + "/cache");
  const std::string file = folder.path + "/no_library.so";  // loading it would fail
  std::ofstream(file) << "text";
  const char* before = std::getenv("BRAID_NVRTC");
  const std::string kept = before ? before : "";
  ::setenv("BRAID_NVRTC", file.c_str(), 1);
  note_version(cache, {file}, {99, 1}, file);
  Program p = modules(2);
  const std::vector<std::byte> image(5, std::byte{42});
  for (const Module& m : p.modules) {
    cache.put("nvrtc 99.1 --gpu-architecture=sm_90 --std=c++17 --minimal --no-cache\n" + m.source,
              image);
  }
  std::vector<int64_t> seen;
  const CompileStats s = compile_modules(p, cache, 0, [&](int64_t done, int64_t total) {
    CHECK(total == 2);
    seen.push_back(done);
    return true;
  });
  CHECK(s.from_cache == 2);
  CHECK(s.compiled == 0);
  CHECK(seen == std::vector<int64_t>{1, 2});
  for (const Module& m : p.modules) CHECK(m.image == image);
  Program q = modules(2);
  CHECK(message_of<Error>(q, cache, 0, [](int64_t, int64_t) { return false; }).find("cancelled") !=
        std::string::npos);
  before ? ::setenv("BRAID_NVRTC", kept.c_str(), 1) : ::unsetenv("BRAID_NVRTC");
}

TEST_CASE("a wrong note of NVRTC's version is mended by the first compile that loads it") {
  if (!have_nvrtc()) return;
  const TempFolder folder;
  const Cache cache(folder.path);
  const char* set = std::getenv("BRAID_NVRTC");
  if (set && *set) return;  // then what is searched for is not what was loaded
  ::setenv("BRAID_NVRTC", nvrtc().path.c_str(), 1);
  note_version(cache, {nvrtc().path}, {99, 1}, nvrtc().path);
  Program p = modules(1);
  compile_modules(p, cache);
  CHECK(is_elf(p.modules[0].image));
  CHECK(noted_version(cache, {nvrtc().path})->major == nvrtc().major);
  ::unsetenv("BRAID_NVRTC");
}
