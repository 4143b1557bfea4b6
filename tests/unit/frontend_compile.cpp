#include <doctest/doctest.h>

#include <map>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

void describe(Graph& g) {
  const Tensor x = g.input("x", {f32, {"B", 24}});
  const Tensor total = g.param("total", {f32, {"B", 8}}, {.init = ir::Init::zeros});
  const Tensor h = gelu(linear(g, "l1", x, 40));
  const Tensor y = softmax(linear(g, "l2", h, 8));
  g.assign(total, total + y);
  g.output("y", y);
  g.output("total", total * 2.0);
}

}  // namespace

TEST_CASE("a built model runs, keeps its state and agrees with the reference") {
  Graph g{"model"};
  describe(g);
  Options o;
  o.verify = true;
  o.dims = {{"B", 3}};
  Store store(Device::open("sim"));
  Executable run = build(g, store, o);
  CHECK(run.program().target == store.device().target());

  ir::Graph reference = g.ir();
  reference.bind_dims(o.dims);
  ir::TensorMap params;
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  for (uint64_t launch = 0; launch < 3; ++launch) {
    const HostTensor x = random_tensor({f32, Shape{3, 24}}, 50 + launch, "x");
    const std::map<std::string, HostTensor> got = run.run({{"x", x}});
    const ir::TensorMap wanted = ir::interpret(reference, {{"x", widen(x)}}, params);
    REQUIRE(got.size() == 2);
    for (const auto& [name, value] : got) {
      CAPTURE(name);
      CHECK(relative_error(value, wanted.at(name)) < 1e-5);
    }
  }
  CHECK(relative_error(store.get("total"), params.at("total")) < 1e-5);
}

TEST_CASE("a graph that gives nothing and changes nothing is E0502") {
  const auto code = [](const Graph& g) {
    try {
      compile(g);
    } catch (const Error& e) {
      return e.diagnostics().front().code;
    }
    return std::string();
  };
  Graph g("idle");
  const Tensor x = g.input("x", {f32, {4}});
  relu(x);
  CHECK(code(g) == "E0502");
  const Tensor p = g.param("p", {f32, {4}});
  CHECK(code(g) == "E0502");
  g.assign(p, relu(x));
  CHECK(code(g).empty());
}

TEST_CASE("names that a program lacks are named, and what it has") {
  Graph g("named");
  const Tensor x = g.input("left", {f32, {4}});
  const Tensor y = g.input("right", {f32, {4}});
  const Tensor gain = g.scalar("gain", f32, 2);
  g.output("z", x * y * gain + g.scalar("bias", f32, 1));
  Store store(Device::open("sim"));
  Executable e = build(g, store);
  const auto text = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      const Diagnostic& d = error.diagnostics().front();
      return d.code + ": " + d.message + "; " + d.suggestion;
    }
    return std::string();
  };
  const HostTensor t = random_tensor({DType::f32, {4}}, 7, "t");
  CHECK(text([&] { e.run({{"X", t}}); }) ==
        "E0820: program 'named' has no input 'X'; it has 'left', 'right'");
  CHECK(text([&] { e.run({{"left", t}, {"rihgt", t}}); }) ==
        "E0820: program 'named' has no input 'rihgt'; did you mean 'right'?");
  CHECK(text([&] { e.set("p", 1.0); }) ==
        "E0820: program 'named' has no runtime scalar 'p'; it has 'gain', 'bias'");
}

TEST_CASE("two executables share one store") {
  Graph add{"add"}, read{"read"};
  const Tensor a = add.param("n", {f32, {4}}, {.init = ir::Init::zeros});
  add.assign(a, a + add.input("x", {f32, {4}}));
  const Tensor b = read.param("n", {f32, {4}}, {.init = ir::Init::zeros});
  read.output("twice", b * 2.0);
  Store store(Device::open("sim"));
  Executable first = build(add, store), second = build(read, store);
  const HostTensor x = random_tensor({f32, Shape{4}}, 60, "x");
  first.run({{"x", x}});
  const HostTensor twice = second.run({}).at("twice");
  for (int64_t i = 0; i < 4; ++i) {
    CHECK(x.at(i) != 0);
    CHECK(twice.at(i) == 2 * x.at(i));
  }
}

TEST_CASE("compile refuses a malformed graph and can be cancelled") {
  const auto code = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      return e.diagnostics().at(0).code;
    }
    return "no error";
  };
  ir::Graph twice;
  for (int i = 0; i < 2; ++i) {
    twice.add({ir::OpKind::input, {}, {}, TensorType{f32, Shape{2}}, twice.strings.intern("x")});
  }
  CHECK(code([&] { compile(twice); }).starts_with("E"));
  Graph g{"model"};
  describe(g);
  CHECK(code([&] { compile(g); }) == "E0602");
  Options o;
  o.dims = {{"B", 2}};
  o.progress = [](std::string_view, int64_t, int64_t) { return false; };
  CHECK(code([&] { compile(g, o); }) == "E0703");
}
