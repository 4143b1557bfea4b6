// Executables whose programs call host functions: what functions throw, failing driver calls,
// threads, tickets and bound memory.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "frontend/compile.hpp"
#include "runtime/context.hpp"
#include "runtime/simulator.hpp"

using namespace braid;
using namespace braid::runtime;

namespace {

constexpr int64_t kElements = 32;

const TypeArg kWide{f32, {4, 8}};

TensorType wide() { return {f32, {Dim(4), Dim(8)}}; }

HostTensor random_values(uint64_t seed) { return random_tensor(wide(), seed, "x"); }

/// Host functions are called between graphs.
Options breaking() {
  Options o;
  o.host = ir::HostWay::script;
  return o;
}

/// A call with arguments in all segments, one without any, one without results; kernels without a
/// graph; one result that is two outputs; a param that changes.
Program model() {
  Graph g("model");
  const Tensor x = g.input("x", kWide);
  const Tensor p = g.param("p", kWide);
  const Tensor k = g.scalar("k", f32, 2.0);
  Tensor h = relu(x) * k;
  const auto r = g.host("double", {h, k, g.read(p), x}, {kWide, {f32, {}}, kWide, kWide});
  {
    const Outside outside = g.outside_graphs();
    h = exp(r[0] * 0.01) + r[2];
  }
  g.assign(p, h * 0.5);
  const auto three = g.host("double", {}, {kWide});
  g.output("y", relu(h + three[0]) * r[1] + r[3]);
  g.output("z", r[0]);
  g.output("again", r[0]);
  g.host("see", {h});
  return compile(g, breaking());
}

/// Twice the arguments, 3 where there are none. Call number `throw_at` throws.
HostFunctions functions(std::atomic<int>& calls, int throw_at = -1) {
  const auto count = [&calls, throw_at] {
    if (calls++ == throw_at) throw std::runtime_error("no more");
  };
  return {{"double",
           [count](std::span<const HostTensor> in, std::span<HostTensor> out) {
             count();
             for (size_t i = 0; i < out.size(); ++i) {
               for (int64_t e = 0; e < out[i].numel(); ++e) {
                 out[i].set(e, i < in.size() ? 2 * in[i].at(e) : 3);
               }
             }
           }},
          {"see", [count](std::span<const HostTensor>, std::span<HostTensor>) { count(); }}};
}

/// Runs with p = x before.
void check_run(Executable& e, uint64_t seed, LaunchMode mode = LaunchMode::graph) {
  const HostTensor x = random_values(seed);
  e.store().set("p", x);
  e.poison();
  const auto out = e.run({{"x", x}}, mode);
  const HostTensor p = e.store().get("p");
  for (int64_t i = 0; i < kElements; ++i) {
    const double z = 4 * std::max(0.0, x.at(i)), h = std::exp(z * 0.01) + 2 * x.at(i);
    const double y = std::max(0.0, h + 3) * 4 + 2 * x.at(i);
    CHECK(out.at("y").at(i) == doctest::Approx(y).epsilon(1e-4));
    CHECK(out.at("z").at(i) == doctest::Approx(z));
    CHECK(out.at("again").at(i) == out.at("z").at(i));
    CHECK(p.at(i) == doctest::Approx(h * 0.5).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("host runs: whichever call throws, the launches before and after are right") {
  const Program p = model();
  const auto simulator = make_simulator();
  for (int at = 0; at < 9; ++at) {
    Store store(Device::on(simulator));
    std::atomic<int> calls = 0;
    Executable e(p, store, functions(calls, at));
    int thrown = 0;
    for (uint64_t launch = 0; launch < 5; ++launch) {
      try {
        check_run(e, launch, launch % 2 ? LaunchMode::stream : LaunchMode::graph);
      } catch (const Error& error) {
        ++thrown;
        CHECK(std::string(error.what()).find("no more") != std::string::npos);
      }
    }
    CHECK(thrown == 1);
  }
  CHECK(simulator->live_objects() == 0);
  CHECK(simulator->take_reports().empty());
}

TEST_CASE("host runs: a failing driver call at every place, and it works again") {
  const Program p = model();
  std::atomic<int> calls = 0;
  std::map<std::string, int> seen;
  bool passed = false;
  for (int at = 0; !passed; ++at) {
    const auto simulator = make_simulator();
    int count = 0;
    bool armed = true;
    std::string failed, message;
    const auto driver = failing_driver(simulator, [&](int64_t, const char* name) {
      const std::string call = name;
      for (const char* end : {"Free", "FreeHost", "Destroy", "Unload", "Release", "PopCurrent"}) {
        if (call.ends_with(end)) return CUDA_SUCCESS;  // may not fail here
      }
      if (!armed || count++ != at) return CUDA_SUCCESS;
      failed = call;
      return at % 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    });
    CAPTURE(at);
    try {
      Store store(Device::on(driver));
      Executable e(p, store, functions(calls));
      const HostTensor x = random_values(1);
      try {
        e.run({{"x", x}});
        e.launch(nullptr, LaunchMode::stream).wait();
        armed = false;  // the way out
      } catch (const CudaError& error) {
        message = error.what();
        armed = false;
      }
      check_run(e, 2);
      Executable other(p, store, functions(calls));
      check_run(other, 3, LaunchMode::stream);
    } catch (const CudaError& error) {
      message = error.what();
    } catch (const NoDevice& error) {
      message = error.what();
    }
    CAPTURE(failed);
    CAPTURE(message);
    if (!failed.empty()) {
      ++seen[failed];
      CHECK(message.find(failed) != std::string::npos);
    }
    CHECK(simulator->live_objects() == 0);
    CHECK(simulator->take_reports().empty());
    passed = failed.empty();
  }
  for (const char* name :
       {"cuMemHostAlloc", "cuEventCreate", "cuEventSynchronize", "cuEventRecord",
        "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuGraphLaunch", "cuLaunchKernel"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}

TEST_CASE("host runs: threads with two executables over one store, and others that come and go") {
  const Program p = model();
  const auto simulator = make_simulator();
  {
    Store store(Device::on(simulator));
    std::atomic<int> calls = 0, wrong = 0;
    const HostTensor x = random_values(4);
    Executable a(p, store, functions(calls)), b(p, store, functions(calls));
    a.write("x", x);
    b.write("x", x);
    const auto one = [&](size_t what, Executable& e) {
      if (what == 0) e.run({{"x", x}});
      if (what == 1) e.launch().wait();
      if (what == 2) (void)store.get("p").at(0);
      if (what == 3) {
        e.set("k", 3.0);
        e.launch(nullptr, LaunchMode::stream);
      }
      if (what == 4) {  // the ticket is older than its executable
        Executable passing(p, store, functions(calls));
        passing.write("x", x);
        Ticket ticket = passing.launch();
        passing = Executable(p, store, functions(calls));
        ticket.wait();
      }
    };
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 15; ++i) {
          try {
            one((t * 7 + i) % 5, (t + i) % 2 ? a : b);
          } catch (const std::exception&) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(calls >= 4 * 9 * 3);
    a.set("k", 2.0);
    check_run(a, 6);
  }
  CHECK(simulator->live_objects() == 0);
  CHECK(simulator->take_reports().empty());
}

TEST_CASE("host runs: calls and kernels without a graph follow memory that is bound again") {
  const auto simulator = make_simulator();
  {
    Graph g("bound");
    const Tensor x = g.input("x", kWide);
    const auto r = g.host("double", {x}, {kWide});
    g.output("r", r[0]);
    Tensor s;
    {
      const Outside outside = g.outside_graphs();
      s = exp(x * 0.1) + r[0];
    }
    g.output("s", s);
    g.output("t", s * 2.0);
    const Device device = Device::on(simulator);
    std::atomic<int> calls = 0;
    Executable e(compile(g, breaking()), Store(device), functions(calls));
    const Current current(device.context());
    std::vector<OwnedMemory> memory;
    for (uint64_t round = 0; round < 3; ++round) {
      for (const char* name : {"x", "r", "s", "t"}) {
        memory.push_back(allocate(device.context(), wide().bytes(), "test"));
        e.bind(name, memory.back().get(), wide().bytes());
      }
      const HostTensor value = random_values(30 + round);
      e.poison();
      auto out = e.run({{"x", value}}, round == 1 ? LaunchMode::stream : LaunchMode::graph);
      for (int64_t i = 0; i < kElements; ++i) {
        const double sum = std::exp(value.at(i) * 0.1) + 2 * value.at(i);
        CHECK(out.at("r").at(i) == 2 * value.at(i));
        CHECK(out.at("s").at(i) == doctest::Approx(sum).epsilon(1e-5));
        CHECK(out.at("t").at(i) == doctest::Approx(2 * sum).epsilon(1e-5));
      }
    }
  }
  CHECK(simulator->live_objects() == 0);
  CHECK(simulator->take_reports().empty());
}
