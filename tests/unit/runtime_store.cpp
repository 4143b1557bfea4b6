#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <thread>

#include "ir/diagnostic.hpp"
#include "runtime_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

/// total += x, once: a writer of shared state. With `out` also y = total + x after it.
Program accumulating(const std::string& name) {
  Program p = empty_program(name);
  p.kernels = {accumulate_kernel("row_accumulate", floats())};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t total = add_buffer(p, "total", Segment::param, floats());
  p.params[0].init = ir::Init::zeros;
  p.params[0].written = true;
  add_node(p, 0, {x, total});
  return p;
}

/// y = total * x: a reader of shared state.
Program reading() {
  Program p = empty_program("reading");
  p.kernels = {binary_kernel(Fn::mul, "row_mul", floats())};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t total = add_buffer(p, "total", Segment::param, floats());
  p.params[0].init = ir::Init::zeros;
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  add_node(p, 0, {total, x, y});
  return p;
}

HostTensor whole_numbers(uint64_t seed) {
  HostTensor t = random_tensor(floats(), seed, "whole");
  for (int64_t i = 0; i < kCount; ++i) t.set(i, std::round(t.at(i) * 4.0));
  return t;
}

}  // namespace

TEST_CASE("params are filled by their init, seed and name") {
  Program p = empty_program("params");
  add_buffer(p, "normal", Segment::param, floats(500));
  add_buffer(p, "zeros", Segment::param, floats());
  add_buffer(p, "ones", Segment::param, {DType::bf16, Shape::of({{3, 5}})});
  p.params[0].scale = 0.25;
  p.params[1].init = ir::Init::zeros;
  p.params[2].init = ir::Init::ones;
  Bench bench;
  bench.store.declare(p, 9);
  CHECK(bench.store.names() == std::vector<std::string>{"normal", "ones", "zeros"});
  CHECK(bench.store.get("normal").bytes == random_tensor(floats(500), 9, "normal", 0.25).bytes);
  CHECK(values(bench.store.get("zeros")) == std::vector<float>(kCount, 0.0F));
  CHECK(values(bench.store.get("ones")) == std::vector<float>(15, 1.0F));

  const HostTensor value = random_tensor(floats(500), 10, "other");
  bench.store.set("normal", value);
  bench.store.declare(p, 11);  // declared already: keeps its value
  CHECK(bench.store.get("normal").bytes == value.bytes);
  std::set<DevicePtr> addresses;
  for (const std::string& name : bench.store.names()) {
    CHECK(bench.store.address(name) % 256 == 0);
    addresses.insert(bench.store.address(name));
  }
  CHECK(addresses.size() == 3);
}

TEST_CASE("unknown names and other types are errors") {
  Bench bench;
  bench.store.declare(reading());
  CHECK_THROWS_AS(bench.store.get("totl"), Error);
  CHECK_THROWS_AS(bench.store.address("x"), Error);
  CHECK_THROWS_AS(bench.store.set("totl", HostTensor(floats())), Error);
  CHECK_THROWS_AS(bench.store.set("total", HostTensor(floats(kCount + 1))), Error);
  Program p = reading();
  const int64_t before = bench.simulator->live_objects();
  Program other = empty_program("other");
  add_buffer(other, "fresh", Segment::param, floats());
  add_buffer(other, "total", Segment::param, floats(5));
  CHECK_THROWS_AS(bench.store.declare(other), Error);
  CHECK(bench.store.names() == std::vector<std::string>{"total"});
  CHECK(bench.simulator->live_objects() == before);
}

TEST_CASE("executables that share a store are ordered across streams") {
  Bench bench;
  Executable adder(accumulating("adder"), bench.store);
  Executable other(accumulating("other"), bench.store);
  Executable reader(reading(), bench.store), second_reader(reading(), bench.store);
  const HostTensor a = whole_numbers(1), b = whole_numbers(2), x = whole_numbers(3);
  adder.write("x", a);
  other.write("x", b);
  reader.write("x", x);
  second_reader.write("x", b);
  const Current current(bench.device.context());
  const OwnedStream stream = make_stream(bench.device.context());
  for (int i = 0; i < 4; ++i) {
    adder.launch();
    reader.launch(stream.get());
    second_reader.launch();
    other.launch(i % 2 == 0 ? nullptr : stream.get());
  }
  const auto y = values(reader.read("y"));
  const auto y2 = values(second_reader.read("y"));
  const auto total = values(bench.store.get("total"));
  for (int64_t i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK(total[at] == static_cast<float>(4 * a.at(i) + 4 * b.at(i)));
    const double seen = 4 * a.at(i) + 3 * b.at(i);
    CHECK(y[at] == static_cast<float>(seen * x.at(i)));
    CHECK(y2[at] == static_cast<float>(seen * b.at(i)));
  }
  CHECK(bench.simulator->take_reports().empty());

  // A value set from the host is seen by the next launch, and not by the one before.
  reader.launch(stream.get());
  bench.store.set("total", a);
  CHECK(values(reader.read("y"))[0] == static_cast<float>(total[0] * static_cast<float>(x.at(0))));
  reader.launch(stream.get());
  CHECK(values(reader.read("y"))[0] == static_cast<float>(a.at(0) * x.at(0)));
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("threads launch executables over one store") {
  Bench bench;
  constexpr int kThreads = 4, kLaunches = 25;
  std::vector<HostTensor> addends;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) addends.push_back(whole_numbers(100 + t));
  std::vector<std::string> failures(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        Executable e(accumulating("adder"), bench.store);
        for (int i = 0; i < kLaunches; ++i) {
          if (i % 3 == 0) {
            e.run({{"x", addends[t]}}, i % 2 == 0 ? LaunchMode::graph : LaunchMode::stream);
          } else {
            e.launch();
          }
        }
        e.launch().wait();
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(kThreads));
  const auto total = values(bench.store.get("total"));
  for (int64_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (const HostTensor& a : addends) sum += (kLaunches + 1) * a.at(i);
    CHECK(total[static_cast<size_t>(i)] == static_cast<float>(sum));
  }
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("threads share one executable") {
  Bench bench;
  Executable e(accumulating("adder"), bench.store);
  const HostTensor x = whole_numbers(7);
  e.write("x", x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) e.launch().wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(static_cast<double>(values(bench.store.get("total"))[0]) == 60 * x.at(0));
}
