// Graphs of the simulator: the rules that the driver checks when nodes are added and patched.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "ir/code_op.hpp"
#include "ir/kernel_launch.hpp"
#include "runtime/simulator_state.hpp"
#include "runtime/user_kernels.hpp"

namespace braid::runtime::sim {
namespace {

bool same_edge_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

bool valid_edge_data(const CUgraphEdgeData& d, bool between_kernels) {
  if (std::any_of(std::begin(d.reserved), std::end(d.reserved), [](auto x) { return x != 0; })) {
    return false;
  }
  const bool full = d.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT &&
                    d.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
  const bool programmatic = (d.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                             d.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
                            d.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return d.to_port == 0 && (full || (programmatic && between_kernels));
}

/// Whether a function of the host's stands for the code of the kernel.
bool runs_reference(const KernelRecord& record) {
  return std::any_of(record.body.ops().begin(), record.body.ops().end(),
                     [](const ir::Op& op) { return ir::runs_code(op.kind); });
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
  if (runs_reference(record)) {
    if (const Library* library = find(libraries_, function.library)) {
      call->references = library->references;
    }
  }
  if (!record.parameters.empty()) return unpack(function, params, call);
  for (size_t i = 0; i < record.args.size(); ++i) {
    if (!params[i]) return CUDA_ERROR_INVALID_VALUE;
    call->args.push_back(*static_cast<const CUdeviceptr*>(params[i]));
  }
  return CUDA_SUCCESS;
}

CUresult State::unpack(const Function& function, void** params, Call* call) {
  const KernelRecord& record = *function.record;
  call->args.assign(record.args.size(), 0);
  for (size_t i = 0; i < record.parameters.size(); ++i) {
    const Parameter& p = record.parameters[i];
    if (!params[i]) return CUDA_ERROR_INVALID_VALUE;
    if (p.slot != UINT32_MAX) {
      std::memcpy(&call->args[p.slot], params[i], sizeof(CUdeviceptr));
    } else if (std::memcmp(params[i], scalar_bytes(p).data(),
                           static_cast<size_t>(size_of(p.dtype))) != 0) {
      reports_.push_back(fmt::format("kernel {} is launched with another parameter {} than {} {}",
                                     record.symbol, i, name_of(p.dtype), p.number));
      return CUDA_ERROR_INVALID_VALUE;
    }
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
  const Graph* known = find(graphs_, number_of(graph));
  if (!known) return CUDA_ERROR_INVALID_HANDLE;
  if (known->owner != 0) return CUDA_ERROR_INVALID_VALUE;  // goes with its conditional node
  destroy(number_of(graph));
  return ready();
}

void State::destroy(uint64_t graph) {
  const auto found = graphs_.find(graph);
  for (const Node& node : found->second.nodes) {
    nodes_.erase(node.handle);
    if (!node.conditional) continue;
    for (const CUgraph body : node.conditional->bodies) destroy(number_of(body));
  }
  for (const uint64_t handle : found->second.handles) handles_.erase(handle);
  graphs_.erase(found);
}

bool State::is_inside(uint64_t graph, uint64_t outer) const {
  while (graph != 0 && graph != outer) graph = graphs_.at(graph).owner;
  return graph == outer;
}

CUresult State::cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph,
                                               CUcontext context, unsigned default_value,
                                               unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Graph* owner = find(graphs_, number_of(graph));
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  if (!handle || flags > CU_GRAPH_COND_ASSIGN_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  if (context && number_of(context) != kContext) return CUDA_ERROR_INVALID_CONTEXT;
  *handle = new_handle();
  owner->handles.push_back(*handle);
  HandleState& state = handles_[*handle];
  state.graph = number_of(graph);
  if (flags == CU_GRAPH_COND_ASSIGN_DEFAULT) state.initial = default_value;
  return CUDA_SUCCESS;
}

CUresult State::add_conditional(uint64_t graph, CUDA_CONDITIONAL_NODE_PARAMS& params, Node& node) {
  HandleState* handle = find(handles_, params.handle);
  if (!handle || handle->used || !is_inside(graph, handle->graph)) return CUDA_ERROR_INVALID_VALUE;
  if (number_of(params.ctx) != kContext) return CUDA_ERROR_INVALID_CONTEXT;
  unsigned most = 0;
  switch (params.type) {
    case CU_GRAPH_COND_TYPE_IF:
      most = 2;
      break;
    case CU_GRAPH_COND_TYPE_WHILE:
      most = 1;
      break;
    case CU_GRAPH_COND_TYPE_SWITCH:
      most = UINT_MAX;
      break;
  }
  if (params.size < 1 || params.size > most) return CUDA_ERROR_INVALID_VALUE;
  handle->used = true;
  node.conditional = std::make_shared<Conditional>();
  node.conditional->handle = params.handle;
  node.conditional->type = params.type;
  node.conditional->initial = handle->initial;
  for (unsigned i = 0; i < params.size; ++i) {
    const uint64_t body = new_handle();
    graphs_[body].owner = graph;
    node.conditional->bodies.push_back(handle_of<CUgraph>(body));
  }
  params.phGraph_out = node.conditional->bodies.data();
  return CUDA_SUCCESS;
}

CUresult State::cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from,
                               const CUgraphEdgeData* edges, size_t count,
                               CUgraphNodeParams* params) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Graph* owner = find(graphs_, number_of(graph));
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  if (!node || !params || (count > 0 && !from)) return CUDA_ERROR_INVALID_VALUE;
  const bool conditional = params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
  const bool host = params->type == CU_GRAPH_NODE_TYPE_HOST;
  if (!conditional && !host && params->type != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (host && (!params->host.fn || owner->owner != 0)) return CUDA_ERROR_INVALID_VALUE;
  const auto* tail = conditional ? reinterpret_cast<const char*>(&params->conditional + 1)
                     : host      ? reinterpret_cast<const char*>(&params->host.userData + 1)
                                 : reinterpret_cast<const char*>(&params->kernel + 1);
  const auto* end = reinterpret_cast<const char*>(params + 1);
  if (std::any_of(tail, end, [](char c) { return c != 0; }) ||
      std::any_of(std::begin(params->reserved0), std::end(params->reserved0),
                  [](int x) { return x != 0; })) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  Node added;
  for (size_t i = 0; i < count; ++i) {
    const auto* known = find(nodes_, number_of(from[i]));
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (known->first != number_of(graph)) return CUDA_ERROR_INVALID_VALUE;
    const CUgraphEdgeData data = edges ? edges[i] : CUgraphEdgeData{};
    const Node& before = owner->nodes[known->second];
    const bool kernels = !conditional && !host && !before.conditional && !before.host;
    if (!valid_edge_data(data, kernels)) return CUDA_ERROR_INVALID_VALUE;
    const bool twice = std::any_of(added.incoming.begin(), added.incoming.end(),
                                   [&](const GraphEdge& e) { return e.from == known->second; });
    if (twice) return CUDA_ERROR_INVALID_VALUE;
    added.incoming.push_back({known->second, data});
  }
  if (conditional) {
    const CUresult r = add_conditional(number_of(graph), params->conditional, added);
    if (r != CUDA_SUCCESS) return r;
  } else if (host) {
    added.host = params->host;
  } else {
    const CUDA_KERNEL_NODE_PARAMS_v3& kernel = params->kernel;
    const Function* function =
        find(functions_, kernel.func ? number_of(kernel.func) : number_of(kernel.kern));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r =
        check_launch(*function, shape_of(kernel), kernel.kernelParams, kernel.extra, &added.call);
    if (r != CUDA_SUCCESS) return r;
  }
  added.handle = new_handle();
  nodes_[added.handle] = {number_of(graph), static_cast<uint32_t>(owner->nodes.size())};
  *node = handle_of<CUgraphNode>(added.handle);
  owner->nodes.push_back(std::move(added));
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
    for (const GraphEdge& e : owner->nodes[n].incoming) {
      if (from && to && i < *count) {
        from[i] = handle_of<CUgraphNode>(owner->nodes[e.from].handle);
        to[i] = handle_of<CUgraphNode>(owner->nodes[n].handle);
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

}  // namespace braid::runtime::sim
