// Graphs of the simulator: the rules that the driver checks when nodes are added and patched.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

bool same_edge_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

bool valid_edge_data(const CUgraphEdgeData& d) {
  if (std::any_of(std::begin(d.reserved), std::end(d.reserved), [](auto x) { return x != 0; })) {
    return false;
  }
  const bool full = d.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT &&
                    d.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
  const bool programmatic = (d.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                             d.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
                            d.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return d.to_port == 0 && (full || programmatic);
}

template <class Params>
LaunchShape shape_of(const Params& p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ},
          {p.blockDimX, p.blockDimY, p.blockDimZ},
          p.sharedMemBytes};
}

}  // namespace

CUresult State::check_launch(const Function& function, const LaunchShape& shape, void** params,
                             void** extra, Call* call) {
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  constexpr std::array<uint32_t, 3> kMostBlocks{0x7FFFFFFF, 65535, 65535};
  constexpr std::array<uint32_t, 3> kMostThreads{1024, 1024, 64};
  for (size_t i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > kMostBlocks[i]) return CUDA_ERROR_INVALID_VALUE;
    if (shape.block[i] == 0 || shape.block[i] > kMostThreads[i]) return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads > 1024 || shape.shared_bytes > function.max_shared_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const KernelRecord& record = *function.record;
  if (extra || (!params && !record.args.empty())) return CUDA_ERROR_INVALID_VALUE;
  if (shape != record.launch) {
    // A GPU would run it, and compute something else than the plan says.
    reports_.push_back(
        fmt::format("kernel {} is launched in another shape than it was made for", record.symbol));
    return CUDA_ERROR_INVALID_VALUE;
  }
  call->record = function.record;
  call->args.clear();
  for (size_t i = 0; i < record.args.size(); ++i) {
    if (!params[i]) return CUDA_ERROR_INVALID_VALUE;
    call->args.push_back(*static_cast<const CUdeviceptr*>(params[i]));
  }
  return CUDA_SUCCESS;
}

CUresult State::cuGraphCreate(CUgraph* graph, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = new_handle();
  graphs_[handle];
  *graph = handle_of<CUgraph>(handle);
  return CUDA_SUCCESS;
}

CUresult State::cuGraphDestroy(CUgraph graph) {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(number_of(graph));
  if (found == graphs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  for (const uint64_t node : found->second.nodes) nodes_.erase(node);
  graphs_.erase(found);
  return ready();
}

CUresult State::cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from,
                               const CUgraphEdgeData* edges, size_t count,
                               CUgraphNodeParams* params) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Graph* owner = find(graphs_, number_of(graph));
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  if (!node || !params || (count > 0 && !from)) return CUDA_ERROR_INVALID_VALUE;
  if (params->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_NOT_SUPPORTED;
  const auto* tail = reinterpret_cast<const char*>(&params->kernel + 1);
  const auto* end = reinterpret_cast<const char*>(params + 1);
  if (std::any_of(tail, end, [](char c) { return c != 0; }) ||
      std::any_of(std::begin(params->reserved0), std::end(params->reserved0),
                  [](int x) { return x != 0; })) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_KERNEL_NODE_PARAMS_v3& kernel = params->kernel;
  const Function* function =
      find(functions_, kernel.func ? number_of(kernel.func) : number_of(kernel.kern));
  if (!function) return CUDA_ERROR_INVALID_HANDLE;

  std::vector<GraphEdge> incoming;
  for (size_t i = 0; i < count; ++i) {
    const auto* known = find(nodes_, number_of(from[i]));
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (known->first != number_of(graph)) return CUDA_ERROR_INVALID_VALUE;
    const CUgraphEdgeData data = edges ? edges[i] : CUgraphEdgeData{};
    if (!valid_edge_data(data)) return CUDA_ERROR_INVALID_VALUE;
    const bool twice = std::any_of(incoming.begin(), incoming.end(),
                                   [&](const GraphEdge& e) { return e.from == known->second; });
    if (twice) return CUDA_ERROR_INVALID_VALUE;
    incoming.push_back({known->second, data});
  }
  Call call;
  if (const CUresult r =
          check_launch(*function, shape_of(kernel), kernel.kernelParams, kernel.extra, &call);
      r != CUDA_SUCCESS) {
    return r;
  }
  const uint64_t handle = new_handle();
  nodes_[handle] = {number_of(graph), static_cast<uint32_t>(owner->nodes.size())};
  owner->nodes.push_back(handle);
  owner->calls.push_back(std::move(call));
  owner->incoming.push_back(std::move(incoming));
  *node = handle_of<CUgraphNode>(handle);
  return CUDA_SUCCESS;
}

CUresult State::cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                CUgraphEdgeData* edges, size_t* count) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const Graph* owner = find(graphs_, number_of(graph));
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  size_t i = 0;
  for (size_t n = 0; n < owner->nodes.size(); ++n) {
    for (const GraphEdge& e : owner->incoming[n]) {
      if (from && to && i < *count) {
        from[i] = handle_of<CUgraphNode>(owner->nodes[e.from]);
        to[i] = handle_of<CUgraphNode>(owner->nodes[n]);
        if (edges) {
          edges[i] = e.data;
        } else if (!same_edge_data(e.data, CUgraphEdgeData{})) {
          return CUDA_ERROR_LOSSY_QUERY;
        }
      }
      ++i;
    }
  }
  *count = from ? std::min(*count, i) : i;
  return CUDA_SUCCESS;
}

CUresult State::cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const Graph* source = find(graphs_, number_of(graph));
  if (!source) return CUDA_ERROR_INVALID_HANDLE;
  if (!params || params->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Exec made;
  made.graph = number_of(graph);
  made.calls = source->calls;
  for (size_t n = 0; n < source->nodes.size(); ++n) {
    std::vector<uint32_t> before;
    for (const GraphEdge& e : source->incoming[n]) {
      // Behind a programmatic edge a kernel may start at any time: only its own wait orders it.
      const bool full = e.data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
      if (full || source->calls[n].record->waits) before.push_back(e.from);
    }
    made.before.push_back(std::move(before));
  }
  const uint64_t handle = new_handle();
  execs_[handle] = std::move(made);
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  params->hErrNode_out = nullptr;
  *exec = handle_of<CUgraphExec>(handle);
  return CUDA_SUCCESS;
}

CUresult State::cuGraphExecDestroy(CUgraphExec exec) {
  const std::lock_guard lock(mutex_);
  if (execs_.erase(number_of(exec)) == 0) return CUDA_ERROR_INVALID_HANDLE;
  return ready();
}

CUresult State::cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS* params) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Exec* patched = find(execs_, number_of(exec));
  const auto* known = find(nodes_, number_of(node));
  if (!patched || !known) return CUDA_ERROR_INVALID_HANDLE;
  if (known->first != patched->graph || !params) return CUDA_ERROR_INVALID_VALUE;
  const Function* function =
      find(functions_, params->func ? number_of(params->func) : number_of(params->kern));
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  Call call;
  if (const CUresult r =
          check_launch(*function, shape_of(*params), params->kernelParams, params->extra, &call);
      r != CUDA_SUCCESS) {
    return r;
  }
  patched->calls[known->second] = std::move(call);
  patched->races.reset();
  return CUDA_SUCCESS;
}

CUresult State::cuGraphUpload(CUgraphExec exec, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find(execs_, number_of(exec)) || !find_stream(number_of(stream))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  begin_operation(number_of(stream));
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
