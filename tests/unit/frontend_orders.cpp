// The golden graphs in many orders: the simulator runs each of them in orders that its edges allow,
// on few and on many streams, and every order has to give the reference's numbers and the same
// bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "runtime/device.hpp"
#include "runtime/simulator.hpp"

namespace braid {
namespace {

using Values = std::map<std::string, HostTensor>;

constexpr int kInputs = 5;   // fresh random inputs and params
constexpr int kOrders = 20;  // launches for each of them: 100 orders in all

/// What the golden graphs call.
HostFunctions functions() {
  const auto twice = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    for (int64_t e = 0; e < out[0].type.shape.numel(); ++e) out[0].set(e, 2 * in[0].at(e));
  };
  const auto lookup = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    const int64_t n = out[0].type.shape.numel();
    for (int64_t e = 0; e < n; ++e) out[0].set(e, in[0].at(n - 1 - e) + 0.25);
  };
  const auto log = [](std::span<const HostTensor>, std::span<HostTensor>) {};
  return {{"double", twice}, {"lookup", lookup}, {"log", log}};
}

ir::Graph golden(const std::string& name) {
  const std::string path = fmt::format(BRAID_SOURCE_DIR "/tests/golden/{}.bir", name);
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ir::Graph graph = ir::parse(text, name + ".bir");
  graph.bind_dims({});
  return graph;
}

/// Of all inputs and params, and what the reference makes of them.
struct Case {
  Values inputs, params;
  ir::TensorMap expected;      // outputs
  ir::TensorMap last_params;   // after the launch
  std::optional<Values> bits;  // of the first launch: outputs and params
};

Case make_case(const ir::Graph& graph, const Program& p, uint64_t seed) {
  Case c;
  ir::TensorMap inputs;
  for (const Binding& b : p.inputs) {
    c.inputs[b.name] = random_tensor(p.buffers[b.buffer].type, seed, b.name, 1.0, 0, 32);
    inputs[b.name] = widen(c.inputs[b.name]);
  }
  for (const ParamBinding& b : p.params) {
    c.params[b.name] = random_tensor(p.buffers[b.buffer].type, seed, b.name, 1.0, 0, 32);
    c.last_params[b.name] = widen(c.params[b.name]);
  }
  c.expected = ir::interpret(graph, inputs, c.last_params, ir::Rounding::wide, functions());
  for (const auto& [name, value] : c.expected) {
    CHECK(std::any_of(value.f.begin(), value.f.end(), [](double x) { return x != 0; }));
  }
  return c;
}

/// 100 launches of the graph compiled so, with its store as the cases say before each.
void run_orders(const ir::Graph& graph, const Options& options, std::vector<Case>& cases) {
  const auto simulator = runtime::make_simulator({.seed = 17, .report_races = true});
  Store store(Device::on(simulator));
  Executable executable(compile(ir::Graph(graph), options), store, functions());
  const Program& p = executable.program();
  for (Case& c : cases) {
    for (int order = 0; order < kOrders; ++order) {
      CAPTURE(order);
      for (const auto& [name, value] : c.params) store.set(name, value);
      executable.poison();
      Values got = executable.run(c.inputs);
      for (const ParamBinding& b : p.params) got["param " + b.name] = store.get(b.name);
      if (!c.bits) {
        for (const auto& [name, value] : c.expected)
          CHECK(relative_error(got.at(name), value) < 1e-5);
        for (const auto& [name, value] : c.last_params) {
          CHECK(relative_error(got.at("param " + name), value) < 1e-5);
        }
        c.bits = got;
      }
      for (const auto& [name, value] : *c.bits) {
        CAPTURE(name);
        if (got.at(name).bytes != value.bytes) FAIL("another order gave other bits");
      }
    }
  }
  CHECK(simulator->take_reports().empty());
}

}  // namespace

TEST_CASE("golden graphs: 100 orders on 1, 8 and 32 streams, grouped or not, give the same bits") {
  uint64_t seed = 40;
  for (const char* name :
       {"four_towers", "host_chain", "qkv", "randwire", "inception", "nasnet", "two_graphs",
        "three_graphs", "tie", "ordered_calls", "swap", "cache", "branches"}) {
    CAPTURE(name);
    const ir::Graph graph = golden(name);
    std::vector<Case> cases;
    const Program any = compile(ir::Graph(graph));
    for (int i = 0; i < kInputs; ++i) cases.push_back(make_case(graph, any, ++seed));
    for (const int streams : {1, 8, 32}) {
      for (const bool group : {false, true}) {
        CAPTURE(streams);
        CAPTURE(group);
        Options options;
        options.streams = streams;
        options.group = group;
        options.force_lanes = true;
        run_orders(graph, options, cases);
      }
    }
  }
}

TEST_CASE("golden graphs: without any one of its edges a plan is a race") {
  for (const char* name : {"four_towers", "qkv", "inception", "nasnet", "three_graphs", "swap"}) {
    CAPTURE(name);
    Options options;
    options.force_lanes = true;
    const Program whole = compile(golden(name), options);
    for (size_t body = 0; body < whole.bodies.size(); ++body) {
      for (size_t edge = 0; edge < whole.bodies[body].edges.size(); ++edge) {
        CAPTURE(edge);
        const EdgeReason reason = whole.bodies[body].edges[edge].reason;
        if (reason == EdgeReason::lane) continue;  // orders a stream, perhaps no bytes
        Program p = whole;
        auto& edges = p.bodies[body].edges;
        edges.erase(edges.begin() + static_cast<ptrdiff_t>(edge));
        const auto simulator = runtime::make_simulator();
        Executable executable(p, Store(Device::on(simulator)), functions());
        Values inputs;
        for (const Binding& b : p.inputs) {
          inputs[b.name] = random_tensor(p.buffers[b.buffer].type, 3, b.name);
        }
        CHECK_THROWS_AS(executable.run(inputs), CudaError);
        CHECK_FALSE(simulator->take_reports().empty());
      }
    }
  }
}

}  // namespace braid
