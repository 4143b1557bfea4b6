#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <string>

#include "ir/diagnostic.hpp"
#include "runtime/driver.hpp"

namespace braid::runtime {
namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// libcuda stays open until the process ends: closing it while its threads run is not safe.
class CudaDriver final : public Driver {
 public:
  CudaDriver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      throw NoDevice("CUDA driver library libcuda.so.1 not found",
                     "install the NVIDIA driver, or run with --device=sim");
    }
    auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    if (!get) {
      throw NoDevice(
          "libcuda.so.1 has no cuGetProcAddress_v2",
          "update the NVIDIA driver to one for CUDA 12.8 or newer, or run with --device=sim");
    }
    // First, so that a missing call can be reported with the driver's version.
    resolve(get, "cuDriverGetVersion", 2020, reinterpret_cast<void**>(&call_version_));
    if (call_version_(&version_) != CUDA_SUCCESS) version_ = 0;
#define BRAID_CALL(name, version, params, args) \
  resolve(get, #name, version, reinterpret_cast<void**>(&p_##name));
#include "runtime/driver_calls.inc"
#undef BRAID_CALL
  }

  bool simulated() const override { return false; }

#define BRAID_CALL(name, version, params, args) \
  CUresult name params override { return p_##name args; }
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

 private:
  void resolve(GetProcAddress get, const char* name, int version, void** to) const {
    CUdriverProcAddressQueryResult status{};
    const CUresult result = get(name, to, version, 0, &status);
    if (result == CUDA_SUCCESS && *to) return;
    if (result == CUDA_ERROR_STUB_LIBRARY) {
      throw NoDevice(
          "the libcuda.so.1 that was found is the toolkit's stub and no driver",
          "take its folder out of LD_LIBRARY_PATH and install the NVIDIA driver, or run with "
          "--device=sim");
    }
    throw NoDevice(fmt::format("the NVIDIA driver (CUDA {}) does not offer {} as of CUDA {}",
                               version_text(version_), name, version_text(version)),
                   "update the driver to one for CUDA 12.8 or newer, or run with --device=sim");
  }

  int version_ = 0;
  CUresult (*call_version_)(int*) = nullptr;
#define BRAID_CALL(name, version, params, args) CUresult(*p_##name) params = nullptr;
#include "runtime/driver_calls.inc"
#undef BRAID_CALL
};

}  // namespace

std::shared_ptr<Driver> load_cuda_driver() {
  static const std::shared_ptr<Driver> driver = std::make_shared<CudaDriver>();
  return driver;
}

}  // namespace braid::runtime
