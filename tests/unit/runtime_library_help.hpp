// Programs with library ops for the runtime's tests, with the results they must give.
#pragma once

#include "runtime_help.hpp"

namespace braid::testing {

/// A kernel r0 = twice(a0), a call of a library function with a reference and a workspace.
inline Kernel library_kernel(const TensorType& type, int64_t workspace) {
  Kernel k;
  k.symbol = "library_twice";
  k.family = "library";
  k.code = Code::library;
  k.function = "twice";
  k.workspace = workspace;
  ir::Graph& g = k.body;
  const auto a = g.add({ir::OpKind::input, {}, {}, type, g.strings.intern("a0")});
  const ir::LibraryAttr attr{g.strings.intern("twice"), Dim(workspace), g.strings.intern("half")};
  const auto r = g.add({ir::OpKind::library, attr, {a}, type});
  g.outputs.push_back({"r0", r, {}});
  const std::vector<int64_t> bytes{workspace};
  k.args = {{"a0", Role::in, type},
            {"r0", Role::out, type},
            {"workspace", Role::out, {DType::u8, Shape::of(bytes)}}};
  return k;
}

/// The reference of 'twice': x -> 2 x + 1.
inline HostFunctions references() {
  return {{"half", [](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (int64_t i = 0; i < in[0].numel(); ++i) out[0].set(i, 2 * in[0].at(i) + 1);
           }}};
}

inline uint32_t add_workspace(Program& p, int64_t bytes, int64_t offset) {
  const std::vector<int64_t> extent{bytes};
  return add_buffer(p, "workspace", Segment::temp, {DType::u8, Shape::of(extent)}, offset);
}

/// 0: t0 = x * w   1: t1 = x - b   2: l0 = twice(t0)   3: l1 = twice(t1)   4: y = l0 + l1
/// 5: total += l0.   Nodes 1 and 3 on a lane of their own.
inline Program with_library() {
  Program p = empty_program("with_library");
  constexpr int64_t kBytes = 300;
  p.kernels = {binary_kernel(Fn::mul, "row_mul", floats()),
               binary_kernel(Fn::sub, "row_sub", floats()),
               binary_kernel(Fn::add, "row_add", floats()),
               accumulate_kernel("row_accumulate", floats()), library_kernel(floats(), kBytes)};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(p, "b", Segment::input, floats());
  const uint32_t w = add_buffer(p, "w", Segment::param, floats());
  const uint32_t total = add_buffer(p, "total", Segment::param, floats());
  p.params[1].init = ir::Init::zeros;
  p.params[1].written = true;
  const auto temp = [&](const char* name, int64_t offset) {
    return add_buffer(p, name, Segment::temp, floats(), offset);
  };
  const uint32_t t0 = temp("t0", 0), t1 = temp("t1", 256), l0 = temp("l0", 512),
                 l1 = temp("l1", 768);
  const uint32_t s0 = add_workspace(p, kBytes, 1024), s1 = add_workspace(p, kBytes, 1536);
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  p.arena_bytes = 2048;
  add_node(p, 0, {x, w, t0});
  add_node(p, 1, {x, b, t1});
  add_node(p, 4, {t0, l0, s0});
  add_node(p, 4, {t1, l1, s1});
  add_node(p, 2, {l0, l1, y});
  add_node(p, 3, {l0, total});
  p.bodies[0].lanes = 2;
  const uint32_t lanes[] = {0, 1, 0, 1, 0, 0}, positions[] = {0, 0, 1, 1, 2, 3};
  for (size_t n = 0; n < 6; ++n) {
    p.bodies[0].nodes[n].lane = lanes[n];
    p.bodies[0].nodes[n].position = positions[n];
  }
  p.bodies[0].edges = {{0, 2, EdgeKind::full, EdgeReason::raw, t0},
                       {1, 3, EdgeKind::full, EdgeReason::raw, t1},
                       {2, 4, EdgeKind::full, EdgeReason::raw, l0},
                       {3, 4, EdgeKind::full, EdgeReason::raw, l1},
                       {4, 5, EdgeKind::full, EdgeReason::lane}};
  return p;
}

inline std::vector<float> with_library_y(const std::map<std::string, HostTensor>& in,
                                         const HostTensor& w) {
  std::vector<float> y;
  const auto twice = [](float v) { return static_cast<float>(2 * static_cast<double>(v) + 1); };
  for (int64_t i = 0; i < kCount; ++i) {
    const auto x = static_cast<float>(in.at("x").at(i));
    const float t0 = x * static_cast<float>(w.at(i));
    const float t1 = x - static_cast<float>(in.at("b").at(i));
    y.push_back(twice(t0) + twice(t1));
  }
  return y;
}

/// y = twice(twice(x) - b): a library op reads an input, another one writes the output.
inline Program library_at_the_ends() {
  Program p = empty_program("ends");
  p.kernels = {binary_kernel(Fn::sub, "row_sub", floats()), library_kernel(floats(), 256)};
  const uint32_t x = add_buffer(p, "x", Segment::input, floats());
  const uint32_t b = add_buffer(p, "b", Segment::input, floats());
  const uint32_t t0 = add_buffer(p, "t0", Segment::temp, floats(), 0);
  const uint32_t t1 = add_buffer(p, "t1", Segment::temp, floats(), 256);
  const uint32_t s = add_workspace(p, 256, 512);
  const uint32_t y = add_buffer(p, "y", Segment::output, floats());
  p.arena_bytes = 768;
  add_node(p, 1, {x, t0, s});
  add_node(p, 0, {t0, b, t1});
  add_node(p, 1, {t1, y, s});
  for (uint32_t n = 0; n < 3; ++n) p.bodies[0].nodes[n].position = n;
  p.bodies[0].edges = {{0, 1, EdgeKind::full, EdgeReason::raw, t0},
                       {1, 2, EdgeKind::full, EdgeReason::raw, t1}};
  return p;
}

inline std::vector<float> library_at_the_ends_y(const std::map<std::string, HostTensor>& in) {
  std::vector<float> y;
  const auto twice = [](float v) { return static_cast<float>(2 * static_cast<double>(v) + 1); };
  for (int64_t i = 0; i < kCount; ++i) {
    const float t = twice(static_cast<float>(in.at("x").at(i)));
    y.push_back(twice(t - static_cast<float>(in.at("b").at(i))));
  }
  return y;
}

}  // namespace braid::testing
