#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

// y = x * gain + count, and a cache whose row `count` becomes x.
void describe(Graph& g) {
  const Tensor x = g.input("x", {f32, {1, 8}});
  const Tensor gain = g.scalar("gain", f32, 0.5), count = g.scalar("count", i64, 2);
  const Tensor cache = g.param("cache", {f32, {6, 8}}, {.init = ir::Init::zeros});
  g.update(cache, x, {count, g.full({i64, {}}, 0)});
  g.output("y", x * gain + cast(count, f32));
  g.output("cache", cache * 1.0);
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.diagnostics()[0].code;
  }
  return "none";
}

}  // namespace

TEST_CASE("runtime scalars hold their value for every later launch") {
  Graph g{"scalars"};
  describe(g);
  Store store(Device::open("sim"));
  Options o;
  o.verify = true;
  Executable run = build(g, store, o);
  std::map<std::string, double> set{{"gain", 0.5}, {"count", 2}};
  ir::TensorMap params{{"cache", widen(store.get("cache"))}};
  const auto launch = [&](uint64_t seed, LaunchMode mode) {
    const HostTensor x = random_tensor({f32, Shape{1, 8}}, seed, "x");
    HostTensor gain({f32, {}}), count({i64, {}});
    gain.set(0, set["gain"]);
    count.set(0, set["count"]);
    run.poison();
    const auto got = run.run({{"x", x}}, mode);
    const ir::TensorMap wanted = ir::interpret(
        g.ir(), {{"x", widen(x)}, {"gain", widen(gain)}, {"count", widen(count)}}, params);
    for (const auto& [name, value] : got) {
      CAPTURE(name);
      CHECK(relative_error(value, wanted.at(name)) < 1e-6);
    }
  };
  launch(1, LaunchMode::graph);
  launch(2, LaunchMode::stream);
  for (uint64_t i = 0; i < 6; ++i) {
    set["count"] = static_cast<double>(i);
    run.set("count", static_cast<int64_t>(i));
    if (i % 2 == 0) {
      set["gain"] = 1.25 * static_cast<double>(i + 1);
      run.set("gain", set["gain"]);
    }
    launch(10 + i, i % 3 == 2 ? LaunchMode::stream : LaunchMode::graph);
  }
  launch(20, LaunchMode::graph);
}

TEST_CASE("a launch keeps the scalars that it was made with, on any stream") {
  Graph g{"order"};
  const Tensor total = g.param("total", {f32, {4}}, {.init = ir::Init::zeros});
  g.assign(total, total * 10.0 + g.scalar("digit", f32));
  Store store(Device::open("sim"));
  Executable run = build(g, store);
  const HostTensor zeros({f32, Shape{4}});
  store.set("total", zeros);
  for (int i = 1; i <= 5; ++i) {
    run.set("digit", i);
    run.launch();
  }
  run.launch().wait();
  CHECK(store.get("total").at(3) == 123455);
}

TEST_CASE("a scalar that nobody gives the interpreter has its first value") {
  Graph g{"default"};
  g.output("y", g.scalar("s", i8, -3) * g.input("x", {i8, {3}}));
  const HostTensor x = HostTensor::from({i8, Shape{3}}, std::vector<double>{1, 2, 5});
  ir::TensorMap params;
  const ir::TensorMap out = ir::interpret(g.ir(), {{"x", widen(x)}}, params);
  CHECK(out.at("y").i == std::vector<int64_t>{-3, -6, -15});
}

TEST_CASE("scalars survive .bir and .braid") {
  Graph g{"scalars"};
  describe(g);
  const std::string text = ir::print(g.ir());
  CHECK(text.find("= input \"gain\" {scalar=0.5}") != std::string::npos);
  CHECK(ir::print(ir::parse(text, "scalars.bir")) == text);
  const Program p = compile(g);
  CHECK(p.scalar_bytes == 16);
  REQUIRE(p.scalars.size() == 2);
  const Program again = read_program(write_program(p), "scalars.braid");
  CHECK(to_json(again) == to_json(p));
  CHECK(again.scalars[1].initial == 2);
  CHECK(again.inputs.size() == 1);
}

TEST_CASE("wrong scalars are refused") {
  Graph g{"scalars"};
  describe(g);
  CHECK(code_of([&] { g.scalar("x", f32); }) == "E0201");
  CHECK(code_of([&] { g.scalar("p", u8, 256); }) == "E0301");
  CHECK(code_of([&] { g.scalar("q", i32, 0.5); }) == "E0301");
  CHECK(code_of([&] { g.scalar("r", i64, 0x1p63); }) == "E0301");
  CHECK_THROWS_AS(ir::parse("bir 1\ngraph \"g\" {\n  %0: f32[2] = input \"s\" {scalar=1}\n}\n"),
                  Error);
  Store store(Device::open("sim"));
  Executable run = build(g, store);
  CHECK(code_of([&] { run.set("gian", 1.0); }) == "E0820");
  CHECK(code_of([&] { run.set("x", 1.0); }) == "E0820");
  CHECK(code_of([&] { run.set("count", 0.5); }) == "E0827");
  CHECK(code_of([&] { run.set("count", 0x1p63); }) == "E0827");
  run.set("count", -0x1p63);
  CHECK(code_of([&] { run.bind("gain", 4096, 4); }) == "E0820");
  CHECK(code_of([&] { run.write("gain", HostTensor({f32, {}})); }) == "E0820");
  CHECK(run.type("gain") == TensorType{f32, {}});
  run.set("gain", 3);  // a float takes whole numbers
  static_assert(std::is_convertible_v<bool, ScalarValue>);
  static_assert(!std::is_convertible_v<const char*, ScalarValue>);
}
