#include "frontend/compile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/code_op.hpp"
#include "ir/region.hpp"
#include "passes/free_ops.hpp"
#include "passes/pipeline.hpp"
#include "runtime/cublaslt_found.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

/// Whether code of the user's writes a param of the Store's.
bool changes_param(const ir::Graph& g, const ir::Op& op) {
  if (!ir::runs_code(op.kind)) return false;
  return std::any_of(op.operands.begin(), op.operands.end(), [&](ir::ValueId v) {
    return g.value(v).state &&
           std::holds_alternative<ir::ParamAttr>(g.op(ir::param_of(g, v)).attrs);
  });
}

}  // namespace

Program compile(ir::Graph graph, const Options& options) {
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  if (!wrong.empty()) throw Error(wrong);
  bool changes = false;
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    changes = changes || std::any_of(g.ops().begin(), g.ops().end(), [&](const ir::Op& op) {
                const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
                return op.kind == ir::OpKind::assign || op.kind == ir::OpKind::update ||
                       op.kind == ir::OpKind::send || (host && !host->pure) || changes_param(g, op);
              });
  });
  if (graph.outputs.empty() && !changes) {
    Diagnostic d;
    d.code = "E0502";
    d.message = fmt::format(
        "the graph '{}' has no outputs, changes no param, sends no message and calls no host "
        "function, so there is nothing to compute",
        graph.name);
    d.suggestion = "name at least one, as in g.output(\"y\", y)";
    throw Error(std::move(d));
  }
  return run_passes(std::move(graph), options).program;
}

Program compile(const Graph& graph, const Options& options) { return compile(graph.ir(), options); }

Executable build(const Graph& graph, Store store, Options options, const HostFunctions& functions,
                 MessageOptions messages, const HostOptions& host,
                 const LibraryFunctions& libraries) {
  options.target = store.device().target();
  Program program = compile(graph, options);
  const bool by_library =
      std::any_of(program.kernels.begin(), program.kernels.end(),
                  [](const Kernel& k) { return k.function == kCublasLtMatmul; });
  if (by_library && options.dots == Dots::automatic && !store.device().simulated() &&
      !runtime::cublaslt_found()) {
    options.dots = Dots::braid;
    program = compile(graph, options);
  }
  if (!store.device().simulated()) {
    runtime::CompileProgress progress;
    if (options.progress) {
      progress = [&](int64_t done, int64_t total) {
        return options.progress("modules", done, total);
      };
    }
    runtime::compile_modules(program, runtime::Cache::from_environment(), 0, progress);
  }
  return Executable(std::move(program), std::move(store), functions, std::move(messages), host,
                    libraries);
}

}  // namespace braid
