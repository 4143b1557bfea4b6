#include "passes/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "ir/region.hpp"
#include "ir/text.hpp"
#include "passes/align_concats.hpp"
#include "passes/chains.hpp"
#include "passes/check.hpp"
#include "passes/control.hpp"
#include "passes/host.hpp"
#include "passes/host_operands.hpp"
#include "passes/kernels/user.hpp"
#include "passes/library_dots.hpp"
#include "passes/plan.hpp"
#include "passes/recompute.hpp"
#include "passes/recompute_rows.hpp"
#include "passes/split_reductions.hpp"
#include "passes/view_chains.hpp"
#include "passes/wide_concats.hpp"

namespace braid {
namespace {

std::string graph_text(const Compilation& c) { return ir::print(c.graph); }
std::string program_text(const Compilation& c) { return to_text(c.program); }

void set_math(ir::Graph& graph, Math math) {
  if (math == Math::strict) return;
  ir::for_each_graph(graph, [](ir::Graph& g) {
    for (ir::Op& op : g.ops()) {
      auto* const dot = std::get_if<ir::DotAttr>(&op.attrs);
      if (dot && g.type(op.operands[0]).dtype == DType::f32) dot->tf32 = true;
    }
  });
}

void run_bind(Compilation& c, const Options& o) {
  c.source_ops = static_cast<uint32_t>(c.graph.ops().size());
  c.graph.bind_dims(o.dims);
  for (const DimTable::Symbol& s : c.graph.dims.symbols()) {
    const auto given = std::find_if(o.dims.rbegin(), o.dims.rend(),
                                    [&](const auto& d) { return d.first == s.name; });
    c.dims.emplace_back(s.name, given == o.dims.rend() ? *s.default_value : given->second);
  }
  kernels::check_launches(c.graph, o.target);
  set_math(c.graph, o.math);
}

void run_simplify(Compilation& c, const Options& o) {
  if (o.simplify) c.graph = simplify(c.graph);
}

/// Calls work(graph, plan) for a graph and all bodies in it, outermost first.
template <class Work>
void on_all(ir::Graph& graph, PlannedGraph& plan, const Work& work) {
  work(graph, plan);
  plan.bodies.resize(graph.bodies.size());
  for (size_t i = 0; i < graph.bodies.size(); ++i) on_all(graph.bodies[i], plan.bodies[i], work);
}

/// The same to print what is planned for each.
template <class Print>
std::string print_all(const ir::Graph& graph, const PlannedGraph& plan, const Print& print,
                      const std::string& name = "") {
  std::string text = print(graph, plan);
  for (size_t i = 0; i < plan.bodies.size(); ++i) {
    const std::string body = fmt::format("{}{}{}", name, name.empty() ? "" : ".", i);
    text += fmt::format("\nbody {}\n", body);
    text += print_all(graph.bodies[i], plan.bodies[i], print, body);
  }
  return text;
}

void run_views(Compilation& c, const Options&) {
  ir::for_each_graph(c.graph, [](ir::Graph& graph) {
    cap_view_chains(graph);
    split_wide_concats(graph);
    align_concats(graph);
    place_host_operands(graph);
  });
}

void run_check(Compilation& c, const Options& o) {
#ifdef NDEBUG
  if (!o.verify) return;
#else
  static_cast<void>(o);
#endif
  const std::vector<std::string> wrong = check(c.program);
  if (wrong.empty()) return;
  std::string text = "the plan does not pass the checker:";
  for (size_t i = 0; i < wrong.size() && i < 10; ++i) text += "\n  " + wrong[i];
  throw InternalError(text);
}

/// In a debug build, or when asked: the graph must be well formed after every pass.
void verify_graph(const Compilation& c, const Options& o, std::string_view pass) {
#ifdef NDEBUG
  if (!o.verify) return;
#else
  static_cast<void>(o);
#endif
  const std::vector<Diagnostic> wrong = ir::verify(c.graph);
  if (!wrong.empty()) {
    throw InternalError(fmt::format("after {} the graph is malformed: {}", pass, wrong[0].message));
  }
}

constexpr Pass kPasses[] = {
    {"bind", "give every symbolic dim its value, and f32 products their arithmetic", run_bind,
     graph_text, "bir"},
    {"simplify", "fold constants, merge equal ops, drop dead ones, exact algebra", run_simplify,
     graph_text, "bir"},
    {"split", "long reductions in two steps, the first by many blocks",
     [](Compilation& c, const Options& o) {
       if (!o.split || o.memory_limit > 0) return;  // the parts' users may need more memory
       ir::for_each_graph(c.graph, [&](ir::Graph& graph) { split_reductions(graph, o.target); });
     },
     graph_text, "bir"},
    {"host", "how host functions are called: by a handshake, a break or a host node",
     [](Compilation& c, const Options& o) { choose_host_ways(c.graph, o); }, graph_text, "bir"},
    {"control", "what becomes of branches and loops: plain ops, predicates, nodes, the host",
     [](Compilation& c, const Options& o) { lower_control(c.graph, o, c.dissolved); }, graph_text,
     "bir"},
    {"recompute", "broadcast maps, and norms of few rows, computed where they are used",
     [](Compilation& c, const Options& o) {
       if (o.fuse) ir::for_each_graph(c.graph, recompute_broadcasts);
       if (o.fuse && o.chain) ir::for_each_graph(c.graph, repeat_rows);
     },
     graph_text, "bir"},
    {"views",
     "memory in between where views are many in a row, a concat's operands too many, or the host "
     "reads; concats as products read them best",
     run_views, graph_text, "bir"},
    {"home", "every version of a param in its one buffer: copies and order",
     [](Compilation& c, const Options&) {
       on_all(c.graph, c, [](ir::Graph& g, PlannedGraph& plan) { plan.homes = plan_homes(g); });
     },
     [](const Compilation& c) {
       return ir::print(c.graph) +
              print_all(c.graph, c, [](const ir::Graph& g, const PlannedGraph& plan) {
                return plan.homes.print(g);
              });
     },
     "txt"},
    {"levels", "the fewest graphs, with the path that forces them",
     [](Compilation& c, const Options&) {
       on_all(c.graph, c,
              [](ir::Graph& g, PlannedGraph& plan) { plan.levels = assign_levels(g, plan.homes); });
     },
     [](const Compilation& c) {
       return print_all(c.graph, c, [](const ir::Graph& g, const PlannedGraph& plan) {
         return plan.levels.print(g);
       });
     },
     "txt"},
    {"fuse", "which ops become one kernel",
     [](Compilation& c, const Options& o) {
       on_all(c.graph, c, [&](ir::Graph& g, PlannedGraph& plan) {
         plan.fusion =
             fuse_around(g, plan.homes, plan.levels, o.fuse, library_groups(g, plan.levels, o));
       });
     },
     [](const Compilation& c) {
       return print_all(c.graph, c, [](const ir::Graph& g, const PlannedGraph& plan) {
         return plan.fusion.print(g);
       });
     },
     "txt"},
    {"chain", "kernels one after the other in one, where a block can keep what lies between",
     [](Compilation& c, const Options& o) {
       if (!o.fuse || !o.chain) return;
       on_all(c.graph, c, [&](ir::Graph& g, PlannedGraph& plan) {
         join_chains(g, plan.homes, o, plan.fusion);
       });
     },
     [](const Compilation& c) {
       return print_all(c.graph, c, [](const ir::Graph& g, const PlannedGraph& plan) {
         return plan.fusion.print(g);
       });
     },
     "txt"},
    {"choose", "kernels, nodes and buffers", choose_kernels, program_text, "txt"},
    {"breaks", "what stands outside graphs and why, and whether that is allowed", find_breaks,
     program_text, "txt"},
    {"group", "like kernels that are ready together in one launch",
     [](Compilation& c, const Options& o) { group_nodes(c.program, o); }, program_text, "txt"},
    {"waits", "kernels that may start early: they wait by themselves, weights on their way",
     [](Compilation& c, const Options&) { choose_waits(c.program); }, program_text, "txt"},
    {"lanes", "the stream of every kernel",
     [](Compilation& c, const Options& o) {
       if (o.memory_limit > 0) c.unscheduled = c.program.bodies;
       assign_lanes(c.program, o);
     },
     program_text, "txt"},
    {"memory", "offsets of temporaries in the arena",
     [](Compilation& c, const Options& o) { plan_memory(c.program, o, c.unscheduled); },
     program_text, "txt"},
    {"edges", "the fewest edges that order every conflict",
     [](Compilation& c, const Options& o) { emit_edges(c.program, o); }, program_text, "txt"},
    {"source", "CUDA text and launch shapes",
     [](Compilation& c, const Options& o) { write_sources(c.program, o); }, program_text, "txt"},
    {"check", "prove the plan from its own data", run_check, program_text, "txt"},
};

/// The dump folder: numbered files, unchanged states noted instead of written again.
class Dump {
 public:
  explicit Dump(const std::string& folder) : folder_(folder) {
    if (folder.empty()) return;
    std::error_code ec;
    std::filesystem::create_directories(folder + "/kernels", ec);
    if (ec) fail(folder, ec.message());
  }
  void stage(std::string_view name, std::string_view extension, const std::string& text) {
    if (folder_.empty()) return;
    const std::string file = fmt::format("{:02}-{}.{}", count_++, name, extension);
    write(file, text == last_ ? "(unchanged)\n" : text);
    last_ = text;
  }
  void write(const std::string& file, const std::string& text) {
    if (folder_.empty()) return;
    std::ofstream out(folder_ + "/" + file, std::ios::binary);
    out << text;
    out.close();
    if (!out) fail(folder_ + "/" + file, "cannot be written");
  }
  bool on() const { return !folder_.empty(); }

 private:
  [[noreturn]] static void fail(const std::string& path, const std::string& why) {
    Diagnostic d;
    d.code = "E0701";
    d.message = fmt::format("dump folder: {}: {}", path, why);
    throw Error(std::move(d));
  }
  std::string folder_;
  std::string last_;
  int count_ = 0;
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

Compilation run_passes(ir::Graph graph, const Options& options, std::string_view stop_after,
                       PassTimes* times) {
  ensure(stop_after.empty() || std::any_of(std::begin(kPasses), std::end(kPasses),
                                           [&](const Pass& p) { return p.name == stop_after; }),
         "run_passes: no pass of that name");
  Compilation c;
  c.graph = std::move(graph);
  Dump dump(options.dump_dir);
  dump.stage("input", "bir", dump.on() ? ir::print(c.graph, {.places = true}) : "");
  for (const Pass& pass : kPasses) {
    const auto start = std::chrono::steady_clock::now();
    pass.run(c, options);
    if (times) {
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      times->emplace_back(pass.name, ms.count());
    }
    verify_graph(c, options, pass.name);
    if (dump.on()) dump.stage(pass.name, pass.extension, pass.print(c));
    if (pass.name == stop_after) return c;
  }
  if (dump.on()) {
    dump.write("program.txt", to_text(c.program));
    dump.write("program.json", to_json(c.program));
    dump.write("program.dot", to_dot(c.program));
    for (size_t m = 0; m < c.program.modules.size(); ++m) {
      dump.write(fmt::format("kernels/module{}.cu", m), c.program.modules[m].source);
    }
  }
  return c;
}

}  // namespace braid
