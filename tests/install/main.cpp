// A program that sees only what is installed: a small graph, compiled and run on the simulator.
#include <braid/braid.hpp>
#include <cstdio>

#ifdef BRAID_VERSION
#error "definitions of Braid's build reach programs that use it"
#endif

int main() {
  // Narrows an int on purpose: with Braid's warnings as errors this would not compile.
  const int count = 3;
  const float third = count;

  braid::Graph g{"consumer"};
  const braid::Tensor x = g.input("x", {braid::f32, {4}});
  g.output("y", sum(x * x + third));

  const braid::Device device = braid::Device::open("sim");
  braid::Executable run = braid::build(g, braid::Store(device));
  braid::HostTensor values(run.type("x"));
  for (int i = 0; i < 4; ++i) values.set(i, i + 1);
  const braid::HostTensor y = run.run({{"x", values}}).at("y");
  std::printf("%g from %zu kernel\n", y.at(0), run.program().kernels.size());

  try {
    braid::read_toml("format = 2\n", "two.toml");
  } catch (const braid::Error& error) {
    std::printf("%s\n", error.diagnostics().front().code.c_str());
  }
}
