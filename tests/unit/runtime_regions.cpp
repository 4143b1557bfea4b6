// Branches and loops of hand-made Programs on the simulator: by conditional nodes, guarded kernels
// and the host. Wrong plans must be reported.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "ir/diagnostic.hpp"
#include "runtime_regions_help.hpp"

using namespace braid;
using namespace braid::runtime;
using namespace braid::testing;

namespace {

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics()[0].code;
  }
  return "no error";
}

/// What a launch reported; the inputs are those of a loops() or branches().
std::vector<std::string> reports(const Program& p, uint64_t seed = 1) {
  SimOptions options;
  options.seed = seed;
  options.most_iterations = 1000;
  Bench bench(options);
  auto in = diamond_inputs(seed);
  in = p.name == "loops" ? with_ints(in, {{"n", 3}, {"m", 2}}) : in;
  if (p.name != "loops") in = with_ints(in, {{"which", 1}}, p.buffers[2].type);
  Executable e(p, bench.store);
  try {
    e.run(in);
  } catch (const CudaError& error) {
    CHECK(error.code() == CUDA_ERROR_LAUNCH_FAILED);
  }
  return bench.simulator->take_reports();
}

void reported(const Program& p, const std::string& what) {
  const std::vector<std::string> all = reports(p);
  CAPTURE(what);
  REQUIRE(!all.empty());
  CAPTURE(all[0]);
  CHECK(
      std::any_of(all.begin(), all.end(), [&](const std::string& r) { return contains(r, what); }));
}

Program without_edge(Program p, uint32_t body, size_t edge) {
  p.bodies[body].edges.erase(p.bodies[body].edges.begin() + static_cast<int64_t>(edge));
  return p;
}

/// Halves its argument, from a count of calls that makes each result another one.
HostFunctions halve(int* calls) {
  return {{"halve", [calls](std::span<const HostTensor> in, std::span<HostTensor> out) {
             ++*calls;
             for (int64_t i = 0; i < in[0].numel(); ++i) out[0].set(i, in[0].at(i) / 2);
           }}};
}

}  // namespace

TEST_CASE("a WHILE in a WHILE runs as often as its kernels say, in every order") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SimOptions options;
    options.seed = seed;
    Bench bench(options);
    Executable e(loops(), bench.store);
    const HostTensor w = bench.store.get("w");
    for (const auto& [n, m] : {std::pair(3, 4), {0, 5}, {2, 0}, {1, 1}, {5, 2}}) {
      CAPTURE(n);
      CAPTURE(m);
      const auto in = with_ints(diamond_inputs(seed), {{"n", n}, {"m", m}});
      CHECK(values(e.run(in).at("y")) == loops_y(in, w));
    }
    CHECK(bench.simulator->take_reports().empty());
  }
}

TEST_CASE("an IF takes its side, a SWITCH that of its number, and guards the same") {
  for (const TensorType& flag : {kB1, kI32}) {
    for (const Program& p : {branches(flag), predicated(flag)}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SimOptions options;
        options.seed = seed;
        Bench bench(options);
        Executable e(p, bench.store);
        for (int which = flag == kB1 ? 1 : 2; which >= 0; --which) {
          CAPTURE(which);
          const auto in = with_ints(diamond_inputs(seed), {{"which", which}}, flag);
          CHECK(values(e.run(in).at("y")) == branches_y(in));
        }
        CHECK(bench.simulator->take_reports().empty());
      }
    }
  }
}

TEST_CASE("an empty side leaves things as they are") {
  for (const uint32_t empty : {0u, 1u}) {
    // t is set before the branch, by the other side's kernel, and again by the side that is left.
    Program p = branches(kB1);
    std::vector<Node>& top = p.bodies[0].nodes;
    Node first = p.bodies[p.regions[0].bodies[empty]].nodes[0];
    p.bodies[p.regions[0].bodies[empty]].nodes.clear();
    top.insert(top.begin(), first);
    p.bodies[0].edges = {{0, 2}, {1, 2}, {2, 3}};
    Bench bench;
    Executable e(p, bench.store);
    for (const int which : {1, 0, 1}) {
      const auto in = with_ints(diamond_inputs(4), {{"which", which}}, kB1);
      CHECK(values(e.run(in).at("y")) == branches_y(in));
    }
    CHECK(bench.simulator->take_reports().empty());
  }
}

TEST_CASE("memory bound later reaches the nodes of bodies") {
  Bench bench;
  const auto context = bench.device.context();
  Executable e(loops(), bench.store);
  const auto in = with_ints(diamond_inputs(6), {{"n", 2}, {"m", 3}});
  e.run(in);
  const auto other = with_ints(diamond_inputs(7), {{"n", 2}, {"m", 3}});
  const Current current(context);
  const OwnedMemory x = allocate(context, floats().bytes(), "test");
  const OwnedMemory m = allocate(context, 4, "test");
  e.bind("x", x.get(), floats().bytes());
  e.bind("m", m.get(), 4);
  for (const auto& [name, value] : other) e.write(name, value);
  e.launch().wait();
  CHECK(values(e.read("y")) == loops_y(other, bench.store.get("w")));
}

TEST_CASE("every missing edge of a plan with loops is reported") {
  const Program good = loops();
  CHECK(reports(good).empty());
  reported(without_edge(good, 0, 0), "handle 0x");
  reported(without_edge(good, 0, 1),
           "race: node 1 (row_add) writes and node 0 (increase) in body 0 of node 1 (a WHILE) in "
           "body 0 of node 2 (a WHILE) ");
  reported(without_edge(good, 0, 2), "race: node 3 (row_sub) reads and node ");
  reported(without_edge(good, 1, 0), "race: node 0 (begin) in body 0 of node 2 (a WHILE) writes");
  reported(without_edge(good, 1, 1), "race: node 2 (scale) in body 0 of node 2 (a WHILE) ");
  Program bad = good;  // in one body, on the same bytes
  bad.bodies[2].nodes.push_back(bad.bodies[2].nodes[0]);
  reported(bad, "race: node 0 (increase) in body 0 of");
}

TEST_CASE("every missing edge around a branch is reported, and sides are free of each other") {
  for (const TensorType& flag : {kB1, kI32}) {
    const Program good = branches(flag);
    CHECK(reports(good).empty());
    reported(without_edge(good, 0, 0), "race: node 0 (set) writes and node 1 (");
    reported(without_edge(good, 0, 1), "race: node 2 (row_mul) reads and node 0 (row_");
    const Program guards = predicated(flag);
    CHECK(reports(guards).empty());
    for (size_t i = 0; i < guards.bodies[0].edges.size(); ++i) {
      reported(without_edge(guards, 0, i), "race: node " + std::to_string(i));
    }
    Program same = guards;  // two kernels of one side
    same.kernels[1].guard = 0;
    reported(same, "race: node 0 (row_sub_if_0) writes and node 1 (row_add_if_1) writes");
  }
}

TEST_CASE("a flag that was not written is reported by the kernel that asks") {
  Program p = predicated(kB1);
  const uint32_t flag = add_buffer(p, "flag", Segment::temp, kB1, p.arena_bytes);
  p.arena_bytes += 256;
  for (Node& n : p.bodies[0].nodes) {
    if (n.region != UINT32_MAX) n.args.back() = flag;
  }
  reported(p, "argument 3 ('flag') reads bytes that nothing has written");
}

TEST_CASE("a value that nobody has set is reported") {
  Program p = branches(kB1);  // the setter is gone
  p.bodies[0].nodes.erase(p.bodies[0].nodes.begin());
  p.bodies[0].edges = {{0, 1}};
  reported(p, "node 0 (an IF): nothing has set its value since the graph it is in began");

  p = loops();  // the outer body does not say whether to go on
  p.bodies[1].nodes.pop_back();
  reported(p, "node 2 (a WHILE): its body has run and not set its value");

  p = loops();  // set before the outer loop, which tests it once per iteration
  Node begin = p.bodies[1].nodes[0];
  p.bodies[1].nodes.erase(p.bodies[1].nodes.begin());
  p.bodies[1].edges = {{0, 1}};
  begin.args[1] = p.bodies[0].nodes[0].args[1];  // the outer handle, so that the plan can be built
  p.bodies[0].nodes.insert(p.bodies[0].nodes.begin(), begin);
  p.bodies[0].edges = {{0, 1}, {1, 3}, {2, 3}, {3, 4}};
  reported(p, "node 0 (a WHILE) in body 0 of node 3 (a WHILE): nothing has set its value");
}

TEST_CASE("a loop without end is reported") {
  Program p = loops();
  p.bodies[1].nodes[3].kernel = p.bodies[1].nodes[0].kernel;  // begins again each time
  p.bodies[1].nodes[3].args = p.bodies[0].nodes[0].args;
  reported(p, "node 2 (a WHILE): it has not ended after 1000 iterations");
}

TEST_CASE("the host follows loops and branches, and calls functions in them") {
  for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
    Bench bench;
    int calls = 0;
    Executable e(host_regions(), bench.store, halve(&calls));
    for (const auto& [n, which] : {std::pair(3, 1), {4, 0}, {0, 0}, {1, 1}}) {
      const auto in = with_ints(with_ints(diamond_inputs(static_cast<uint64_t>(n)), {{"n", n}}),
                                {{"which", which}}, kB1);
      calls = 0;
      CHECK(values(e.run(in, mode).at("y")) == host_regions_y(in));
      CHECK(calls == (which == 0 ? n : 0));
    }
    CHECK(bench.simulator->take_reports().empty());
  }
}

TEST_CASE("results of a call without arguments stay until they are copied") {
  Made m("counter");
  const uint32_t y = add_buffer(m.p, "y", Segment::output, kI32);
  Call call;
  call.function = "count";
  call.results = {y};
  m.p.calls.push_back(call);
  m.p.script = {{Step::Kind::call, 0}, {Step::Kind::write, 0}};  // nothing to read or wait for
  int calls = 0;
  const HostFunctions count{
      {"count", [&calls](std::span<const HostTensor>, std::span<HostTensor> out) {
         out[0].set_int(0, ++calls);
       }}};
  Bench bench;
  Executable e(m.p, bench.store, count);
  for (int i = 0; i < 5; ++i) e.launch();
  e.launch().wait();
  CHECK(e.read("y").int_at(0) == 6);
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("a flag of the host's that is neither true nor false is an error of the plan's") {
  Bench bench;
  int calls = 0;
  Program p = host_regions();
  p.bodies[0].nodes.pop_back();  // the flag is never written
  p.bodies[0].edges.clear();
  Executable e(p, bench.store, halve(&calls));
  const auto in = with_ints(with_ints(diamond_inputs(1), {{"n", 1}}), {{"which", 0}}, kB1);
  CHECK_THROWS_WITH_AS(e.run(in), doctest::Contains("region0: what decides is 255"), InternalError);
}

TEST_CASE("a program with conditional nodes is not launched kernel by kernel") {
  Bench bench;
  Executable e(branches(kI32), bench.store);
  const auto in = with_ints(diamond_inputs(2), {{"which", 1}}, kI32);
  CHECK(code_of([&] { e.run(in, LaunchMode::stream); }) == "E0828");
  CHECK(values(e.run(in).at("y")) == branches_y(in));
  Executable guards(predicated(kI32), bench.store);
  CHECK(values(guards.run(in, LaunchMode::stream).at("y")) == branches_y(in));
  CHECK(bench.simulator->take_reports().empty());
}

TEST_CASE("a malformed region is refused before anything is allocated") {
  Bench bench;
  const int64_t before = bench.simulator->live_objects();
  int calls = 0;
  const auto refused = [&](const Program& good, const std::function<void(Program&)>& change) {
    Program p = good;
    CHECK(code_of([&] { Executable(p, bench.store, halve(&calls)); }) == "no error");
    change(p);
    CHECK(code_of([&] { Executable(p, bench.store, halve(&calls)); }) == "E0830");
  };
  const Program nodes = loops(), sides = branches(kI32), guards = predicated(kB1);
  const Program host = host_regions();
  refused(nodes, [](Program& p) { p.regions[0].flag = 99; });
  refused(nodes, [](Program& p) { p.regions[0].flag = 0; });  // f32[37]
  refused(nodes, [](Program& p) { p.regions[0].flag = 3; });  // i32[] for a loop
  refused(nodes, [](Program& p) { p.regions[1].flag = p.regions[0].flag; });
  refused(nodes, [](Program& p) { p.regions[0].region = 1; });
  refused(nodes, [](Program& p) { p.regions[1].region = 1; });
  refused(nodes, [](Program& p) { p.regions[1].region = UINT32_MAX; });
  refused(nodes, [](Program& p) { p.regions[1].branch = 1; });
  refused(nodes, [](Program& p) { p.regions[0].bodies[0] = 0; });
  refused(nodes, [](Program& p) { p.regions[0].bodies[0] = 99; });
  refused(nodes, [](Program& p) { p.regions[0].bodies = {}; });
  refused(nodes, [](Program& p) { std::swap(p.regions[0].bodies, p.regions[1].bodies); });
  refused(nodes, [](Program& p) { p.regions[0].sides = 2; });
  refused(nodes, [](Program& p) { p.regions[0].kind = Region::Kind::host; });
  refused(nodes, [](Program& p) { p.regions[0].kind = Region::Kind::predicate; });
  refused(nodes, [](Program& p) { p.regions[0].slab = 99; });
  refused(nodes,
          [](Program& p) { p.regions[0].states.resize(1), p.regions[0].states[0].view = 99; });
  refused(nodes, [](Program& p) { p.regions[0].args = {0}; });
  refused(nodes, [](Program& p) { p.bodies[1].region = 7; });
  refused(nodes, [](Program& p) { p.bodies[1].branch = 1; });
  refused(nodes, [](Program& p) { p.bodies[1].stream = true; });
  refused(nodes, [](Program& p) { p.bodies[0].stream = true; });
  refused(nodes, [](Program& p) { p.bodies[0].nodes[2].region = 1; });  // in the wrong body
  refused(nodes, [](Program& p) { p.bodies[0].nodes[2].region = 7; });
  refused(nodes, [](Program& p) { p.bodies[0].nodes[0].region = 0; });  // no guard
  refused(nodes, [](Program& p) { p.bodies[0].nodes.push_back(p.bodies[0].nodes[2]); });
  refused(nodes, [](Program& p) { p.bodies[0].nodes[2].kernel = 0; });
  refused(nodes, [](Program& p) { p.bodies[0].edges[0].kind = EdgeKind::programmatic; });
  refused(nodes, [](Program& p) { p.bodies[0].nodes[0].args[1] = 99; });
  refused(nodes, [](Program& p) { p.buffers[6].region = 2; });
  // Handles go only where kernels set them, and only to kernels that run when there is one.
  const uint32_t inner = nodes.regions[1].flag;
  refused(nodes, [&](Program& p) { p.bodies[0].nodes[0].args[1] = inner; });
  refused(nodes, [&](Program& p) {
    p.bodies[0].nodes[0].args[1] = add_buffer(p, "b1", Segment::temp, kB1, 0);
  });
  refused(nodes, [&](Program& p) { add_buffer(p, "handle", Segment::handle, kB1); });
  refused(nodes, [&](Program& p) { p.buffers[inner].type = floats(); });
  refused(nodes, [&](Program& p) { p.views[inner].offset = 1; });
  refused(sides, [](Program& p) { p.regions[0].bodies.pop_back(); });
  refused(sides, [](Program& p) { p.script.push_back({Step::Kind::launch, 1}); });
  refused(sides, [](Program& p) { p.script.push_back({Step::Kind::region, 0}); });
  refused(guards, [](Program& p) { p.kernels[0].args.back().role = Role::out; });
  refused(guards, [](Program& p) { p.kernels[0].args.back().type = floats(); });
  refused(guards, [](Program& p) { p.kernels[0].parts = 2; });
  refused(guards, [](Program& p) { p.regions[0].loop = true; });
  refused(guards, [](Program& p) { p.bodies[0].nodes[1].branch = 2; });
  refused(guards, [](Program& p) { p.bodies[0].nodes[1].region = 1; });
  refused(host, [](Program& p) { p.script[1].index = 1; });  // nested elsewhere
  refused(host, [](Program& p) { p.script[1].index = 9; });
  refused(host, [](Program& p) { p.script.push_back(p.script[1]); });
  refused(host, [](Program& p) { p.regions[0].scripts[0][0].index = 0; });
  refused(host, [](Program& p) { p.regions[0].scripts[0][1].index = 0; });
  refused(host, [](Program& p) { p.regions[0].scripts.clear(); });
  refused(host, [](Program& p) { p.regions[1].scripts[0][1].index = 9; });
  refused(host, [](Program& p) { p.regions[1].scripts[1][0].index = 9; });
  refused(host, [](Program& p) { p.bodies[1].branch = 1; });

  Program deep = host;  // each region in the one before
  for (uint32_t i = 2; i < 80; ++i) {
    Region r = deep.regions[1];
    r.region = i - 1;
    r.scripts = {{}, {}};
    deep.regions.push_back(r);
    deep.regions[i - 1].scripts[0].push_back({Step::Kind::region, i});
  }
  CHECK(code_of([&] { Executable(deep, bench.store, halve(&calls)); }) == "E0830");
  CHECK(bench.simulator->live_objects() == before + 1);  // the stores' param w
}
