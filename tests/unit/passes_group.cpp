// Grouping: which nodes share a launch, and what the launches compute.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/cost.hpp"
#include "passes/group.hpp"
#include "passes/pipeline.hpp"
#include "passes_help.hpp"
#include "plan_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

Program plan(const ir::Graph& g, bool group = true, std::string_view until = {}) {
  Options o;
  o.group = group;
  o.chain = false;
  o.verify = true;
  return run_passes(g, o, until).program;
}

/// How many parts each launch has, in launch order.
std::vector<uint32_t> parts_of(const Program& p) {
  std::vector<uint32_t> parts;
  for (const Node& n : p.bodies.at(0).nodes) parts.push_back(p.kernels[n.kernel].parts);
  return parts;
}

ValueId layer(Maker& m, const std::string& name, ValueId x, int64_t width) {
  const ValueId w = m.weight(name + "/w", {m.shape(x)[1], width});
  return m.map(Fn::relu, {m.bias(m.dot(x, w), m.weight(name + "/b", {width}))});
}

/// A plan's nodes whose slots have the same roles share a kernel.
void share_kernels(Program& p) {
  std::map<std::string, uint32_t> first;
  for (Node& n : p.bodies[0].nodes) {
    std::string slots;
    for (const ArgSlot& s : p.kernels[n.kernel].args) {
      slots += std::string(name_of(s.role)) + " ";
    }
    n.kernel = first.try_emplace(slots, n.kernel).first->second;
  }
}

size_t longest_path(const Relation& before) {
  std::vector<size_t> length(before.size(), 1);
  size_t longest = 0;
  for (size_t b = 0; b < before.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (before(a, b)) length[b] = std::max(length[b], length[a] + 1);
    }
    longest = std::max(longest, length[b]);
  }
  return longest;
}

}  // namespace

TEST_CASE("eight towers of four layers are four launches") {
  Maker m;
  const ValueId x = m.input("x", {32, 256});
  std::vector<ValueId> ends;
  for (int tower = 0; tower < 8; ++tower) {
    ValueId v = x;
    for (int l = 0; l < 4; ++l) v = layer(m, fmt::format("t{}/l{}", tower, l), v, 256);
    ends.push_back(v);
  }
  m.output("y", m.dot(m.concat(ends, 1), m.weight("out", {2048, 16})));
  const Program p = plan(m.g);
  const Program alone = plan(m.g, false);
  std::vector<uint32_t> parts = parts_of(p);
  REQUIRE(parts.size() >= 5);
  CHECK(std::vector<uint32_t>(parts.begin(), parts.begin() + 4) ==
        std::vector<uint32_t>{8, 8, 8, 8});
  CHECK(p.bodies[0].nodes.size() + 28 == alone.bodies[0].nodes.size());
  const Node& first = p.bodies[0].nodes[0];
  const Kernel& k = p.kernels[first.kernel];
  const Kernel& one = alone.kernels[alone.bodies[0].nodes[0].kernel];
  CHECK(k.symbol.find("_x8_") != std::string::npos);
  CHECK(k.args.size() == 8 * one.args.size());
  CHECK(k.flops == 8 * one.flops);
  CHECK(k.bytes_moved == 8 * one.bytes_moved);
  CHECK(k.launch.grid[1] == 8);
  CHECK(first.ops.size() == 24);  // dot, add, relu of each
  CHECK(first.estimate_us > alone.bodies[0].nodes[0].estimate_us);
  CHECK(first.estimate_us < 8 * alone.bodies[0].nodes[0].estimate_us);
  CHECK(p.kernels.size() == alone.kernels.size());  // the one of one part is gone
  CHECK(first.place == "");
}

TEST_CASE("projections of one input are one launch") {
  Maker m;
  const ValueId x = m.input("x", {32, 64});
  for (const char* name : {"q", "k", "v"}) m.output(name, layer(m, name, x, 64));
  m.output("wide", layer(m, "wide", x, 96));
  const Program p = plan(m.g);
  CHECK(parts_of(p) == std::vector<uint32_t>{3, 1});
  CHECK(parts_of(plan(m.g, false)) == std::vector<uint32_t>{1, 1, 1, 1});
}

TEST_CASE("branches of unequal length meet as far as the longest path allows") {
  // `lead` and `tail` ops of another kind around three layers.
  const auto branch = [](Maker& m, const std::string& name, ValueId x, int lead, int tail) {
    const auto other = [&] { x = m.reduce(Fn::max, m.broadcast(x, {3, 8, 8}, {1, 2}), 1); };
    for (int i = 0; i < lead; ++i) other();
    for (int l = 0; l < 3; ++l) x = layer(m, fmt::format("{}/{}", name, l), x, 8);
    for (int i = 0; i < tail; ++i) other();
    return x;
  };
  const auto launches = [&](std::vector<std::pair<int, int>> branches) {
    Maker m;
    std::vector<ValueId> ends;
    const ValueId x = m.input("x", {8, 8});
    for (const auto& [lead, tail] : branches) {
      ends.push_back(branch(m, "b" + std::to_string(ends.size()), x, lead, tail));
    }
    m.output("y", m.concat(ends, 0));
    const Program p = plan(m.g);
    CHECK(check(p).empty());
    std::map<uint32_t, int> counts;
    for (uint32_t n : parts_of(p)) ++counts[n];
    return counts;
  };
  using Counts = std::map<uint32_t, int>;
  CHECK(launches({{0, 0}, {0, 0}}) == Counts{{1, 1}, {2, 3}});
  CHECK(launches({{2, 0}, {0, 0}}) == Counts{{1, 3}, {2, 3}});  // the second waits
  CHECK(launches({{0, 2}, {0, 0}}) == Counts{{1, 3}, {2, 3}});  // the first may not
  CHECK(launches({{1, 1}, {0, 1}, {1, 0}})[3] == 3);
  // No slack at all: shifted by one, two of the three layers meet.
  CHECK(launches({{1, 0}, {0, 1}})[2] == 2);
}

TEST_CASE("a node does not wait for another where that would cost more than a launch") {
  for (const bool slow : {false, true}) {
    PlanMaker m;
    const uint32_t x = m.buffer(Segment::input, 64);
    const auto chain = [&](int length) {
      std::vector<uint32_t> nodes;
      for (uint32_t from = x; length > 0; --length) {
        const uint32_t to = m.temp(64);
        nodes.push_back(m.node({{from, Role::in}, {to, Role::out}}));
        from = to;
      }
      return nodes;
    };
    const std::vector<uint32_t> brief = chain(2), lengthy = chain(5);
    for (Node& n : m.body().nodes) n.estimate_us = 1;
    m.body().nodes[brief[1]].estimate_us = slow ? 20 : 1;
    m.body().nodes[lengthy[3]].kernel = m.body().nodes[brief[0]].kernel;
    CAPTURE(slow);
    CHECK(plan_launches(m.p, m.body()).size() == (slow ? 7 : 6));
  }
}

TEST_CASE("what already fills the device is not grouped, nor more than fit into the parameters") {
  const Target target;
  const auto kernel = [](int64_t elements, size_t slots = 2) {
    Maker m;
    m.output("y", m.map(Fn::neg, {m.input("x", {elements})}));
    Kernel k = plan(m.g, false, "choose").kernels.at(0);
    k.args.resize(slots, k.args[0]);
    return k;
  };
  CHECK(most_parts(kernel(1000), target) == kMostPointers / 2);
  CHECK(most_parts(kernel(1000, 3), target) == kMostPointers / 3);
  CHECK(most_parts(kernel(1000, 200), target) == 1);
  CHECK(most_parts(kernel(1000, 500), target) == 1);
  // As soon as the parts' work is too much, each of them is launched by itself.
  uint32_t before = kMostPointers;
  bool between = false;
  for (int64_t elements = 1000; elements < 100'000'000; elements *= 2) {
    const Kernel k = kernel(elements);
    const uint32_t most = most_parts(k, target);
    const double work = cost_of(k, target).work_us();
    CAPTURE(elements);
    CHECK(most <= before);
    CHECK((most == 1 || most * work <= kFullLaunchUs));
    CHECK((most == kMostPointers / 2 || (most + 1) * work > kFullLaunchUs));
    between = between || (most > 1 && most < kMostPointers / 2);
    before = most;
  }
  CHECK(before == 1);
  CHECK(between);

  Maker m;
  const ValueId big = m.input("big", {4096, 4096}), small = m.input("small", {16, 16});
  for (int i = 0; i < 5; ++i) {
    const Fn fn = i % 2 ? Fn::exp : Fn::tanh;
    m.output("b" + std::to_string(i),
             m.reduce(Fn::add, m.map(fn, {m.add(big, m.splat({4096, 4096}, i))}), 2));
  }
  for (int i = 0; i < 150; ++i) {
    m.output("s" + std::to_string(i), m.dot(small, m.weight("w" + std::to_string(i), {16, 16})));
  }
  for (uint32_t n : parts_of(plan(m.g, true, "choose"))) CHECK(n == 1);
  std::vector<uint32_t> parts = parts_of(plan(m.g));
  std::sort(parts.begin(), parts.end());
  // 150 products of three pointers: two launches of equal size.
  CHECK(parts == std::vector<uint32_t>{1, 1, 1, 1, 1, 75, 75});
}

TEST_CASE("params written in place: independent ones together, one after the other apart") {
  Maker m;
  const ValueId g = m.input("g", {6, 6}), at = m.input("at", {}, DType::i32);
  const ValueId zero = m.splat({}, 0, DType::i32);
  const auto row = [&](const std::string& name, int i) {
    return m.map(Fn::exp, {m.input(name + std::to_string(i), {1, 6})});
  };
  for (int i = 0; i < 4; ++i) {
    const ValueId w = m.param("w" + std::to_string(i), {6, 6});
    m.assign(w, m.map(Fn::sub, {m.read(w), g}));
    m.update(m.param("c" + std::to_string(i), {9, 6}), row("r", i), {at, zero});
  }
  // The same three times over one param: a chain.
  ValueId p = m.param("p", {9, 6});
  for (int i = 0; i < 3; ++i) p = m.update(p, row("s", i), {at, zero});
  const Program program = plan(m.g);
  std::map<std::string, std::vector<uint32_t>> parts;
  for (const Node& n : program.bodies[0].nodes) {
    const Kernel& k = program.kernels[n.kernel];
    parts[k.symbol.substr(0, 7)].push_back(k.parts);
  }
  CHECK(parts["row_sub"] == std::vector<uint32_t>{4});
  std::sort(parts["row_exp"].begin(), parts["row_exp"].end());
  CHECK(parts["row_exp"] == std::vector<uint32_t>{1, 1, 5});
  CHECK(program.bodies[0].nodes.size() == 4);
}

TEST_CASE("launches keep every hazard, the longest path and the kinds of their nodes") {
  std::mt19937 random(7);
  size_t nodes = 0, launches = 0;
  for (int round = 0; round < 400; ++round) {
    PlanMaker m = random_plan(random, 2 + below(random, 60), 1, 2 + below(random, 30));
    share_kernels(m.p);
    for (Node& n : m.body().nodes) n.level = random() % 8 == 0;
    std::vector<Node>& all = m.body().nodes;
    Relation hazards(all.size());
    for (size_t a = 0; a < all.size(); ++a) {
      for (size_t b = a + 1; b < all.size(); ++b) {
        for (const Touch& x : touches(m.p, all[a], false)) {
          for (const Touch& y : touches(m.p, all[b], false)) {
            if (x.space == y.space && x.lo < y.hi && y.lo < x.hi && (x.write || y.write)) {
              hazards.set(a, b);
            }
          }
        }
      }
    }
    const auto plan = plan_launches(m.p, m.body());
    std::vector<size_t> launch_of(all.size(), SIZE_MAX);
    for (size_t l = 0; l < plan.size(); ++l) {
      REQUIRE(!plan[l].empty());
      CHECK(std::is_sorted(plan[l].begin(), plan[l].end()));
      CHECK(plan[l].size() <= most_parts(m.p.kernels[all[plan[l][0]].kernel], m.p.target));
      for (uint32_t n : plan[l]) {
        CHECK(launch_of[n] == SIZE_MAX);
        launch_of[n] = l;
        CHECK(all[n].kernel == all[plan[l][0]].kernel);
        CHECK(all[n].level == all[plan[l][0]].level);
      }
    }
    CHECK(std::count(launch_of.begin(), launch_of.end(), SIZE_MAX) == 0);
    Relation between(plan.size());
    for (size_t a = 0; a < all.size(); ++a) {
      for (size_t b = a + 1; b < all.size(); ++b) {
        if (!hazards(a, b)) continue;
        CHECK(launch_of[a] < launch_of[b]);
        between.set(launch_of[a], launch_of[b]);
      }
    }
    CHECK(longest_path(between) == longest_path(hazards));
    CHECK(plan_launches(m.p, m.body()) == plan);
    nodes += all.size();
    launches += plan.size();
  }
  MESSAGE(nodes << " nodes, " << launches << " launches");
  CHECK(launches * 10 < nodes * 9);
  CHECK(plan_launches(PlanMaker().p, Body{}).empty());
}

TEST_CASE("without like nodes nothing moves, and bodies outside graphs stay as they are") {
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    PlanMaker m = random_plan(random, 2 + below(random, 40), 1);  // each node a kernel of its own
    const auto plan = plan_launches(m.p, m.body());
    REQUIRE(plan.size() == m.body().nodes.size());
    for (uint32_t n = 0; n < plan.size(); ++n) CHECK(plan[n] == std::vector<uint32_t>{n});
  }
  Maker m;
  const ValueId x = m.input("x", {16, 16});
  for (int i = 0; i < 3; ++i) m.output("y" + std::to_string(i), layer(m, std::to_string(i), x, 16));
  Program p = plan(m.g, false, "choose");
  p.bodies[0].stream = true;
  const std::string before = to_text(p);
  group_nodes(p, Options{});
  CHECK(to_text(p) == before);
  p.bodies[0].stream = false;
  group_nodes(p, Options{});
  CHECK(parts_of(p) == std::vector<uint32_t>{3});
}

TEST_CASE("what a group may span is what all of its nodes may") {
  Maker m;
  const ValueId x = m.input("x", {16, 16});
  for (int i = 0; i < 3; ++i) m.output("y" + std::to_string(i), layer(m, std::to_string(i), x, 16));
  Program p = plan(m.g, false, "choose");
  std::vector<Node>& nodes = p.bodies[0].nodes;
  REQUIRE(nodes.size() == 3);
  for (Node& n : nodes) n.level = 3, n.earliest = 1, n.latest = 5;
  nodes[1].earliest = 2;
  nodes[2].latest = 4;
  nodes[2].place = "m.toml:3:1";
  Program apart = p;
  group_nodes(p, Options{});
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].level == 3);
  CHECK(nodes[0].earliest == 2);
  CHECK(nodes[0].latest == 4);
  CHECK(nodes[0].place == "m.toml:3:1");
  apart.bodies[0].nodes[1].level = 2;
  group_nodes(apart, Options{});
  CHECK(apart.bodies[0].nodes.size() == 2);
}

TEST_CASE("every graph of a model is grouped by itself, and ops outside graphs not at all") {
  Maker m;
  const ValueId x = m.input("x", {16, 16});
  for (int tower = 0; tower < 3; ++tower) {
    const std::string name = std::to_string(tower);
    const ValueId h = layer(m, name + "/in", x, 16);
    const ValueId out = m.map(Fn::exp, {h});
    m.g.ops().at(m.g.value(out).def.index).outside = true;
    m.output("y" + name, layer(m, name + "/out", out, 16));
  }
  const Program p = plan(m.g);
  REQUIRE(p.bodies.size() == 3);
  CHECK(p.bodies[1].stream);
  std::vector<std::vector<uint32_t>> parts;
  for (const Body& body : p.bodies) {
    parts.emplace_back();
    for (const Node& n : body.nodes) parts.back().push_back(p.kernels[n.kernel].parts);
  }
  CHECK(parts == std::vector<std::vector<uint32_t>>{{3}, {1, 1, 1}, {3}});
  CHECK(p.bodies[0].nodes[0].kernel == p.bodies[2].nodes[0].kernel);
  CHECK(p.kernels.size() == 2);
}
