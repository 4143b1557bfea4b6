// Host functions that graphs call, on a device: what a round trip costs by each way, and whether
// calls are lost when functions throw, sleep, or never return.
// usage: braid_host_bench trips|stress|checks [--device sim|0] [--launches N] [--seconds S]
// `trips` needs a GPU. Ends with 1 if a count is wrong, with 3 if nothing moves for a minute, with
// 77 without the device.
#include <cuda.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "frontend/compile.hpp"
#include "ir/diagnostic.hpp"
#include "runtime/context.hpp"
#include "runtime/measure.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

using ir::HostWay;
using Arguments = std::span<const HostTensor>;
using Results = std::span<HostTensor>;
using namespace std::chrono_literals;

struct Settings {
  std::string command, device = "0";
  int launches = 10'000;
  double seconds = 0.5;
};

std::atomic<int64_t> progress = 0;
std::atomic<int> failures = 0;

void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  fmt::print("WRONG: {}\n", what);
}

/// Ends the process if nothing moves.
void watch() {
  std::thread([] {
    for (int64_t before = -1, quiet = 0;;) {
      std::this_thread::sleep_for(1s);
      const int64_t now = progress;
      quiet = now == before ? quiet + 1 : 0;
      before = now;
      if (quiet < 60) continue;
      fmt::print("HANGS: nothing has moved for a minute, after {} steps\n", now);
      std::fflush(stdout);
      _exit(3);
    }
  }).detach();
}

/// y = 20 kernels of x, and a call of 'f' in the middle unless `calls` is off.
ir::Graph chain(int64_t elements, bool calls, HostWay way) {
  Graph g("chain");
  Tensor h = g.input("x", {f32, {elements}});
  for (int i = 0; i < 20; ++i) {
    if (i == 10 && calls) h = g.host("f", {h}, {{f32, {elements}}}, {.way = way})[0];
    h = i % 2 == 0 ? sin(h) : tanh(h);
  }
  g.output("y", h);
  return g.ir();
}

Executable make(const ir::Graph& graph, const Store& store, const HostFunctions& functions,
                const HostOptions& host = {}) {
  Options o;
  o.target = store.device().target();
  o.fuse = false;
  Program p = compile(graph, o);
  if (!store.device().simulated()) {
    runtime::compile_modules(p, runtime::Cache::from_environment());
  }
  Executable e(std::move(p), store, functions, {}, host);
  e.write("x", random_tensor(e.type("x"), 5, "x"));
  return e;
}

void echo(Arguments a, Results r) { r[0].bytes = a[0].bytes; }

struct Way {
  const char* name;
  bool calls;
  HostWay way;
};
constexpr Way kWays[] = {{"no call", false, HostWay::automatic},
                         {"handshake", true, HostWay::handshake},
                         {"break", true, HostWay::script},
                         {"node", true, HostWay::node},
                         {"default", true, HostWay::automatic}};

void trips(const Device& device, double seconds) {
  fmt::print(
      "20 kernels and a host function in the middle that copies; us a launch, and more than\n"
      "without the call\n"
      "{:>9}  {:9}  {:>6}  {:>18}  {:>18}  {:>8}\n",
      "bytes", "way", "graphs", "launch and wait", "back to back", "launch()");
  for (const int64_t elements : {1, 1024, 16'384, 65'536, 262'144, 1'048'576}) {
    double latency = 0, step = 0;
    std::optional<HostTensor> expected;
    for (const Way& w : kWays) {
      const Store store(device);
      Executable e = make(chain(elements, w.calls, w.way), store, {{"f", echo}});
      const HostTensor x = random_tensor(e.type("x"), 3, "x");
      const HostTensor y = e.run({{"x", x}}).at("y");
      if (!expected) expected = y;
      expect(y.bytes == expected->bytes, fmt::format("{} of {} elements", w.name, elements));
      const runtime::Timing t = runtime::measure(e, LaunchMode::graph, seconds);
      if (!w.calls) latency = t.latency_us, step = t.step_us;
      fmt::print("{:9}  {:9}  {:6}  {:9.2f} {:+8.2f}  {:9.2f} {:+8.2f}  {:8.2f}\n", 4 * elements,
                 w.name, e.program().graphs, t.latency_us, t.latency_us - latency, t.step_us,
                 t.step_us - step, t.launch_us);
      ++progress;
    }
  }
}

int64_t free_bytes(const Device& device) {
  const runtime::Current current(device.context());
  size_t free = 0, total = 0;
  device.context()->check(device.context()->driver->cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return static_cast<int64_t>(free);
}

/// A launch; the code of what it failed with, here or when it was waited for.
std::string launch(Executable& e) {
  try {
    e.launch().wait();
  } catch (const Error& error) {
    return error.diagnostics().at(0).code;
  }
  return {};
}

/// Four threads launch two executables of two calls each.
void storm(const Device& device, HostWay way, int launches) {
  struct Count {
    std::atomic<int64_t> f = 0, g = 0, thrown = 0, failed = 0;
  };
  Count counts[2];
  const Store store(device);
  Graph graph("storm");
  const Tensor x = graph.input("x", {f32, {64}});
  const Tensor a = graph.host("f", {sin(x)}, {{f32, {64}}}, {.way = way})[0];
  graph.output("y", tanh(graph.host("g", {tanh(a)}, {{f32, {64}}}, {.way = way})[0]));
  const auto functions = [](Count& c) {
    return HostFunctions{{"f",
                          [&c](Arguments in, Results out) {
                            const int64_t n = ++c.f;
                            ++progress;
                            if (n % 7 == 3) {
                              ++c.thrown;
                              throw std::runtime_error("f");
                            }
                            if (n % 40 == 0) std::this_thread::sleep_for(2ms);
                            echo(in, out);
                          }},
                         {"g", [&c](Arguments in, Results out) {
                            if (++c.g % 5 == 1) {
                              ++c.thrown;
                              throw 5;
                            }
                            echo(in, out);
                          }}};
  };
  Executable first = make(graph.ir(), store, functions(counts[0]));
  Executable second = make(graph.ir(), store, functions(counts[1]));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < launches / 4; ++i) {
        const int which = (i + t) % 2;
        if (!launch(which == 0 ? first : second).empty()) ++counts[which].failed;
      }
    });
  }
  threads.clear();
  int64_t calls = 0;
  for (const Count& c : counts) {
    calls += c.f;
    expect(c.g == c.f - (c.f + 4) / 7,
           fmt::format("{} calls of f, {} of g", c.f.load(), c.g.load()));
    expect(c.failed == c.thrown,
           fmt::format("{} launches failed, {} functions", c.failed.load(), c.thrown.load()));
  }
  expect(calls == launches / 4 * 4, fmt::format("{} calls of {}", calls, launches));
}

void stress(const Device& device, int launches) {
  for (const HostWay way : {HostWay::handshake, HostWay::node, HostWay::script}) {
    storm(device, way, 400);  // what the driver keeps, it has then
    const int64_t before = free_bytes(device);
    const auto start = std::chrono::steady_clock::now();
    storm(device, way, launches);
    const std::chrono::duration<double> s = std::chrono::steady_clock::now() - start;
    const int64_t lost = before - free_bytes(device);
    expect(lost == 0, fmt::format("{} bytes of the device's memory are gone", lost));
    fmt::print("{}: {} launches from four threads in {:.2f} s\n", ir::name_of(way), launches,
               s.count());
  }
}

/// Holds a function until it is let go.
class Hold {
 public:
  void wait() {
    inside = true;
    gone_.get_future().wait();
  }
  void let_go() { gone_.set_value(); }
  std::atomic<bool> inside = false;

 private:
  std::promise<void> gone_;
};

template <class What>
bool soon(const What& what) {
  for (int i = 0; i < 10'000; ++i, ++progress) {
    if (what()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.diagnostics().at(0).code;
  }
  return {};
}

/// Several launches are under way when the first one's function does not return.
void check_deadline(const Device& device, HostWay way) {
  const Store store(device);
  std::shared_ptr<Hold> hold;
  std::atomic<int> calls = 0;
  Executable e = make(chain(64, true, way), store,
                      {{"f",
                        [&](Arguments a, Results r) {
                          ++calls;
                          if (const std::shared_ptr<Hold> h = hold) h->wait();
                          echo(a, r);
                        }}},
                      {50ms});
  Executable plain = make(chain(64, false, way), store, {});
  const HostTensor x = random_tensor(e.type("x"), 5, "x");
  const HostTensor y = plain.run({{"x", x}}).at("y");
  for (int round = 0; round < 5; ++round) {
    hold = std::make_shared<Hold>();
    std::vector<Ticket> tickets;
    const int before = calls;
    for (int i = 0; i < 4; ++i) {
      const std::string code = code_of([&] { tickets.push_back(e.launch()); });
      expect(code.empty() || code == "E0872", "launch under way: " + code);
    }
    for (Ticket& t : tickets) {
      const std::string code = code_of([&] { t.wait(); });
      expect(code == "E0871", "not in time: '" + code + "'");
    }
    expect(calls == before + 1, fmt::format("{} calls", calls - before));
    expect(code_of([&] { e.launch(); }) == "E0872", "a launch while the function is stuck");
    const std::shared_ptr<Hold> held = std::exchange(hold, nullptr);
    held->let_go();
    expect(soon([&] { return code_of([&] { e.launch().wait(); }).empty(); }), "usable again");
    expect(e.run({{"x", x}}).at("y").bytes == y.bytes, "right again");
  }
  fmt::print("{}: deadline\n", ir::name_of(way));
}

/// Memory is freed and programs are built while a kernel waits for the host.
void check_beside(const Device& device) {
  const Store store(device);
  std::atomic<int> calls = 0;
  Executable e =
      make(chain(64, true, HostWay::handshake), store, {{"f", [&](Arguments a, Results r) {
                                                           ++calls;
                                                           std::this_thread::sleep_for(3ms);
                                                           echo(a, r);
                                                         }}});
  std::atomic<bool> stop = false;
  int launches = 0;
  std::jthread launcher([&] {
    for (; !stop; ++launches) expect(launch(e).empty(), "a launch beside builds");
  });
  for (int i = 0; i < 20; ++i, ++progress) {
    Executable other = make(chain(64 + i, true, HostWay::handshake), store, {{"f", echo}});
    const HostTensor x = random_tensor(other.type("x"), 5, "x");
    other.run({{"x", x}});
    const runtime::Current current(device.context());
    const auto memory = runtime::allocate(device.context(), 1 << 20, "test");
  }
  stop = true;
  launcher.join();
  expect(calls == launches, fmt::format("{} calls in {} launches", calls.load(), launches));
  fmt::print("builds and frees beside {} launches\n", launches);
}

/// Functions that use CUDA or the library.
void check_forbidden(const Device& device) {
  const Store store(device);
  std::function<void()> what;
  Executable e = make(chain(64, true, HostWay::handshake), store,
                      {{"f",
                        [&](Arguments a, Results r) {
                          what();
                          echo(a, r);
                        }}},
                      {100ms});
  what = [&] { e.launch().wait(); };
  expect(launch(e) == "E0870", "a function that launches");
  std::optional<Executable> other(make(chain(32, true, HostWay::handshake), store, {{"f", echo}}));
  other->launch();
  what = [&] { other.reset(); };
  expect(launch(e).empty(), "a function that lets go of an executable");
  if (!device.simulated()) {
    what = [&] {
      runtime::Driver& d = *device.context()->driver;
      d.cuCtxPushCurrent(device.context()->handle);
      CUdeviceptr p = 0;
      d.cuMemAlloc(&p, 1 << 20);
      d.cuMemFree(p);  // waits for the kernel that waits for us
      CUcontext popped = nullptr;
      d.cuCtxPopCurrent(&popped);
    };
    expect(launch(e) == "E0871", "a function that calls CUDA");
    what = [] {};
    expect(soon([&] { return launch(e).empty(); }), "usable after a function that called CUDA");
  }
  fmt::print("functions that may not\n");
}

/// Executables go away while functions do not return; the last one is left to the end of the
/// process.
void check_leave(const Device& device) {
  const auto hold = std::make_shared<Hold>();
  for (const HostWay way : {HostWay::handshake, HostWay::node}) {
    const Store store(device);
    const auto own = std::make_shared<Hold>();
    std::optional<Executable> e(make(chain(64, true, way), store,
                                     {{"f", [own](Arguments, Results) { own->wait(); }}},
                                     {device.simulated() ? 100ms : 20s}));
    std::jthread launcher([&] { e->launch(); });
    launcher.join();
    expect(soon([&] { return own->inside.load(); }), "the function begins");
    const auto start = std::chrono::steady_clock::now();
    e.reset();
    const std::chrono::duration<double> s = std::chrono::steady_clock::now() - start;
    expect(s.count() < 3, fmt::format("letting go took {:.1f} s", s.count()));
    own->let_go();
    fmt::print("{}: left after {:.2f} s\n", ir::name_of(way), s.count());
  }
  auto* const forever = new Executable(make(chain(64, true, HostWay::handshake), Store(device),
                                            {{"f", [hold](Arguments, Results) { hold->wait(); }}},
                                            {device.simulated() ? 100ms : 0ms}));
  forever->launch();
  expect(soon([&] { return hold->inside.load(); }), "the last function begins");
}

int run(const Settings& s) {
  const Device device = Device::open(s.device);
  watch();
  if (s.command == "trips") {
    trips(device, s.seconds);
  } else if (s.command == "stress") {
    stress(device, s.launches);
  } else {
    for (const HostWay way : {HostWay::handshake, HostWay::node}) check_deadline(device, way);
    check_beside(device);
    check_forbidden(device);
    check_leave(device);
  }
  fmt::print("{}\n", failures == 0 ? "all right" : fmt::format("{} wrong", failures.load()));
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings s;
  s.command = argc > 1 ? argv[1] : "";
  bool good = s.command == "trips" || s.command == "stress" || s.command == "checks";
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    good = good && !value.empty();
    if (flag == "--device") {
      s.device = value;
    } else if (flag == "--launches") {
      s.launches = std::atoi(value.c_str());
    } else if (flag == "--seconds") {
      s.seconds = std::atof(value.c_str());
    } else {
      good = false;
    }
  }
  if (!good) {
    fmt::print(
        "usage: braid_host_bench trips|stress|checks [--device sim|0] [--launches N] [--seconds "
        "S]\n");
    return 2;
  }
  try {
    return braid::run(s);
  } catch (const braid::NoDevice& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 77;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
