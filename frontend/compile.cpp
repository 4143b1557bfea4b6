#include "frontend/compile.hpp"

#include "passes/pipeline.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {

Program compile(ir::Graph graph, const Options& options) {
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  if (!wrong.empty()) throw Error(wrong);
  return run_passes(std::move(graph), options).program;
}

Program compile(const Graph& graph, const Options& options) { return compile(graph.ir(), options); }

Executable build(const Graph& graph, Store store, Options options) {
  options.target = store.device().target();
  Program program = compile(graph, options);
  if (!store.device().simulated()) {
    runtime::CompileProgress progress;
    if (options.progress) {
      progress = [&](int64_t done, int64_t total) {
        return options.progress("modules", done, total);
      };
    }
    runtime::compile_modules(program, runtime::Cache::from_environment(), 0, progress);
  }
  return Executable(std::move(program), std::move(store));
}

}  // namespace braid
