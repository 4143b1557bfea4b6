// Compiled models and graphs at random, for tests that make Programs wrong.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "passes/pipeline.hpp"
#include "passes_help.hpp"
#include "random_graph.hpp"

namespace braid::test {

inline ir::Graph mlp() {
  Maker m;
  ValueId x = m.input("x", {8, 16});
  for (const std::string layer : {"l1", "l2", "l3"}) {
    const ValueId w = m.weight(layer + "/w", {16, 16}), b = m.weight(layer + "/b", {16});
    x = m.map(Fn::relu, {m.bias(m.dot(x, w), b)});
  }
  m.output("y", m.softmax(x));
  return m.g;
}

inline ir::Graph encoder() {
  Maker m;
  ValueId x = m.input("x", {6, 8});
  const auto linear = [&](const std::string& name, ValueId v) {
    return m.bias(m.dot(v, m.weight(name + "/w", {8, 8})), m.weight(name + "/b", {8}));
  };
  for (const std::string layer : {"l1/", "l2/"}) {
    const ValueId n = m.layer_norm(x, m.weight(layer + "g", {8}), m.weight(layer + "b", {8}));
    const ValueId q = linear(layer + "q", n), k = linear(layer + "k", n),
                  v = linear(layer + "v", n);
    x = m.add(x, linear(layer + "o", m.dot(m.softmax(m.dot(q, k, false, true)), v)));
    x = m.add(x, linear(layer + "down", m.map(Fn::gelu, {linear(layer + "up", x)})));
  }
  m.output("y", x);
  return m.g;
}

inline ir::Graph towers() {
  Maker m;
  const ValueId x = m.input("x", {4, 8});
  ValueId sum{};
  for (int t = 0; t < 5; ++t) {
    ValueId h = x;
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = fmt::format("t{}/w{}", t, layer);
      h = m.map(Fn::tanh, {m.dot(h, m.weight(name, {8, 8}))});
    }
    sum = sum.valid() ? m.add(sum, m.softmax(h)) : h;
    m.output(fmt::format("y{}", t), h);
  }
  m.output("sum", sum);
  return m.g;
}

/// Towers with a host op in each, one of which is a mere log, and a marked op behind them.
inline ir::Graph calls(ir::HostWay way) {
  Maker m;
  const ValueId x = m.input("x", {4, 8});
  ValueId sum = x;
  for (int t = 0; t < 4; ++t) {
    const std::string name = fmt::format("t{}/", t);
    const ValueId h = m.map(Fn::tanh, {m.dot(x, m.weight(name + "w", {8, 8}))});
    ir::Graph::NewOp op{OpKind::host, ir::HostAttr{m.str("sample"), t == 1, way}, {h, sum}};
    op.type = t == 3 ? Maker::type({0}, DType::i8) : Maker::type({4, 8});
    const ValueId made = m.g.add(std::move(op));
    sum = m.add(sum, m.map(Fn::relu, {m.dot(t == 3 ? h : made, m.weight(name + "v", {8, 8}))}));
  }
  ir::Graph::NewOp marked{OpKind::map, ir::MapAttr{Fn::exp}, {sum}};
  marked.outside = true;
  const ValueId kept = m.assign(m.param("state", {4, 8}), m.g.add(std::move(marked)));
  m.output("y", m.softmax(m.mul(m.read(kept), sum)));
  return m.g;
}

/// The same nodes on any lanes, and edges for them.
inline void spread(Program& p, uint32_t lanes, std::mt19937& random) {
  for (Body& body : p.bodies) {
    if (body.stream) continue;
    body.lanes = lanes;
    std::vector<uint32_t> length(lanes, 0);
    for (Node& n : body.nodes) {
      n.lane = below(random, lanes);
      n.position = length[n.lane]++;
    }
  }
  emit_edges(p, Options{});
}

/// On the lanes that the planner finds, or on any.
inline Program compiled(const ir::Graph& g, uint32_t lanes, bool planned, bool reuse, bool fuse,
                        std::mt19937& random) {
  Options o;
  o.force_lanes = planned;
  o.reuse = reuse;
  o.fuse = fuse;
  o.streams = static_cast<int>(lanes);
  Program p = run_passes(g, o).program;
  p.modules.clear();  // texts have no part in this
  if (lanes > 1 && !planned) spread(p, lanes, random);
  return p;
}

/// Compiled models and graphs at random, on one lane and on eight.
inline std::vector<Program> compiled_programs() {
  std::mt19937 random(70);
  std::vector<ir::Graph> graphs{mlp(), encoder(), towers(), calls(ir::HostWay::script),
                                calls(ir::HostWay::handshake)};
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    graphs.push_back(random_graph(seed, {.ops = 25, .max_numel = 64}));
  }
  for (int i = 0; i < 6; ++i) graphs.push_back(random_graph(random, 25));
  std::vector<Program> all;
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (uint32_t lanes : {1u, 8u}) {
      all.push_back(
          compiled(graphs[i], lanes, lanes == 1 || i % 2, i % 4 != 0, i % 3 != 0, random));
    }
  }
  return all;
}

}  // namespace braid::test
