// Hand-made Programs that send messages, for the runtime's tests.
#pragma once

#include <functional>

#include "runtime_help.hpp"

namespace braid::testing {

inline const TensorType kF32{DType::f32, Shape{}};
inline const TensorType kOneI32{DType::i32, Shape{}};
inline const TensorType kOneB1{DType::b1, Shape{}};

/// A Program of one body whose kernels send. Buffers are views of the same number.
class Sender {
 public:
  explicit Sender(const std::string& name) : p(empty_program(name)) {
    ring = add_buffer(p, "ring", Segment::ring, ir::kRingType);
  }

  uint32_t source(ir::MessageKind kind, const std::string& text, const TensorType& type,
                  uint32_t loops = 0) {
    const auto id = static_cast<uint32_t>(p.messages.size());
    p.messages.push_back({kind, text, type, loops, text + " (send)",
                          "model.toml:" + std::to_string(10 + id) + ":3"});
    return id;
  }

  /// A kernel that sends `value` of `buffers`, inputs a0, a1, .. of their types, and the numbers
  /// that follow it there.
  uint32_t send(uint32_t id, std::vector<uint32_t> buffers, bool ends_launch, uint32_t body = 0) {
    Kernel k;
    k.symbol = "send_" + std::to_string(p.kernels.size());
    k.family = "row";
    ir::Graph& g = k.body;
    std::vector<ir::ValueId> operands;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string name = "a" + std::to_string(i);
      const TensorType& type = p.buffers[buffers[i]].type;
      operands.push_back(g.add({ir::OpKind::input, {}, {}, type, g.strings.intern(name)}));
      k.args.push_back({name, Role::in, type});
    }
    operands.insert(
        operands.begin(),
        g.add({ir::OpKind::param, ir::RingAttr{}, {}, ir::kRingType, g.strings.intern("s0")}));
    k.args.push_back({"s0", Role::inout, ir::kRingType});
    g.add({ir::OpKind::send, ir::SendAttr{p.messages[id].kind, {}, id, ends_launch}, operands});
    p.kernels.push_back(std::move(k));
    buffers.push_back(ring);
    return node(static_cast<uint32_t>(p.kernels.size() - 1), std::move(buffers), body);
  }

  /// Kernels stand in a row.
  uint32_t node(uint32_t kernel, std::vector<uint32_t> views, uint32_t body = 0) {
    Node n;
    n.kernel = kernel;
    n.values = views;
    n.values_before.assign(views.size(), UINT32_MAX);
    n.args = std::move(views);
    std::vector<Node>& nodes = p.bodies[body].nodes;
    n.ops = {"op" + std::to_string(nodes.size())};
    nodes.push_back(std::move(n));
    const auto at = static_cast<uint32_t>(nodes.size() - 1);
    if (at > 0) p.bodies[body].edges.push_back({at - 1, at, EdgeKind::full, EdgeReason::raw, ring});
    return at;
  }

  Program p;
  uint32_t ring = 0;
};

/// Prints x f32[], item loss = x, print y f32[37]; a check of `bad`, an input, ends the launch.
inline Program talkative() {
  Sender s("talkative");
  const uint32_t x = add_buffer(s.p, "x", Segment::input, kF32);
  const uint32_t y = add_buffer(s.p, "y", Segment::input, floats());
  const uint32_t bad = add_buffer(s.p, "bad", Segment::input, kOneI32);
  s.send(s.source(ir::MessageKind::print, "x", kF32), {x}, false);
  s.send(s.source(ir::MessageKind::item, "loss", kF32), {x}, false);
  s.send(s.source(ir::MessageKind::print, "y", floats()), {y}, false);
  s.send(s.source(ir::MessageKind::check, "finite", kOneI32), {bad}, true);
  return s.p;
}

/// n times by a WHILE node: prints i = 0, 1, .. with its number, and whether i is `bad`. n >= 1.
inline Program counting(const std::string& name = "counting") {
  Sender s(name);
  const uint32_t n = add_buffer(s.p, "n", Segment::input, kOneI32);
  const uint32_t bad = add_buffer(s.p, "bad", Segment::input, kOneI32);
  const uint32_t i = add_buffer(s.p, "i", Segment::temp, kOneI32, 0);
  const uint32_t fails = add_buffer(s.p, "fails", Segment::temp, kOneI32, 256);
  s.p.arena_bytes = 512;
  const uint32_t more = add_buffer(s.p, "more", Segment::handle, kOneB1);
  s.p.buffers[more].bytes = 0;

  Region region;
  region.loop = true;
  region.flag = more;
  region.bodies = {1};
  region.op = "loop";
  s.p.regions.push_back(region);
  Body body;
  body.region = 0;
  s.p.bodies.push_back(body);

  Kernel begin;  // r0 = 0 * a0, h0 = true
  begin.symbol = "begin";
  begin.family = "row";
  {
    ir::Graph& g = begin.body;
    const auto a = g.add({ir::OpKind::input, {}, {}, kOneI32, g.strings.intern("a0")});
    const auto h = g.add({ir::OpKind::param, ir::HandleAttr{}, {}, kOneB1, g.strings.intern("h0")});
    const auto zero = g.splat(kOneI32, 0);
    g.add({ir::OpKind::assign, {}, {h, g.add({ir::OpKind::map, ir::MapAttr{Fn::gt}, {a, zero}})}});
    const auto r = g.add({ir::OpKind::map, ir::MapAttr{Fn::mul}, {a, zero}});
    g.outputs.push_back({"r0", r, {}});
    begin.args = {{"a0", Role::in, kOneI32}, {"h0", Role::out, kOneB1}, {"r0", Role::out, kOneI32}};
  }
  Kernel test;  // r0 = a0 == a1
  test.symbol = "test";
  test.family = "row";
  {
    ir::Graph& g = test.body;
    const auto a = g.add({ir::OpKind::input, {}, {}, kOneI32, g.strings.intern("a0")});
    const auto b = g.add({ir::OpKind::input, {}, {}, kOneI32, g.strings.intern("a1")});
    const auto same = g.add({ir::OpKind::map, ir::MapAttr{Fn::eq}, {a, b}});
    const auto r = g.add({ir::OpKind::map, ir::MapAttr{Fn::cast}, {same}, kOneI32});
    g.outputs.push_back({"r0", r, {}});
    test.args = {{"a0", Role::in, kOneI32}, {"a1", Role::in, kOneI32}, {"r0", Role::out, kOneI32}};
  }
  Kernel step;  // s0 = s0 + 1, h0 = s0 < a0
  step.symbol = "step";
  step.family = "row";
  {
    ir::Graph& g = step.body;
    const auto a = g.add({ir::OpKind::input, {}, {}, kOneI32, g.strings.intern("a0")});
    const auto v = g.add({ir::OpKind::param, ir::LocalAttr{}, {}, kOneI32, g.strings.intern("s0")});
    const auto h = g.add({ir::OpKind::param, ir::HandleAttr{}, {}, kOneB1, g.strings.intern("h0")});
    const auto old = g.add({ir::OpKind::read, {}, {v}});
    const auto next = g.add({ir::OpKind::map, ir::MapAttr{Fn::add}, {old, g.splat(kOneI32, 1)}});
    g.add({ir::OpKind::assign, {}, {v, next}});
    g.add({ir::OpKind::assign, {}, {h, g.add({ir::OpKind::map, ir::MapAttr{Fn::lt}, {next, a}})}});
    step.args = {
        {"a0", Role::in, kOneI32}, {"s0", Role::inout, kOneI32}, {"h0", Role::out, kOneB1}};
  }
  s.p.kernels = {begin, test, step};

  s.node(0, {n, more, i});
  Node loop;
  loop.kernel = kNoKernel;
  loop.region = 0;
  loop.ops = {"loop"};
  s.p.bodies[0].nodes.push_back(loop);
  s.p.bodies[0].edges.push_back({0, 1, EdgeKind::full, EdgeReason::raw, more});
  s.send(s.source(ir::MessageKind::item, "n", kOneI32), {n}, true);

  s.send(s.source(ir::MessageKind::print, "i", kOneI32, 1), {i, i}, false, 1);
  s.node(1, {i, bad, fails}, 1);
  s.send(s.source(ir::MessageKind::check, "good", kOneI32, 1), {fails, i}, false, 1);
  s.node(2, {n, i, more}, 1);
  return s.p;
}

inline HostTensor scalar(double x, const TensorType& type = kF32) {
  HostTensor t(type);
  t.set(0, x);
  return t;
}

}  // namespace braid::testing
