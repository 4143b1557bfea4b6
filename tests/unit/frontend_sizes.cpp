// Sizes at both ends: tensors that no machine can hold, and tensors without elements.
#include <doctest/doctest.h>

#include <string>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "runtime/simulator.hpp"

namespace braid {
namespace {

Program compiled(const std::string& lines) {
  Options options;
  options.verify = true;
  return compile(ir::parse("bir 1\ngraph \"g\" {\n" + lines + "}\n", "big.bir"), options);
}

/// The one diagnostic of what compiling throws.
Diagnostic refusal(const std::string& lines) {
  try {
    compiled(lines);
  } catch (const Error& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0];
  }
  FAIL("it was compiled");
  return {};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A simulator whose host has so many bytes to give.
Device small_machine(uint64_t bytes) {
  runtime::SimOptions options;
  options.memory_bytes = bytes;
  return Device::on(runtime::make_simulator(options));
}

/// What running a program on a device throws, which must be CUDA's own complaint about memory.
template <class Work>
std::string out_of_memory(const Work& work) {
  try {
    work();
  } catch (const CudaError& error) {
    CHECK(error.code() == 2);
    return error.what();
  }
  FAIL("it ran");
  return {};
}

void check_against_interpreter(const ir::Graph& graph) {
  Options options;
  options.verify = true;
  const Program program = compile(graph, options);
  Store store(Device::open("sim"));
  Executable executable(program, store);
  std::map<std::string, HostTensor> inputs;
  ir::TensorMap wide, params;
  for (const Binding& b : program.inputs) {
    inputs[b.name] = random_tensor(executable.type(b.name), 5, b.name);
    wide[b.name] = widen(inputs[b.name]);
  }
  for (const std::string& name : store.names()) params[name] = widen(store.get(name));
  executable.poison();
  const auto got = executable.run(inputs);
  ir::Graph bound = graph;
  bound.bind_dims({});
  for (const auto& [name, want] : ir::interpret(bound, wide, params)) {
    CAPTURE(name);
    CHECK(got.at(name).type == want.type);
    CHECK(relative_error(got.at(name), want) < 1e-6);
  }
  for (const auto& [name, want] : params) CHECK(relative_error(store.get(name), want) < 1e-6);
}

}  // namespace

TEST_CASE("a kernel of more blocks than a launch can have is the model's fault") {
  Diagnostic d = refusal(
      "%0: u8[35184372088832] = input \"x\"\n%1: u8[35184372088832] = max %0, %0 \"most\"\n"
      "output \"y\" %1\n");
  CHECK(d.code == "E0705");
  CHECK(has(d.message, "34359738368 blocks"));
  REQUIRE(d.details.size() == 3);
  CHECK(d.details[0] == "it computes most (max) at big.bir:4:1");
  CHECK(d.details[1] == "argument a0: u8[35184372088832]");
  CHECK(!d.suggestion.empty());

  d = refusal(
      "%0: f32[2147483648,2] = input \"x\"\n%1: f32[2,2147483648] = input \"z\"\n"
      "%2: f32[2,2] = dot %1, %0\noutput \"y\" %2\n");
  CHECK(d.code == "E0705");
  CHECK(has(d.message, "2^30"));
}

TEST_CASE("tensors that exceed every address space together are named, the largest first") {
  const Diagnostic d = refusal(
      "%0: f32[1152921504606846976] = input \"x\"\n%1: f32[] = input \"s\"\n"
      "%2: f32[1152921504606846976] = broadcast %1 {axes=[]}\n"
      "%3: f32[1152921504606846976] = add %0, %2\noutput \"y\" %3\n");
  CHECK(d.code == "E0705");
  CHECK(has(d.message, "2^62 bytes"));
  REQUIRE(d.details.size() == 3);
  CHECK(d.details[0] == "input x: f32[1152921504606846976], 4611686018427387904 bytes");
  CHECK(d.details[2] == "input s: f32[], 4 bytes");
}

TEST_CASE("work without end is planned with a price, not with an overflow") {
  const Program p = compiled(
      "%0: f32[1] = input \"x\"\n%1: f32[1000000000000000000] = broadcast %0 {axes=[0]}\n"
      "%2: f32[1000000000000000000] = exp %1\n%3: f32[1000000000000000000] = pow %2, %1\n"
      "%4: f32[1000000000000000000] = gelu %3\n"
      "%5: f32[] = reduce_add %4 {axes=[0]}\noutput \"y\" %5\n");
  REQUIRE(p.kernels.size() == 2);  // parts, and what becomes of them
  CHECK(p.kernels[0].flops > 1'000'000'000'000'000'000);
  CHECK(p.bodies[0].nodes[0].estimate_us > 1e9);
  Executable e(p, Store(Device::open("sim")));
  const HostTensor x = random_tensor(e.type("x"), 3, "x");
  const std::string why = out_of_memory([&] { e.run({{"x", x}}); });
  CHECK(has(why, "cuGraphLaunch"));
  CHECK(has(why, "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(has(why, "to simulate node 0 (row_"));
  CHECK(has(why, "bytes of this machine's memory"));
}

TEST_CASE("what a small machine cannot hold is CUDA's out of memory, with the sizes") {
  const auto doubled = [](const std::string& n) {
    return "%0: f32[" + n + "] = input \"x\"\n%1: state f32[" + n + "] = param \"w\"\n%2: f32[" +
           n + "] = read %1\n%3: f32[" + n + "] = add %0, %2\noutput \"y\" %3\n";
  };
  const Program large = compiled(doubled("1342177280"));
  const Device device = small_machine(1 << 20);
  Store store(device);
  std::string why = out_of_memory([&] { Executable(large, store); });
  CHECK(has(why, "param w, 5368709120 bytes"));
  CHECK(has(why, "to simulate 5368709120 bytes takes 10737418240 bytes of this machine's memory"));
  CHECK(store.names().empty());

  // Nothing is lost: a smaller one runs on the same device, as often as one wants.
  for (int i = 0; i < 3; ++i) {
    Executable small(compiled(doubled("1024")), store);
    const HostTensor x = random_tensor(small.type("x"), 3, "x");
    const HostTensor y = small.run({{"x", x}}).at("y");
    CHECK(y.at(9) == doctest::Approx(x.at(9) + store.get("w").at(9)));
  }

  // The tensors fit, the interpreter's do not.
  Store other(small_machine(100'000));
  Executable tight(compiled(doubled("4096")), other);
  const HostTensor x = random_tensor(tight.type("x"), 3, "x");
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream, LaunchMode::graph}) {
    why = out_of_memory([&] { tight.run({{"x", x}}, mode); });
    CHECK(has(why, "row_add"));
    CHECK(has(why, "bytes of this machine's memory, which has 1"));
  }
}

TEST_CASE("the interpreter's memory is counted by what lives at one time") {
  const auto bytes = [](const std::string& lines) {
    return ir::interpret_bytes(ir::parse("bir 1\ngraph \"g\" {\n" + lines + "}\n"));
  };
  CHECK(bytes("%0: f32[10] = input \"x\"\n%1: f32[10] = exp %0\n%2: f32[10] = add %1, %1\n"
              "%3: f32[10] = exp %2\noutput \"y\" %3\n") == 160);
  CHECK(bytes("%0: f32[10] = input \"x\"\n%1: f32[10] = exp %0\n%2: f32[10] = add %1, %0\n"
              "output \"y\" %2\noutput \"z\" %1\n") == 240);
  CHECK(bytes("%0: b1[2305843009213693952] = input \"x\"\noutput \"y\" %0\n") == INT64_MAX);
}

TEST_CASE("a concat of more operands than a kernel has arguments") {
  Graph g("wide");
  std::vector<In> parts;
  for (int i = 0; i < 1203; ++i) {
    parts.emplace_back(g.input("x" + std::to_string(i), {f32, {i % 3 + 1, 2}}) * (i + 1.0));
  }
  g.output("y", concat(parts, 0) + 1.0);
  const Program p = compile(g);
  for (const Kernel& k : p.kernels) CHECK(k.args.size() * sizeof(void*) <= 4096);
  check_against_interpreter(g.ir());
}

TEST_CASE("extents of 0 go through every pass and run") {
  Graph g("empty");
  g.dim("N", 0);
  const Tensor x = g.input("x", {f32, {"N", 4}}), y = g.input("z", {f32, {4, "N"}});
  const Tensor rows = g.input("rows", {i32, {"N"}});
  const Tensor table = g.param("table", {f32, {5, 3}});
  const Tensor state = g.param("state", {f32, {"N", 4}});
  g.output("softmax", softmax(x));
  g.output("down", softmax(x, 0));
  g.output("sum", sum(x, {.axes = {0}}));
  g.output("max", max(x, {.axes = {}}));
  g.output("mean", mean(x, {.axes = {1}}));
  g.output("outer", matmul(x, y));
  g.output("inner", matmul(y, x));
  g.output("inner_bias", relu(matmul(y, x) + 1.0));
  g.output("rows_of", gather(table, rows));
  g.output("turned", transpose(x, {1, 0}));
  g.output("flat", reshape(x, {"4*N"}));
  g.output("cut", slice(table, {.axis = 0, .start = 2, .stop = 2}));
  g.output("joined", concat({x, x, g.full({f32, {1, 4}}, 2.0)}, 0));
  g.output("grown", broadcast_to(reshape(sum(x, {.axes = {1}}), {"N", 1}), {"N", 7}));
  g.assign(state, state * 2.0 + x);
  g.output("after", state + 0.5);
  check_against_interpreter(g.ir());
}

}  // namespace braid
