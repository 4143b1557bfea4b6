// Models of many like branches: grouped launches compute the bits that single ones do.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "frontend/compile.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "random_graph.hpp"
#include "rounds.hpp"

using namespace braid;

namespace {

using Bits = std::map<std::string, std::vector<std::byte>>;

Program plan(const ir::Graph& g, bool group, bool fuse) {
  Options o;
  o.verify = true;
  o.group = group;
  o.chain = false;
  o.fuse = fuse;
  return compile(ir::parse(ir::print(g), "g.bir"), o);
}

/// Outputs and params after two launches, the second one kernel by kernel.
Bits run(const Program& p, uint64_t seed) {
  Store store(Device::open("sim"));
  Executable e(read_program(write_program(p)), store);
  for (const ParamBinding& b : p.params) {
    store.set(b.name, random_tensor(p.buffers[b.buffer].type, seed, b.name));
  }
  Bits bits;
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
    std::map<std::string, HostTensor> inputs;
    for (const Binding& b : p.inputs)
      inputs[b.name] = random_tensor(e.type(b.name), ++seed, b.name);
    e.poison();
    for (const auto& [name, t] : e.run(inputs, mode)) {
      std::vector<std::byte>& all = bits["output " + name];
      all.insert(all.end(), t.bytes.begin(), t.bytes.end());
    }
  }
  for (const ParamBinding& b : p.params) bits["param " + b.name] = store.get(b.name).bytes;
  return bits;
}

/// Nodes with and without grouping; the bits are compared on the way.
std::pair<size_t, size_t> launches(const ir::Graph& g, uint64_t seed, bool fuse = true) {
  const Program grouped = plan(g, true, fuse), single = plan(g, false, fuse);
  for (const Kernel& k : single.kernels) CHECK(k.parts == 1);
  CHECK(run(grouped, seed) == run(single, seed));
  return {grouped.bodies[0].nodes.size(), single.bodies[0].nodes.size()};
}

}  // namespace

TEST_CASE("towers, projections and branches are as many launches as one of them is long") {
  using Counts = std::pair<size_t, size_t>;
  for (const DType t : {f32, bf16}) {
    Graph towers("towers");
    const Tensor x = towers.input("x", {t, {4, 16}});
    std::vector<In> ends;
    for (int tower = 0; tower < 8; ++tower) {
      Tensor h = x;
      for (int l = 0; l < 4; ++l) h = relu(linear(towers, fmt::format("t{}/l{}", tower, l), h, 16));
      ends.push_back(h);
    }
    towers.output("y", linear(towers, "out", concat(ends, 1), 5));
    const Counts counts = launches(towers.ir(), 3);
    CHECK(counts.first + 28 == counts.second);
    CHECK(counts.first <= 6);
  }
  Graph branches("branches");
  const Tensor x = branches.input("x", {f32, {6, 6}});
  for (int b = 0; b < 10; ++b) {
    Tensor h = x;
    for (int l = 0; l < 10; ++l)
      h = tanh(matmul(h, branches.param(fmt::format("b{}/w{}", b, l), {f32, {6, 6}})));
    branches.output("y" + std::to_string(b), h);
  }
  CHECK(launches(branches.ir(), 4) == Counts{10, 100});

  Graph attend("attend");
  const Tensor s = attend.input("s", {f32, {5, 12}});
  const Tensor q = linear(attend, "q", s, 12), k = linear(attend, "k", s, 12),
               v = linear(attend, "v", s, 12);
  attend.output("y", attention(q, k, v, {.heads = 3}));
  const Counts counts = launches(attend.ir(), 5);
  CHECK(counts.first + 2 == counts.second);
}

TEST_CASE("a randomly wired net is as deep as before and has fewer launches") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    Graph g("randwire");
    std::vector<Tensor> nodes{g.input("x", {f32, {4, 8}})};
    for (int n = 0; n < 32; ++n) {
      const auto any = [&] { return nodes[random() % nodes.size()]; };
      Tensor sum = any();
      for (uint64_t more = random() % 3; more > 0; --more) sum = sum + any();
      nodes.push_back(relu(linear(g, "n" + std::to_string(n), sum, 8)));
    }
    Tensor y = nodes[1];
    for (size_t n = 2; n < nodes.size(); ++n) y = y + nodes[n];
    g.output("y", y);
    const auto [grouped, single] = launches(g.ir(), seed);
    CAPTURE(grouped);
    CAPTURE(single);
    CHECK(grouped * 4 < single * 3);
  }
}

TEST_CASE("random graphs compute the same bits with and without grouping") {
  size_t grouped = 0, single = 0;
  for (uint64_t seed = 1; seed <= test::rounds<uint64_t>(250); ++seed) {
    CAPTURE(seed);
    test::RandomGraphOptions options;
    options.ops = 20 + static_cast<int>(seed % 60);
    options.max_extent = 2;
    // Few shapes and one dtype, so that many nodes are alike.
    options.dtypes = {f32};
    options.max_rank = 2;
    if (seed % 4 == 0) options.compact = 8;
    const auto [a, b] = launches(test::random_graph(seed, options), seed, seed % 2 == 0);
    grouped += a;
    single += b;
  }
  MESSAGE(single << " launches, " << grouped << " with grouping");
  CHECK(grouped + test::rounds<size_t>(50) < single);
}

TEST_CASE("a launch of several parts with the wrong slots or grid is refused") {
  Graph g("parts");
  const Tensor x = g.input("x", {f32, {4, 6}});
  for (int i = 0; i < 3; ++i)
    g.output(fmt::format("y{}", i), linear(g, fmt::format("l{}", i), x, 5));
  const Program good = compile(g);
  REQUIRE(good.kernels.size() == 1);
  REQUIRE(good.kernels[0].parts == 3);
  REQUIRE(check(good).empty());
  const auto refused = [&](const auto& spoil, bool by_runtime) {
    Program p = good;
    spoil(p.kernels[0], p.bodies[0].nodes[0]);
    CHECK(!check(p).empty());
    if (by_runtime) CHECK_THROWS_AS(Executable(p, Store(Device::open("sim"))), Error);
  };
  refused([](Kernel& k, Node&) { k.parts = 0; }, true);
  refused([](Kernel& k, Node&) { k.parts = 2; }, true);
  refused([](Kernel& k, Node&) { k.parts = 12; }, true);
  refused([](Kernel& k, Node&) { k.launch.grid[1] = 2; }, false);
  refused([](Kernel& k, Node&) { k.args[5].role = Role::inout; }, true);
  refused([](Kernel& k, Node&) { std::swap(k.args[4], k.args[5]); }, true);
  // Two parts that write the same bytes, and one that reads what another writes.
  refused([](Kernel&, Node& n) { n.args[7] = n.args[3]; }, false);
  refused([](Kernel&, Node& n) { std::swap(n.args[5], n.args[1]); }, false);
  refused([](Kernel&, Node& n) { std::swap(n.values[5], n.values[1]); }, false);
}
