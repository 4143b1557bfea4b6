#include "runtime/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "ir/diagnostic.hpp"
#include "runtime/cuda_library.hpp"
#include "runtime/nvrtc_user.hpp"
#include "runtime/nvrtc_version.hpp"

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
  int (*add_expression)(Handle, const char*);
  int (*lowered)(Handle, const char*, const char**);
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
  constexpr std::array<const char*, 2> kNames{"libnvrtc.so.13", "libnvrtc.so.12"};
  if (const char* file = std::getenv("BRAID_NVRTC"); file && *file) return {file};
  return cuda_library_files(kNames);
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
        resolve(lib, "nvrtcGetProgramLog", l.log) &&
        resolve(lib, "nvrtcAddNameExpression", l.add_expression) &&
        resolve(lib, "nvrtcGetLoweredName", l.lowered) &&
        l.version(&l.info.major, &l.info.minor) == 0;
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

std::string key_of(const Module& m, const NvrtcVersion& version) {
  return fmt::format("nvrtc {}.{} {}\n{}", version.major, version.minor,
                     fmt::join(compile_options(m.arch), " "), m.source);
}

NvrtcVersion loaded_version() { return {library().info.major, library().info.minor}; }

void note_loaded(const Cache& cache) {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(library().version), &found) != 0 && found.dli_fname) {
    note_version(cache, candidates(), loaded_version(), found.dli_fname);
  }
}

/// The images of these modules if the cache has all of them, without loading NVRTC, which takes
/// longer than all else then.
std::optional<std::vector<std::vector<std::byte>>> all_cached(const Program& program,
                                                              const std::vector<uint32_t>& work,
                                                              const Cache& cache,
                                                              const NvrtcVersion& version) {
  std::vector<std::vector<std::byte>> images;
  for (const uint32_t m : work) {
    const Module& module = program.modules[m];
    // Code of the user's may take headers of NVRTC's toolkit.
    auto image = module.file.empty() ? cache.get(key_of(module, version)) : std::nullopt;
    if (!image) return {};
    images.push_back(std::move(*image));
  }
  return images;
}

[[noreturn]] void cancelled() {
  throw Error(Diagnostic{.code = "E0703", .message = "compilation was cancelled"});
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

NvrtcResult run_nvrtc(const NvrtcJob& job, const std::string& what) {
  const Library& l = library();
  Handle h = nullptr;
  const auto check = [&](int result, const char* call) {
    if (result == 0) return;
    throw CudaError(fmt::format("{} for {}: {}", call, what, l.error_string(result)), result);
  };
  check(l.create(&h, job.source.c_str(), job.name.c_str(), 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const std::unique_ptr<Handle, void (*)(Handle*)> guard(
      &h, +[](Handle* p) { library().destroy(p); });
  for (const std::string& f : job.functions) {
    check(l.add_expression(h, f.c_str()), "nvrtcAddNameExpression");
  }
  std::vector<const char*> raw;
  for (const std::string& o : job.options) raw.push_back(o.c_str());
  NvrtcResult out;
  out.code = l.compile(h, static_cast<int>(raw.size()), raw.data());
  size_t n = 0;
  if (l.log_size(h, &n) == 0 && n > 1) {
    out.log.resize(n);
    l.log(h, out.log.data());
    out.log.resize(n - 1);
  }
  if (out.code != 0) return out;
  for (const std::string& f : job.functions) {
    const char* symbol = nullptr;
    check(l.lowered(h, f.c_str(), &symbol), "nvrtcGetLoweredName");
    // Where it stopped reading early, at a byte 0xff for one, there is none.
    out.symbols.emplace_back(symbol ? symbol : "");
  }
  check(l.cubin_size(h, &n), "nvrtcGetCUBINSize");
  out.image.resize(n);
  check(l.cubin(h, reinterpret_cast<char*>(out.image.data())), "nvrtcGetCUBIN");
  return out;
}

void refused(const NvrtcResult& result, const std::string& what) {
  const Library& l = library();
  throw CudaError(fmt::format("NVRTC {}.{} refused {}: {}\n{}", l.info.major, l.info.minor, what,
                              l.error_string(result.code), result.log),
                  result.code);
}

std::vector<std::byte> compile_cubin(const std::string& source, std::string_view arch,
                                     const std::string& what, std::string* log) {
  NvrtcJob job{source, "braid.cu", compile_options(arch), {}};
  if (log) job.options.push_back("--ptxas-options=-v");
  NvrtcResult result = run_nvrtc(job, what);
  if (result.code != 0) refused(result, what);
  if (log) *log = std::move(result.log);
  return std::move(result.image);
}

CompileStats compile_modules(Program& program, const Cache& cache, int threads,
                             const CompileProgress& progress) {
  CompileStats stats;
  std::vector<uint32_t> work;
  for (uint32_t m = 0; m < program.modules.size(); ++m) {
    if (program.modules[m].image.empty()) work.push_back(m);
  }
  if (work.empty()) return stats;
  const auto total = static_cast<int64_t>(work.size());
  const std::optional<NvrtcVersion> noted = noted_version(cache, candidates());
  if (auto images = noted ? all_cached(program, work, cache, *noted) : std::nullopt) {
    for (size_t i = 0; i < work.size(); ++i) {
      program.modules[work[i]].image = std::move((*images)[i]);
      ++stats.from_cache;
      if (progress && !progress(stats.from_cache, total)) cancelled();
    }
    return stats;
  }
  // What takes longest first, so that no thread is left with it at the end.
  std::stable_sort(work.begin(), work.end(), [&](uint32_t a, uint32_t b) {
    return program.modules[a].source.size() > program.modules[b].source.size();
  });

  std::mutex mutex;  // guards stats, done, failure, mistakes and the progress callback
  std::exception_ptr failure;
  int64_t done = 0;
  std::atomic<size_t> next{0};
  std::map<uint32_t, std::vector<Diagnostic>> mistakes;  // by module, in the user's code
  const NvrtcVersion version = loaded_version();

  const auto one = [&](uint32_t m) {
    Module& module = program.modules[m];
    std::string not_kept;
    bool cached = false;
    if (!module.file.empty()) {
      try {
        cached = compile_user_module(program, m, cache, &not_kept);
      } catch (const Error& e) {  // the others may be wrong as well
        const std::lock_guard lock(mutex);
        mistakes[m] = e.diagnostics();
        return;
      }
    } else {
      const std::string key = key_of(module, version);
      auto image = cache.get(key);
      cached = image.has_value();
      module.image = cached ? std::move(*image)
                            : compile_cubin(module.source, module.arch, module_name(program, m));
      if (!cached) cache.put(key, module.image, &not_kept);
    }
    const std::lock_guard lock(mutex);
    ++(cached ? stats.from_cache : stats.compiled);
    if (stats.not_kept.empty()) stats.not_kept = std::move(not_kept);
    if (!cached) {
      for (const Kernel& k : program.kernels) stats.kernels_compiled += k.module == m;
    }
    ++done;
    if (progress && !progress(done, total)) cancelled();
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
  std::vector<Diagnostic> all;
  for (auto& [m, list] : mistakes) all.insert(all.end(), list.begin(), list.end());
  if (!all.empty()) throw Error(std::move(all));
  if (!noted || noted->major != version.major || noted->minor != version.minor) note_loaded(cache);
  return stats;
}

}  // namespace braid::runtime
