#include "runtime/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace braid::runtime {
namespace {

// NVRTC's C interface, declared here so that building needs no nvrtc.h (CUDA 13.0's, unchanged
// since 7.0 but for GetCUBIN, which came with 11.1).
using Handle = struct NvrtcProgram*;
struct Library {
  NvrtcInfo info;
  const char* (*error_string)(int);
  int (*version)(int*, int*);
  int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Handle*);
  int (*compile)(Handle, int, const char* const*);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, char*);
  int (*log_size)(Handle, size_t*);
  int (*log)(Handle, char*);
};

template <class F>
bool resolve(void* lib, const char* name, F& f) {
  f = reinterpret_cast<F>(::dlsym(lib, name));
  return f != nullptr;
}

/// libnvrtc opens its builtins by bare name, which finds them only on the library path: opening
/// them by full path first makes that name known.
void open_builtins(const std::filesystem::path& folder) {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("libnvrtc-builtins.so.", 0) == 0) {
      ::dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

std::vector<std::string> candidates() {
  std::vector<std::string> files;
  if (const char* file = std::getenv("BRAID_NVRTC"); file && *file) return {file};
  std::vector<std::string> folders;
  if (const char* home = std::getenv("CUDA_HOME"); home && *home) {
    folders.push_back(std::string(home) + "/lib64");
  }
  if (*BRAID_NVRTC_FOLDER) folders.push_back(BRAID_NVRTC_FOLDER);
  folders.push_back("/usr/local/cuda/lib64");
  for (const std::string& folder : folders) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      std::error_code ec;  // a folder that nobody may look into holds no library
      if (std::filesystem::exists(folder + "/" + name, ec)) files.push_back(folder + "/" + name);
    }
  }
  files.insert(files.end(), {"libnvrtc.so.13", "libnvrtc.so.12"});
  return files;
}

Library load() {
  std::string tried;
  for (const std::string& file : candidates()) {
    if (file.find('/') != std::string::npos) {
      open_builtins(std::filesystem::path(file).parent_path());
    }
    void* lib = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
      tried += fmt::format("\n  {}: {}", file, ::dlerror());
      continue;
    }
    Library l{};
    const bool complete =
        resolve(lib, "nvrtcGetErrorString", l.error_string) &&
        resolve(lib, "nvrtcVersion", l.version) && resolve(lib, "nvrtcCreateProgram", l.create) &&
        resolve(lib, "nvrtcDestroyProgram", l.destroy) &&
        resolve(lib, "nvrtcCompileProgram", l.compile) &&
        resolve(lib, "nvrtcGetCUBINSize", l.cubin_size) && resolve(lib, "nvrtcGetCUBIN", l.cubin) &&
        resolve(lib, "nvrtcGetProgramLogSize", l.log_size) &&
        resolve(lib, "nvrtcGetProgramLog", l.log) && l.version(&l.info.major, &l.info.minor) == 0;
    if (!complete) {
      tried += fmt::format("\n  {}: not an NVRTC library", file);
    } else if (l.info.major < 12 || (l.info.major == 12 && l.info.minor < 8)) {
      tried +=
          fmt::format("\n  {}: version {}.{} is older than 12.8", file, l.info.major, l.info.minor);
    } else {
      l.info.path = file;
      return l;  // never closed: compiled code and threads may outlive any owner
    }
    ::dlclose(lib);
  }
  throw NoDevice(
      "NVRTC 12.8 or newer was not found: install a CUDA toolkit or the nvidia-cuda-nvrtc wheel, "
      "or set BRAID_NVRTC to libnvrtc's file; tried:" +
      tried);
}

const Library& library() {
  static const Library l = load();
  return l;
}

/// --no-cache: NVRTC's own cache would hide from us what a compile costs.
std::vector<std::string> compile_options(std::string_view arch) {
  return {fmt::format("--gpu-architecture={}", arch), "--std=c++17", "--minimal", "--no-cache"};
}

std::string module_name(const Program& p, uint32_t module) {
  std::vector<std::string> symbols;
  for (const Kernel& k : p.kernels) {
    if (k.module == module) symbols.push_back(k.symbol);
  }
  return fmt::format("module {} ({})", module, fmt::join(symbols, ", "));
}

}  // namespace

const NvrtcInfo& nvrtc() { return library().info; }

std::vector<std::byte> compile_cubin(const std::string& source, std::string_view arch,
                                     const std::string& what, std::string* log) {
  const Library& l = library();
  Handle h = nullptr;
  const auto check = [&](int result, const char* call) {
    if (result == 0) return;
    throw CudaError(fmt::format("{} for {}: {}", call, what, l.error_string(result)), result);
  };
  check(l.create(&h, source.c_str(), "braid.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  const std::unique_ptr<Handle, void (*)(Handle*)> guard(
      &h, +[](Handle* p) { library().destroy(p); });
  std::vector<std::string> options = compile_options(arch);
  if (log) options.push_back("--ptxas-options=-v");
  std::vector<const char*> raw;
  for (const std::string& o : options) raw.push_back(o.c_str());
  const int result = l.compile(h, static_cast<int>(raw.size()), raw.data());
  size_t n = 0;
  std::string text;
  if ((result != 0 || log) && l.log_size(h, &n) == 0 && n > 1) {
    text.resize(n);
    l.log(h, text.data());
    text.resize(n - 1);
  }
  if (result != 0) {
    throw CudaError(fmt::format("NVRTC {}.{} refused {}: {}\n{}", l.info.major, l.info.minor, what,
                                l.error_string(result), text),
                    result);
  }
  if (log) *log = text;
  check(l.cubin_size(h, &n), "nvrtcGetCUBINSize");
  std::vector<std::byte> image(n);
  check(l.cubin(h, reinterpret_cast<char*>(image.data())), "nvrtcGetCUBIN");
  return image;
}

CompileStats compile_modules(Program& program, const Cache& cache, int threads,
                             const CompileProgress& progress) {
  CompileStats stats;
  std::vector<uint32_t> work;
  for (uint32_t m = 0; m < program.modules.size(); ++m) {
    if (program.modules[m].image.empty()) work.push_back(m);
  }
  if (work.empty()) return stats;

  std::mutex mutex;  // guards stats, done, failure and the progress callback
  std::exception_ptr failure;
  int64_t done = 0;
  std::atomic<size_t> next{0};
  const NvrtcInfo& version = nvrtc();

  const auto one = [&](uint32_t m) {
    Module& module = program.modules[m];
    const std::string key =
        fmt::format("nvrtc {}.{} {}\n{}", version.major, version.minor,
                    fmt::join(compile_options(module.arch), " "), module.source);
    const auto cached = cache.get(key);
    std::string not_kept;
    if (cached) {
      module.image = *cached;
    } else {
      module.image = compile_cubin(module.source, module.arch, module_name(program, m));
      cache.put(key, module.image, &not_kept);
    }
    const std::lock_guard lock(mutex);
    ++(cached ? stats.from_cache : stats.compiled);
    if (stats.not_kept.empty()) stats.not_kept = std::move(not_kept);
    if (!cached) {
      for (const Kernel& k : program.kernels) stats.kernels_compiled += k.module == m;
    }
    ++done;
    if (progress && !progress(done, static_cast<int64_t>(work.size()))) {
      throw Error(Diagnostic{.code = "E0703", .message = "compilation was cancelled"});
    }
  };
  const auto worker = [&] {
    for (size_t i = next++; i < work.size(); i = next++) {
      try {
        one(work[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = work.size();
      }
    }
  };
  const size_t cores = threads > 0 ? static_cast<size_t>(threads)
                                   : std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> pool;
    for (size_t t = 1; t < std::min(cores, work.size()); ++t) pool.emplace_back(worker);
    worker();
  }
  if (failure) std::rethrow_exception(failure);
  return stats;
}

}  // namespace braid::runtime
