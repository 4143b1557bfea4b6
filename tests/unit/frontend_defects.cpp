// Models that once broke the compiler.
#include <doctest/doctest.h>

#include <string>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"

namespace braid {
namespace {

void check_against_interpreter(const ir::Graph& graph) {
  Options options;
  options.verify = true;
  const Program program = compile(graph, options);
  Executable executable(program, Store(Device::open("sim")));
  std::map<std::string, HostTensor> inputs;
  ir::TensorMap wide, params;
  for (const Binding& b : program.inputs) {
    inputs[b.name] = random_tensor(executable.type(b.name), 5, b.name);
    wide[b.name] = widen(inputs[b.name]);
  }
  executable.poison();
  const auto got = executable.run(inputs);
  for (const auto& [name, want] : ir::interpret(graph, wide, params)) {
    CHECK(relative_error(got.at(name), want) < 1e-6);
  }
}

TEST_CASE("a reduction beside a transposed read of the tensor that it reduces") {
  check_against_interpreter(ir::parse(R"(bir 1
graph "f" {
  %0: f32[8,8] = input "i"
  %1: f32[8] = reduce_add %0 {axes=[0]}
  %2: f32[8,8] = broadcast %1 {axes=[1]}
  %3: f32[8,8] = transpose %0 {axes=[1, 0]}
  %4: f32[8,8] = add %2, %3
  output "o0" %4
}
)"));
}

TEST_CASE("long chains of views get memory in between: text and time stay linear") {
  const auto chain = [](int pairs) {
    Graph g("chain");
    Tensor x = g.input("x", {f32, {4, 5}});
    for (int i = 0; i < pairs; ++i) x = reshape(transpose(x, {1, 0}), {4, 5});
    g.output("y", x);
    return g.ir();
  };
  check_against_interpreter(chain(50));
  Options options;
  options.simplify = false;
  const Program program = compile(chain(4000), options);
  size_t text = 0;
  for (const Kernel& k : program.kernels) text += k.body.ops().size();
  CHECK(program.kernels.size() < 10);
  CHECK(text < 200);
}

TEST_CASE("a tensor of a symbolic type is an error that names the way out") {
  Graph g("symbolic");
  const Tensor x = g.input("x", {f32, {"B", 4}});
  g.output("y", x + 1.0);
  CHECK_THROWS_AS(random_tensor(x.type(), 1, "x"), Error);
  Options options;
  options.dims = {{"B", 3}};
  const Executable e(compile(g, options), Store(Device::open("sim")));
  CHECK(e.type("x") == TensorType{f32, {Dim(3), Dim(4)}});
  CHECK_THROWS_AS(e.type("z"), Error);
}

TEST_CASE("a block with more outputs than inputs") {
  const TomlModel model = read_toml(R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[block.split]
in = ["x"]
out = ["y", "z", "w"]
nodes = [
  { out = "y", op = "relu", in = ["x"] },
  { out = "z", op = "neg", in = ["x"] },
  { out = "w", op = "exp", in = ["x"] },
]
[graph]
nodes = [
  { out = ["a", "b", "c"], block = "split", in = ["x"] },
  { out = ["d", "e", "f"], block = "split", in = ["c"], repeat = 1 },
]
[outputs]
a = "a"
b = "b"
d = "d"
e = "e"
f = "f"
)",
                                    "split.toml");
  check_against_interpreter(model.graph->ir());
}

TEST_CASE("blocks nested without end are refused, not followed") {
  std::string text = "format = 1\n[inputs]\nx = { dtype = \"f32\", shape = [4] }\n";
  const int depth = 20000;
  bool outermost_first = true;
  SUBCASE("from the outermost") {}
  SUBCASE("from the innermost") { outermost_first = false; }
  for (int n = 0; n < depth; ++n) {
    const int i = outermost_first ? n : depth - 1 - n;
    const std::string inner =
        i + 1 < depth ? "block = \"b" + std::to_string(i + 1) + "\"" : std::string("op = \"relu\"");
    text += "[block.b" + std::to_string(i) +
            "]\nin = [\"h\"]\nout = [\"y\"]\nnodes = [{ out = " + "\"y\", " + inner +
            ", in = [\"h\"] }]\n";
  }
  text +=
      "[graph]\nnodes = [{ out = \"z\", block = \"b0\", in = [\"x\"] }]\n[outputs]\nz = \"z\"\n";
  CHECK_THROWS_AS(read_toml(text, "deep.toml"), Error);
}

TEST_CASE("constants of which none has an element") {
  check_against_interpreter(ir::parse(R"(bir 1
graph "g" {
  %0: f32[3] = input "x"
  %1: f32[0] = constant hex""
  %2: f32[3] = concat %0, %1 {axis=0}
  %3: f32[0] = exp %1
  output "y" %2
  output "none" %3
}
)"));
}

}  // namespace
}  // namespace braid
