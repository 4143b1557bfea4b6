#include <doctest/doctest.h>

#include <set>

#include "ir/diagnostic.hpp"
#include "runtime/driver.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::runtime;
using braid::testing::contains;

TEST_CASE("a machine without a driver is told so") {
  try {
    const std::shared_ptr<Driver> driver = load_cuda_driver();
    CHECK_FALSE(driver->simulated());
    int version = 0;
    CHECK(driver->cuDriverGetVersion(&version) == CUDA_SUCCESS);
    CHECK(version >= 12080);
  } catch (const NoDevice& reason) {
    CHECK(contains(reason.what(), "libcuda.so.1"));
    CHECK(contains(reason.what(), "--device=sim"));
  }
}

TEST_CASE("calls carry the base name that cuGetProcAddress takes") {
  std::set<std::string> names;
  const auto add = [&](const char* name) { CHECK(names.insert(name).second); };
#define BRAID_CALL(name, version, params, args) add(#name);
#include "runtime/driver_calls.inc"
#undef BRAID_CALL
  CHECK(names.count("cuMemAlloc") == 1);
  CHECK(names.count("cuMemcpyHtoDAsync") == 1);
  CHECK(names.count("cuGraphAddNode") == 1);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK_FALSE(contains(name, "_v"));
    CHECK_FALSE(contains(name, "_pt"));
  }
}

TEST_CASE("a failed call names itself, its object and the code") {
  CHECK_NOTHROW(check_call(CUDA_SUCCESS, "cuInit"));
  CHECK(result_name(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) ==
        "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE");
  try {
    check_call(CUDA_ERROR_INVALID_VALUE, "cuGraphAddNode", "node 3, row_relu");
    FAIL("no exception");
  } catch (const CudaError& error) {
    CHECK(std::string(error.what()) ==
          "cuGraphAddNode (node 3, row_relu): CUDA_ERROR_INVALID_VALUE (1)");
    CHECK(error.code() == 1);
  }
}

TEST_CASE("a failing driver fails the asked call and no other") {
  const auto simulator = make_simulator();
  std::vector<std::string> seen;
  const auto driver = failing_driver(simulator, [&](int64_t index, const char* name) {
    CHECK(index == static_cast<int64_t>(seen.size()));
    seen.push_back(name);
    return index == 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
  CHECK(driver->simulated());
  int count = 0;
  CHECK(driver->cuInit(0) == CUDA_SUCCESS);
  CHECK(driver->cuDeviceGetCount(&count) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(count == 0);
  CHECK(driver->cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == 1);
  CHECK(seen == std::vector<std::string>{"cuInit", "cuDeviceGetCount", "cuDeviceGetCount"});
}

TEST_CASE("devices are opened by name") {
  const Device sim = Device::open("sim");
  CHECK(sim.simulated());
  CHECK(sim.name() == "simulator");
  CHECK(sim.target() == Target{});
  CHECK(sim.note().empty());
  CHECK_THROWS_AS(Device::open("gpu"), Error);
  CHECK_THROWS_AS(Device::open("-1"), Error);
  CHECK_THROWS_AS(Device::open("987654"), NoDevice);
  CHECK_THROWS_AS(Device::on(make_simulator(), 1), NoDevice);
  const Device any = Device::open("auto");
  CHECK(any.simulated() == !any.note().empty());
}
