// Random programs with nested control flow on a device, by every lowering, against the interpreter:
// outputs, params and messages.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "runtime/nvrtc.hpp"
#include "unit/random_control.hpp"

namespace braid {
namespace {

using ir::Lowering;
using Tensors = std::map<std::string, HostTensor>;

struct Arguments {
  std::string device = "sim";
  uint64_t seed = 1;
  int programs = 40;
  int only = -1;      // of the lowerings
  bool all = false;   // every program by every lowering; else each by one of them
  bool wild = false;  // larger programs of all kinds, with host calls and other settings
};

struct Way {
  Lowering branches, loops;
  int unroll = 0;
};
constexpr Way kWays[] = {
    {Lowering::automatic, Lowering::automatic}, {Lowering::select, Lowering::unroll},
    {Lowering::predicate, Lowering::unroll},    {Lowering::node, Lowering::node, 1},
    {Lowering::node, Lowering::node, 3},        {Lowering::host, Lowering::host},
    {Lowering::predicate, Lowering::node},      {Lowering::node, Lowering::host},
    {Lowering::host, Lowering::node},
};

std::string text_of(const Way& w) {
  return fmt::format("--branches={} --loops={} --unroll={}", ir::name_of(w.branches),
                     ir::name_of(w.loops), w.unroll);
}

struct Case {
  uint64_t seed = 0;
  Way way{};
  ir::Graph graph{};
  std::optional<Program> program{};
  std::string error{};
};

ir::TensorMap widen_all(const Tensors& tensors) {
  ir::TensorMap out;
  for (const auto& [name, t] : tensors) out[name] = widen(t);
  return out;
}

std::string differs(const std::string& what, const HostTensor& got, const WideTensor& want) {
  const double limit = is_float(got.type.dtype) ? 1e-4 : 0;
  const double error = relative_error(got, want);
  if (error <= limit) return {};
  return fmt::format("{} {}: relative error {:.3g}", what, to_string(got.type), error);
}

class Suite {
 public:
  Suite(Device device, const Arguments& a) : device_(std::move(device)), args_(a) {}

  /// The number of failures.
  int run() {
    std::vector<Case> cases;
    for (int i = 0; i < args_.programs; ++i) {
      const uint64_t seed = args_.seed * 100000 + static_cast<uint64_t>(i);
      for (size_t w = 0; w < std::size(kWays); ++w) {
        const bool mine = args_.all || w == static_cast<size_t>(i) % std::size(kWays);
        if (args_.only >= 0 ? w == static_cast<size_t>(args_.only) : mine) {
          cases.push_back({.seed = seed, .way = kWays[w]});
        }
      }
    }
    compile_all(cases);
    int failed = 0;
    for (Case& c : cases) {
      std::string wrong = c.error;
      try {
        if (wrong.empty()) wrong = check(c);
      } catch (const std::exception& e) {
        wrong = e.what();
      }
      if (!wrong.empty() && ++failed <= 20) {
        fmt::print("FAILED program {} {}: {}\n", c.seed, text_of(c.way), wrong);
      }
      c.program.reset();
    }
    fmt::print("{} passed, {} failed, {} launches\n", cases.size() - static_cast<size_t>(failed),
               failed, launches_);
    return failed;
  }

 private:
  void compile_all(std::vector<Case>& cases) const {
    std::atomic<size_t> next{0};
    const auto worker = [&] {
      for (size_t i = next++; i < cases.size(); i = next++) {
        try {
          compile_one(cases[i]);
        } catch (const std::exception& e) {
          cases[i].error = fmt::format("compile: {}", e.what());
        }
      }
    };
    std::vector<std::jthread> pool;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
      pool.emplace_back(worker);
    }
  }

  void compile_one(Case& c) const {
    Options o;
    test::RandomControlOptions r;
    if (args_.wild) {
      r.ops = 6 + static_cast<int>(c.seed % 7) * 4;
      r.depth = 1 + static_cast<int>(c.seed / 3 % 3);
      r.lowerings = c.seed % 4 == 1;
      r.symbolic = c.seed % 5 == 2;
      r.sends = c.seed % 11 != 3;
      r.hosts = c.seed % 2 == 0 ? 0 : 6;
      r.outside = c.seed % 6 < 4 ? 0 : 12;
      o.group = c.seed % 13 != 0;
      o.reuse = c.seed % 9 != 4;
      o.reduce = c.seed % 8 != 4;
      o.simplify = c.seed % 10 != 7;
      o.force_lanes = c.seed % 7 < 3;
      o.math = c.seed % 5 == 0 ? Math::tf32 : Math::strict;
      o.unroll_limit = c.seed % 6 == 0 ? 3 : 4096;
    }
    c.graph = test::random_control(c.seed, r);
    o.target = device_.target();
    o.branches = c.way.branches;
    o.loops = c.way.loops;
    o.unroll = c.way.unroll;
    o.verify = true;
    o.fuse = c.seed % 3 != 0;
    o.streams = 1 + static_cast<int>(c.seed % (args_.wild ? 8 : 4));
    Program p = compile(c.graph, o);
    if (!device_.simulated()) runtime::compile_modules(p, runtime::Cache::from_environment());
    c.program = std::move(p);
  }

  std::string check(Case& c) {
    c.graph.bind_dims({});
    Store store(device_);
    std::mutex mutex;
    std::vector<Message> got;
    MessageOptions messages;
    messages.on_message = [&](const Message& m) {
      const std::lock_guard lock(mutex);
      got.push_back(m);
    };
    std::vector<std::string> said, wanted;
    const HostFunctions reference = test::control_functions(c.graph, wanted);
    Executable e(*c.program, store, test::control_functions(c.graph, said), messages);
    for (uint64_t launch = 0; launch < 2; ++launch) {
      Tensors inputs, before;
      for (const Binding& b : c.program->inputs) {
        inputs[b.name] = random_tensor(c.program->buffers[b.buffer].type, c.seed + launch, b.name);
      }
      for (const ParamBinding& b : c.program->params) before[b.name] = store.get(b.name);
      ir::TensorMap params = widen_all(before);
      ir::Observed observed;
      const ir::TensorMap outputs = ir::interpret(c.graph, widen_all(inputs), params,
                                                  ir::Rounding::wide, reference, &observed);
      e.poison();
      for (const auto& [name, t] : inputs) e.write(name, t);
      bool check_failed = false;
      try {
        e.launch().wait();
      } catch (const Error& error) {
        if (error.diagnostics().front().code != "E0860") throw;
        check_failed = true;
      }
      ++launches_;
      for (const auto& [name, want] : outputs) {
        std::string wrong = differs("output " + name, e.read(name), want);
        if (!wrong.empty()) return wrong;
      }
      for (const auto& [name, want] : params) {
        std::string wrong = differs("param " + name, store.get(name), want);
        if (!wrong.empty()) return wrong;
      }
      if (said != wanted) {
        return fmt::format("calls of the host are\n  {}\nand should be\n  {}",
                           fmt::join(said, "\n  "), fmt::join(wanted, "\n  "));
      }
      const std::lock_guard lock(mutex);
      std::string wrong = compare(got, observed.messages, launch, check_failed);
      if (!wrong.empty()) return wrong;
      got.clear();
    }
    return {};
  }

  static std::string compare(const std::vector<Message>& got, const std::vector<ir::Message>& want,
                             uint64_t launch, bool check_failed) {
    bool checks = false;
    for (size_t i = 0; i < got.size() && i < want.size(); ++i) {
      const ir::Message& w = want[i];
      checks = checks || w.kind == ir::MessageKind::check;
      if (got[i].kind != w.kind || got[i].text != w.text || got[i].iterations != w.iterations ||
          got[i].launch != launch) {
        return fmt::format("message {} is {}, not {} '{}'", i, to_string(got[i]),
                           ir::name_of(w.kind), w.text);
      }
      std::string wrong = differs(fmt::format("message {}", i), got[i].value, w.value);
      if (!wrong.empty()) return wrong;
    }
    if (got.size() != want.size()) {
      return fmt::format("{} messages instead of {}", got.size(), want.size());
    }
    if (checks != check_failed) return "the ticket does not tell of the checks";
    return {};
  }

  Device device_;
  const Arguments& args_;
  int launches_ = 0;
};

int main_of(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--all" || flag == "--wild") {
      (flag == "--all" ? a.all : a.wild) = true;
      --i;
      continue;
    }
    if (i + 1 == argc) break;
    if (flag == "--device") a.device = argv[i + 1];
    if (flag == "--seed") a.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--programs") a.programs = std::atoi(argv[i + 1]);
    if (flag == "--only") a.only = std::atoi(argv[i + 1]);
  }
  std::optional<Device> device;
  try {
    device = Device::open(a.device);
  } catch (const NoDevice& e) {
    const char* required = std::getenv("BRAID_REQUIRE_GPU");
    const bool fail = required && std::strcmp(required, "1") == 0;
    fmt::print("{}\n0 passed, {} failed, 0 launches\n", e.what(), fail ? 1 : 0);
    return fail ? 1 : 77;
  }
  return Suite(*device, a).run() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::main_of(argc, argv); }
