// Library ops from the builder and from model files to runs on the simulator.
#include <doctest/doctest.h>

#include <random>

#include "frontend/compile.hpp"
#include "frontend/report/cpp.hpp"
#include "frontend/report/explain.hpp"
#include "frontend/report/report.hpp"
#include "frontend/toml.hpp"
#include "ir/break_out.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "random_code.hpp"
#include "random_control.hpp"
#include "random_graph.hpp"
#include "runtime/simulator.hpp"

using namespace braid;

namespace {

/// 'mix': out0 = a + 2 b; the state s becomes s + a, and the value v becomes 3 v.
HostFunctions references() {
  return {{"mix_host", [](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (int64_t i = 0; i < out[0].numel(); ++i) {
               out[0].set(i, in[0].at(i) + 2 * in[1].at(i));
               out[1].set(i, in[2].at(i) + in[0].at(i));
               out[2].set(i, 3 * in[3].at(i));
             }
           }}};
}

/// Outputs and params of two launches, against the interpreter.
void check_runs(const ir::Graph& source, const Options& options, LaunchMode mode) {
  ir::Graph graph = source;
  graph.bind_dims({});
  const auto simulator = runtime::make_simulator();
  Store store(Device::on(simulator));
  const Program program = compile(source, options);
  Executable e(program, store, references());
  for (uint64_t launch = 0; launch < 2; ++launch) {
    std::map<std::string, HostTensor> inputs;
    ir::TensorMap wide, params;
    for (const Binding& b : program.inputs) {
      inputs[b.name] = random_tensor(e.type(b.name), 7 + launch, b.name);
      wide[b.name] = widen(inputs[b.name]);
    }
    for (const ParamBinding& b : program.params) params[b.name] = widen(store.get(b.name));
    const ir::TensorMap want = ir::interpret(graph, wide, params, ir::Rounding::wide, references());
    e.poison();
    const auto got = e.run(inputs, mode);
    for (const auto& [name, t] : want) CHECK(relative_error(got.at(name), t) < 1e-5);
    for (const auto& [name, t] : params) CHECK(relative_error(store.get(name), t) < 1e-5);
  }
  CHECK(simulator->take_reports().empty());
}

void mixed(Graph& g, int64_t rows, int64_t columns) {
  const TypeArg type{f32, {DimArg(rows), DimArg(columns)}};
  const Tensor x = g.input("x", type), y = g.input("y", type), s = g.param("s", type);
  const Tensor v = tanh(y);
  const auto r = g.library("mix", {x + 1, transpose(transpose(y, {1, 0}), {1, 0})}, {type},
                           {.workspace = 1000, .reference = "mix_host", .inout = {s, v}});
  // The version before, in a lane beside it, and what is there now.
  g.output("out", r[0] * 0.5 + exp(y * 0.1));
  g.output("v", r[2] + v);
  g.output("s", r[1] * 2);
  const auto again = g.library("mix", {r[0], 0.25 * x}, {type},
                               {.workspace = 1000, .reference = "mix_host", .inout = {s, r[2]}});
  g.output("again", again[0]);
}

bool sets_a_handle(const Program& p, const Node& node) {
  return std::any_of(node.args.begin(), node.args.end(), [&](uint32_t v) {
    return p.buffers[p.views[v].buffer].segment == Segment::handle;
  });
}

constexpr const char* kModel = R"(
format = 1
name = "mixed"

[inputs]
x = { dtype = "f32", shape = [8, 4] }
y = { dtype = "f32", shape = [8, 4] }

[params]
s = { dtype = "f32", shape = [8, 4] }

[graph]
nodes = [
  { out = "v", op = "tanh", in = ["y"] },
  { out = ["r", "s1", "v1"], library = "mix", in = ["x", "y"], inout = ["s", "v"], results = [{ dtype = "f32", shape = [8, 4] }], workspace = 256, reference = "mix_host" },
  { out = "z", op = "add", in = ["r", "v1"] },
]

[outputs]
z = "z"
s = "s1"
)";

}  // namespace

TEST_CASE("library ops compute what their reference does, in graphs, on lanes and in streams") {
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    const auto extent = [&] { return static_cast<int64_t>(1 + random() % 20); };
    Graph g("mixed");
    mixed(g, extent(), extent());
    Options o;
    o.verify = true;
    o.force_lanes = i % 2 == 0;
    o.fuse = i % 3 != 0;
    check_runs(g.ir(), o, i % 4 < 2 ? LaunchMode::graph : LaunchMode::stream);
  }
}

TEST_CASE("a product by cuBLASLt computes the same on the simulator") {
  Graph g("products");
  const Tensor x = g.input("x", {f32, {12, 10}});
  const Tensor h = gelu(linear(g, "a", x, 14));
  const Tensor r = relu(linear(g, "b", h, 6));
  g.output("y", softmax(r));
  for (const Dots dots : {Dots::braid, Dots::cublaslt}) {
    Options o;
    o.dots = dots;
    o.verify = true;
    check_runs(g.ir(), o, LaunchMode::graph);
  }
}

TEST_CASE("library ops from model files") {
  const TomlModel model = read_toml(kModel, "mixed.toml");
  check_runs(model.graph->ir(), {}, LaunchMode::graph);
  const std::string text = ir::print(model.graph->ir());
  CHECK(text.find("library") != std::string::npos);
  CHECK(ir::print(ir::parse(text, "again.bir")) == text);
}

TEST_CASE("mistakes in library ops have codes and places") {
  const auto code = [](const std::string& from, const std::string& to) {
    std::string text = kModel;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    try {
      read_toml(text, "mixed.toml");
    } catch (const Error& e) {
      CHECK(e.diagnostics()[0].place.line == 15);
      return e.diagnostics()[0].code;
    }
    return std::string("none");
  };
  CHECK(code("\"r\", \"s1\", \"v1\"", "\"r\", \"s1\", \"v1\", \"w\"") == "E0333");
  CHECK(code("library = \"mix\"", "library = \"\"") == "E0107");
  CHECK(code("inout = [\"s\", \"v\"]", "inout = [\"s\", \"s\"]") == "E0505");
  CHECK(code("workspace = 256", "workspace = 4e12") != "none");
  CHECK(code("workspace = 256", "workspace = 4000000000000") == "E0332");
  CHECK(code("reference =", "referrence =") == "E0102");

  Graph g("bad");
  const Tensor x = g.input("x", {f32, {4}});
  CHECK_THROWS_WITH_AS(g.library("", {x}, {{f32, {4}}}), doctest::Contains("E0330"), Error);
  CHECK_THROWS_WITH_AS(g.library("f", {x}), doctest::Contains("E0331"), Error);
}

TEST_CASE("reports name library kernels, their workspace and why they are chosen") {
  Graph g("large");
  const Tensor x = g.input("x", {f32, {2048, 1024}}), w = g.input("w", {f32, {1024, 2048}});
  g.output("y", relu(matmul(x, w)));
  const Program p = compile(g);
  const std::string text = report::to_text(report::make_report(p), p, {report::Section::kernels});
  CAPTURE(text);
  CHECK(text.find("calls cublaslt.matmul") != std::string::npos);
  CHECK(text.find("workspace 32.0 MiB") != std::string::npos);
  CHECK(text.find("cuBLASLt: 8.6 GFLOP of work, from 805.3 MFLOP on it is faster") !=
        std::string::npos);
  CHECK(to_text(p).find("calls cublaslt.matmul") != std::string::npos);
  CHECK(to_dot(p).find("library") != std::string::npos);
  CHECK(to_json(p).find("cublaslt.matmul") != std::string::npos);
  const std::string why = report::explain(p, "n0");
  CHECK(why.find("calls the library function cublaslt.matmul") != std::string::npos);
  CHECK(why.find("8.6 GFLOP") != std::string::npos);
  CHECK_THROWS_WITH_AS(to_cpp(p), doctest::Contains("E0894"), Error);
  Options o;
  o.dots = Dots::cublaslt;
  CHECK(to_string(o).find("dots=cublaslt") != std::string::npos);
}

TEST_CASE("a plan with library ops comes back from its file and runs") {
  Graph g("mixed");
  mixed(g, 6, 5);
  const Program p = read_program(write_program(compile(g)));
  CHECK(check(p).empty());
  const auto simulator = runtime::make_simulator();
  Store store(Device::on(simulator));
  Executable e(p, store, references());
  std::map<std::string, HostTensor> inputs;
  for (const Binding& b : p.inputs) inputs[b.name] = random_tensor(e.type(b.name), 3, b.name);
  e.run(inputs);
  CHECK(simulator->take_reports().empty());
}

TEST_CASE("a library op in a conditional node is captured there, and cannot be broken out") {
  Graph g("branch");
  const Tensor x = g.input("x", {f32, {6, 5}}), s = g.param("s", {f32, {6, 5}});
  const Tensor y = g.if_(
      greater(sum(x, {.axes = {}}), 0),
      [&] {
        return g.library("mix", {x, tanh(x)}, {{f32, {6, 5}}},
                         {.workspace = 64, .reference = "mix_host", .inout = {s, x}})[0];
      },
      [&] { return x * 2; }, {.lowering = ir::Lowering::node});
  g.output("y", y);
  check_runs(g.ir(), {}, LaunchMode::graph);

  bool armed = true;
  const auto simulator = runtime::make_simulator();
  const auto driver = runtime::failing_driver(simulator, [&](int64_t, const char* name) {
    return armed && std::string_view(name) == "cuLaunchKernel"
               ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : CUDA_SUCCESS;
  });
  {
    Store store(Device::on(driver));
    CHECK_THROWS_WITH_AS(Executable(compile(g), store, references()), doctest::Contains("E0890"),
                         Error);
    armed = false;
    const Executable e(compile(g), store, references());
    CHECK(e.program().breaks.empty());
  }
  CHECK(simulator->live_objects() == 0);

  // The host can go around it.
  armed = true;
  Options o;
  o.branches = ir::Lowering::host;
  Graph h("branch");
  const Tensor hx = h.input("x", {f32, {6, 5}});
  h.output("y", h.if_(
                    greater(sum(hx, {.axes = {}}), 0),
                    [&] {
                      const Tensor v = exp(hx * 0.1);
                      const auto r = h.library("mix", {v, tanh(hx)}, {{f32, {6, 5}}},
                                               {.reference = "mix_host", .inout = {hx, v}});
                      return r[0] + r[1] * r[2];
                    },
                    [&] { return hx * 2; }));
  Store store(Device::on(driver));
  Executable e(compile(h, o), store, references());
  armed = false;
  const auto& breaks = e.program().breaks;
  CHECK(std::count_if(breaks.begin(), breaks.end(), [](const Break& b) {
          return b.reason.find("cannot be captured") != std::string::npos;
        }) == 1);
  CHECK(check(e.program()).empty());
  const HostTensor in = random_tensor(e.type("x"), 5, "x");
  ir::Graph graph = h.ir();
  ir::TensorMap params;
  const auto want =
      ir::interpret(graph, {{"x", widen(in)}}, params, ir::Rounding::wide, references());
  CHECK(relative_error(e.run({{"x", in}}).at("y"), want.at("y")) < 1e-5);
}

TEST_CASE("a program with a node broken out gives the same results") {
  std::mt19937 random(77);
  int done = 0, in_regions = 0;
  for (uint64_t seed = 1; seed < 120; ++seed) {
    Options o;
    o.verify = true;
    o.force_lanes = seed % 2 == 0;
    o.branches = seed % 3 == 0 ? ir::Lowering::host : ir::Lowering::automatic;
    const ir::Graph graph = test::random_control(seed, {});
    const Program before = compile(graph, o);
    Program after = before;
    for (int times = 0; times < 2; ++times) {
      std::vector<std::pair<uint32_t, uint32_t>> nodes;
      for (uint32_t b = 0; b < after.bodies.size(); ++b) {
        const Body& body = after.bodies[b];
        const bool cut = !body.stream && (body.region == UINT32_MAX ||
                                          after.regions[body.region].kind == Region::Kind::host);
        for (uint32_t n = 0; cut && n < body.nodes.size(); ++n) {
          if (body.nodes[n].kernel != kNoKernel && body.nodes[n].region == UINT32_MAX &&
              uncut(after, b, n) == UINT32_MAX && !sets_a_handle(after, body.nodes[n])) {
            nodes.emplace_back(b, n);
          }
        }
      }
      if (nodes.empty()) break;
      const auto [body, node] = nodes[random() % nodes.size()];
      in_regions += after.bodies[body].region != UINT32_MAX ? 1 : 0;
      break_out(after, body, node, "it cannot", "do not");
      ++done;
      CAPTURE(seed);
      CAPTURE(to_text(before));
      CAPTURE(to_text(after));
      const std::vector<std::string> wrong = check(after);
      if (!wrong.empty()) FAIL(wrong[0]);
    }
    std::vector<std::map<std::string, HostTensor>> outputs;
    std::vector<std::vector<HostTensor>> params;
    for (const Program* p : {&before, static_cast<const Program*>(&after)}) {
      const auto simulator = runtime::make_simulator();
      Store store(Device::on(simulator));
      std::vector<std::string> said;
      MessageOptions messages;
      messages.on_message = [](const Message&) {};
      Executable e(*p, store, test::control_functions(graph, said), messages);
      std::map<std::string, HostTensor> inputs;
      for (const Binding& b : p->inputs)
        inputs[b.name] = random_tensor(e.type(b.name), seed, b.name);
      try {
        outputs.push_back(e.run(inputs));
      } catch (const Error& error) {
        CHECK(error.diagnostics()[0].code == "E0860");
        outputs.emplace_back();
        for (const Binding& b : p->outputs) outputs.back()[b.name] = e.read(b.name);
      }
      auto& held = params.emplace_back();
      for (const ParamBinding& b : p->params) held.push_back(store.get(b.name));
      CHECK(simulator->take_reports().empty());
    }
    for (const auto& [name, t] : outputs[0]) CHECK(outputs[1].at(name).bytes == t.bytes);
    for (size_t i = 0; i < params[0].size(); ++i) CHECK(params[1][i].bytes == params[0][i].bytes);
  }
  CHECK(done > 150);
  CHECK(in_regions > 5);
}

TEST_CASE("random nets with products by cuBLASLt compute what the interpreter does") {
  std::mt19937 random(31);
  const auto chance = [&](uint32_t one_in) { return random() % one_in == 0; };
  int library = 0;
  for (int net = 0; net < 60; ++net) {
    Graph g("net");
    const auto extent = [&] { return static_cast<int64_t>(1 + random() % 12); };
    const int64_t rows = extent();
    const bool batch = chance(3);
    const auto type = [&](int64_t a, int64_t b) {
      TypeArg t{f32, {DimArg(a), DimArg(b)}};
      if (batch) t.shape.insert(t.shape.begin(), DimArg(3));
      return t;
    };
    int64_t columns = extent();
    Tensor x = g.input("x", type(rows, columns));
    std::vector<Tensor> earlier;
    for (int layer = 0; layer < 4; ++layer) {
      const int64_t next = chance(3) ? columns : extent();
      const bool tb = chance(2);
      const Tensor w = g.param("w" + std::to_string(layer),
                               tb ? type(next, columns) : type(columns, next), {.scale = 0.5});
      Tensor y =
          chance(6)
              ? matmul(transpose(x, batch ? std::vector<int>{0, 2, 1} : std::vector<int>{1, 0}), w,
                       {.ta = true, .tb = tb})
              : matmul(x, w, {.tb = tb});
      if (!chance(3)) y = y + g.param("b" + std::to_string(layer), {f32, {DimArg(next)}});
      if (chance(8)) g.output("before" + std::to_string(layer), y);
      switch (random() % 5) {
        case 0:
          y = relu(y);
          break;
        case 1:
          y = gelu_tanh(y);
          break;
        case 2:
          y = tanh(y);
          break;
        case 3:
          if (next == columns) y = y + x;
          break;
        default:
          break;
      }
      if (chance(5)) y = exp(y * 0.1);
      x = y;
      columns = next;
    }
    g.output("y", x);
    Options o;
    o.verify = true;
    o.dots = Dots::cublaslt;
    o.fuse = net % 5 != 0;
    o.force_lanes = net % 2 == 0;
    for (const Kernel& k : compile(g, o).kernels) library += k.code == Code::library ? 1 : 0;
    CAPTURE(net);
    check_runs(g.ir(), o, net % 3 == 0 ? LaunchMode::stream : LaunchMode::graph);
  }
  CHECK(library > 120);
}

TEST_CASE("random graphs with library ops compute what the interpreter does") {
  int ran = 0, library = 0;
  for (uint64_t seed = 0; seed < 4000 && ran < 60; ++seed) {
    test::RandomGraphOptions options;
    options.code = 8;
    options.ops = 20;
    options.dtypes = {DType::f32, DType::i32};
    const ir::Graph graph = test::random_graph(seed, options);
    const auto has = [&](ir::OpKind kind) {
      return std::any_of(graph.ops().begin(), graph.ops().end(),
                         [&](const ir::Op& op) { return op.kind == kind; });
    };
    if (has(ir::OpKind::kernel) || !has(ir::OpKind::library)) continue;
    ++ran;
    CAPTURE(seed);
    Options o;
    o.verify = true;
    o.force_lanes = seed % 2 == 0;
    o.fuse = seed % 5 != 0;
    const Program p = compile(graph, o);
    for (const Kernel& k : p.kernels) library += k.code == Code::library ? 1 : 0;
    std::vector<std::string> said;
    const HostFunctions functions = test::host_functions_of(graph, said);
    const auto simulator = runtime::make_simulator();
    Store store(Device::on(simulator));
    Executable e(p, store, functions);
    std::map<std::string, HostTensor> inputs;
    ir::TensorMap wide, params;
    for (const Binding& b : p.inputs) {
      inputs[b.name] = random_tensor(e.type(b.name), seed, b.name);
      wide[b.name] = widen(inputs[b.name]);
    }
    for (const ParamBinding& b : p.params) params[b.name] = widen(store.get(b.name));
    const ir::TensorMap want = ir::interpret(graph, wide, params, ir::Rounding::dtype, functions);
    const auto got = e.run(inputs, seed % 3 == 0 ? LaunchMode::stream : LaunchMode::graph);
    for (const auto& [name, t] : want) CHECK(relative_error(got.at(name), t) < 1e-3);
    for (const auto& [name, t] : params) CHECK(relative_error(store.get(name), t) < 1e-3);
    const std::vector<std::string> reports = simulator->take_reports();
    if (!reports.empty()) FAIL_CHECK(reports[0]);
  }
  CHECK(ran > 20);
  CHECK(library > 20);
}
