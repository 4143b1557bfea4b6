// Programmatic edges change when kernels start and nothing else: every model, planned with them and
// without, must give the same bits for the same inputs, launch after launch, from poisoned memory.
//   braid_early_tests [--device D] [--launches N] [--seed N] MODEL.toml ..
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "frontend/toml.hpp"
#include "ir/region.hpp"
#include "runtime/nvrtc.hpp"

namespace braid {
namespace {

using Tensors = std::map<std::string, HostTensor>;

struct Arguments {
  std::string device = "sim";
  uint64_t seed = 1;
  int launches = 6;
  std::vector<std::string> models;
};

/// What a launch leaves: outputs, and the params that it wrote; or the check that failed.
struct Left {
  Tensors outputs, state;
  std::string failed;
};

/// Functions that models name, which copy what they are given as far as it fits: what they return
/// has to be the same twice, and no more.
HostFunctions any_functions(const ir::Graph& graph) {
  HostFunctions functions;
  const HostFunction copy = [](std::span<const HostTensor> args, std::span<HostTensor> results) {
    for (size_t r = 0; r < results.size() && !args.empty(); ++r) {
      const HostTensor& from = args[r % args.size()];
      for (int64_t i = 0; i < std::min(from.numel(), results[r].numel()); ++i) {
        results[r].set(i, from.at(i));
      }
    }
  };
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    for (const ir::Op& op : g.ops()) {
      const auto add = [&](ir::StrId name) { functions[std::string(g.strings[name])] = copy; };
      if (const auto* host = std::get_if<ir::HostAttr>(&op.attrs)) add(host->function);
      if (const auto* kernel = std::get_if<ir::KernelAttr>(&op.attrs)) add(kernel->reference);
      if (const auto* library = std::get_if<ir::LibraryAttr>(&op.attrs)) add(library->reference);
    }
  });
  return functions;
}

class Check {
 public:
  Check(const Device& device, const Arguments& args) : device_(device), args_(args) {}

  /// What is wrong with a model; empty if nothing is.
  std::string model(const std::string& file) {
    const TomlModel model = load_toml(file);
    Store store(device_);
    const std::vector<Left> early = run(model.graph->ir(), true, store);
    programmatic_ = edges_;
    const std::vector<Left> full = run(model.graph->ir(), false, store);
    if (edges_ != 0) return "--no-pdl leaves programmatic edges";
    for (size_t i = 0; i < full.size(); ++i) {
      if (full[i].failed != early[i].failed) {
        return fmt::format("launch {}: '{}' instead of '{}'", i, early[i].failed, full[i].failed);
      }
      for (const bool state : {false, true}) {
        for (const auto& [name, want] : state ? full[i].state : full[i].outputs) {
          const HostTensor& got = (state ? early[i].state : early[i].outputs).at(name);
          const auto at = std::mismatch(want.bytes.begin(), want.bytes.end(), got.bytes.begin());
          if (at.first == want.bytes.end()) continue;
          return fmt::format("launch {}, {} '{}' {}: other bits from byte {} on", i,
                             state ? "param" : "output", name, to_string(want.type),
                             at.first - want.bytes.begin());
        }
      }
    }
    return {};
  }
  int programmatic() const { return programmatic_; }

 private:
  std::vector<Left> run(const ir::Graph& graph, bool pdl, const Store& store) {
    Options o;
    o.target = device_.target();
    o.pdl = pdl;
    o.verify = true;
    const HostFunctions functions = any_functions(graph);
    Program p = compile(graph, o);
    if (!device_.simulated()) runtime::compile_modules(p, runtime::Cache::from_environment());
    edges_ = 0;
    for (const Body& body : p.bodies) {
      for (const Edge& e : body.edges) edges_ += e.kind == EdgeKind::programmatic ? 1 : 0;
    }
    Executable e(std::move(p), store, functions, {.on_message = [](const Message&) {}});
    reset(e.program(), store);
    std::vector<Left> all;
    for (int i = 0; i < args_.launches; ++i) {
      const uint64_t seed = args_.seed * 1000 + static_cast<uint64_t>(i);
      Tensors inputs;
      for (const Binding& b : e.program().inputs) {
        inputs[b.name] = random_tensor(e.program().buffers[b.buffer].type, seed, b.name);
      }
      for (const ScalarBinding& s : e.program().scalars) {
        if (is_int(e.program().buffers[s.buffer].type.dtype)) e.set(s.name, i);
      }
      e.poison();
      Left left;
      try {
        left.outputs = e.run(inputs);
      } catch (const Error& error) {
        if (error.diagnostics().at(0).code != "E0860") throw;
        left.failed = render(error.diagnostics());
      }
      for (const ParamBinding& b : e.program().params) {
        if (b.written) left.state[b.name] = store.get(b.name);
      }
      all.push_back(std::move(left));
    }
    return all;
  }

  /// Both plans begin from the same state.
  void reset(const Program& p, Store store) const {
    for (const ParamBinding& b : p.params) {
      if (!b.written) continue;
      store.set(b.name, random_tensor(p.buffers[b.buffer].type, args_.seed, b.name));
    }
  }

  const Device& device_;
  const Arguments& args_;
  int edges_ = 0, programmatic_ = 0;
};

int main_of(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--device" && more) {
      a.device = argv[++i];
    } else if (word == "--seed" && more) {
      a.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--launches" && more) {
      a.launches = std::atoi(argv[++i]);
    } else {
      a.models.push_back(word);
    }
  }
  std::optional<Device> device;
  try {
    device = Device::open(a.device);
  } catch (const NoDevice& e) {
    const char* required = std::getenv("BRAID_REQUIRE_GPU");
    const bool fail = required && std::strcmp(required, "1") == 0;
    fmt::print("{}\n0 passed, {} failed\n", e.what(), fail ? 1 : 0);
    return fail ? 1 : 77;
  }
  int passed = 0, failed = 0, edges = 0;
  for (const std::string& file : a.models) {
    Check check(*device, a);
    std::string wrong;
    try {
      wrong = check.model(file);
    } catch (const Error& e) {
      wrong = render(e.diagnostics());
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    ++(wrong.empty() ? passed : failed);
    edges += check.programmatic();
    if (!wrong.empty()) fmt::print("FAILED {} (--seed {}): {}\n", file, a.seed, wrong);
  }
  if (edges == 0 && has_programmatic_edges(device->target())) {
    fmt::print("FAILED: no model has a programmatic edge, so nothing was compared\n");
    ++failed;
  }
  fmt::print("{} passed, {} failed; {} programmatic edges\n", passed, failed, edges);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::main_of(argc, argv); }
