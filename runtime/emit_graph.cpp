#include "runtime/emit_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "ir/diagnostic.hpp"

namespace braid::runtime {
namespace {

CUgraphEdgeData edge_record(EdgeKind kind) {
  CUgraphEdgeData data{};
  if (kind == EdgeKind::programmatic) {
    data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return data;
}

/// Works for the versions of the parameter struct that the two calls take.
template <class Params>
void fill(Params& params, const LaunchShape& launch, CUfunction function, void** arguments) {
  params.func = function;
  params.gridDimX = launch.grid[0];
  params.gridDimY = launch.grid[1];
  params.gridDimZ = launch.grid[2];
  params.blockDimX = launch.block[0];
  params.blockDimY = launch.block[1];
  params.blockDimZ = launch.block[2];
  params.sharedMemBytes = launch.shared_bytes;
  params.kernelParams = arguments;
}

void add_nodes(const ContextPtr& context, const Program& program, const Body& body,
               const std::vector<CUfunction>& functions, const BodyArgs& args, BodyGraph& built) {
  std::vector<std::vector<const Edge*>> incoming(body.nodes.size());
  for (const Edge& e : body.edges) incoming[e.to].push_back(&e);

  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    std::vector<CUgraphNode> from;
    std::vector<CUgraphEdgeData> records;
    for (const Edge* e : incoming[n]) {
      from.push_back(built.nodes[e->from]);
      records.push_back(edge_record(e->kind));
    }
    std::vector<void*> arguments = argument_pointers(args[n]);
    const uint32_t kernel = body.nodes[n].kernel;
    CUgraphNodeParams params{};  // unused bytes must be zero
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    fill(params.kernel, program.kernels[kernel].launch, functions[kernel], arguments.data());
    CUgraphNode node = nullptr;
    const CUresult result = context->driver->cuGraphAddNode(&node, built.graph.get(), from.data(),
                                                            records.data(), from.size(), &params);
    if (result != CUDA_SUCCESS) {
      context->check(result, "cuGraphAddNode", node_text(program, body, n));
    }
    built.nodes.push_back(node);
  }
}

#ifndef NDEBUG
/// A driver that keeps other edge records than it was given has been seen.
void check_edges(const ContextPtr& context, const Body& body, const BodyGraph& built) {
  size_t count = 0;
  Driver& driver = *context->driver;
  context->check(driver.cuGraphGetEdges(built.graph.get(), nullptr, nullptr, nullptr, &count),
                 "cuGraphGetEdges");
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> records(count);
  context->check(
      driver.cuGraphGetEdges(built.graph.get(), from.data(), to.data(), records.data(), &count),
      "cuGraphGetEdges");
  using Key = std::tuple<CUgraphNode, CUgraphNode, int, int, int>;
  const auto key = [](CUgraphNode a, CUgraphNode b, const CUgraphEdgeData& d) {
    return Key{a, b, d.from_port, d.to_port, d.type};
  };
  std::vector<Key> kept, given;
  for (size_t i = 0; i < count; ++i) kept.push_back(key(from[i], to[i], records[i]));
  for (const Edge& e : body.edges) {
    given.push_back(key(built.nodes[e.from], built.nodes[e.to], edge_record(e.kind)));
  }
  std::sort(kept.begin(), kept.end());
  std::sort(given.begin(), given.end());
  ensure(kept == given, "the driver keeps other edges than it was given");
}
#endif

void instantiate(const ContextPtr& context, const Program& program, const Body& body,
                 BodyGraph& built) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUgraphExec exec = nullptr;
  const CUresult result =
      context->driver->cuGraphInstantiateWithParams(&exec, built.graph.get(), &params);
  if (result == CUDA_SUCCESS && params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    built.exec = OwnedExec(context, exec);
    return;
  }
  std::string what = "program " + program.name;
  const auto at = std::find(built.nodes.begin(), built.nodes.end(), params.hErrNode_out);
  if (at != built.nodes.end()) {
    what = node_text(program, body, static_cast<uint32_t>(at - built.nodes.begin()));
  }
  context->check(
      result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : result, "cuGraphInstantiateWithParams",
      fmt::format("{}, instantiate result {}", what, static_cast<int>(params.result_out)));
}

}  // namespace

BodyGraph emit_graph(const ContextPtr& context, const Program& program, const Body& body,
                     const std::vector<CUfunction>& functions, const BodyArgs& args,
                     CUstream stream) {
  BodyGraph built;
  CUgraph graph = nullptr;
  context->check(context->driver->cuGraphCreate(&graph, 0), "cuGraphCreate", program.name);
  built.graph = OwnedGraph(context, graph);
  add_nodes(context, program, body, functions, args, built);
#ifndef NDEBUG
  check_edges(context, body, built);
#endif
  instantiate(context, program, body, built);
  context->check(context->driver->cuGraphUpload(built.exec.get(), stream), "cuGraphUpload",
                 program.name);
  return built;
}

CUresult patch_node(Driver& driver, const BodyGraph& built, const Program& program,
                    const Body& body, uint32_t node, const std::vector<CUfunction>& functions,
                    const std::vector<CUdeviceptr>& args) {
  std::vector<void*> arguments = argument_pointers(args);
  const uint32_t kernel = body.nodes[node].kernel;
  CUDA_KERNEL_NODE_PARAMS params{};
  fill(params, program.kernels[kernel].launch, functions[kernel], arguments.data());
  return driver.cuGraphExecKernelNodeSetParams(built.exec.get(), built.nodes[node], &params);
}

std::vector<void*> argument_pointers(const std::vector<CUdeviceptr>& args) {
  std::vector<void*> pointers;
  pointers.reserve(args.size());
  for (const CUdeviceptr& a : args) pointers.push_back(const_cast<CUdeviceptr*>(&a));
  return pointers;
}

std::string node_text(const Program& program, const Body& body, uint32_t node) {
  const Node& n = body.nodes[node];
  return fmt::format("node {}, {} ({})", node, program.kernels[n.kernel].symbol,
                     fmt::join(n.ops, ", "));
}

}  // namespace braid::runtime
