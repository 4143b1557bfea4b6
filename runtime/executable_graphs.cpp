// The graphs of an executable, and what becomes of library ops: captured, or broken out.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/break_out.hpp"
#include "ir/diagnostic.hpp"
#include "runtime/capture.hpp"
#include "runtime/check_program.hpp"
#include "runtime/executable_impl.hpp"
#include "runtime/user_code.hpp"

namespace braid {
namespace {

constexpr const char* kRemedy =
    "let the function enqueue on the stream that it is given and do nothing else: no waiting, no "
    "allocation, no other stream that does not join it";

bool is_library(const Program& p, const Node& node) {
  return node.kernel != kNoKernel && p.kernels[node.kernel].code == Code::library;
}

}  // namespace

void Executable::Impl::make_graphs() {
  try_libraries();
  for (;;) {
    args.assign(program.bodies.size(), {});
    graphs.clear();
    graphs.resize(program.bodies.size());
    try {
      for (uint32_t b = 0; b < program.bodies.size(); ++b) {
        const Body& body = program.bodies[b];
        if (body.stream) args[b] = runtime::arguments_of(program, body, bases);
        if (body.stream || runtime::is_nested(program, body)) continue;
        runtime::emit_graph(context, program, b,
                            {functions, bases, args, graphs, libraries_called, mailbox.get()},
                            stream.get());
      }
      return;
    } catch (const runtime::CaptureFailed& failed) {
      break_out(failed.body, failed.node, failed.reason);
    }
  }
}

void Executable::Impl::try_libraries() {
  std::set<uint32_t> warm;
  for (uint32_t b = 0; b < program.bodies.size(); ++b) {
    for (uint32_t n = 0; n < program.bodies[b].nodes.size(); ++n) {
      const Node& node = program.bodies[b].nodes[n];
      if (!is_library(program, node)) continue;
      const std::vector<CUdeviceptr> with = runtime::arguments_of(program, node, bases);
      // The first call may load modules, which a capture would not allow.
      if (program.kernels[node.kernel].function == kCublasLtMatmul &&
          !context->driver->simulated() && warm.insert(node.kernel).second) {
        libraries_called.enqueue(node.kernel, with, stream.get());
      }
      if (program.bodies[b].stream) continue;
      const std::string failure = runtime::try_capture(
          context, stream.get(),
          [&](CUstream capturing) { libraries_called.enqueue(node.kernel, with, capturing); });
      if (failure.empty()) continue;
      break_out(b, n, failure);
      break;  // what came after it is in the bodies that follow
    }
  }
}

void Executable::Impl::break_out(uint32_t body, uint32_t node, const std::string& reason) {
  const Body& b = program.bodies[body];
  const std::string text = runtime::user_code_text(program, b.nodes[node]);
  if (const uint32_t region = uncut(program, body, node); region != UINT32_MAX) {
    throw_error("E0890",
                fmt::format("{} cannot be captured, and the conditional node {} cannot be cut: {}",
                            text, program.regions[region].op, reason),
                fmt::format("{}; or compile with --branches=host and --loops=host", kRemedy));
  }
  braid::break_out(program, body, node, fmt::format("{} cannot be captured: {}", text, reason),
                   kRemedy);
  runtime::check_program(program);
}

void Executable::Impl::enqueue_library(const Node& node, const std::vector<CUdeviceptr>& with,
                                       CUstream on) {
  const runtime::InHostCall inside;
  try {
    libraries_called.enqueue(node.kernel, with, on);
  } catch (const CudaError&) {
    throw;
  } catch (...) {
    const std::string why = runtime::thrown_text();
    context->require_alive();
    throw_error("E0893", fmt::format("{}: {}", runtime::user_code_text(program, node), why));
  }
}

std::vector<uint32_t> Executable::Impl::graphs_to_renew(uint32_t buffer) const {
  std::vector<uint32_t> found;
  for (uint32_t b = 0; b < program.bodies.size(); ++b) {
    const Body& body = program.bodies[b];
    const bool uses =
        !body.stream && std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
          return is_library(program, node) &&
                 std::any_of(node.args.begin(), node.args.end(),
                             [&](uint32_t v) { return program.views[v].buffer == buffer; });
        });
    const uint32_t outermost = graphs[b].outermost;
    if (uses && std::find(found.begin(), found.end(), outermost) == found.end()) {
      found.push_back(outermost);
    }
  }
  return found;
}

Executable::Impl::Renewed Executable::Impl::renew(const std::vector<uint32_t>& bodies) {
  Renewed made;
  made.graphs.resize(program.bodies.size());
  made.args = args;
  made.bases = bases;
  if (bodies.empty()) return made;
  const runtime::Gate::Quiet quiet(context->gate, [this] { context->look(stream.get()); });
  try {
    for (const uint32_t b : bodies) {
      runtime::emit_graph(
          context, program, b,
          {functions, made.bases, made.args, made.graphs, libraries_called, mailbox.get()},
          stream.get());
    }
  } catch (const runtime::CaptureFailed& failed) {
    const Node& node = program.bodies[failed.body].nodes[failed.node];
    throw_error("E0893",
                fmt::format("{} was captured when the executable was built, and cannot be captured "
                            "again for another binding: {}",
                            runtime::user_code_text(program, node), failed.reason),
                "the bindings stay as they were");
  }
  context->check(context->driver->cuStreamSynchronize(stream.get()), "cuStreamSynchronize",
                 "upload of program '" + program.name + "'");
  return made;
}

void Executable::Impl::rebind(uint32_t buffer, DevicePtr address) {
  const DevicePtr before = bases[buffer];
  bases[buffer] = address;
  struct Patched {
    uint32_t body, node;
    std::vector<CUdeviceptr> args;
  };
  std::vector<Patched> done;
  Renewed made;
  try {
    const std::vector<uint32_t> anew = graphs_to_renew(buffer);
    made = renew(anew);
    for (uint32_t b = 0; b < program.bodies.size(); ++b) {
      const Body& body = program.bodies[b];
      const bool is_new = std::find(anew.begin(), anew.end(), graphs[b].outermost) != anew.end();
      if (is_new && !body.stream) continue;
      for (uint32_t n = 0; n < body.nodes.size(); ++n) {
        const std::vector<uint32_t>& views = body.nodes[n].args;
        if (body.nodes[n].kernel == kNoKernel) continue;
        const bool uses = std::any_of(views.begin(), views.end(), [&](uint32_t v) {
          return program.views[v].buffer == buffer;
        });
        if (!uses) continue;
        std::vector<CUdeviceptr> values = runtime::arguments_of(program, body.nodes[n], bases);
        const CUresult result = body.stream ? CUDA_SUCCESS
                                            : runtime::patch_node(*context->driver, graphs, program,
                                                                  b, n, functions, values);
        if (result != CUDA_SUCCESS) {
          context->check(result, "cuGraphExecKernelNodeSetParams",
                         runtime::node_text(program, body, n));
        }
        done.push_back({b, n, std::move(values)});
      }
    }
  } catch (...) {
    bases[buffer] = before;
    for (const Patched& p : done) {
      if (program.bodies[p.body].stream) continue;
      runtime::patch_node(*context->driver, graphs, program, p.body, p.node, functions,
                          args[p.body][p.node]);
    }
    throw;
  }
  for (Patched& p : done) args[p.body][p.node] = std::move(p.args);
  // A launch that still runs keeps its graph until it is over.
  for (uint32_t b = 0; b < program.bodies.size(); ++b) {
    if (made.graphs[b].nodes.empty()) continue;
    graphs[b] = std::move(made.graphs[b]);
    args[b] = std::move(made.args[b]);
  }
  bases = std::move(made.bases);
}

}  // namespace braid
