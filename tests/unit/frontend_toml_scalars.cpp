// [scalars]: runtime scalars of a model file.
#include <doctest/doctest.h>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"

using namespace braid;

TEST_CASE("[scalars] start with their value and take others between launches") {
  const TomlModel m = read_toml(R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[scalars]
gain = { dtype = "f32", value = -1.5 }
count = { dtype = "i64", value = 7 }
on = { dtype = "b1", value = true }
zero = { dtype = "i8" }
[graph]
nodes = [
  { out = "c", op = "cast", in = "count", dtype = "f32" },
  { out = "z", op = "cast", in = "zero", dtype = "f32" },
  { out = "a", op = "mul", in = ["x", "gain"] },
  { out = "b", op = "add", in = ["a", "c"] },
  { out = "d", op = "add", in = ["b", "z"] },
  { out = "y", op = "select", in = ["on", "d", 0] },
]
[outputs]
y = "y"
)",
                                "m.toml");
  Executable run = build(*m.graph, Store(Device::open("sim")));
  const HostTensor x = random_tensor({f32, {4}}, 9, "x");
  const auto check = [&](double gain, double add) {
    const HostTensor y = run.run({{"x", x}}).at("y");
    for (int64_t i = 0; i < 4; ++i) {
      CHECK(y.at(i) == doctest::Approx(x.at(i) * gain + add).epsilon(1e-6));
    }
  };
  check(-1.5, 7);
  run.set("gain", 2.5);
  run.set("zero", -100);
  check(2.5, -93);
  run.set("on", false);
  check(0, 0);
}
