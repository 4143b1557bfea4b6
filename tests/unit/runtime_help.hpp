// Hand-made Programs for the runtime's tests, with the results they must give.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.hpp"
#include "ir/tensor.hpp"
#include "runtime/context.hpp"
#include "runtime/executable.hpp"
#include "runtime/simulator.hpp"

namespace braid::testing {

inline constexpr int64_t kCount = 37;

inline TensorType floats(int64_t count = kCount) { return {DType::f32, Shape::of({{count}})}; }

/// A kernel r0 = fn(a0, a1).
inline Kernel binary_kernel(Fn fn, const std::string& symbol, const TensorType& type) {
  Kernel k;
  k.symbol = symbol;
  k.family = "row";
  ir::Graph& g = k.body;
  const auto a = g.add({ir::OpKind::input, {}, {}, type, g.strings.intern("a0")});
  const auto b = g.add({ir::OpKind::input, {}, {}, type, g.strings.intern("a1")});
  const auto r = g.add({ir::OpKind::map, ir::MapAttr{fn}, {a, b}});
  g.outputs.push_back({"r0", r, {}});
  k.args = {{"a0", Role::in, type}, {"a1", Role::in, type}, {"r0", Role::out, type}};
  k.launch = {{2, 1, 1}, {64, 1, 1}, 0};
  return k;
}

/// A kernel s0 = s0 + a0, in place.
inline Kernel accumulate_kernel(const std::string& symbol, const TensorType& type) {
  Kernel k;
  k.symbol = symbol;
  k.family = "row";
  ir::Graph& g = k.body;
  const auto a = g.add({ir::OpKind::input, {}, {}, type, g.strings.intern("a0")});
  const auto s = g.add({ir::OpKind::param, ir::ParamAttr{}, {}, type, g.strings.intern("s0")});
  const auto old = g.add({ir::OpKind::read, {}, {s}});
  const auto sum = g.add({ir::OpKind::map, ir::MapAttr{Fn::add}, {old, a}});
  g.add({ir::OpKind::assign, {}, {s, sum}});
  k.args = {{"a0", Role::in, type}, {"s0", Role::inout, type}};
  k.launch = {{1, 1, 1}, {128, 1, 1}, 0};
  return k;
}

/// A kernel r0 = cast(a0).
inline Kernel cast_kernel(const std::string& symbol, const TensorType& from, const TensorType& to) {
  Kernel k;
  k.symbol = symbol;
  k.family = "row";
  ir::Graph& g = k.body;
  const auto a = g.add({ir::OpKind::input, {}, {}, from, g.strings.intern("a0")});
  const auto r = g.add({ir::OpKind::map, ir::MapAttr{Fn::cast}, {a}, to});
  g.outputs.push_back({"r0", r, {}});
  k.args = {{"a0", Role::in, from}, {"r0", Role::out, to}};
  return k;
}

/// Adds a buffer and a view of all of it; returns the index of both.
inline uint32_t add_buffer(Program& p, const std::string& name, Segment segment,
                           const TensorType& type, int64_t offset = 0) {
  const auto index = static_cast<uint32_t>(p.buffers.size());
  p.buffers.push_back({name, segment, type, type.bytes(), offset});
  p.views.push_back({index, 0, type, row_major_strides(type.shape.extents()), index});
  if (segment == Segment::input) p.inputs.push_back({name, index});
  if (segment == Segment::output) p.outputs.push_back({name, index});
  if (segment == Segment::param) {
    ParamBinding param;
    param.name = name;
    param.buffer = index;
    p.params.push_back(param);
  }
  return index;
}

inline void add_node(Program& p, uint32_t kernel, std::vector<uint32_t> views) {
  Node n;
  n.kernel = kernel;
  n.values = views;
  n.values_before.assign(views.size(), UINT32_MAX);
  n.args = std::move(views);
  n.ops = {"op" + std::to_string(p.bodies[0].nodes.size())};
  p.bodies[0].nodes.push_back(std::move(n));
}

inline Program empty_program(const std::string& name) {
  Program p;
  p.name = name;
  p.modules.resize(1);
  p.bodies.resize(1);
  p.script.push_back({});
  return p;
}

/// node 0: t0 = x * w; node 1: t1 = x - b; node 2: y = t0 + t1; node 3: total += t0.
/// x, b: inputs; w: param; total: state, zeros at first; y: output.
inline Program diamond() {
  Program p = empty_program("diamond");
  p.kernels = {
      binary_kernel(Fn::mul, "row_mul", floats()), binary_kernel(Fn::sub, "row_sub", floats()),
      binary_kernel(Fn::add, "row_add", floats()), accumulate_kernel("row_accumulate", floats())};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(p, "b", Segment::input, floats());
  const uint32_t w = add_buffer(p, "w", Segment::param, floats());
  const uint32_t total = add_buffer(p, "total", Segment::param, floats());
  p.params[1].init = ir::Init::zeros;
  p.params[1].written = true;
  const uint32_t t0 = add_buffer(p, "t0", Segment::temp, floats(), 0);
  const uint32_t t1 = add_buffer(p, "t1", Segment::temp, floats(), 256);
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  p.arena_bytes = 512;
  add_node(p, 0, {x, w, t0});
  add_node(p, 1, {x, b, t1});
  add_node(p, 2, {t0, t1, y});
  add_node(p, 3, {t0, total});
  p.bodies[0].edges = {{0, 2, EdgeKind::full, EdgeReason::raw, t0},
                       {1, 2, EdgeKind::full, EdgeReason::raw, t1},
                       {0, 3, EdgeKind::full, EdgeReason::raw, t0}};
  return p;
}

inline std::map<std::string, HostTensor> diamond_inputs(uint64_t seed) {
  return {{"x", random_tensor(floats(), seed, "x")}, {"b", random_tensor(floats(), seed, "b")}};
}

/// y of the diamond for its inputs and w, every kernel's result rounded to f32.
inline std::vector<float> diamond_y(const std::map<std::string, HostTensor>& in,
                                    const HostTensor& w) {
  std::vector<float> y;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i));
    const float t0 = x * static_cast<float>(w.at(i));
    const float t1 = x - static_cast<float>(in.at("b").at(i));
    y.push_back(t0 + t1);
  }
  return y;
}

inline std::vector<float> values(const HostTensor& t) {
  std::vector<float> v;
  for (int64_t i = 0; i < t.numel(); ++i) v.push_back(static_cast<float>(t.at(i)));
  return v;
}

/// A simulator, a device on it and a store.
struct Bench {
  std::shared_ptr<runtime::Simulator> simulator;
  Device device;
  Store store;
  explicit Bench(const runtime::SimOptions& options = {})
      : Bench(runtime::make_simulator(options)) {}
  explicit Bench(const std::shared_ptr<runtime::Simulator>& sim)
      : simulator(sim), device(Device::on(sim)), store(device) {}
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace braid::testing
