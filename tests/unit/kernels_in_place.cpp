// Results on operands: which pairs the row family allows, and that its text bears them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/text.hpp"
#include "kernels_on_cpu.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/in_place.hpp"
#include "passes/levels.hpp"
#include "random_graph.hpp"

namespace braid::test {
namespace {

using Pairs = std::vector<InPlace>;
using V = ir::ValueId;

Pairs pairs(const Body& b) { return kernels::in_place_slots(b.graph, Target{}); }

/// Runs each case with every allowed pair by itself, and with as many as go together, and compares
/// every bit with a run where all arguments have bytes of their own. Says how many pairs there
/// were.
size_t check_in_place_runs(const std::vector<KernelCase>& cases) {
  const OnCpu cpu(cases);
  uint64_t seed = 100;
  size_t count = 0;
  for (const KernelCase& c : cases) {
    const Pairs allowed = kernels::family(c.family).in_place(c.body, Target{});
    count += allowed.size();
    std::vector<Pairs> choices;
    Pairs together;
    for (const InPlace& pair : allowed) {
      choices.push_back({pair});
      if (std::none_of(together.begin(), together.end(), [&](const InPlace& other) {
            return other.out == pair.out || other.in == pair.in;
          })) {
        together.push_back(pair);
      }
    }
    if (together.size() > 1) choices.push_back(together);
    if (choices.empty()) continue;

    const kernels::Signature signature(c.body);
    std::vector<HostTensor> args;
    for (const kernels::Argument& a : signature.args) {
      args.push_back(random_tensor(a.type, ++seed, a.name, 1.0, -3, 12));
    }
    std::vector<HostTensor> apart = args;
    cpu.run(c, apart);
    for (const Pairs& chosen : choices) {
      INFO(c.name, "\n", ir::print(c.body), "argument ", chosen[0].out, " on ", chosen[0].in);
      std::vector<HostTensor> shared = args;
      cpu.run(c, shared, chosen);
      for (size_t a = 0; a < args.size(); ++a) {
        const bool overwritten =
            std::any_of(chosen.begin(), chosen.end(), [&](const InPlace& i) { return i.in == a; });
        CHECK((overwritten || shared[a].bytes == apart[a].bytes));
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a result may lie on an operand that is read at the same elements alone") {
  SUBCASE("maps, also through reshapes and several times") {
    Body b;
    const V x = b.in({4, 6}), y = b.in({24});
    b.out(b.map(Fn::add, {b.reshape(b.map(Fn::mul, {x, x}), {24}), y}));
    CHECK(pairs(b) == Pairs{{2, 0}, {2, 1}});
  }
  SUBCASE("an operand that is broadcast is read by many threads") {
    Body b;
    const V x = b.in({4, 6}), bias = b.in({6});
    b.out(b.map(Fn::add, {x, b.broadcast(bias, {4, 6}, {1})}));
    CHECK(pairs(b) == Pairs{{2, 0}});
  }
  SUBCASE("nor may it be read elsewhere as well") {
    Body b;
    const V x = b.in({5, 5});
    b.out(b.map(Fn::add, {x, b.transpose(x, {1, 0})}));
    CHECK(pairs(b).empty());
  }
  SUBCASE("a transposed operand of its own takes nothing from the others") {
    Body b;
    const V x = b.in({4, 6}), t = b.in({6, 4});
    b.out(b.map(Fn::add, {x, b.transpose(t, {1, 0})}));
    CHECK(pairs(b) == Pairs{{2, 0}});
  }
  SUBCASE("a transposed result puts threads at two elements") {
    Body b;
    const V x = b.in({5, 5}), z = b.in({5, 5});
    const V y = b.map(Fn::neg, {x});
    b.out(y).out(b.map(Fn::add, {b.transpose(y, {1, 0}), z}));
    CHECK(pairs(b).empty());
  }
  SUBCASE("elements of another size lie elsewhere") {
    Body b;
    const V x = b.in({8}), h = b.in({8}, DType::f16), i = b.in({8}, DType::i32);
    b.out(b.map(Fn::add, {x, b.map(Fn::add, {b.cast(h, DType::f32), b.cast(i, DType::f32)})}));
    CHECK(pairs(b) == Pairs{{3, 0}, {3, 2}});
  }
  SUBCASE("concat, gather and scatter read at computed elements") {
    Body b;
    const V x = b.in({4}), y = b.in({4}), at = b.in({8}, DType::i32), z = b.in({8});
    const V g = b.gather(z, at, 0);
    const V s = b.scatter(Fn::add, b.in({8}), at, b.in({8}), 0);
    b.out(b.map(Fn::add, {b.map(Fn::add, {b.concat({x, y}, 0), g}), s}));
    CHECK(pairs(b).empty());
  }
  SUBCASE("softmax reads its row in three passes, each element by one thread") {
    Body b;
    const V x = b.in({6, 50});
    const V m = b.broadcast(b.reduce(Fn::max, x, {1}), {6, 50}, {0});
    const V e = b.map(Fn::exp, {b.map(Fn::sub, {x, m})});
    b.out(b.map(Fn::div, {e, b.broadcast(b.reduce(Fn::add, e, {1}), {6, 50}, {0})}));
    CHECK(pairs(b) == Pairs{{1, 0}});
  }
  SUBCASE("what only the results need is loaded between their stores") {
    Body b;
    const V x = b.in({6, 50}), r = b.in({6, 50});
    const V m = b.broadcast(b.reduce(Fn::max, x, {1}), {6, 50}, {0});
    b.out(b.map(Fn::add, {b.map(Fn::sub, {x, m}), r}));
    CHECK(pairs(b) == Pairs{{2, 0}});
  }
  SUBCASE("rows too long for registers are loaded again between stores") {
    const auto of_rows = [](int64_t cols) {
      Body b;
      const V x = b.in({6, cols});
      b.out(b.map(Fn::sub, {x, b.broadcast(b.reduce(Fn::max, x, {1}), {6, cols}, {0})}));
      return pairs(b);
    };
    CHECK(of_rows(8192) == Pairs{{1, 0}});
    CHECK(of_rows(8193).empty());
  }
  SUBCASE("reductions of the first axis stand elsewhere") {
    Body b;
    const V x = b.in({6, 50});
    b.out(b.map(Fn::sub, {x, b.broadcast(b.reduce(Fn::max, x, {0}), {6, 50}, {1})}));
    CHECK(pairs(b).empty());
  }
  SUBCASE("results per row lie on nothing") {
    Body b;
    const V x = b.in({6, 50}), r = b.in({6});
    b.out(b.map(Fn::add, {b.reduce(Fn::add, x, {1}), r}));
    CHECK(pairs(b).empty());
  }
  SUBCASE("what nobody reads does not count") {
    Body b;
    const V x = b.in({8});
    b.in({8});
    b.out(b.map(Fn::neg, {x}));
    CHECK(pairs(b) == Pairs{{2, 0}});
  }
  SUBCASE("products read whole rows and columns") {
    Body b;
    const V x = b.in({8, 8}), y = b.in({8, 8});
    b.out(b.dot(x, y));
    CHECK(kernels::family("dot").in_place(b.graph, Target{}).empty());
  }
}

TEST_CASE("pointers that may be one are not promised to be apart") {
  Body b;
  const V x = b.in({4, 6}), bias = b.in({6});
  b.out(b.map(Fn::add, {x, b.broadcast(bias, {4, 6}, {1})}));
  const std::string text = kernels::family("row").emit(b.graph, "k", Target{}, {}).text;
  CHECK(text.find("const float* a0,") != std::string::npos);
  CHECK(text.find("const float* __restrict__ a1,") != std::string::npos);
  CHECK(text.find("float* r0)") != std::string::npos);
}

TEST_CASE("kernels compute the same bits in place") {
  CHECK(check_in_place_runs(row_cases()) > 20);
}

TEST_CASE("what fusion makes of random graphs computes the same bits in place") {
  std::vector<KernelCase> cases;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ir::Graph graph = random_graph(7000 + seed, {.ops = 24, .max_numel = 200});
    const HomePlan homes = plan_homes(graph);
    const Fusion fusion = fuse(graph, homes, assign_levels(graph, homes), seed % 4 != 3);
    for (const Group& group : fusion.groups) {
      KernelCase c{fmt::format("in_place_{}", cases.size()), std::string(name_of(group.family)),
                   extract_body(graph, group, nullptr)};
      if (!kernels::family(c.family).in_place(c.body, Target{}).empty())
        cases.push_back(std::move(c));
    }
  }
  CHECK(cases.size() > 100);
  CHECK(check_in_place_runs(cases) > 150);
}

}  // namespace braid::test
