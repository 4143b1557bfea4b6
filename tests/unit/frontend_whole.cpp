// Random graphs of all op kinds and dtypes, the whole way: files, every switch, several launches
// with other inputs and scalars, by the simulator against the interpreter.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "random_graph.hpp"
#include "rounds.hpp"

using namespace braid;

namespace {

/// Integers exactly. The interpreter never rounds, kernels round what they store: floats closely,
/// or absolutely where differences cancel.
bool close(const HostTensor& got, const WideTensor& want) {
  if (!is_float(got.type.dtype)) return relative_error(got, want) == 0;
  const bool half = size_of(got.type.dtype) == 2;
  if (relative_error(got, want) < (half ? 0.05 : 0.01)) return true;
  for (int64_t i = 0; i < got.numel(); ++i) {
    if (!(std::fabs(got.at(i) - want.f[static_cast<size_t>(i)]) < 0.15)) return false;
  }
  return true;
}

Options random_options(std::mt19937_64& random) {
  Options o;
  o.verify = true;
  o.simplify = random() % 3 != 0;
  o.fuse = random() % 5 != 0;
  o.group = random() % 4 != 0;
  o.reuse = random() % 4 != 0;
  o.reduce = random() % 4 != 0;
  o.math = random() % 4 == 0 ? Math::tf32 : Math::strict;
  o.streams = 1 + static_cast<int>(random() % 4 == 0 ? random() % 32 : random() % 8);
  o.force_lanes = random() % 3 == 0;
  o.pdl = random() % 3 == 0;
  constexpr ir::HostWay kWays[] = {ir::HostWay::script, ir::HostWay::handshake,
                                   ir::HostWay::automatic, ir::HostWay::script,
                                   ir::HostWay::handshake};
  o.host = kWays[random() % 5];
  return o;
}

double random_scalar(DType t, std::mt19937_64& random) {
  if (is_float(t)) return static_cast<double>(random() % 41) / 4 - 5;
  return static_cast<double>(random() % (t == DType::b1 ? 2 : 8));
}

/// One graph, three launches.
struct Counts {
  size_t scalars = 0, nodes = 0, calls = 0, inside = 0, bodies = 0, users = 0;
};

/// The plan within a limit between its lower bound and what it would take by itself; the same plan
/// if none of that is possible.
Program limited(const ir::Graph& g, Options o, std::mt19937_64& random) {
  Program p = compile(ir::parse(ir::print(g), "g.bir"), o);
  if (random() % 3 != 0 || p.arena_bytes == 0) return p;
  const auto slack = static_cast<uint64_t>(p.arena_bytes - p.arena_lower_bound + 1);
  o.memory_limit = p.arena_lower_bound + static_cast<int64_t>(random() % slack);
  try {
    return compile(ir::parse(ir::print(g), "g.bir"), o);
  } catch (const Error& e) {
    CHECK(e.diagnostics().at(0).code == "E0706");
    return p;
  }
}

void run_random(uint64_t seed, test::RandomGraphOptions options, Counts& counts) {
  std::mt19937_64 random(seed);
  options.ops = 5 + static_cast<int>(random() % 50);
  options.max_extent = 2 + static_cast<int64_t>(random() % 12);
  options.max_numel = 1500;
  const ir::Graph g = test::random_graph(seed, options);
  const Options o = random_options(random);
  CAPTURE(seed);
  CAPTURE(to_string(o));
  const Program p = read_program(write_program(limited(g, o, random)));
  CHECK(to_json(p) == to_json(read_program(write_program(p))));
  for (const Body& b : p.bodies) counts.nodes += b.nodes.size();
  for (const Kernel& k : p.kernels) counts.users += k.code == Code::user;
  counts.calls += p.calls.size();
  counts.inside += p.exchanges.size();
  counts.bodies += p.bodies.size();
  std::vector<std::string> said, expected;
  Store store(Device::open("sim"));
  Executable run(p, store, test::host_functions_of(g, said));
  const HostFunctions functions = test::host_functions_of(g, expected);
  ir::TensorMap params, given;
  for (const ParamBinding& b : p.params) {
    const HostTensor value = random_tensor(p.buffers[b.buffer].type, seed, b.name);
    store.set(b.name, value);
    params[b.name] = widen(value);
  }
  for (uint64_t launch = 0; launch < 3; ++launch) {
    std::map<std::string, HostTensor> inputs;
    for (const Binding& b : p.inputs) {
      inputs[b.name] = random_tensor(run.type(b.name), seed + 1000 * launch, b.name);
      given[b.name] = widen(inputs[b.name]);
    }
    for (const ScalarBinding& b : p.scalars) {
      if (launch == 0 || random() % 2) continue;  // keeps what it has
      HostTensor value(run.type(b.name));
      value.set(0, random_scalar(value.type.dtype, random));
      run.set(b.name, value.at(0));
      given[b.name] = widen(value);
      ++counts.scalars;
    }
    run.poison();
    const auto got = run.run(inputs, random() % 3 ? LaunchMode::graph : LaunchMode::stream);
    for (const auto& [name, want] :
         ir::interpret(g, given, params, ir::Rounding::wide, functions)) {
      CAPTURE(name);
      CHECK(close(got.at(name), want));
    }
    for (auto& [name, want] : params) {
      CAPTURE(name);
      const HostTensor held = store.get(name);
      CHECK(close(held, want));
      want = widen(held);
    }
    CHECK(said == expected);
  }
}

}  // namespace

TEST_CASE("random graphs of everything run as the interpreter says") {
  Counts counts;
  for (int seed = 1; seed <= test::rounds(600); ++seed) {
    test::RandomGraphOptions options;
    if (seed % 3 == 0) options.compact = 6;
    run_random(static_cast<uint64_t>(seed), options, counts);
  }
  CHECK(counts.scalars > test::rounds(50));
  CHECK(counts.nodes > test::rounds(1000));
}

TEST_CASE("random graphs with host calls and ops outside graphs run as the interpreter says") {
  Counts counts;
  for (int round = 1; round <= test::rounds(330); ++round) {
    const auto seed = static_cast<uint64_t>(round);
    test::RandomGraphOptions options;
    options.host = seed % 4 == 0 ? 0 : 2 + seed % 16;
    options.outside = seed % 3 == 0 ? 0 : 1 + seed * 7 % 20;
    options.compact = seed % 2 == 0 ? 0 : 10;
    run_random(seed, options, counts);
  }
  CHECK(counts.calls > test::rounds(300));
  CHECK(counts.inside > test::rounds(300));
  CHECK(counts.bodies > test::rounds(500));
}

TEST_CASE("random graphs with kernels of the user's run as the interpreter says") {
  Counts counts;
  for (int round = 1; round <= test::rounds(300); ++round) {
    const auto seed = static_cast<uint64_t>(round);
    test::RandomGraphOptions options;
    options.code = 2 + seed % 12;
    options.library = false;
    options.host = seed % 3 == 0 ? 4 : 0;
    options.outside = seed % 4 == 0 ? 6 : 0;
    run_random(seed, options, counts);
  }
  CHECK(counts.users > test::rounds(300));
}
