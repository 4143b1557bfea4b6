// Kernels of several parts: one launch computes a body on several sets of arguments.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernels_kit.hpp"

namespace braid::test {
namespace {

using V = Body::V;

class List {
 public:
  template <class Write>
  void add(const std::string& name, const char* family, uint32_t parts, Write write) {
    Body b;
    write(b);
    cases.push_back({.name = fmt::format("{}_x{}", name, parts),
                     .family = family,
                     .body = std::move(b.graph),
                     .parts = parts});
  }
  /// A product of plain operands with a bias; f32 goes by way of tf32 where asked.
  void linear(const std::string& name, uint32_t parts, int64_t m, int64_t n, int64_t k, DType t,
              bool tf32 = false, bool tb = false) {
    add(name, "dot", parts, [=](Body& b) {
      const V x = b.in({m, k}, t), w = tb ? b.in({n, k}, t) : b.in({k, n}, t);
      const V bias = b.broadcast(b.in({n}, t), {m, n}, {1});
      b.out(b.map(Fn::relu, {b.map(Fn::add, {b.dot(x, w, false, tb, tf32), bias})}));
    });
  }
  std::vector<KernelCase> cases;
};

std::vector<KernelCase> grouped_cases() {
  List list;
  for (const uint32_t parts : {2u, 3u, 9u}) {
    list.add("map", "row", parts, [](Body& b) {
      const V x = b.in({7, 19}), y = b.in({7, 19});
      b.out(b.map(Fn::sub, {b.map(Fn::exp, {x}), y})).out(b.cast(x, DType::f16));
    });
    list.add("softmax", "row", parts, [](Body& b) {
      const V x = b.in({5, 77});
      const V top = b.broadcast(b.reduce(Fn::max, x, {1}), {5, 77}, {0});
      const V e = b.map(Fn::exp, {b.map(Fn::sub, {x, top})});
      b.out(b.map(Fn::div, {e, b.broadcast(b.reduce(Fn::add, e, {1}), {5, 77}, {0})}));
    });
    list.linear("f32", parts, 17, 45, 33, DType::f32);
    list.linear("f32_even", parts, 32, 64, 64, DType::f32);
    list.linear("tf32", parts, 37, 43, 53, DType::f32, true);
    list.linear("f16", parts, 40, 72, 152, DType::f16);
    list.linear("bf16", parts, 5, 48, 96, DType::bf16, false, true);
    list.linear("bf16_odd", parts, 19, 21, 35, DType::bf16);
  }
  // Enough rows in all for a warp each; rows whose columns lie apart; packs once all parts count.
  list.add("rows", "row", 8, [](Body& b) { b.out(b.reduce(Fn::add, b.in({160, 700}), {1})); });
  list.add("columns", "row", 4, [](Body& b) { b.out(b.reduce(Fn::max, b.in({40, 30}), {0})); });
  list.add("packs", "row", 6,
           [](Body& b) { b.out(b.map(Fn::tanh, {b.in({360, 256}, DType::bf16)})); });
  list.add("many", "row", 128, [](Body& b) { b.out(b.map(Fn::neg, {b.in({3}, DType::i32)})); });
  list.add("empty", "row", 3, [](Body& b) { b.out(b.map(Fn::neg, {b.in({4, 0})})); });
  list.add("gather", "row", 5,
           [](Body& b) { b.out(b.gather(b.in({9, 16}, DType::f16), b.in({21}, DType::i32), 0)); });
  // Written in place: every part its own params.
  list.add("append", "row", 4, [](Body& b) {
    const V cache = b.param({6, 8}), at = b.in({}, DType::i32);
    b.update(cache, b.map(Fn::exp, {b.in({1, 8})}), {at, b.splat(0, {}, DType::i32)});
  });
  list.add("adam", "row", 7, [](Body& b) {
    const V w = b.param({11, 13}), m = b.param({11, 13}), g = b.in({11, 13});
    const V next = b.map(Fn::add, {b.map(Fn::mul, {b.read(m), b.splat(0.9, {11, 13})}), g});
    b.assign(w, b.map(Fn::sub, {b.read(w), b.map(Fn::mul, {next, b.splat(0.01, {11, 13})})}));
    b.assign(m, next);
  });
  list.add("sgd", "dot", 3, [](Body& b) {
    const V w = b.param({40, 24}), x = b.in({60, 40}), g = b.in({60, 24});
    const V step = b.map(Fn::mul, {b.dot(x, g, true, false), b.splat(0.01, {40, 24})});
    b.assign(w, b.map(Fn::sub, {b.read(w), step}));
  });
  list.add("batched", "dot", 2, [](Body& b) {
    b.out(b.dot(b.in({2, 3, 17, 24}, DType::f16), b.in({2, 3, 24, 18}, DType::f16)));
  });
  list.add("integers", "dot", 3,
           [](Body& b) { b.out(b.dot(b.in({9, 20}, DType::i64), b.in({20, 11}, DType::i64))); });
  return std::move(list.cases);
}

TEST_CASE("kernels of several parts compile without local memory") {
  check_compiles(grouped_cases());
}

TEST_CASE("every part computes what the interpreter computes") { check_numbers(grouped_cases()); }

TEST_CASE("the grid's y axis counts the parts, which share the device") {
  Body b;
  b.out(b.map(Fn::neg, {b.in({132 * 2048})}));
  Body small;
  small.out(small.map(Fn::neg, {small.in({132 * 256})}));
  const kernels::Family& row = kernels::family("row");
  const auto launch = [&](const Body& body, uint32_t parts) {
    return row.emit(body.graph, "k", Target{}, {.parts = parts}).launch;
  };
  CHECK(launch(b, 3).grid == std::array<uint32_t, 3>{launch(b, 1).grid[0], 3, 1});
  // Four elements a thread: one part is too small for that, eight are not.
  CHECK(launch(small, 8).grid[0] * 4 == launch(small, 1).grid[0]);
  // One part takes a tile that spreads it over many SMs, 32 parts need not.
  Body dot;
  dot.out(dot.dot(dot.in({64, 256}), dot.in({256, 256})));
  const auto blocks = [&](uint32_t parts) {
    return kernels::family("dot").emit(dot.graph, "k", Target{}, {.parts = parts}).launch.grid[0];
  };
  CHECK(blocks(1) > blocks(32));
  // With one part the text knows nothing of parts.
  CHECK(row.emit(b.graph, "k", Target{}, {}).text.find("blockIdx.y") == std::string::npos);
}

}  // namespace
}  // namespace braid::test
