// What loops cost by each lowering, and what messages cost: needs a GPU.
// usage: braid_control_bench loops|prints
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "frontend/compile.hpp"
#include "runtime/measure.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

using ir::Lowering;
constexpr int64_t kIterations = 1000;

Executable make(const ir::Graph& g, const Store& store, const Options& o, MessageOptions m = {}) {
  Program p = compile(g, o);
  runtime::compile_modules(p, runtime::Cache::from_environment());
  return {std::move(p), store, {}, std::move(m)};
}

/// A chain of `kernels` products per iteration. With a condition the number of iterations is an
/// input.
ir::Graph chain(int kernels, bool condition) {
  Graph g("chain");
  const Tensor x = g.input("x", {f32, {1, 64}}), n = g.input("n", {i32, {}});
  const Tensor w = g.param("w", {f32, {64, 64}}, {.scale = 0.2});
  const auto body = [&](Tensor h) {
    for (int i = 0; i < kernels; ++i) h = tanh(matmul(h, w));
    return h;
  };
  if (!condition) {
    g.output("y", g.loop(kIterations, x, [&](Tensor, Tensor h) { return body(h); }));
    g.output("n_out", n + 0.0);
    return g.ir();
  }
  const std::vector<Tensor> out = g.while_(
      {x, n}, [](std::vector<Tensor> c) { return greater(c[1], 0); },
      [&](const std::vector<Tensor>& c) { return std::vector<Tensor>{body(c[0]), c[1] - 1.0}; });
  g.output("y", out[0]);
  g.output("n_out", out[1]);
  return g.ir();
}

struct Row {
  std::string name;
  double us = 0;  // an iteration
  size_t kernels = 0;
  double build_ms = 0;
};

Row time_one(const Device& device, const std::string& name, const ir::Graph& g, Options o) {
  const auto start = std::chrono::steady_clock::now();
  Store store(device);
  Executable e = make(g, store, o);
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  e.write("x", random_tensor(e.type("x"), 1, "x"));
  HostTensor n(e.type("n"));
  n.set(0, static_cast<double>(kIterations));
  e.write("n", n);
  e.launch().wait();
  const HostTensor y = e.read("y");
  const runtime::Timing t = runtime::measure(e, LaunchMode::graph, 0.25);
  size_t kernels = 0;
  for (const Body& body : e.program().bodies) kernels += body.nodes.size();
  if (y.at(0) != y.at(0)) fmt::print("{}: not a number\n", name);
  return {name, t.latency_us / static_cast<double>(kIterations), kernels, ms.count()};
}

void loops(const Device& device) {
  struct Way {
    const char* name;
    Lowering lowering;
    int unroll;
  };
  const Way counted[] = {{"unroll", Lowering::unroll, 0},    {"node U=1", Lowering::node, 1},
                         {"node U=4", Lowering::node, 4},    {"node U=16", Lowering::node, 16},
                         {"node U=64", Lowering::node, 64},  {"host", Lowering::host, 0},
                         {"default", Lowering::automatic, 0}};
  for (const bool condition : {false, true}) {
    for (int kernels : {1, 4, 16}) {
      std::vector<Row> rows;
      for (const Way& way : counted) {
        if (condition && way.lowering == Lowering::unroll) continue;
        Options o;
        o.target = device.target();
        o.loops = way.lowering;
        o.unroll = way.unroll;
        rows.push_back(time_one(device, way.name, chain(kernels, condition), o));
      }
      const double best =
          std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
            return a.us < b.us;
          })->us;
      fmt::print("{} of {} kernels, {} iterations\n", condition ? "while" : "loop", kernels,
                 kIterations);
      for (const Row& r : rows) {
        fmt::print(
            "  {:10}  {:7.2f} us an iteration  {:5.2f} of the best  {:6} nodes  {:8.1f} ms to "
            "build\n",
            r.name, r.us, r.us / best, r.kernels, r.build_ms);
      }
    }
  }
}

constexpr int64_t kPrints = 100'000;

ir::Graph printing(bool prints) {
  Graph g("printing");
  const Tensor x = g.input("x", {i32, {}});
  g.output("y", g.loop(kPrints, x, [&](Tensor, Tensor v) {
    const Tensor next = v + 1.0;
    if (prints) g.print(next, "v");
    return next;
  }));
  return g.ir();
}

/// Microseconds of one launch, waited for; checks every message.
double print_once(const Device& device, bool prints, int64_t start, std::string& wrong) {
  int64_t count = 0;
  uint64_t lost = 0;
  MessageOptions messages;
  messages.ring_bytes = uint64_t{16} << 20;
  int64_t launch = 0;
  messages.on_message = [&](const Message& m) {
    lost += m.dropped_before;
    const int64_t i = m.iterations.at(0);
    if (m.dropped_before == 0 && i != count) wrong = fmt::format("iteration {} for {}", i, count);
    if (m.value.int_at(0) != start + i + 1) wrong = fmt::format("{} at {}", m.value.int_at(0), i);
    if (static_cast<int64_t>(m.launch) != launch) wrong = fmt::format("launch {}", m.launch);
    count = i + 1;
  };
  Options o;
  o.target = device.target();
  Store store(device);
  Executable e = make(printing(prints), store, o, messages);
  HostTensor x(e.type("x"));
  x.set(0, static_cast<double>(start));
  e.write("x", x);
  std::vector<double> times;
  for (launch = 0; launch < 3; ++launch) {
    count = 0;
    const auto begin = std::chrono::steady_clock::now();
    e.launch().wait();
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begin;
    times.push_back(us.count());
    if (prints && count + static_cast<int64_t>(lost) < kPrints) {
      wrong = fmt::format("{} messages, {} lost", count, lost);
    }
  }
  if (lost != 0) wrong = fmt::format("{} messages lost", lost);
  if (e.read("y").int_at(0) != start + kPrints) wrong = "the loop's result";
  std::sort(times.begin(), times.end());
  return times[1];
}

int prints(const Device& device) {
  std::string wrong;
  const double without = print_once(device, false, 5, wrong);
  const double with = print_once(device, true, 5, wrong);
  fmt::print("{} iterations: {:.0f} us without prints, {:.0f} us with: {:.3f} us a print\n",
             kPrints, without, with, (with - without) / static_cast<double>(kPrints));
  std::string failures[2];
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        try {
          print_once(device, true, 1000 * (t + 1), failures[t]);
        } catch (const std::exception& e) {
          failures[t] = e.what();
        }
      });
    }
  }
  for (const std::string& f : {wrong, failures[0], failures[1]}) {
    if (!f.empty()) fmt::print("FAILED: {}\n", f);
  }
  const bool good = wrong.empty() && failures[0].empty() && failures[1].empty();
  fmt::print("two threads, two executables, 3 launches each: order and numbers are {}\n",
             good ? "right" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) try {
  const braid::Device device = braid::Device::open("0");
  if (argc > 1 && std::strcmp(argv[1], "prints") == 0) return braid::prints(device);
  braid::loops(device);
  return 0;
} catch (const std::exception& e) {
  fmt::print("{}\n", e.what());
  return 1;
}
