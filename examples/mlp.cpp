// A perceptron with one hidden layer, built, compiled and run, and compared with the reference
// interpreter. usage: mlp [f32|bf16] [auto|sim|0]
#include <braid/braid.hpp>
#include <cstdio>
#include <string>

using namespace braid;

int main(int argc, char** argv) try {
  const DType dtype = argc > 1 && std::string(argv[1]) == "bf16" ? bf16 : f32;
  const Device device = Device::open(argc > 2 ? argv[2] : "auto");
  std::fprintf(stderr, "running on %s\n", device.name().c_str());

  // The model: a layer is a function, and names its params.
  Graph g{"mlp"};
  const Tensor x = g.input("x", {dtype, {128, 256}});
  const Tensor h = relu(linear(g, "l1", x, 256));
  g.output("y", linear(g, "l2", h, 16));

  // Weights live in a store; without a file they are drawn from a seed.
  Store store(device);
  Executable mlp = build(g, store);
  std::printf("%s\n", to_text(mlp.program()).c_str());

  const HostTensor input = random_tensor(mlp.type("x"), 7, "x");
  mlp.poison();
  const HostTensor y = mlp.run({{"x", input}}).at("y");

  ir::TensorMap params;
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  const ir::TensorMap expected = ir::interpret(g.ir(), {{"x", widen(input)}}, params);
  const double error = relative_error(y, expected.at("y"));
  std::printf("relative error against the interpreter: %.2g\n", error);
  return error <= (dtype == f32 ? 1e-5 : 1.6e-2) ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
