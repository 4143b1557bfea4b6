// The simulator keeps the driver's rules: tested by raw driver calls.
#include <doctest/doctest.h>

#include <fstream>
#include <thread>

#include "runtime/simulator_state.hpp"
#include "runtime_raw.hpp"
#include "temp_folder.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// Parameters of a row_add node with addresses of its own.
struct AddNode {
  CUdeviceptr args[3] = {0, 0, 0};
  void* pointers[3] = {&args[0], &args[1], &args[2]};
  CUgraphNodeParams params{};
  explicit AddNode(Raw& raw, const char* symbol = "row_add") {
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = raw.function(symbol);
    params.kernel.gridDimX = 2;
    params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = 64;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = pointers;
  }
};

}  // namespace

TEST_CASE("calls before cuInit, without a context or with dead handles are refused") {
  const auto driver = make_simulator();
  CUdeviceptr address = 0;
  CHECK(driver->cuMemAlloc(&address, 16) == CUDA_ERROR_NOT_INITIALIZED);
  REQUIRE(driver->cuInit(0) == CUDA_SUCCESS);
  CHECK(driver->cuMemAlloc(&address, 16) == CUDA_ERROR_INVALID_CONTEXT);

  Raw raw;
  std::thread([&] {  // a context is current per thread
    CHECK(raw.driver->cuMemAlloc(&address, 16) == CUDA_ERROR_INVALID_CONTEXT);
  })
      .join();
  CHECK(raw.driver->cuMemAlloc(&address, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuMemAlloc(&address, size_t{1} << 50) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr first = raw.memory(64);
  CHECK(raw.driver->cuMemFree(first + 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuMemFree(first) == CUDA_SUCCESS);
  CHECK(raw.driver->cuMemFree(first) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.memory(64) != first);
  CHECK(raw.driver->cuStreamDestroy(raw.stream) == CUDA_SUCCESS);
  CHECK(raw.driver->cuStreamSynchronize(raw.stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("copies go where they should and stay inside allocations") {
  Raw raw;
  const HostTensor data = random_tensor(floats(), 5, "data");
  const size_t bytes = data.bytes.size();
  const CUdeviceptr at = raw.memory(bytes);
  std::vector<std::byte> back(bytes);
  CHECK(raw.driver->cuMemcpyDtoH(back.data(), at, bytes) == CUDA_SUCCESS);
  CHECK(back == std::vector<std::byte>(bytes, std::byte{0xFF}));
  CHECK(raw.driver->cuMemcpyHtoD(at, data.bytes.data(), bytes) == CUDA_SUCCESS);
  CHECK(raw.driver->cuMemcpyDtoH(back.data(), at, bytes) == CUDA_SUCCESS);
  CHECK(back == data.bytes);
  CHECK(raw.driver->cuMemcpyHtoD(at + 4, data.bytes.data(), bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuMemcpyDtoH(back.data(), at - 4, bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuMemsetD8Async(at, 7, bytes + 1, raw.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuMemsetD8Async(at + 4, 7, 4, raw.stream) == CUDA_SUCCESS);
  CHECK(raw.driver->cuStreamSynchronize(raw.stream) == CUDA_SUCCESS);
  CHECK(raw.driver->cuMemcpyDtoH(back.data(), at, bytes) == CUDA_SUCCESS);
  std::vector<std::byte> expected = data.bytes;
  std::fill_n(expected.begin() + 4, 4, std::byte{7});
  CHECK(back == expected);
}

TEST_CASE("an image must be the simulator's own and whole") {
  Raw raw;
  CUlibrary library = nullptr;
  const auto load = [&](const void* image) {
    return raw.driver->cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  CHECK(load("\x7f"
             "ELF") == CUDA_ERROR_INVALID_IMAGE);
  Program other = diamond();
  other.kernels[0].args[0].name = "a7";
  CHECK(load(simulator_image(other, 0).data()) == CUDA_ERROR_INVALID_IMAGE);
  other = diamond();
  other.kernels[0].args[2].role = Role::in;
  CHECK(load(simulator_image(other, 0).data()) == CUDA_ERROR_INVALID_IMAGE);
  other = diamond();
  other.kernels[0].args[1].type = floats(kCount + 1);
  CHECK(load(simulator_image(other, 0).data()) == CUDA_ERROR_INVALID_IMAGE);
  other = diamond();
  other.kernels[0].args.pop_back();
  CHECK(load(simulator_image(other, 0).data()) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(raw.driver->take_reports().size() == 5);

  CUkernel kernel = nullptr;
  CHECK(raw.driver->cuLibraryGetKernel(&kernel, raw.library, "row_none") == CUDA_ERROR_NOT_FOUND);
  const CUfunction add = raw.function("row_add");
  CHECK(raw.driver->cuFuncLoad(add) == CUDA_SUCCESS);
  CHECK(raw.driver->cuLibraryUnload(raw.library) == CUDA_SUCCESS);
  CHECK(raw.driver->cuFuncLoad(add) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("nodes are checked when they are added") {
  Raw raw;
  AddNode good(raw);
  CUgraph graph = nullptr, other = nullptr;
  REQUIRE(raw.driver->cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  CUgraphNode first = nullptr, second = nullptr, foreign = nullptr, none = nullptr;
  const auto add = [&](CUgraphNode* node, CUgraph to, std::vector<CUgraphNode> from,
                       CUgraphNodeParams params, const CUgraphEdgeData* edges = nullptr) {
    return raw.driver->cuGraphAddNode(node, to, from.data(), edges, from.size(), &params);
  };
  REQUIRE(add(&first, graph, {}, good.params) == CUDA_SUCCESS);
  REQUIRE(add(&second, graph, {first}, good.params) == CUDA_SUCCESS);
  REQUIRE(add(&foreign, other, {}, good.params) == CUDA_SUCCESS);
  CHECK(add(&none, graph, {first, first}, good.params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(&none, graph, {foreign}, good.params) == CUDA_ERROR_INVALID_VALUE);

  const auto refused = [&](auto change, CUresult expected = CUDA_ERROR_INVALID_VALUE) {
    CUgraphNodeParams params = good.params;
    change(params);
    CHECK(add(&none, graph, {first}, params) == expected);
  };
  refused([](auto& p) { p.kernel.func = nullptr; }, CUDA_ERROR_INVALID_HANDLE);
  refused([](auto& p) { p.kernel.gridDimX = 0; });
  refused([](auto& p) { p.kernel.gridDimY = 65536; });
  refused([](auto& p) { p.kernel.gridDimZ = 65536; });
  refused([](auto& p) { p.kernel.blockDimX = 1025; });
  refused([](auto& p) { p.kernel.blockDimX = p.kernel.blockDimY = 64; });
  refused([](auto& p) { p.kernel.sharedMemBytes = 49 * 1024; });
  refused([](auto& p) { p.kernel.kernelParams = nullptr; });
  refused([](auto& p) { p.kernel.gridDimX = 3; });  // not the shape that the kernel was made for
  refused([](auto& p) { p.reserved0[1] = 1; });
  refused([](auto& p) { p.reserved2 = 1; });
  refused([](auto& p) { p.type = CU_GRAPH_NODE_TYPE_MEMSET; }, CUDA_ERROR_NOT_SUPPORTED);
  refused([](auto& p) { p.type = CU_GRAPH_NODE_TYPE_HOST; });  // with what is of a kernel's

  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  CHECK(add(&none, graph, {first}, good.params, &data) == CUDA_ERROR_INVALID_VALUE);
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  CUgraphNode third = nullptr;
  CHECK(add(&third, graph, {second}, good.params, &data) == CUDA_SUCCESS);

  size_t count = 0;
  REQUIRE(raw.driver->cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) == CUDA_SUCCESS);
  REQUIRE(count == 2);
  CUgraphNode from[2], to[2];
  CUgraphEdgeData kept[2];
  CHECK(raw.driver->cuGraphGetEdges(graph, from, to, nullptr, &count) == CUDA_ERROR_LOSSY_QUERY);
  REQUIRE(raw.driver->cuGraphGetEdges(graph, from, to, kept, &count) == CUDA_SUCCESS);
  CHECK(from[1] == second);
  CHECK(to[1] == third);
  CHECK(kept[0].type == 0);
  CHECK(kept[1].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);

  CHECK(raw.driver->cuGraphDestroy(other) == CUDA_SUCCESS);
  CHECK(add(&none, graph, {foreign}, good.params) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(add(&none, other, {}, good.params) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("patching takes a node of the graph that the executable came from") {
  Raw raw;
  AddNode add(raw);
  CUgraph graph = nullptr, other = nullptr;
  CUgraphNode node = nullptr, foreign = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  REQUIRE(raw.driver->cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphCreate(&other, 0) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &add.params) ==
          CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphAddNode(&foreign, other, nullptr, nullptr, 0, &add.params) ==
          CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphInstantiateWithParams(&exec, graph, &how) == CUDA_SUCCESS);

  // The arguments of the add were copied by it: changing them now changes nothing.
  const HostTensor a = random_tensor(floats(), 1, "a"), b = random_tensor(floats(), 1, "b");
  const size_t bytes = a.bytes.size();
  add.args[0] = raw.memory(bytes);
  add.args[1] = raw.memory(bytes);
  add.args[2] = raw.memory(bytes);
  REQUIRE(raw.driver->cuMemcpyHtoD(add.args[0], a.bytes.data(), bytes) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuMemcpyHtoD(add.args[1], b.bytes.data(), bytes) == CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = add.params.kernel.func;
  params.gridDimX = 2;
  params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 64;
  params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = add.pointers;
  CHECK(raw.driver->cuGraphExecKernelNodeSetParams(exec, foreign, &params) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(raw.driver->cuGraphExecKernelNodeSetParams(exec, node, &params) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuGraphLaunch(exec, raw.stream) == CUDA_SUCCESS);
  REQUIRE(raw.driver->cuStreamSynchronize(raw.stream) == CUDA_SUCCESS);
  HostTensor sum(floats());
  REQUIRE(raw.driver->cuMemcpyDtoH(sum.bytes.data(), add.args[2], bytes) == CUDA_SUCCESS);
  for (int64_t i = 0; i < kCount; ++i) {
    CHECK(static_cast<float>(sum.at(i)) ==
          static_cast<float>(a.at(i)) + static_cast<float>(b.at(i)));
  }
  REQUIRE(raw.driver->cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(raw.driver->cuGraphExecKernelNodeSetParams(exec, node, &params) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(raw.driver->cuGraphLaunch(exec, raw.stream) == CUDA_SUCCESS);  // outlives its graph

  // Use after free shows at the next wait, is explained, and the context stays lost.
  REQUIRE(raw.driver->cuMemFree(add.args[0]) == CUDA_SUCCESS);
  CHECK(raw.driver->cuGraphLaunch(exec, raw.stream) == CUDA_SUCCESS);
  CHECK(raw.driver->cuStreamSynchronize(raw.stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(raw.driver->cuGraphLaunch(exec, raw.stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto reports = raw.driver->take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(contains(reports[0], "node 0 (row_add): argument 0 ('a0')"));
  CHECK(contains(reports[0], "were freed"));
}

TEST_CASE("accesses on two streams need an event between them") {
  const HostTensor data = random_tensor(floats(), 3, "data");
  for (const bool with_event : {true, false}) {
    Raw raw;
    CUstream second = nullptr;
    CUevent event = nullptr;
    REQUIRE(raw.driver->cuStreamCreate(&second, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(raw.driver->cuEventCreate(&event, 0) == CUDA_SUCCESS);
    const CUdeviceptr at = raw.memory(data.bytes.size());
    REQUIRE(raw.driver->cuMemcpyHtoDAsync(at, data.bytes.data(), data.bytes.size(), raw.stream) ==
            CUDA_SUCCESS);
    REQUIRE(raw.driver->cuEventRecord(event, raw.stream) == CUDA_SUCCESS);
    if (with_event) REQUIRE(raw.driver->cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
    REQUIRE(raw.driver->cuMemsetD8Async(at, 1, 8, second) == CUDA_SUCCESS);
    const CUresult expected = with_event ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    CHECK(raw.driver->cuStreamSynchronize(second) == expected);
    CHECK(raw.driver->take_reports().size() == (with_event ? 0 : 1));
  }
}

TEST_CASE("page-locked memory stays as it is until a copy out of it was waited for") {
  for (const bool waits : {true, false}) {
    Raw raw;
    void* block = nullptr;
    REQUIRE(raw.driver->cuMemHostAlloc(&block, 64, 0) == CUDA_SUCCESS);
    const CUdeviceptr at = raw.memory(16);
    std::byte* from = static_cast<std::byte*>(block) + 8;
    REQUIRE(raw.driver->cuMemcpyHtoDAsync(at, from, 16, raw.stream) == CUDA_SUCCESS);
    from[-1] = from[16] = std::byte{1};  // beside it
    if (waits) REQUIRE(raw.driver->cuStreamSynchronize(raw.stream) == CUDA_SUCCESS);
    from[15] = std::byte{1};
    CHECK(raw.driver->cuStreamSynchronize(raw.stream) ==
          (waits ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED));
    CHECK(raw.driver->take_reports().size() == (waits ? 0 : 1));
  }
}

TEST_CASE("a control group's cached files are free memory") {
  const TempFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path + "/" + name) << text;
  };
  CHECK(!sim::free_in_control_group(folder.path));
  write("memory.current", "900\n");
  write("memory.max", "max\n");
  CHECK(!sim::free_in_control_group(folder.path));
  write("memory.max", "1000\n");
  CHECK(sim::free_in_control_group(folder.path) == 100);
  write("memory.stat", "anon 200\nfile 700\ninactive_file 400\nactive_file 300\nshmem 0\n");
  CHECK(sim::free_in_control_group(folder.path) == 800);
  write("memory.current", "1100\n");
  CHECK(sim::free_in_control_group(folder.path) == 600);
  write("memory.stat", "");
  CHECK(sim::free_in_control_group(folder.path) == 0);
}
