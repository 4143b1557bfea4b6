// The op list, the examples and the runtime's promises on a device: the simulator or a GPU.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"
#include "message_runs.hpp"
#include "oplist.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

using Tensors = std::map<std::string, HostTensor>;

struct Counts {
  int passed = 0, failed = 0, skipped = 0;
};

struct Arguments {
  std::string device = "sim";
  std::string filter;
  std::string examples;  // folder
  uint64_t seed = 1;
};

class Suite {
 public:
  Suite(Device device, Arguments a) : device_(std::move(device)), args_(std::move(a)) {}

  Counts run() {
    for (const bool fuse : {true, false}) {
      std::vector<OpCase> cases = op_cases(args_.seed);
      std::erase_if(cases,
                    [&](const OpCase& c) { return c.name.find(args_.filter) == c.name.npos; });
      std::vector<Program> programs = compile_all(cases, fuse);
      for (size_t i = 0; i < cases.size(); ++i) {
        const std::string name = cases[i].name + (fuse ? "" : " (no fusion)");
        attempt(name, [&] { return compare(cases[i].graph, programs[i], cases[i].tolerance); });
        if ((i + 1) % 200 == 0) fmt::print(stderr, "{}/{} cases\n", i + 1, cases.size());
      }
    }
    if (!args_.examples.empty()) {
      for (const char* file : {"mlp.toml", "mlp_bf16.toml", "encoder.toml", "towers.toml",
                               "randwire.toml", "nasnet_cell.toml", "sparse_attention.toml"}) {
        attempt(file, [&, file] {
          const TomlModel model = load_toml(args_.examples + "/" + file);
          const bool half = std::string(file).find("bf16") != std::string::npos;
          return compare(model.graph->ir(), program_of(model.graph->ir()), half ? 1.6e-2 : 2e-5);
        });
      }
    }
    attempt("bind without copy", [&] { return bind_without_copy(); });
    attempt("two executables, one store", [&] { return shared_store(); });
    attempt("state over launches", [&] { return state_over_launches(); });
    attempt("two threads", [&] { return two_threads(); });
    for (const auto& [loop, branch] : kMessageLowerings) {
      attempt(fmt::format("messages: loop {}, branch {}", loop, branch), [&] {
        const ir::Graph graph = ir::parse(message_model(loop, branch));
        return wrong_messages(graph, program_of(graph), device_);
      });
    }
    return counts_;
  }

 private:
  void attempt(const std::string& name, const std::function<std::string()>& test) {
    if (name.find(args_.filter) == std::string::npos) return;
    std::string wrong;
    try {
      wrong = test();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    ++(wrong.empty() ? counts_.passed : counts_.failed);
    if (!wrong.empty()) fmt::print("FAILED {} (--seed {}): {}\n", name, args_.seed, wrong);
  }

  Program program_of(const ir::Graph& graph, bool fuse = true) const {
    Options o;
    o.target = device_.target();
    o.fuse = fuse;
    o.verify = true;
    Program p = compile(graph, o);
    if (!device_.simulated()) runtime::compile_modules(p, runtime::Cache::from_environment());
    return p;
  }

  std::vector<Program> compile_all(const std::vector<OpCase>& cases, bool fuse) {
    std::vector<Program> programs(cases.size());
    std::vector<std::string> errors(cases.size());
    std::atomic<size_t> next{0};
    const auto worker = [&] {
      for (size_t i = next++; i < cases.size(); i = next++) {
        try {
          programs[i] = program_of(cases[i].graph, fuse);
        } catch (const std::exception& e) {
          errors[i] = e.what();
        }
      }
    };
    {
      std::vector<std::jthread> pool;
      for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
        pool.emplace_back(worker);
      }
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      if (!errors[i].empty()) fmt::print("compile {}: {}\n", cases[i].name, errors[i]);
    }
    return programs;
  }

  static ir::TensorMap widen_all(const Tensors& tensors) {
    ir::TensorMap out;
    for (const auto& [name, t] : tensors) out[name] = widen(t);
    return out;
  }

  /// Graph mode, then stream mode, on fresh inputs each; state carries over between them.
  std::string compare(ir::Graph graph, const Program& program, double tolerance) {
    if (program.bodies.empty()) return "did not compile";
    graph.bind_dims({});
    Store store(device_);
    store.declare(program, args_.seed);
    Executable executable(program, store);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
      const uint64_t seed = args_.seed * 1000 + ++runs_;
      Tensors inputs;
      for (const Binding& b : program.inputs) {
        inputs[b.name] = random_tensor(program.buffers[b.buffer].type, seed, b.name);
      }
      Tensors before;
      for (const ParamBinding& b : program.params) before[b.name] = store.get(b.name);
      ir::TensorMap params = widen_all(before);
      const ir::TensorMap expected = ir::interpret(graph, widen_all(inputs), params);
      executable.poison();
      const Tensors got = executable.run(inputs, mode);
      const auto differs = [&](const std::string& name, const HostTensor& t,
                               const WideTensor& want) -> std::string {
        const double limit =
            is_float(t.type.dtype) ? std::max(tolerance, tolerance_of(t.type.dtype)) : 0;
        const double error = relative_error(t, want);
        if (error <= limit) return {};
        return fmt::format("{} '{}' {}: relative error {:.3g}, allowed {:.3g}",
                           mode == LaunchMode::graph ? "graph" : "stream", name, to_string(t.type),
                           error, limit);
      };
      for (const auto& [name, want] : expected) {
        if (const std::string wrong = differs(name, got.at(name), want); !wrong.empty())
          return wrong;
      }
      for (const auto& [name, want] : params) {
        if (const std::string wrong = differs(name, store.get(name), want); !wrong.empty())
          return wrong;
      }
    }
    return {};
  }

  std::string bind_without_copy() {
    Graph g("bound");
    g.output("y", g.input("x", {f32, {64, 33}}) * 3.0);
    Store store(device_);
    Executable first(program_of(g.ir()), store), second(program_of(g.ir()), store);
    const HostTensor x = random_tensor({f32, {Dim(64), Dim(33)}}, args_.seed, "x");
    // The second executable reads what the first one writes, where it stands.
    second.bind("x", first.address("y"), x.type.bytes());
    first.write("x", x);
    first.launch().wait();
    second.launch().wait();
    const HostTensor y = second.read("y");
    for (int64_t i = 0; i < y.numel(); ++i) {
      if (y.at(i) != static_cast<double>(static_cast<float>(x.at(i)) * 3.0f * 3.0f)) {
        const float once = static_cast<float>(x.at(i)) * 3.0f;
        if (y.at(i) != static_cast<double>(once * 3.0f))
          return fmt::format("element {} is {}", i, y.at(i));
      }
    }
    try {
      second.bind("x", first.address("y"), 4);
      return "a binding of the wrong size was accepted";
    } catch (const Error&) {
      return {};
    }
  }

  std::string shared_store() {
    Graph writer("writer"), reader("reader");
    const Tensor p = writer.param("p", {f32, {100}});
    writer.assign(p, writer.input("x", {f32, {100}}));
    writer.output("old", writer.read(p) * 1.0 + 0.0 * p);
    const Tensor q = reader.param("p", {f32, {100}});
    reader.output("y", q + 1.0);
    Store store(device_);
    Executable w(program_of(writer.ir()), store), r(program_of(reader.ir()), store);
    for (uint64_t step = 0; step < 5; ++step) {
      const HostTensor x = random_tensor({f32, {Dim(100)}}, step, "x");
      w.write("x", x);
      w.launch();
      r.launch().wait();
      const HostTensor y = r.read("y");
      for (int64_t i = 0; i < 100; ++i) {
        const float want = static_cast<float>(x.at(i)) + 1.0f;
        if (y.at(i) != static_cast<double>(want))
          return fmt::format("step {}: {} instead of {}", step, y.at(i), want);
      }
    }
    return {};
  }

  std::string state_over_launches() {
    Graph g("steps");
    const Tensor cache = g.param("cache", {i32, {8, 3}}, {.init = ir::Init::zeros});
    const Tensor at = g.param("at", {i32, {}}, {.init = ir::Init::zeros});
    g.update(cache, broadcast_to(at + 1.0, {1, 3}), {at, 0.0});
    g.assign(at, at + 1.0);
    g.output("sum", sum(cache, {.axes = {}}));
    Store store(device_);
    Executable e(program_of(g.ir()), store);
    int64_t expected = 0;
    for (int64_t step = 1; step <= 8; ++step) {
      e.launch().wait();
      expected += 3 * step;
      const HostTensor s = e.read("sum");
      if (s.int_at(0) != expected)
        return fmt::format("step {}: {} instead of {}", step, s.int_at(0), expected);
    }
    return {};
  }

  std::string two_threads() {
    std::vector<std::string> wrong(2);
    Store store(device_);
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
          try {
            Graph g(fmt::format("thread{}", t));
            g.output("y", g.input("x", {f32, {1000}}) + static_cast<double>(t));
            Executable e(program_of(g.ir()), store);
            for (uint64_t step = 0; step < 50; ++step) {
              const HostTensor x = random_tensor({f32, {Dim(1000)}}, step, "x");
              const HostTensor y = e.run({{"x", x}}).at("y");
              for (int64_t i = 0; i < 1000; ++i) {
                const float want = static_cast<float>(x.at(i)) + static_cast<float>(t);
                if (y.at(i) != static_cast<double>(want)) wrong[t] = fmt::format("step {}", step);
              }
            }
          } catch (const std::exception& e) {
            wrong[t] = e.what();
          }
        });
      }
    }
    return wrong[0] + wrong[1];
  }

  Device device_;
  Arguments args_;
  Counts counts_;
  uint64_t runs_ = 0;
};

int main_of(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--device") a.device = argv[i + 1];
    if (flag == "--filter") a.filter = argv[i + 1];
    if (flag == "--examples") a.examples = argv[i + 1];
    if (flag == "--seed") a.seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  std::optional<Device> device;
  try {
    device = Device::open(a.device);
  } catch (const NoDevice& e) {
    const char* required = std::getenv("BRAID_REQUIRE_GPU");
    const bool fail = required && std::strcmp(required, "1") == 0;
    fmt::print("{}\n0 passed, {} failed, {} skipped\n", e.what(), fail ? 1 : 0, fail ? 0 : 1);
    return fail ? 1 : 77;
  }
  const Counts c = Suite(*device, a).run();
  fmt::print("{} passed, {} failed, {} skipped\n", c.passed, c.failed, c.skipped);
  return c.failed ? 1 : 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::main_of(argc, argv); }
