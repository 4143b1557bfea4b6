// Runs a program that `inspect --format=cpp` wrote, built as a shared library, on the simulator:
// defines the driver calls that it makes. Its modules must hold simulator images.
//
// usage: plan_runner PLAN.so [ARGUMENTS of the program]
// Exit code: the program's, or 9 if it left objects of the driver's behind.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <string>

#include "runtime/simulator.hpp"

#if CUDA_VERSION < 13000
#define cuGraphAddNode cuGraphAddNode_v2
#define cuGraphGetEdges cuGraphGetEdges_v2
#endif

namespace {

braid::runtime::Simulator& simulator() {
  static const std::shared_ptr<braid::runtime::Simulator> one = braid::runtime::make_simulator();
  return *one;
}

}  // namespace

extern "C" {

#define BRAID_CALL(name, version, params, args) \
  __attribute__((visibility("default"))) CUresult name params { return simulator().name args; }
#include "runtime/driver_calls.inc"
#undef BRAID_CALL

__attribute__((visibility("default"))) CUresult cuGetErrorName(CUresult result, const char** name) {
  static std::string text;
  text = braid::runtime::result_name(result);
  for (const std::string& report : simulator().take_reports()) text += "\n" + report;
  *name = text.c_str();
  return CUDA_SUCCESS;
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* plan = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void* entry = plan ? dlsym(plan, "main") : nullptr;
  if (!entry) {
    std::fprintf(stderr, "plan_runner: %s\n", dlerror());
    return 2;
  }
  const int code = reinterpret_cast<int (*)(int, char**)>(entry)(argc - 1, argv + 1);
  if (code == 0 && simulator().live_objects() != 0) {
    std::fprintf(stderr, "plan_runner: %lld objects of the driver's are left\n",
                 static_cast<long long>(simulator().live_objects()));
    return 9;
  }
  return code;
}
