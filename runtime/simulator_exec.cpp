// Instantiated graphs of the simulator: a graph with the bodies of its conditional nodes, patches,
// and the order in which a launch runs the nodes.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
std::string node_text(const Nest& nest, uint32_t node) {
  const Nest::Node& n = nest.nodes[node];
  const Nest::Graph& graph = nest.graphs[n.graph];
  constexpr std::string_view kNames[] = {"an IF", "a WHILE", "a SWITCH"};
  const std::string_view name = n.conditional ? kNames[n.conditional->type]
                                : n.host      ? "a host node"
                                              : std::string_view(n.call.record->symbol);
  std::string text = fmt::format("node {} ({})", node - graph.first, name);
  if (graph.owner == UINT32_MAX) return text;
  return fmt::format("{} in body {} of {}", text, graph.side, node_text(nest, graph.owner));
}

std::vector<Range> ranges_of(const Nest::Node& node) {
  if (node.host) return {};
  if (!node.conditional) return ranges_of(node.call);
  const uint64_t handle = node.conditional->handle;
  return {{handle, handle + 1, false, 0, true}};
}

Nest State::nest_of(uint64_t graph, std::map<uint64_t, uint32_t>& places) const {
  Nest nest;
  std::vector<uint64_t> sources;
  const auto add = [&](uint64_t source, Nest::Graph g) {
    places[source] = static_cast<uint32_t>(sources.size());
    sources.push_back(source);
    nest.graphs.push_back(g);
    return static_cast<uint32_t>(sources.size() - 1);
  };
  add(graph, {});
  for (uint32_t g = 0; g < nest.graphs.size(); ++g) {
    const Graph& source = graphs_.at(sources[g]);
    const auto first = static_cast<uint32_t>(nest.nodes.size());
    nest.graphs[g].first = first;
    nest.graphs[g].end = first + static_cast<uint32_t>(source.nodes.size());
    for (const Node& from : source.nodes) {
      Nest::Node node;
      node.call = from.call;
      node.conditional = from.conditional;
      node.host = from.host;
      node.graph = g;
      for (const GraphEdge& e : from.incoming) {
        // Behind a programmatic edge a kernel may start at any time: only its own wait orders it.
        const bool full = e.data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
        if (full || from.call.record->waits) node.before.push_back(first + e.from);
      }
      if (from.conditional) {
        Nest::Graph body;
        body.owner = static_cast<uint32_t>(nest.nodes.size());
        body.depth = nest.graphs[g].depth + 1;
        for (const CUgraph side : from.conditional->bodies) {
          node.sides.push_back(add(number_of(side), body));
          ++body.side;
        }
      }
      nest.nodes.push_back(std::move(node));
    }
  }
  return nest;
}

CUresult State::cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const Graph* source = find(graphs_, number_of(graph));
  if (!source) return CUDA_ERROR_INVALID_HANDLE;
  if (!params || params->flags != 0 || source->owner != 0) return CUDA_ERROR_INVALID_VALUE;
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  params->hErrNode_out = nullptr;
  Exec made;
  made.graph = number_of(graph);
  made.nest = nest_of(made.graph, made.places);
  for (const auto& [handle, state] : handles_) {
    if (state.used || !made.places.contains(state.graph)) continue;
    params->result_out = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool twice = std::any_of(execs_.begin(), execs_.end(),
                                 [&](const auto& e) { return e.second.graph == made.graph; });
  if (twice && made.nest.graphs.size() > 1) {
    params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    reports_.push_back("a graph with conditional nodes has one executable at a time");
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t handle = new_handle();
  execs_[handle] = std::move(made);
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
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  // A node of a conditional node's body is patched through the exec of the outermost graph.
  const auto place = patched->places.find(known->first);
  if (place == patched->places.end()) return CUDA_ERROR_INVALID_VALUE;
  Nest::Node& target =
      patched->nest.nodes[patched->nest.graphs[place->second].first + known->second];
  if (!target.is_kernel()) return CUDA_ERROR_INVALID_VALUE;
  const Function* function =
      find(functions_, params->func ? number_of(params->func) : number_of(params->kern));
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  Call call;
  if (const CUresult r =
          check_launch(*function, shape_of(*params), params->kernelParams, params->extra, &call);
      r != CUDA_SUCCESS) {
    return r;
  }
  target.call = std::move(call);
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
