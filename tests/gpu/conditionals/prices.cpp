// What control flow and messages cost, each price in a process of its own.
#include <cstdlib>

#include "lab.hpp"

namespace probe {
namespace {

using Nodes = std::vector<CUgraphNode>;
constexpr int kPad = 20;
constexpr int kFlag = 0, kLimit = 1, kCounter = 2, kSink = 8;

/// Runs one price; says when it has slowed the process, since its own numbers suffer too.
void in_process(const std::string& name, const std::function<void(const Gpu&)>& measure) {
  if (out_of_time()) return void(std::printf("%s: left out, no time\n", name.c_str()));
  const Outcome out = in_child([&] {
    const Gpu gpu(cubin());
    const CUgraphExec base = gpu.chain_executable(1000);
    gpu.time(base, 40, 1);
    const double before = base_price(gpu, base);
    std::printf("%s: ", name.c_str());
    measure(gpu);
    const double after = base_price(gpu, base);
    if (after > 1.1 * before) std::printf("  [slowed the process: %.3f to %.3f]", before, after);
    std::printf("\n");
    return Outcome{false, false};
  });
  if (out.failed) std::printf("%s: FAILED\n", name.c_str());
}

/// Adds something to a graph behind `after`, gives its ends.
using Unit = std::function<Nodes(const Gpu&, CUgraph, Nodes after)>;

/// Microseconds that `unit` adds between two chains of 20 empty kernels, graphs back to back.
double added(const Gpu& gpu, const Unit& unit, int launches = 30) {
  const CUgraphExec with = gpu.executable([&](CUgraph g) {
    gpu.chain(g, unit(gpu, g, gpu.chain(g, {}, kPad, "empty")), kPad, "empty");
  });
  return gpu.time(with, launches) - gpu.time(gpu.chain_executable(2 * kPad), launches);
}

struct Branch {
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  int bodies = 1, kernels = 1;
  Shape shape = {};
};

Nodes branch(const Gpu& gpu, CUgraph g, Nodes after, const Branch& b) {
  CUgraphConditionalHandle h = gpu.handle(g);
  CUdeviceptr flag = gpu.word(kFlag);
  after = {gpu.kernel(g, after, "set", {&h, &flag})};
  const Gpu::Conditional c = gpu.conditional(g, after, h, b.type, b.bodies);
  for (const CUgraph body : c.bodies) gpu.chain(body, {}, b.kernels, "empty", {}, b.shape);
  return {c.node};
}

void branch_price(const std::string& name, const Branch& b, int value) {
  in_process(name, [&](const Gpu& gpu) {
    gpu.write(kFlag, value);
    const double us =
        added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) { return branch(u, g, n, b); });
    const double plain = added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) {
      return u.chain(g, n, b.kernels, "empty", {}, b.shape);
    });
    std::printf("%.2f us (its %d kernels without a branch %.2f)", us, b.kernels, plain);
  });
}

void branches() {
  for (const int value : {0, 1})
    for (const int n : {1, 2, 4, 8, 16})
      branch_price("set + IF of " + std::to_string(n) + (value ? " taken" : " skipped"),
                   {CU_GRAPH_COND_TYPE_IF, 1, n}, value);
  branch_price("set + IF of 4 kernels of 132 x 256, taken",
               {CU_GRAPH_COND_TYPE_IF, 1, 4, {132, 256}}, 1);
  for (const int value : {0, 1})
    for (const int n : {1, 4})
      branch_price("set + IF/ELSE of " + std::to_string(n) + ", value " + std::to_string(value),
                   {CU_GRAPH_COND_TYPE_IF, 2, n}, value);
  for (const int value : {0, 3, 9})
    branch_price("set + SWITCH of 4 bodies of 1, value " + std::to_string(value),
                 {CU_GRAPH_COND_TYPE_SWITCH, 4, 1}, value);
  branch_price("set + SWITCH of 4 bodies of 4, value 2", {CU_GRAPH_COND_TYPE_SWITCH, 4, 4}, 2);
  for (const int value : {0, 1, 2})
    for (const int first : {0, 1})
      in_process("set + SWITCH of a first body of " + std::to_string(first) +
                     " and one of 4, value " + std::to_string(value),
                 [&](const Gpu& gpu) {
                   gpu.write(kFlag, value);
                   const double us = added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) {
                     CUgraphConditionalHandle h = u.handle(g);
                     CUdeviceptr flag = u.word(kFlag);
                     n = {u.kernel(g, n, "set", {&h, &flag})};
                     const auto c = u.conditional(g, n, h, CU_GRAPH_COND_TYPE_SWITCH, 2);
                     u.chain(c.bodies[0], {}, first, "empty");
                     u.chain(c.bodies[1], {}, 4, "empty");
                     return Nodes{c.node};
                   });
                   std::printf("%.2f us", us);
                 });

  // The setter: a kernel of its own, or the producer before.
  for (const int value : {0, 1})
    in_process(std::string("producer of 132 x 256 and IF of 1 ") + (value ? "taken" : "skipped"),
               [&](const Gpu& gpu) {
                 gpu.write(kFlag, value);
                 const auto price = [&](bool with_branch, bool folded) {
                   return added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) {
                     CUgraphConditionalHandle h = with_branch ? u.handle(g) : 0;
                     CUdeviceptr x = u.word(4096), flag = u.word(kFlag);
                     int sets = folded;
                     n = {u.kernel(g, n, "work", {&x, &h, &flag, &sets}, {132, 256})};
                     if (!with_branch) return n;
                     if (!folded) n = {u.kernel(g, n, "set", {&h, &flag})};
                     const auto c = u.conditional(g, n, h, CU_GRAPH_COND_TYPE_IF, 1);
                     u.chain(c.bodies[0], {}, 1, "empty");
                     return Nodes{c.node};
                   });
                 };
                 const double alone = price(false, false);
                 std::printf("setter apart +%.2f us, folded into the producer +%.2f us",
                             price(true, false) - alone, price(true, true) - alone);
               });

  // Several branches of one graph: in a row, then side by side.
  for (const bool parallel : {false, true})
    for (const int count : {2, 4, 8})
      for (const int value : {0, 1})
        in_process(std::to_string(count) + " IFs of 4 " + (parallel ? "side by side" : "in a row") +
                       (value ? ", taken" : ", skipped"),
                   [&](const Gpu& gpu) {
                     gpu.write(kFlag, value);
                     const double us = added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) {
                       const Branch b{CU_GRAPH_COND_TYPE_IF, 1, 4};
                       Nodes ends;
                       for (int i = 0; i < count; i++) {
                         const Nodes end = branch(u, g, n, b);
                         if (parallel)
                           ends.push_back(end[0]);
                         else
                           n = end;
                       }
                       return parallel ? Nodes{u.kernel(g, ends, "empty")} : n;
                     });
                     std::printf("%.2f us", us);
                   });
}

void predication() {
  for (const unsigned grid : {1u, 8u, 132u, 1056u})
    in_process(
        "kernel of " + std::to_string(grid) + " x 256, us each of 200 in a row",
        [&](const Gpu& gpu) {
          CUdeviceptr flag = gpu.word(kFlag), x = gpu.word(kSink);
          int want = 1;
          const std::vector<void*> arguments{&flag, &want, &x};
          const CUgraphExec plain = gpu.chain_executable(200, "empty", {}, {grid, 256});
          const CUgraphExec guarded = gpu.chain_executable(200, "guard", arguments, {grid, 256});
          const CUgraphExec plain_p = gpu.chain_executable(200, "pdl", {}, {grid, 256, true});
          const CUgraphExec guarded_p =
              gpu.chain_executable(200, "guard_pdl", arguments, {grid, 256, true});
          std::printf("empty %.3f, programmatic %.3f;", gpu.time(plain) / 200,
                      gpu.time(plain_p) / 200);
          for (const int value : {0, 1}) {
            gpu.write(kFlag, value);
            std::printf(" guarded and %s %.3f, programmatic %.3f%s", value ? "taken" : "left",
                        gpu.time(guarded) / 200, gpu.time(guarded_p) / 200, value ? "" : ";");
          }
        });
}

/// A loop: `copies` times a pass of `kernels` kernels, the last of which counts.
Nodes loop(const Gpu& gpu, CUgraph g, Nodes after, int kernels, int copies, bool programmatic,
           bool inner_if = false) {
  int yes = 1, no = 0, want = 1;
  CUdeviceptr counter = gpu.word(kCounter), limit = gpu.word(kLimit), x = gpu.word(kSink);
  CUgraphConditionalHandle h = gpu.handle(g);
  after = {gpu.kernel(g, after, "put", {&counter, &limit})};
  after = {gpu.kernel(g, after, "set", {&h, &counter})};
  const auto c = gpu.conditional(g, after, h, CU_GRAPH_COND_TYPE_WHILE, 1);
  const CUgraph body = c.bodies[0];
  Nodes n;
  for (int u = 0; u < copies; u++) {
    if (inner_if) n = branch(gpu, body, n, {CU_GRAPH_COND_TYPE_IF, 1, 1});
    for (int k = 0; k + 1 < kernels; k++)
      n = {programmatic ? gpu.kernel(body, n, "pdl", {}, {1, 32, !n.empty()})
           : copies > 1 ? gpu.kernel(body, n, "guard", {&counter, &want, &x})
                        : gpu.kernel(body, n, "empty")};
    n = {gpu.kernel(body, n, "step", {&h, &counter, u + 1 == copies ? &yes : &no})};
  }
  return {c.node};
}

void loops() {
  const auto price = [](const std::string& name, int kernels, int copies, bool pdl,
                        bool inner = false) {
    in_process(name, [=](const Gpu& gpu) {
      const double free = gpu.free_mib();
      const CUgraphExec e =
          gpu.executable([&](CUgraph g) { loop(gpu, g, {}, kernels, copies, pdl, inner); });
      gpu.write(kFlag, 1);
      const auto at = [&](int n) {
        gpu.write(kLimit, n);
        return gpu.time(e, 2, 5);
      };
      const int steps = kernels >= 64 ? 64 : 256;
      const double entry = at(copies), us = (at(2 * steps) - at(steps)) / steps;
      std::printf("%.3f us an iteration, one entry %.2f us, %.0f MiB", us, entry,
                  free - gpu.free_mib());
    });
  };
  for (const int k : {1, 4, 16, 64, 256})
    price("WHILE, body of " + std::to_string(k) + " kernels", k, 1, false);
  for (const int k : {4, 16, 64})
    price("WHILE, body of " + std::to_string(k) + ", programmatic edges", k, 1, true);
  for (const int k : {1, 4})
    for (const int u : {4, 16, 64})
      price("WHILE, " + std::to_string(u) + " guarded copies of " + std::to_string(k) + " kernels",
            k, u, false);
  price("WHILE with an IF of 1 taken in the body, 2 kernels beside", 2, 1, false, true);
  for (const int k : {1, 4, 16})
    in_process(
        "1000 copies of " + std::to_string(k) + " guarded kernels, no loop", [&](const Gpu& gpu) {
          CUdeviceptr flag = gpu.word(kFlag), x = gpu.word(kSink);
          int want = 1;
          const double free = gpu.free_mib();
          auto t = Clock::now();
          const CUgraph g = Gpu::graph();
          gpu.chain(g, {}, 1000 * k, "guard", {&flag, &want, &x});
          const double built = us_since(t);
          t = Clock::now();
          const CUgraphExec e = Gpu::instantiate(g);
          const double instantiated = us_since(t);
          t = Clock::now();
          CU(cuGraphUpload(e, gpu.stream()));
          gpu.sync();
          const double uploaded = us_since(t);
          const double used = free - gpu.free_mib();
          const double us = gpu.time(e, 2, 5) / 1000;
          std::printf(
              "%.3f us an iteration; build %.1f ms, instantiate %.1f ms, upload %.1f ms, %.0f MiB",
              us, built / 1000, instantiated / 1000, uploaded / 1000, used);
        });
  for (const int k : {1, 4, 16, 64})
    in_process("host loop over a graph of " + std::to_string(k), [&](const Gpu& gpu) {
      const CUgraphExec e = gpu.chain_executable(k);
      const double back = gpu.time(e, 200, 5);
      unsigned* flag = nullptr;
      CU(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4096, CU_MEMHOSTALLOC_DEVICEMAP));
      CUdeviceptr mapped, counter = gpu.word(kCounter);
      CU(cuMemHostGetDevicePointer(&mapped, flag, 0));
      const CUgraphExec bell = gpu.executable([&](CUgraph g) {
        gpu.kernel(g, gpu.chain(g, {}, k - 1, "empty"), "ring_bell", {&mapped, &counter});
      });
      std::vector<double> polled;
      for (int i = 0; i < 300; i++) {
        const unsigned was = *static_cast<volatile unsigned*>(flag);
        const auto t = Clock::now();
        gpu.launch(bell);
        while (*static_cast<volatile unsigned*>(flag) == was)
          if (us_since(t) > 1e6) check(CUDA_ERROR_TIMEOUT, "the word never came", __LINE__);
        polled.push_back(us_since(t));
      }
      gpu.sync();
      std::printf(
          "back to back %.2f us, launch + synchronise %.2f us (with the word %.2f), launch + poll "
          "a mapped word %.2f us",
          back, gpu.launch_and_sync(e), gpu.launch_and_sync(bell), median(polled));
    });
}

void messages() {
  in_process(
      "a kernel that writes a record of 64 bytes, us each of 1000 in a row", [](const Gpu& gpu) {
        unsigned char* ring = nullptr;
        CU(cuMemHostAlloc(reinterpret_cast<void**>(&ring), 1 << 16, CU_MEMHOSTALLOC_DEVICEMAP));
        CUdeviceptr mapped, in_device, head = gpu.word(kCounter);
        CU(cuMemHostGetDevicePointer(&mapped, ring, 0));
        CU(cuMemAlloc(&in_device, 1 << 16));
        struct Case {
          const char* name;
          int mode;
          CUdeviceptr where;
        };
        for (const Shape shape : {Shape{1, 32}, Shape{132, 256}})
          for (const Case& c :
               {Case{"none", 0, mapped}, Case{"device memory, record", 1, in_device},
                Case{"device memory, record + fence + number", 3, in_device},
                Case{"mapped, record", 1, mapped}, Case{"mapped, record + number", 2, mapped},
                Case{"mapped, record + __threadfence + number", 3, mapped},
                Case{"mapped, record + __threadfence_system + number", 4, mapped},
                Case{"mapped, record + __threadfence_system", 5, mapped},
                Case{"mapped, atomic place, record + system fence + number", 6, mapped},
                Case{"mapped, four threads, system fence, number", 7, mapped}}) {
            int mode = c.mode;
            CUdeviceptr where = c.where;
            const CUgraphExec e =
                gpu.chain_executable(1000, "message", {&mode, &where, &head}, shape);
            std::printf("\n    grid %u: %s %.3f", shape.grid, c.name, gpu.time(e, 2, 5) / 1000);
          }
      });
}

/// A loop that runs `iterations` times, as a part of a graph.
void loop_entries() {
  for (const int kernels : {1, 4, 16})
    for (const int iterations : {0, 1, 2, 10})
      in_process("put + set + WHILE of " + std::to_string(kernels) + ", " +
                     std::to_string(iterations) + " iterations",
                 [&](const Gpu& gpu) {
                   gpu.write(kLimit, iterations);
                   std::printf("%.2f us", added(gpu, [&](const Gpu& u, CUgraph g, Nodes n) {
                                 return loop(u, g, n, kernels, 1, false);
                               }));
                 });
}

void waits() {
  for (const int n : {1, 100})
    in_process("a graph of " + std::to_string(n) + ", launch and wait", [&](const Gpu& gpu) {
      const CUgraphExec e = gpu.chain_executable(n);
      CUevent done;
      CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
      std::vector<double> by_event, by_query;
      for (int i = 0; i < 300; i++) {
        auto t = Clock::now();
        gpu.launch(e);
        CU(cuEventRecord(done, gpu.stream()));
        while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) {
        }
        by_event.push_back(us_since(t));
        t = Clock::now();
        gpu.launch(e);
        while (cuStreamQuery(gpu.stream()) == CUDA_ERROR_NOT_READY) {
        }
        by_query.push_back(us_since(t));
      }
      std::printf("cuStreamSynchronize %.2f us, cuStreamQuery %.2f us, cuEventQuery %.2f us",
                  gpu.launch_and_sync(e), median(by_query), median(by_event));
    });
}

/// What the CPU pays: `conditionals` nodes of `bodies` bodies with `kernels` each, or the same
/// kernels plain.
void cpu_price(const std::string& name, CUgraphConditionalNodeType type, int conditionals,
               int bodies, int kernels) {
  in_process(name, [&](const Gpu& gpu) {
    const auto build = [&](CUgraph g, bool plain, int count) {
      Nodes n = gpu.chain(g, {}, 4, "empty");
      for (int i = 0; i < count; i++)
        n = plain ? gpu.chain(g, n, 1 + bodies * kernels, "empty")
                  : branch(gpu, g, n, {type, bodies, kernels});
    };
    const auto tell = [&](const char* what, bool plain, int count) {
      const CUgraph g = Gpu::graph();
      auto t = Clock::now();
      build(g, plain, count);
      const double built = us_since(t), free = gpu.free_mib();
      t = Clock::now();
      const CUgraphExec e = Gpu::instantiate(g);
      const double instantiated = us_since(t);
      t = Clock::now();
      gpu.launch(e);
      const double first = us_since(t);
      gpu.sync();
      const double first_done = us_since(t);
      std::vector<double> calls;
      for (int i = 0; i < 200; i++) {
        t = Clock::now();
        gpu.launch(e);
        calls.push_back(us_since(t));
        gpu.sync();
      }
      std::printf(
          "\n    %s: build %.0f us, instantiate %.0f us, first launch %.0f us (done %.0f), launch "
          "%.2f us, launch + sync %.2f us, %.0f MiB",
          what, built, instantiated, first, first_done, median(calls), gpu.launch_and_sync(e),
          free - gpu.free_mib());
    };
    gpu.write(kFlag, 0);
    tell("plain, first of the process", true, 1);
    tell("plain", true, conditionals);
    tell("conditional, first of the process", false, 1);
    tell("conditional", false, conditionals);
  });
}

}  // namespace

void price_tables() {
  branches();
  predication();
  loops();
  loop_entries();
  messages();
  waits();
  cpu_price("CPU: 1 IF of 1", CU_GRAPH_COND_TYPE_IF, 1, 1, 1);
  cpu_price("CPU: 2 IF of 1", CU_GRAPH_COND_TYPE_IF, 2, 1, 1);
  cpu_price("CPU: 16 IF of 1", CU_GRAPH_COND_TYPE_IF, 16, 1, 1);
  cpu_price("CPU: 1 IF of 16", CU_GRAPH_COND_TYPE_IF, 1, 1, 16);
  cpu_price("CPU: 4 IF of 1", CU_GRAPH_COND_TYPE_IF, 4, 1, 1);
  cpu_price("CPU: 8 IF of 4", CU_GRAPH_COND_TYPE_IF, 8, 1, 4);
  cpu_price("CPU: 4 SWITCH of 3 bodies of 1", CU_GRAPH_COND_TYPE_SWITCH, 4, 3, 1);
  cpu_price("CPU: 1 SWITCH of 8 bodies of 1", CU_GRAPH_COND_TYPE_SWITCH, 1, 8, 1);
}

}  // namespace probe
