#include <fmt/format.h>

#include "frontend/cli/cli.hpp"

namespace braid::cli {

int check_command(const PlanArgs& a, const GlobalArgs& g) {
  if (is_program_file(a.file)) {
    const Program p = load_program(a, g);
    print_out(fmt::format("{}: ok, a plan of {} kernels for {}\n", a.file, p.kernels.size(),
                          p.target.arch));
    return kOk;
  }
  Options o = options_of(a);
  ir::Graph graph = load_graph(a, o);
  const std::vector<Diagnostic> wrong = ir::verify(graph);
  if (!wrong.empty()) throw Error(wrong);
  graph.bind_dims(o.dims);
  size_t inputs = 0, params = 0;
  for (const ir::Op& op : graph.ops()) {
    inputs += op.kind == ir::OpKind::input;
    params += op.kind == ir::OpKind::param;
  }
  print_out(fmt::format("{}: ok, {} ops, {} inputs, {} params, {} outputs\n", a.file,
                        graph.ops().size(), inputs, params, graph.outputs.size()));
  return kOk;
}

}  // namespace braid::cli
