#include "runtime/emit_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "ir/diagnostic.hpp"
#include "runtime/capture.hpp"
#include "runtime/mailbox.hpp"
#include "runtime/user_kernels.hpp"

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
void fill_kernel(Params& params, const LaunchShape& launch, CUfunction function, void** arguments) {
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

CUgraphConditionalNodeType conditional_type(const Program& program, const Region& region) {
  if (region.loop) return CU_GRAPH_COND_TYPE_WHILE;
  return program.views[region.flag].type.dtype == DType::b1 ? CU_GRAPH_COND_TYPE_IF
                                                            : CU_GRAPH_COND_TYPE_SWITCH;
}

/// Makes one graph and those of the conditional nodes in it.
class Emitter {
 public:
  Emitter(const ContextPtr& context, const Program& program, const Emission& emission,
          uint32_t outermost, CUstream stream)
      : context_(context), p_(program), out_(emission), outermost_(outermost), stream_(stream) {}

  void fill(uint32_t index, CUgraph graph) {
    const Body& body = p_.bodies[index];
    BodyGraph& built = out_.graphs[index];
    built.outermost = outermost_;
    bodies_.push_back(index);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      if (body.nodes[n].kernel == kNoKernel) make_handle(body, n, graph);
    }
    out_.args[index] = arguments_of(p_, body, out_.bases);

    std::vector<std::vector<const Edge*>> incoming(body.nodes.size());
    for (const Edge& e : body.edges) incoming[e.to].push_back(&e);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      std::vector<CUgraphNode> from;
      std::vector<CUgraphEdgeData> records;
      for (const Edge* e : incoming[n]) depend(built.nodes[e->from], e->kind, from, records);
      CUgraphNodeParams params{};  // unused bytes must be zero
      std::optional<KernelArguments> arguments;
      const uint32_t kernel = body.nodes[n].kernel;
      if (kernel != kNoKernel && p_.kernels[kernel].code == Code::library) {
        built.nodes.push_back(capture(index, n, graph, from, records));
        continue;
      }
      if (kernel == kNoKernel) {
        conditional(p_.regions[body.nodes[n].region], params);
      } else if (p_.kernels[kernel].code == Code::host) {
        params.type = CU_GRAPH_NODE_TYPE_HOST;
        params.host =
            out_.mailbox->host_node(mailbox_exchange_at(p_.views[body.nodes[n].args[0]].offset));
      } else {
        arguments.emplace(p_.kernels[kernel], out_.args[index][n]);
        params.type = CU_GRAPH_NODE_TYPE_KERNEL;
        fill_kernel(params.kernel, p_.kernels[kernel].launch, out_.functions[kernel],
                    arguments->data());
      }
      CUgraphNode node = nullptr;
      const CUresult result = context_->driver->cuGraphAddNode(
          &node, graph, from.data(), records.data(), from.size(), &params);
      if (result != CUDA_SUCCESS) {
        context_->check(result, "cuGraphAddNode", node_text(p_, body, n));
      }
      built.nodes.push_back({node});
      if (kernel == kNoKernel) fill_sides(p_.regions[body.nodes[n].region], params.conditional);
    }
#ifndef NDEBUG
    check_edges(body, built, graph);
#endif
  }

  void instantiate() {
    BodyGraph& built = out_.graphs[outermost_];
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    CUgraphExec exec = nullptr;
    const CUresult result =
        context_->driver->cuGraphInstantiateWithParams(&exec, built.graph.get(), &params);
    if (result == CUDA_SUCCESS && params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS) {
      built.exec = OwnedExec(context_, exec);
      return;
    }
    context_->check(result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : result,
                    "cuGraphInstantiateWithParams",
                    fmt::format("{}, {}", culprit(params.hErrNode_out), reason(params.result_out)));
  }

 private:
  /// Adds the nodes `last` to those that come before. What a library op waits for may be among them
  /// already, and no node may be there twice: a full edge serves for both.
  static void depend(const std::vector<CUgraphNode>& last, EdgeKind kind,
                     std::vector<CUgraphNode>& from, std::vector<CUgraphEdgeData>& records) {
    for (const CUgraphNode node : last) {
      const auto at = std::find(from.begin(), from.end(), node);
      if (at == from.end()) {
        from.push_back(node);
        records.push_back(edge_record(kind));
      } else if (kind == EdgeKind::full) {
        records[static_cast<size_t>(at - from.begin())] = edge_record(kind);
      }
    }
  }

  std::vector<CUgraphNode> capture(uint32_t body, uint32_t n, CUgraph graph,
                                   const std::vector<CUgraphNode>& from,
                                   const std::vector<CUgraphEdgeData>& records) {
    Captured captured = capture_into(context_, stream_, graph, from, records, [&](CUstream stream) {
      out_.libraries.enqueue(p_.bodies[body].nodes[n].kernel, out_.args[body][n], stream);
    });
    if (captured.failure.empty()) return std::move(captured.tails);
    if (captured.graph_is_gone && body == outermost_) out_.graphs[body].graph.release();
    throw CaptureFailed{body, n, std::move(captured.failure)};
  }

  void make_handle(const Body& body, uint32_t n, CUgraph graph) {
    const Region& region = p_.regions[body.nodes[n].region];
    CUgraphConditionalHandle handle = 0;
    // Without a default: every entry has a kernel before the node that sets the value.
    const CUresult result =
        context_->driver->cuGraphConditionalHandleCreate(&handle, graph, context_->handle, 0, 0);
    if (result != CUDA_SUCCESS) {
      context_->check(result, "cuGraphConditionalHandleCreate", node_text(p_, body, n));
    }
    out_.bases[p_.views[region.flag].buffer] = handle;
  }

  void conditional(const Region& region, CUgraphNodeParams& params) const {
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = out_.bases[p_.views[region.flag].buffer];
    params.conditional.type = conditional_type(p_, region);
    params.conditional.size = static_cast<unsigned>(driver_bodies(region).size());
    params.conditional.ctx = context_->handle;
  }

  /// The program's bodies in the order of the driver's: an IF has that for true first, and that for
  /// false only if there is something in it.
  std::vector<uint32_t> driver_bodies(const Region& region) const {
    if (conditional_type(p_, region) != CU_GRAPH_COND_TYPE_IF) return region.bodies;
    if (p_.bodies[region.bodies[0]].nodes.empty()) return {region.bodies[1]};
    return {region.bodies[1], region.bodies[0]};
  }

  void fill_sides(const Region& region, const CUDA_CONDITIONAL_NODE_PARAMS& made) {
    const std::vector<uint32_t> bodies = driver_bodies(region);
    for (size_t i = 0; i < bodies.size(); ++i) fill(bodies[i], made.phGraph_out[i]);
  }

#ifndef NDEBUG
  /// A driver that keeps other edge records than it was given has been seen.
  void check_edges(const Body& body, const BodyGraph& built, CUgraph graph) {
    size_t count = 0;
    Driver& driver = *context_->driver;
    context_->check(driver.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count),
                    "cuGraphGetEdges");
    std::vector<CUgraphNode> from(count), to(count);
    std::vector<CUgraphEdgeData> records(count);
    context_->check(driver.cuGraphGetEdges(graph, from.data(), to.data(), records.data(), &count),
                    "cuGraphGetEdges");
    using Key = std::tuple<CUgraphNode, CUgraphNode, int, int, int>;
    const auto key = [](CUgraphNode a, CUgraphNode b, const CUgraphEdgeData& d) {
      return Key{a, b, d.from_port, d.to_port, d.type};
    };
    // The edges into what was captured, and those inside it, are made by the driver.
    std::vector<std::vector<const Edge*>> incoming(body.nodes.size());
    for (const Edge& e : body.edges) incoming[e.to].push_back(&e);
    std::vector<Key> kept, given;
    std::vector<CUgraphNode> added;
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const uint32_t kernel = body.nodes[n].kernel;
      if (kernel != kNoKernel && p_.kernels[kernel].code == Code::library) continue;
      added.push_back(built.nodes[n].front());
      std::vector<CUgraphNode> before;
      std::vector<CUgraphEdgeData> wanted;
      for (const Edge* e : incoming[n]) depend(built.nodes[e->from], e->kind, before, wanted);
      for (size_t i = 0; i < before.size(); ++i) {
        given.push_back(key(before[i], added.back(), wanted[i]));
      }
    }
    std::sort(added.begin(), added.end());
    for (size_t i = 0; i < count; ++i) {
      if (std::binary_search(added.begin(), added.end(), to[i])) {
        kept.push_back(key(from[i], to[i], records[i]));
      }
    }
    std::sort(kept.begin(), kept.end());
    std::sort(given.begin(), given.end());
    ensure(kept == given, "the driver keeps other edges than it was given");
  }
#endif

  std::string culprit(CUgraphNode node) const {
    for (const uint32_t b : bodies_) {
      const auto& nodes = out_.graphs[b].nodes;
      const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const auto& last) {
        return std::find(last.begin(), last.end(), node) != last.end();
      });
      if (at == nodes.end()) continue;
      return node_text(p_, p_.bodies[b], static_cast<uint32_t>(at - nodes.begin()));
    }
    return "program " + p_.name;
  }

  static std::string reason(CUgraphInstantiateResult result) {
    const auto number = static_cast<int>(result);
    if (result == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE) {
      return fmt::format("instantiate result {}: the graph's structure is not valid", number);
    }
    if (result == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED) {
      return fmt::format("instantiate result {}: a handle belongs to no conditional node", number);
    }
    return fmt::format("instantiate result {}", number);
  }

  const ContextPtr& context_;
  const Program& p_;
  const Emission& out_;
  const uint32_t outermost_;
  const CUstream stream_;
  std::vector<uint32_t> bodies_;  // filled so far
};

}  // namespace

void emit_graph(const ContextPtr& context, const Program& program, uint32_t body,
                const Emission& emission, CUstream stream) {
  BodyGraph& built = emission.graphs[body];
  CUgraph graph = nullptr;
  context->check(context->driver->cuGraphCreate(&graph, 0), "cuGraphCreate", program.name);
  built.graph = OwnedGraph(context, graph);
  Emitter emitter(context, program, emission, body, stream);
  emitter.fill(body, graph);
  emitter.instantiate();
  context->check(context->driver->cuGraphUpload(built.exec.get(), stream), "cuGraphUpload",
                 program.name);
}

std::vector<CUdeviceptr> arguments_of(const Program& program, const Node& node,
                                      const std::vector<CUdeviceptr>& bases) {
  std::vector<CUdeviceptr> args;
  for (const uint32_t v : node.args) {
    const View& view = program.views[v];
    args.push_back(bases[view.buffer] + static_cast<CUdeviceptr>(view.offset));
  }
  return args;
}

BodyArgs arguments_of(const Program& program, const Body& body,
                      const std::vector<CUdeviceptr>& bases) {
  BodyArgs args(body.nodes.size());
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    if (body.nodes[n].kernel != kNoKernel) args[n] = arguments_of(program, body.nodes[n], bases);
  }
  return args;
}

CUresult patch_node(Driver& driver, const std::vector<BodyGraph>& graphs, const Program& program,
                    uint32_t body, uint32_t node, const std::vector<CUfunction>& functions,
                    const std::vector<CUdeviceptr>& args) {
  const uint32_t kernel = program.bodies[body].nodes[node].kernel;
  KernelArguments arguments(program.kernels[kernel], args);
  CUDA_KERNEL_NODE_PARAMS params{};
  fill_kernel(params, program.kernels[kernel].launch, functions[kernel], arguments.data());
  const BodyGraph& built = graphs[body];
  return driver.cuGraphExecKernelNodeSetParams(graphs[built.outermost].exec.get(),
                                               built.nodes[node].front(), &params);
}

std::string node_text(const Program& program, const Body& body, uint32_t node) {
  const Node& n = body.nodes[node];
  if (n.kernel != kNoKernel) {
    return fmt::format("node {}, {} ({})", node, program.kernels[n.kernel].symbol,
                       fmt::join(n.ops, ", "));
  }
  constexpr std::array<std::string_view, 3> kNames{"an IF", "a WHILE", "a SWITCH"};
  const Region& region = program.regions[n.region];
  return fmt::format("node {}, {} ({})", node, kNames.at(conditional_type(program, region)),
                     region.op);
}

}  // namespace braid::runtime
