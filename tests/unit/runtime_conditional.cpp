// The driver's rules for conditional nodes, by raw calls to the simulator.
#include <doctest/doctest.h>

#include <vector>

#include "runtime_raw.hpp"
#include "runtime_regions_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// Sets handles to constants; counts.
Program kernels() {
  Program p = empty_program("kernels");
  for (const int value : {0, 1, 2, 7}) {
    MadeKernel m("set" + std::to_string(value));
    m.assign(m.handle(kI32), m.g().splat(kI32, value));
    p.kernels.push_back(m.k);
  }
  p.kernels.push_back(count_kernel("count"));
  MadeKernel add("add");  // s0 = s0 + 1
  const auto s = add.param("s0", kI32, ir::LocalAttr{}, Role::inout);
  add.assign(s,
             add.map(Fn::add, {add.g().add({ir::OpKind::read, {}, {s}}), add.g().splat(kI32, 1)}));
  p.kernels.push_back(add.k);
  return p;
}

struct Graphs : Raw {
  CUgraph graph = create();

  Graphs() : Raw(kernels()) {}
  CUgraph create() {
    CUgraph g = nullptr;
    REQUIRE(driver->cuGraphCreate(&g, 0) == CUDA_SUCCESS);
    return g;
  }
  CUgraphConditionalHandle handle(CUgraph in, unsigned initial = 0, unsigned flags = 0) {
    CUgraphConditionalHandle h = 0;
    REQUIRE(driver->cuGraphConditionalHandleCreate(&h, in, context, initial, flags) ==
            CUDA_SUCCESS);
    return h;
  }
  CUgraphNode kernel(CUgraph in, const char* symbol, std::vector<CUdeviceptr> args,
                     const std::vector<CUgraphNode>& from = {}) {
    std::vector<void*> pointers;
    for (CUdeviceptr& a : args) pointers.push_back(&a);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = function(symbol);
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = pointers.data();
    CUgraphNode node = nullptr;
    REQUIRE(driver->cuGraphAddNode(&node, in, from.data(), nullptr, from.size(), &params) ==
            CUDA_SUCCESS);
    return node;
  }
  CUgraphNodeParams params(CUgraphConditionalHandle h, CUgraphConditionalNodeType type,
                           unsigned size) const {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = size;
    p.conditional.ctx = context;
    return p;
  }
  CUresult add(CUgraphNode* node, CUgraph in, CUgraphNodeParams& p,
               const std::vector<CUgraphNode>& from = {}, const CUgraphEdgeData* edges = nullptr) {
    return driver->cuGraphAddNode(node, in, from.data(), edges, from.size(), &p);
  }
  std::vector<CUgraph> conditional(CUgraph in, CUgraphConditionalHandle h,
                                   CUgraphConditionalNodeType type, unsigned size,
                                   const std::vector<CUgraphNode>& from = {},
                                   CUgraphNode* node = nullptr) {
    CUgraphNodeParams p = params(h, type, size);
    CUgraphNode made = nullptr;
    REQUIRE(add(node ? node : &made, in, p, from) == CUDA_SUCCESS);
    return {p.conditional.phGraph_out, p.conditional.phGraph_out + size};
  }
  CUresult instantiate(CUgraphExec* exec, CUgraph of, int* result = nullptr) {
    CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    const CUresult r = driver->cuGraphInstantiateWithParams(exec, of, &how);
    if (result) *result = static_cast<int>(how.result_out);
    return r;
  }
  CUdeviceptr number(int value) {
    const CUdeviceptr at = memory(sizeof value);
    REQUIRE(driver->cuMemcpyHtoD(at, &value, sizeof value) == CUDA_SUCCESS);
    return at;
  }
  int at(CUdeviceptr address) {
    int value = 0;
    REQUIRE(driver->cuMemcpyDtoH(&value, address, sizeof value) == CUDA_SUCCESS);
    return value;
  }
  CUresult run(CUgraphExec exec) {
    REQUIRE(driver->cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    return driver->cuStreamSynchronize(stream);
  }
};

constexpr auto kIf = CU_GRAPH_COND_TYPE_IF;
constexpr auto kWhile = CU_GRAPH_COND_TYPE_WHILE;
constexpr auto kSwitch = CU_GRAPH_COND_TYPE_SWITCH;

}  // namespace

TEST_CASE("a conditional node is checked when it is added") {
  Graphs g;
  CUgraphConditionalHandle h = g.handle(g.graph);
  CUgraphNode node = nullptr;
  const auto refused = [&](CUgraphNodeParams p, CUresult expected = CUDA_ERROR_INVALID_VALUE) {
    CHECK(g.add(&node, g.graph, p) == expected);
  };
  refused(g.params(0, kIf, 1));
  refused(g.params(h, kIf, 0));
  refused(g.params(h, kIf, 3));
  refused(g.params(h, kWhile, 2));
  refused(g.params(h, kSwitch, 0));
  refused(g.params(g.handle(g.create()), kIf, 1));  // of another graph
  CUgraphNodeParams other = g.params(h, kIf, 1);
  other.conditional.ctx = nullptr;
  refused(other, CUDA_ERROR_INVALID_CONTEXT);
  other = g.params(h, kIf, 1);
  other.reserved2 = 1;
  refused(other);

  const CUgraphNode set = g.kernel(g.graph, "set1", {h});
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  other = g.params(h, kIf, 1);
  CHECK(g.add(&node, g.graph, other, {set}, &data) == CUDA_ERROR_INVALID_VALUE);

  const std::vector<CUgraph> bodies = g.conditional(g.graph, h, kIf, 2, {set});
  CHECK(bodies[0] != bodies[1]);
  refused(g.params(h, kIf, 1));  // has its node
  // A handle may be made in the graph around the one that has the node.
  const CUgraphConditionalHandle inner = g.handle(g.graph);
  other = g.params(inner, kIf, 1);
  CHECK(g.add(&node, bodies[0], other) == CUDA_SUCCESS);
  const CUgraphConditionalHandle below = g.handle(bodies[0]);
  refused(g.params(below, kIf, 1));
  other = g.params(below, kIf, 1);
  CHECK(g.add(&node, bodies[1], other) == CUDA_ERROR_INVALID_VALUE);
  CHECK(g.add(&node, bodies[0], other, {set}) == CUDA_ERROR_INVALID_VALUE);  // of another graph

  CUgraphConditionalHandle none = 0;
  CHECK(g.driver->cuGraphConditionalHandleCreate(&none, g.graph, g.context, 0, 2) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(g.driver->cuGraphConditionalHandleCreate(&none, nullptr, g.context, 0, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a handle without a node, and a second executable, are refused") {
  Graphs g;
  const CUgraphConditionalHandle h = g.handle(g.graph);
  CUgraphExec exec = nullptr, second = nullptr;
  int result = 0;
  CHECK(g.instantiate(&exec, g.graph, &result) != CUDA_SUCCESS);
  CHECK(result == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  const auto bodies = g.conditional(g.graph, h, kIf, 1);
  const CUgraphConditionalHandle inner = g.handle(bodies[0]);
  CHECK(g.instantiate(&exec, g.graph, &result) != CUDA_SUCCESS);
  CHECK(result == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  g.conditional(bodies[0], inner, kIf, 1);
  CHECK(g.instantiate(&exec, bodies[0]) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
  CHECK(g.instantiate(&second, g.graph) != CUDA_SUCCESS);
  REQUIRE(g.driver->cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
}

TEST_CASE("bodies are the driver's: they count as nobody's and go with the graph") {
  Graphs g;
  const int64_t before = g.driver->live_objects();
  const CUgraph graph = g.create();
  const auto h = g.handle(graph);
  const auto bodies = g.conditional(graph, h, kSwitch, 3);
  const CUgraphConditionalHandle inner = g.handle(bodies[1]);
  const auto deeper = g.conditional(bodies[1], inner, kWhile, 1);
  const CUgraphNode node = g.kernel(deeper[0], "set0", {inner});
  CHECK(g.driver->live_objects() == before + 1);
  CHECK(g.driver->cuGraphDestroy(bodies[1]) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(g.driver->cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(g.driver->live_objects() == before);
  size_t count = 0;
  for (const CUgraph gone : {graph, bodies[0], bodies[1], deeper[0]}) {
    CHECK(g.driver->cuGraphGetEdges(gone, nullptr, nullptr, nullptr, &count) ==
          CUDA_ERROR_INVALID_HANDLE);
  }
  CUgraphNodeParams p = g.params(h, kIf, 1);
  CUgraphNode none = nullptr;
  CHECK(g.add(&none, g.graph, p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(g.add(&none, g.graph, p, {node}) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("IF and SWITCH run the body that the value says, or none") {
  const char* setters[] = {"set0", "set1", "set2", "set7"};
  const unsigned values[] = {0, 1, 2, 7};
  for (size_t v = 0; v < 4; ++v) {
    for (const auto& [type, size] : {std::pair(kIf, 1u), {kIf, 2u}, {kSwitch, 3u}}) {
      CAPTURE(values[v]);
      CAPTURE(size);
      Graphs g;
      const auto h = g.handle(g.graph);
      const CUgraphNode set = g.kernel(g.graph, setters[v], {h});
      const auto bodies = g.conditional(g.graph, h, type, size, {set});
      std::vector<CUdeviceptr> counts;
      for (const CUgraph body : bodies) {
        counts.push_back(g.number(0));
        g.kernel(body, "add", {counts.back()});
      }
      CUgraphExec exec = nullptr;
      REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
      REQUIRE(g.run(exec) == CUDA_SUCCESS);
      const size_t taken = type == kSwitch ? values[v] : values[v] != 0 ? 0 : 1;
      for (size_t i = 0; i < counts.size(); ++i) CHECK(g.at(counts[i]) == (i == taken ? 1 : 0));
    }
  }
}

TEST_CASE("a default stands in for a kernel at each launch, and only there") {
  Graphs g;
  const auto h = g.handle(g.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  const auto body = g.conditional(g.graph, h, kWhile, 1);
  const CUdeviceptr left = g.number(3), runs = g.number(0);
  // The counter of iterations is set back by nobody: later launches run the body once.
  g.kernel(body[0], "count", {left, h});
  g.kernel(body[0], "add", {runs});
  CUgraphExec exec = nullptr;
  REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
  REQUIRE(g.run(exec) == CUDA_SUCCESS);
  CHECK(g.at(runs) == 3);
  REQUIRE(g.run(exec) == CUDA_SUCCESS);
  CHECK(g.at(runs) == 4);

  // Without one, what the launch before set is gone.
  Graphs without;
  const auto undefined = without.handle(without.graph);
  without.conditional(without.graph, undefined, kIf, 1);
  REQUIRE(without.instantiate(&exec, without.graph) == CUDA_SUCCESS);
  CHECK(without.run(exec) == CUDA_ERROR_LAUNCH_FAILED);
  const auto reports = without.driver->take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(contains(reports[0], "node 0 (an IF): nothing has set its value"));
}

TEST_CASE("a WHILE that nothing can end is refused at once") {
  Graphs g;
  g.conditional(g.graph, g.handle(g.graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), kWhile, 1);
  CUgraphExec exec = nullptr;
  REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
  CHECK(g.run(exec) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(contains(g.driver->take_reports().at(0), "it never ends, as its body is empty"));
}

TEST_CASE("a value is set for a node of the graph that runs, and in a graph") {
  for (const bool in_graph : {true, false}) {
    Graphs g;
    const CUgraph other = g.create();
    CUgraphConditionalHandle h = g.handle(other);
    g.conditional(other, h, kIf, 1);
    if (in_graph) {
      g.kernel(g.graph, "set1", {h});
      CUgraphExec exec = nullptr;
      REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
      CHECK(g.run(exec) == CUDA_ERROR_LAUNCH_FAILED);
    } else {
      void* args[] = {&h};
      REQUIRE(g.driver->cuLaunchKernel(g.function("set1"), 1, 1, 1, 1, 1, 1, 0, g.stream, args,
                                       nullptr) == CUDA_SUCCESS);
      CHECK(g.driver->cuStreamSynchronize(g.stream) == CUDA_ERROR_LAUNCH_FAILED);
    }
    CHECK(contains(g.driver->take_reports().at(0), "sets the value of handle 0x"));
  }
}

TEST_CASE("nodes of bodies are patched through the outermost graph's executable") {
  Graphs g;
  const auto h = g.handle(g.graph);
  const CUgraphNode set = g.kernel(g.graph, "set1", {h});
  CUgraphNode conditional = nullptr;
  const auto outer = g.conditional(g.graph, h, kIf, 1, {set}, &conditional);
  const auto inner_handle = g.handle(outer[0]);
  const CUgraphNode set_inner = g.kernel(outer[0], "set2", {inner_handle});
  const auto inner = g.conditional(outer[0], inner_handle, kSwitch, 3, {set_inner});
  const CUdeviceptr before = g.number(0), after = g.number(0);
  const CUgraphNode add = g.kernel(inner[2], "add", {before});
  CUgraphExec exec = nullptr, foreign = nullptr;
  REQUIRE(g.instantiate(&exec, g.graph) == CUDA_SUCCESS);
  REQUIRE(g.instantiate(&foreign, g.create()) == CUDA_SUCCESS);
  CUdeviceptr argument = after;
  void* pointers[] = {&argument};
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = g.function("add");
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = pointers;
  const auto patch = [&](CUgraphExec of, CUgraphNode node) {
    return g.driver->cuGraphExecKernelNodeSetParams(of, node, &params);
  };
  CHECK(patch(foreign, add) == CUDA_ERROR_INVALID_VALUE);
  CHECK(patch(exec, conditional) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(patch(exec, add) == CUDA_SUCCESS);
  REQUIRE(g.run(exec) == CUDA_SUCCESS);
  CHECK(g.at(before) == 0);
  CHECK(g.at(after) == 1);
}
