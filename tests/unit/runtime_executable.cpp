#include <doctest/doctest.h>

#include <functional>

#include "ir/diagnostic.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0].code;
  }
  return "no error";
}

/// Streams and memory of the caller's, made behind the executable's back.
struct Caller {
  explicit Caller(const Device& device) : context(device.context()), current(context) {}
  OwnedMemory memory(const HostTensor& value) {
    OwnedMemory m = allocate(context, static_cast<int64_t>(value.bytes.size()), "test");
    context->check(context->driver->cuMemcpyHtoD(m.get(), value.bytes.data(), value.bytes.size()),
                   "copy");
    return m;
  }
  HostTensor value(const OwnedMemory& m, const TensorType& type) {
    HostTensor v(type);
    context->check(context->driver->cuMemcpyDtoH(v.bytes.data(), m.get(), v.bytes.size()), "copy");
    return v;
  }
  ContextPtr context;
  Current current;
};

}  // namespace

TEST_CASE("an executable gives the program's results in every order and mode") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SimOptions options;
    options.seed = seed;
    Bench bench(options);
    Executable e(diamond(), bench.store);
    const HostTensor w = bench.store.get("w");
    std::vector<float> total(kCount, 0.0F);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream, LaunchMode::graph}) {
      const auto in = diamond_inputs(seed * 10 + static_cast<uint64_t>(mode));
      const auto out = e.run(in, mode);
      REQUIRE(out.size() == 1);
      CHECK(values(out.at("y")) == diamond_y(in, w));
      for (size_t i = 0; i < total.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        total[i] += static_cast<float>(in.at("x").at(at)) * static_cast<float>(w.at(at));
      }
      CHECK(values(bench.store.get("total")) == total);
    }
    CHECK(bench.simulator->take_reports().empty());
  }
}

TEST_CASE("arguments are read and stored in their own types") {
  Program p = empty_program("casts");
  const Shape shape = Shape::of({{5, 7}});
  const TensorType half{DType::f16, shape}, brain{DType::bf16, shape}, whole{DType::i32, shape};
  p.kernels = {cast_kernel("half_to_brain", half, brain),
               cast_kernel("brain_to_whole", brain, whole)};
  const uint32_t x = add_buffer(p, "x", Segment::input, half);
  const uint32_t t = add_buffer(p, "t", Segment::temp, brain, 256);
  const uint32_t y = add_buffer(p, "y", Segment::output, whole);
  p.arena_bytes = 512;
  add_node(p, 0, {x, t});
  add_node(p, 1, {t, y});
  p.bodies[0].edges = {{0, 1, EdgeKind::full, EdgeReason::raw, t}};
  Bench bench;
  Executable e(p, bench.store);
  const HostTensor in = random_tensor(half, 8, "x", 50.0);
  const HostTensor out = e.run({{"x", in}}).at("y");
  for (int64_t i = 0; i < in.numel(); ++i) {
    const float rounded = bf16_to_f32(f32_to_bf16(static_cast<float>(in.at(i))));
    CHECK(out.int_at(i) == static_cast<int64_t>(rounded));
  }
}

TEST_CASE("constants live in the store and are shared by equal programs") {
  Program p = empty_program("constants");
  p.kernels = {binary_kernel(Fn::mul, "row_mul", floats())};
  const HostTensor factors = random_tensor(floats(), 77, "factors");
  p.constants.assign(64, std::byte{1});
  p.constants.insert(p.constants.end(), factors.bytes.begin(), factors.bytes.end());
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t c = add_buffer(p, "factors", Segment::constant, floats(), 64);
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  add_node(p, 0, {x, c, y});
  Bench bench;
  const int64_t before = bench.simulator->live_objects();
  Executable first(p, bench.store);
  const int64_t one = bench.simulator->live_objects() - before;
  Executable second(p, bench.store);
  CHECK(bench.simulator->live_objects() - before == 2 * one - 1);
  const HostTensor in = random_tensor(floats(), 78, "x");
  const auto y1 = values(first.run({{"x", in}}).at("y"));
  for (int64_t i = 0; i < kCount; ++i) {
    CHECK(y1[static_cast<size_t>(i)] ==
          static_cast<float>(in.at(i)) * static_cast<float>(factors.at(i)));
  }
  CHECK(values(second.run({{"x", in}}).at("y")) == y1);
}

TEST_CASE("bound memory is used without a copy until rebound") {
  Bench bench;
  Executable e(diamond(), bench.store);
  const HostTensor w = bench.store.get("w");
  Caller caller(bench.device);
  const auto in = diamond_inputs(20);
  const auto bytes = floats().bytes();
  const DevicePtr own_x = e.address("x");

  const OwnedMemory x = caller.memory(in.at("x"));
  const OwnedMemory y = caller.memory(HostTensor(floats()));
  e.write("b", in.at("b"));
  e.bind("x", x.get(), bytes);
  e.bind("y", y.get(), bytes);
  CHECK(e.address("x") == x.get());
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
    e.poison();
    e.launch(nullptr, mode).wait();
    CHECK(values(caller.value(y, floats())) == diamond_y(in, w));
    CHECK(values(e.read("y")) == diamond_y(in, w));
  }

  const auto other = diamond_inputs(21);
  e.bind("x", own_x, bytes);
  e.write("x", other.at("x"));
  e.launch().wait();
  const std::map<std::string, HostTensor> mixed{{"x", other.at("x")}, {"b", in.at("b")}};
  CHECK(values(e.read("y")) == diamond_y(mixed, w));
  CHECK(values(caller.value(x, floats())) == values(in.at("x")));
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("a wrong binding is refused and changes nothing") {
  Bench bench;
  Executable e(diamond(), bench.store);
  Caller caller(bench.device);
  const OwnedMemory big = caller.memory(random_tensor(floats(1000), 4, "big"));
  const auto bytes = floats().bytes();
  CHECK(error_of([&] { e.bind("z", big.get(), bytes); }) == "E0820");
  CHECK(error_of([&] { e.bind("w", big.get(), bytes); }) == "E0820");  // a param, not an input
  CHECK(error_of([&] { e.bind("x", big.get(), bytes - 4); }) == "E0821");
  CHECK(error_of([&] { e.bind("x", big.get(), bytes + 4); }) == "E0821");
  CHECK(error_of([&] { e.bind("x", 0, bytes); }) == "E0822");
  CHECK(error_of([&] { e.bind("x", big.get() + 8, bytes); }) == "E0823");
  CHECK(error_of([&] { e.bind("x", bench.store.address("total"), bytes); }) == "E0824");
  CHECK(error_of([&] { e.bind("x", e.address("b"), bytes); }) == "E0824");
  e.bind("x", big.get(), bytes);
  CHECK(error_of([&] { e.bind("y", big.get() + 128, bytes); }) == "E0824");
  e.bind("y", big.get() + 256, bytes);
  CHECK(error_of([&] { e.bind("b", big.get() + 384, bytes); }) == "E0824");
  CHECK(e.address("x") == big.get());
  CHECK(e.address("y") == big.get() + 256);

  const auto in = diamond_inputs(30);
  const HostTensor w = bench.store.get("w");
  CHECK(values(e.run(in).at("y")) == diamond_y(in, w));
}

TEST_CASE("wrong inputs are refused") {
  Bench bench;
  Executable e(diamond(), bench.store);
  auto in = diamond_inputs(40);
  in.erase("b");
  CHECK(error_of([&] { e.run(in); }) == "E0826");
  in["b"] = HostTensor(floats(kCount - 1));
  CHECK(error_of([&] { e.run(in); }) == "E0825");
  in["b"] = HostTensor({DType::i32, Shape::of({{kCount}})});
  CHECK(error_of([&] { e.run(in); }) == "E0825");
  in = diamond_inputs(40);
  in["c"] = HostTensor(floats());
  CHECK(error_of([&] { e.run(in); }) == "E0820");
  CHECK(error_of([&] { e.write("x", HostTensor(floats(1))); }) == "E0825");
  CHECK(error_of([&] { e.read("yy"); }) == "E0820");
}

TEST_CASE("a malformed program is refused before anything is allocated") {
  Bench bench;
  const int64_t before = bench.simulator->live_objects();
  const auto refused = [&](const std::function<void(Program&)>& change) {
    Program p = diamond();
    change(p);
    CHECK(error_of([&] { Executable(p, bench.store); }) == "E0830");
    CHECK(bench.simulator->live_objects() == before);
  };
  refused([](Program& p) { p.bodies[0].nodes[1].args[0] = 99; });
  refused([](Program& p) { p.bodies[0].nodes[1].kernel = 4; });
  refused([](Program& p) { p.bodies[0].nodes[1].args.pop_back(); });
  refused([](Program& p) { p.bodies[0].edges[0].to = 4; });
  refused([](Program& p) { p.bodies[0].edges[0].from = 2; });
  refused([](Program& p) { p.views[0].buffer = 50; });
  refused([](Program& p) { p.views[0].offset = 4; });
  refused([](Program& p) { p.views[0].offset = INT64_MAX; });
  refused([](Program& p) { p.views[0].type = floats(kCount - 1); });
  refused([](Program& p) { p.buffers[4].offset = -256; });
  refused([](Program& p) { p.buffers[5].offset = 400; });
  refused([](Program& p) { p.arena_bytes = 300; });
  refused([](Program& p) { p.kernels[2].module = 1; });
  refused([](Program& p) { p.script[0].index = 1; });
  refused([](Program& p) { p.inputs[0].buffer = 6; });
  refused([](Program& p) { p.params[1].buffer = 70; });
  refused([](Program& p) { p.params.pop_back(); });
  refused([](Program& p) { p.arena_bytes = -1; });
  refused([](Program& p) { p.scalar_bytes = -1; });
  refused([](Program& p) { p.scalar_bytes = int64_t{1} << 62; });
}

TEST_CASE("tickets") {
  Bench bench;
  Ticket kept;
  CHECK(kept.done());
  CHECK_NOTHROW(kept.wait());
  {
    Executable e(diamond(), bench.store);
    for (const auto& [name, value] : diamond_inputs(50)) e.write(name, value);
    e.launch();  // dropped
    kept = e.launch();
    kept.wait();
    kept.wait();
    CHECK(kept.done());
  }
  CHECK_NOTHROW(kept.wait());  // outlives its executable
}

TEST_CASE("the first error of a launch comes out of its ticket, later calls say it again") {
  Bench bench;
  Executable e(diamond(), bench.store);
  e.write("x", diamond_inputs(60).at("x"));
  Ticket ticket = e.launch();  // b was never written
  try {
    ticket.wait();
    FAIL("no exception");
  } catch (const CudaError& error) {
    CHECK(error.code() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(contains(error.what(), "launch of program 'diamond'"));
    CHECK(contains(error.what(),
                   "node 1 (row_sub): argument 1 ('a1') reads bytes that nothing has "
                   "written"));
  }
  CHECK_THROWS_WITH_AS(e.run(diamond_inputs(60)), doctest::Contains("context is lost"), CudaError);
  CHECK_THROWS_WITH_AS(bench.store.get("w"), doctest::Contains("row_sub"), CudaError);
}

TEST_CASE("launches of one executable are ordered on any streams") {
  Bench bench;
  Executable e(diamond(), bench.store);
  const HostTensor w = bench.store.get("w");
  const auto in = diamond_inputs(70);
  for (const auto& [name, value] : in) e.write(name, value);
  Caller caller(bench.device);
  const OwnedStream s1 = make_stream(caller.context), s2 = make_stream(caller.context);
  for (int i = 0; i < 3; ++i) {
    e.launch(s1.get());
    e.launch();
    e.launch(s2.get(), i == 1 ? LaunchMode::stream : LaunchMode::graph);
  }
  CHECK(values(e.read("y")) == diamond_y(in, w));
  std::vector<float> total(kCount, 0.0F);
  for (size_t i = 0; i < total.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    for (int n = 0; n < 9; ++n) {
      total[i] += static_cast<float>(in.at("x").at(at)) * static_cast<float>(w.at(at));
    }
  }
  CHECK(values(bench.store.get("total")) == total);
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("launches are ordered also where no state of the store orders them") {
  Program p = empty_program("stateless");
  p.kernels = {binary_kernel(Fn::mul, "row_mul", floats())};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t t = add_buffer(p, "t", Segment::temp, floats());
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  p.arena_bytes = p.buffers[t].bytes;
  add_node(p, 0, {x, x, t});
  add_node(p, 0, {t, x, y});
  p.bodies[0].edges = {{0, 1, EdgeKind::full, EdgeReason::raw, t}};
  Bench bench;
  Executable e(p, bench.store);
  const HostTensor in = random_tensor(floats(), 71, "x");
  e.write("x", in);
  Caller caller(bench.device);
  const OwnedStream stream = make_stream(caller.context);
  e.launch(stream.get(), LaunchMode::stream);
  e.launch(nullptr, LaunchMode::stream);
  e.launch(stream.get(), LaunchMode::graph);
  const auto out = values(e.read("y"));
  for (int64_t i = 0; i < kCount; ++i) {
    const auto v = static_cast<float>(in.at(i));
    CHECK(out[static_cast<size_t>(i)] == v * v * v);
  }
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("everything is given back") {
  const auto simulator = make_simulator();
  {
    Bench bench(simulator);
    Executable e(diamond(), bench.store);
    e.run(diamond_inputs(80));
    Executable moved = std::move(e);
    moved = Executable(diamond(), bench.store);
    moved.run(diamond_inputs(81));
    CHECK(simulator->live_objects() > 0);
  }
  CHECK(simulator->live_objects() == 0);
}
