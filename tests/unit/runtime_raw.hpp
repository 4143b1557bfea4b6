// The simulator by raw driver calls.
#pragma once

#include <doctest/doctest.h>

#include "runtime_help.hpp"

namespace braid::testing {

using namespace braid::runtime;

/// A simulator with a current context, a stream and a program's kernels.
struct Raw {
  std::shared_ptr<Simulator> driver = make_simulator();
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUlibrary library = nullptr;

  explicit Raw(const Program& program = diamond()) {
    REQUIRE(driver->cuInit(0) == CUDA_SUCCESS);
    REQUIRE(driver->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(driver->cuCtxPushCurrent(context) == CUDA_SUCCESS);
    REQUIRE(driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    const auto image = simulator_image(program, 0);
    REQUIRE(driver->cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr,
                                      0) == CUDA_SUCCESS);
  }
  CUfunction function(const char* symbol) {
    CUkernel kernel = nullptr;
    CUfunction f = nullptr;
    REQUIRE(driver->cuLibraryGetKernel(&kernel, library, symbol) == CUDA_SUCCESS);
    REQUIRE(driver->cuKernelGetFunction(&f, kernel) == CUDA_SUCCESS);
    return f;
  }
  CUdeviceptr memory(size_t bytes) {
    CUdeviceptr address = 0;
    REQUIRE(driver->cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
    return address;
  }
};

}  // namespace braid::testing
