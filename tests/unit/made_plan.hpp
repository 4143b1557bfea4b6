// Programs made by hand: several graphs, host calls, streams, breaks. Only what dumps look at.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.hpp"

namespace braid::testing {

class MadePlan {
 public:
  explicit MadePlan(std::string name) { p.name = std::move(name); }

  /// A view of a whole buffer of so many f32, holding a value of its own.
  uint32_t tensor(std::string name, Segment segment, int64_t elements, int64_t offset = 0) {
    const TensorType type{DType::f32, {elements}};
    p.buffers.push_back({std::move(name), segment, type, type.bytes(), offset});
    const auto index = static_cast<uint32_t>(p.views.size());
    p.views.push_back({static_cast<uint32_t>(p.buffers.size() - 1), 0, type, {1}, 100 + index});
    return index;
  }

  uint32_t body(uint32_t run, uint32_t lanes = 1, bool stream = false) {
    Body b;
    b.run = run;
    b.lanes = lanes;
    b.stream = stream;
    p.bodies.push_back(std::move(b));
    const auto index = static_cast<uint32_t>(p.bodies.size() - 1);
    p.script.push_back({Step::Kind::launch, index});
    return index;
  }

  /// Appends a node with a kernel of its own to the newest body.
  Node& node(uint32_t lane, std::vector<std::string> ops, const std::vector<uint32_t>& reads,
             const std::vector<uint32_t>& writes, double us = 1, double start = 0) {
    Body& b = p.bodies.back();
    Kernel k;
    k.family = "row";
    k.symbol = fmt::format("row_{}", p.kernels.size());
    k.flops = 100;
    k.bytes_moved = 2048;
    Node n;
    n.kernel = static_cast<uint32_t>(p.kernels.size());
    for (uint32_t v : reads) add(k, n, v, Role::in);
    for (uint32_t v : writes) add(k, n, v, Role::out);
    p.kernels.push_back(std::move(k));
    n.ops = std::move(ops);
    n.place = fmt::format("m.toml:{}:3", 10 + p.kernels.size());
    n.level = n.earliest = n.latest = b.run;
    n.lane = lane;
    for (const Node& other : b.nodes) n.position += other.lane == lane;
    n.estimate_us = us;
    n.start_us = start;
    b.nodes.push_back(std::move(n));
    return b.nodes.back();
  }

  void edge(uint32_t from, uint32_t to, EdgeReason reason, uint32_t view = UINT32_MAX,
            EdgeKind kind = EdgeKind::full) {
    const uint32_t buffer = view == UINT32_MAX ? UINT32_MAX : p.views[view].buffer;
    p.bodies.back().edges.push_back({from, to, kind, reason, buffer});
  }

  Call& call(std::string function, std::string op, const std::vector<uint32_t>& args,
             const std::vector<uint32_t>& results, uint32_t run) {
    Call c;
    c.function = std::move(function);
    c.op = std::move(op);
    c.args = args;
    c.results = results;
    for (uint32_t v : args) c.values.push_back(p.views[v].value);
    for (uint32_t v : results) c.result_values.push_back(p.views[v].value);
    c.place = "m.toml:40:3";
    c.level = c.earliest = c.latest = run;
    c.copies_us = 6.24;
    p.calls.push_back(std::move(c));
    const auto index = static_cast<uint32_t>(p.calls.size() - 1);
    for (Step::Kind k : {Step::Kind::read, Step::Kind::wait, Step::Kind::call, Step::Kind::write}) {
      p.script.push_back({k, index});
    }
    return p.calls.back();
  }

  Program p;

 private:
  void add(Kernel& k, Node& n, uint32_t view, Role role) const {
    k.args.push_back({fmt::format("{}{}", role == Role::in ? 'a' : 'r', k.args.size()), role,
                      p.views[view].type});
    n.args.push_back(view);
    n.values.push_back(p.views[view].value);
    n.values_before.push_back(UINT32_MAX);
  }
};

/// Two graphs with a host call between them: a diamond on two streams, then two copies of a block;
/// and a kernel that stands outside graphs.
inline Program made_of_parts() {
  MadePlan m("parts");
  m.p.options = "target=sm_90 streams=4 fuse=on";
  m.p.source_ops = 30;
  m.p.repeats = {{"block", 2}};
  const uint32_t x = m.tensor("x", Segment::input, 256), w = m.tensor("w", Segment::param, 256);
  const uint32_t a = m.tensor("a", Segment::temp, 256, 0),
                 b = m.tensor("b", Segment::temp, 256, 1024);
  const uint32_t c = m.tensor("c", Segment::temp, 256, 2048),
                 d = m.tensor("d", Segment::temp, 256, 0);
  const uint32_t e = m.tensor("e", Segment::temp, 256, 1024),
                 f = m.tensor("f", Segment::temp, 256, 0);
  const uint32_t h = m.tensor("h", Segment::temp, 256, 2048),
                 y = m.tensor("y", Segment::output, 256);
  m.body(0, 2);
  m.node(0, {"embed (gather)"}, {x}, {a}, 1, 0);
  m.node(0, {"q (dot)", "q2 (add)"}, {a, w}, {b}, 2, 1.5);
  m.node(1, {"k (dot)"}, {a}, {c}, 1, 1.5);
  m.node(0, {"o (add)"}, {b, c}, {d}, 1, 4);
  m.edge(0, 1, EdgeReason::raw, a);
  m.edge(0, 2, EdgeReason::raw, a, EdgeKind::programmatic);
  m.edge(1, 3, EdgeReason::raw, b);
  m.edge(2, 3, EdgeReason::raw, c);
  m.p.bodies[0].predicted_us = 5;
  m.p.bodies[0].chain_us = 6.25;
  m.call("sample", "pick (host)", {d}, {e}, 1);
  m.body(1, 1, true);
  m.node(0, {"keep (cast)"}, {d}, {h}, 1.25);
  m.body(2);
  m.node(0, {"block0/u (exp)"}, {e, h}, {f}, 1.5);
  m.node(0, {"block1/u (exp)"}, {f}, {y}, 1.5, 2);
  m.edge(0, 1, EdgeReason::raw, f);
  m.p.bodies[2].predicted_us = 3.5;
  m.p.bodies[2].chain_us = 3.5;
  m.p.graphs = 2;
  m.p.runs = 3;
  m.p.certificate = {"embed (gather)", "pick (host)", "block0/u (exp)"};
  m.p.breaks = {{"pick (host)", "m.toml:40:3", 1, "the host function 'sample' returns tensors",
                 "write it as ops, or call it after the last graph"},
                {"keep (cast)", "m.toml:15:3", 1, "it is marked graph = false", "remove the mark"}};
  m.p.arena_bytes = 3072;
  m.p.arena_lower_bound = 3000;
  m.p.temp_bytes_unshared = 7168;
  return m.p;
}

}  // namespace braid::testing
