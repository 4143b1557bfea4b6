// Random graphs of all op kinds and dtypes, the whole way: files, every switch, several launches
// with other inputs and scalars, by the simulator against the interpreter.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "random_graph.hpp"

using namespace braid;

namespace {

/// Integers exactly. The interpreter never rounds, kernels round what they store: floats closely,
/// or absolutely where differences cancel.
bool close(const HostTensor& got, const WideTensor& want) {
  if (!is_float(got.type.dtype)) return relative_error(got, want) == 0;
  const bool half = size_of(got.type.dtype) == 2;
  if (relative_error(got, want) < (half ? 0.05 : 0.01)) return true;
  for (int64_t i = 0; i < got.numel(); ++i) {
    if (!(std::fabs(got.at(i) - want.f[static_cast<size_t>(i)]) < 0.15)) return false;
  }
  return true;
}

Options random_options(std::mt19937_64& random) {
  Options o;
  o.verify = true;
  o.simplify = random() % 3 != 0;
  o.fuse = random() % 5 != 0;
  o.group = random() % 4 != 0;
  o.reuse = random() % 4 != 0;
  o.reduce = random() % 4 != 0;
  o.math = random() % 4 == 0 ? Math::tf32 : Math::strict;
  return o;
}

double random_scalar(DType t, std::mt19937_64& random) {
  if (is_float(t)) return static_cast<double>(random() % 41) / 4 - 5;
  return static_cast<double>(random() % (t == DType::b1 ? 2 : 8));
}

}  // namespace

TEST_CASE("random graphs of everything run as the interpreter says") {
  size_t scalars = 0, nodes = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    std::mt19937_64 random(seed);
    test::RandomGraphOptions options;
    options.ops = 5 + static_cast<int>(random() % 50);
    options.max_extent = 2 + static_cast<int64_t>(random() % 12);
    options.max_numel = 1500;
    const ir::Graph g = test::random_graph(seed, options);
    const Options o = random_options(random);
    CAPTURE(seed);
    CAPTURE(to_string(o));
    const Program p = read_program(write_program(compile(ir::parse(ir::print(g), "g.bir"), o)));
    nodes += p.bodies[0].nodes.size();
    Store store(Device::open("sim"));
    Executable run(p, store);
    ir::TensorMap params, given;
    for (const ParamBinding& b : p.params) {
      const HostTensor value = random_tensor(p.buffers[b.buffer].type, seed, b.name);
      store.set(b.name, value);
      params[b.name] = widen(value);
    }
    for (uint64_t launch = 0; launch < 3; ++launch) {
      std::map<std::string, HostTensor> inputs;
      for (const Binding& b : p.inputs) {
        inputs[b.name] = random_tensor(run.type(b.name), seed + 1000 * launch, b.name);
        given[b.name] = widen(inputs[b.name]);
      }
      for (const ScalarBinding& b : p.scalars) {
        if (launch == 0 || random() % 2) continue;  // keeps what it has
        HostTensor value(run.type(b.name));
        value.set(0, random_scalar(value.type.dtype, random));
        run.set(b.name, value.at(0));
        given[b.name] = widen(value);
        ++scalars;
      }
      run.poison();
      const auto got = run.run(inputs, random() % 3 ? LaunchMode::graph : LaunchMode::stream);
      for (const auto& [name, want] : ir::interpret(g, given, params)) {
        CAPTURE(name);
        CHECK(close(got.at(name), want));
      }
      for (auto& [name, want] : params) {
        CAPTURE(name);
        const HostTensor held = store.get(name);
        CHECK(close(held, want));
        want = widen(held);
      }
    }
  }
  CHECK(scalars > 50);
  CHECK(nodes > 1000);
}
