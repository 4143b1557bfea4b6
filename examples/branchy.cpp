// Three linear layers at batch 1: the sum after the first is printed, and the third runs only where
// the sum of the second's result is positive. One graph, no breaks. Both sides are run, and
// compared with the reference interpreter. usage: branchy [auto|sim|0]
#include <braid/braid.hpp>
#include <cstdio>

using namespace braid;

int main(int argc, char** argv) try {
  const Device device = Device::open(argc > 1 ? argv[1] : "auto");
  std::fprintf(stderr, "running on %s\n", device.name().c_str());

  Graph g{"branchy"};
  const Tensor x = g.input("x", {f32, {1, 64}});
  const Tensor a = linear(g, "a", x, 64);
  g.print(sum(a, {.axes = {}}), "sum after the first");
  const Tensor b = linear(g, "b", a, 64);
  const Tensor more = greater(sum(b, {.axes = {}}), 0);
  g.output("y", g.if_(more, [&] { return linear(g, "c", b, 64); }, [&] { return b; }));
  g.output("third", more);

  Store store(device);
  Executable branchy = build(g, store);
  const Program& plan = branchy.program();
  std::printf("%u graph(s), %zu breaks\n", plan.graphs, plan.breaks.size());
  if (plan.graphs != 1 || !plan.breaks.empty()) return 1;

  ir::TensorMap params;
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  double worst = 0;
  int runs[2] = {0, 0};  // without and with the third
  for (uint64_t seed = 1; seed <= 100 && (runs[0] == 0 || runs[1] == 0); ++seed) {
    const HostTensor input = random_tensor(branchy.type("x"), seed, "x");
    branchy.poison();
    const std::map<std::string, HostTensor> result = branchy.run({{"x", input}});
    const ir::TensorMap expected = ir::interpret(g.ir(), {{"x", widen(input)}}, params);
    worst = std::max(worst, relative_error(result.at("y"), expected.at("y")));
    ++runs[result.at("third").int_at(0) != 0];
  }
  std::printf("%d run(s) with the third layer, %d without\n", runs[1], runs[0]);
  std::printf("relative error against the interpreter: %.2g\n", worst);
  return worst <= 1e-5 && runs[0] > 0 && runs[1] > 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
