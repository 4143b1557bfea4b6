// Host ops and ops that stay out of graphs, from the builder and TOML to runs on the simulator.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <thread>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "runtime/device.hpp"

namespace braid {
namespace {

/// Doubles what it gets, and counts.
HostFunctions doubling(int* calls = nullptr) {
  return {{"double", [calls](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (size_t i = 0; i < out.size(); ++i) {
               for (int64_t e = 0; e < out[i].type.shape.numel(); ++e) {
                 out[i].set(e, 2 * in[i].at(e));
               }
             }
             if (calls) ++*calls;
           }}};
}

HostTensor random_values(const TensorType& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  HostTensor t(type);
  for (int64_t i = 0; i < type.shape.numel(); ++i) t.set(i, uniform(random));
  return t;
}

/// Program on the simulator against the interpreter, in several orders.
void check_run(const ir::Graph& graph, const HostFunctions& functions,
               const Options& options = {}) {
  const Program program = compile(ir::Graph(graph), options);
  REQUIRE(check(program).empty());
  Store store(Device::open("sim"));
  store.declare(program);
  ir::TensorMap inputs, params;
  std::map<std::string, HostTensor> given;
  uint64_t seed = 1;
  for (const Binding& b : program.inputs) {
    given[b.name] = random_values(program.buffers[b.buffer].type, ++seed);
    inputs[b.name] = widen(given[b.name]);
  }
  for (const ParamBinding& p : program.params) params[p.name] = widen(store.get(p.name));
  Executable executable(program, store, functions);
  for (int launch = 0; launch < 3; ++launch) {
    executable.poison();
    const auto outputs = executable.run(given);
    const ir::TensorMap expected =
        ir::interpret(graph, inputs, params, ir::Rounding::wide, functions);
    for (const auto& [name, value] : expected) {
      CAPTURE(name);
      double error = 0, norm = 0;
      for (int64_t i = 0; i < value.type.shape.numel(); ++i) {
        const double reference = narrow(value).at(i);
        error += std::pow(outputs.at(name).at(i) - reference, 2);
        norm += reference * reference;
      }
      CHECK(norm > 0);
      CHECK(std::sqrt(error / norm) < 1e-5);
    }
  }
}

std::string code_of(const auto& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.diagnostics().at(0).code;
  }
  return "none";
}

/// Host functions are called between graphs.
Options breaking() {
  Options o;
  o.host = ir::HostWay::script;
  return o;
}

/// relu(x @ w) | double | + its operand | double | * 3.
void build_chain(Graph& g) {
  const Tensor x = g.input("x", {f32, {4, 8}});
  const Tensor h = relu(linear(g, "l1", x, 8));
  const Tensor a = g.host("double", {h}, {{f32, {4, 8}}})[0];
  const Tensor b = a + h;
  const Tensor c = g.host("double", {b}, {{f32, {4, 8}}})[0];
  g.output("y", c * 3.0);
}

}  // namespace

TEST_CASE("host ops: a chain with two calls takes three graphs, proved") {
  Graph g("chain");
  build_chain(g);
  const Program p = compile(g, breaking());
  CHECK(p.graphs == 3);
  CHECK(p.runs == 5);
  CHECK(p.certificate.size() == 5);
  CHECK(p.breaks.size() == 2);
  CHECK(p.bodies.size() == 3);
  CHECK(p.calls.size() == 2);
  check_run(g.ir(), doubling(), breaking());
  Options apart = breaking();
  apart.fuse = apart.simplify = apart.reuse = false;
  check_run(g.ir(), doubling(), apart);
}

TEST_CASE("host ops: calls that nothing waits for share the runs of others") {
  Graph g("log");
  const Tensor x = g.input("x", {f32, {4, 8}});
  Tensor h = x;
  int calls = 0;
  for (int i = 0; i < 4; ++i) {
    h = relu(linear(g, fmt::format("l{}", i), h, 8));
    g.host("double", {h});
  }
  g.output("y", h);
  const Program p = compile(g, breaking());
  CHECK(p.graphs == 1);
  CHECK(p.runs == 2);
  check_run(g.ir(), doubling(&calls), breaking());
  CHECK(calls == 4 * (3 + 3));  // interpreter and simulator
}

TEST_CASE("host ops: several results, views as arguments, params before they change") {
  Graph g("several");
  const Tensor x = g.input("x", {f32, {6, 8}});
  const Tensor s = g.param("s", {f32, {8, 6}});
  const std::vector<Tensor> r =
      g.host("double", {transpose(x, {1, 0}), s}, {{f32, {8, 6}}, {f32, {8, 6}}});
  g.assign(s, r[0] + r[1] * 0.25);
  g.output("y", transpose(r[1], {1, 0}) - x);
  g.output("raw", r[0]);
  check_run(g.ir(), doubling(), breaking());
  const std::string text = ir::print(g.ir());
  CHECK(text.find("{function=\"double\"}") != std::string::npos);
  CHECK(ir::print(ir::parse(text)) == text);
}

TEST_CASE("host ops: those with side effects keep their order, pure ones need a use") {
  std::vector<double> seen;
  const HostFunctions functions{{"see", [&](std::span<const HostTensor> in, std::span<HostTensor>) {
                                   seen.push_back(in[0].at(0));
                                 }}};
  Graph g("order");
  const Tensor x = g.input("x", {f32, {1}});
  g.host("see", {exp(x)});
  g.host("see", {x});
  g.host("see", {x + 1.0});
  g.host("see", {x}, {{f32, {1}}}, {.pure = true});
  g.output("y", x + 2.0);
  const Program p = compile(g, breaking());
  CHECK(p.calls.size() == 3);
  Executable e(p, Store(Device::open("sim")), functions);
  HostTensor zero({f32, Shape::of(std::vector<int64_t>{1})});
  e.run({{"x", zero}});
  CHECK(seen == std::vector<double>{1, 0, 1});
}

TEST_CASE("host ops: what a function throws ends the launch, and the executable stays usable") {
  Graph g("throws");
  g.output("y", g.host("may", {g.input("x", {f32, {2}})}, {{f32, {2}}})[0] + 1.0);
  g.scalar("s", f32);
  int mode = 0;
  Executable* self = nullptr;
  Store store(Device::open("sim"));
  const HostFunctions functions{
      {"may", [&](std::span<const HostTensor> in, std::span<HostTensor> out) {
         if (mode == 1) throw std::runtime_error("no more data");
         if (mode == 2) throw 7;
         if (mode == 3) out[0] = HostTensor({f64, Shape::of(std::vector<int64_t>{2})});
         if (mode == 4) store.names();
         if (mode == 5) store.get("w");
         if (mode == 6) self->set("s", 1);
         if (mode == 7) self->address("x");
         if (mode == 8) self->launch();
         if (mode != 3) out[0].bytes = in[0].bytes;
       }}};
  Executable e(compile(g, breaking()), store, functions);
  const HostTensor x = random_values(e.type("x"), 5);
  for (int m : {1, 0, 2, 3, 0}) {
    mode = m;
    if (m == 0) {
      CHECK(e.run({{"x", x}}).at("y").at(1) == doctest::Approx(x.at(1) + 1));
    } else {
      CHECK(code_of([&] { e.run({{"x", x}}); }) == "E0850");
    }
  }
  self = &e;
  for (mode = 4; mode <= 8; ++mode) {  // E0851, as seen from outside
    CAPTURE(mode);
    CHECK_THROWS_WITH_AS(e.run({{"x", x}}), doctest::Contains("may not use devices"), Error);
  }
  CHECK(code_of([&] { Executable(compile(g), store); }) == "E0806");
}

TEST_CASE("ops outside graphs: kernels on the stream between graphs, the same results") {
  Graph g("outside");
  const Tensor x = g.input("x", {f32, {4, 8}});
  Tensor h = relu(linear(g, "l1", x, 8));
  {
    const Outside outside = g.outside_graphs();
    h = exp(h) * 0.5;
  }
  g.output("y", linear(g, "l2", h, 8));
  const Program p = compile(g);
  CHECK(p.graphs == 2);
  CHECK(std::count_if(p.bodies.begin(), p.bodies.end(), [](const Body& b) { return b.stream; }) ==
        1);
  check_run(g.ir(), {});
  Options o;
  o.on_break = OnBreak::error;
  CHECK(code_of([&] { compile(g, o); }) == "E0707");
  o.on_break = OnBreak::allow;
  o.require_single_graph = true;
  CHECK(code_of([&] { compile(g, o); }) == "E0708");
  CHECK(code_of([] {
          Graph bad("bad");
          bad.host("", {bad.input("x", {f32, {1}})});
        }) == "E0306");
}

TEST_CASE("a single graph is required: nothing may stand outside it") {
  Options o = breaking();
  o.require_single_graph = true;
  const auto last = [&](bool call, bool outside, bool back) {
    Graph g("last");
    const Tensor a = relu(g.input("x", {f32, {4, 8}}));
    if (call) g.host("double", {a});
    Tensor b;
    {
      const Outside marked = g.outside_graphs(outside);
      b = exp(a);
    }
    g.output("y", back ? relu(b) : b);
    return code_of([&] { compile(g, o); });
  };
  CHECK(last(false, false, true) == "none");
  CHECK(last(true, false, true) == "E0708");
  CHECK(last(true, true, false) == "E0708");
  CHECK(last(false, true, true) == "E0708");
}

TEST_CASE("TOML: host nodes, `graph = false` on ops and blocks") {
  const TomlModel m = read_toml(R"(
format = 1
name = "m"
[inputs]
x = { dtype = "f32", shape = [4, 8] }
[block.b]
in = "x"
out = "y"
nodes = [ { op = "exp", in = "x", out = "y" } ]
[graph]
nodes = [
  { op = "relu", in = "x", out = "a" },
  { host = "double", in = ["a"], out = ["b"], results = [{ dtype = "f32", shape = [4, 8] }] },
  { op = "add", in = ["b", "x"], out = "c", graph = false },
  { block = "b", in = ["c"], out = ["d"], graph = false },
  { host = "double", in = ["d"] },
]
[outputs]
y = "d"
)",
                                "m.toml");
  const Program p = compile(m.graph->ir(), breaking());
  CHECK(p.graphs == 1);
  CHECK(p.breaks.size() == 4);
  CHECK(p.breaks[1].place == "m.toml:14:10");
  check_run(m.graph->ir(), doubling(), breaking());
}

TEST_CASE("TOML: the name of a host function is text that can be shown") {
  const auto code = [](const std::string& name) {
    const std::string text = fmt::format(R"(
format = 1
name = "m"
[inputs]
x = {{ dtype = "f32", shape = [4] }}
[graph]
nodes = [ {{ op = "exp", in = "x", out = "y" }}, {{ host = "{}", in = "y" }} ]
[outputs]
y = "y"
)",
                                         name);
    return code_of([&] { compile(*read_toml(text, "m.toml").graph); });
  };
  CHECK(code(R"(a b/\u00e9*\"\\)") == "none");
  for (const char* name : {"", "a\\n", "\\u001b[31m", "\\u0000", "\\u007f"})
    CHECK(code(name) == "E0107");
}

}  // namespace braid
