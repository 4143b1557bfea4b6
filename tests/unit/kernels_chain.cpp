#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "kernels_kit.hpp"
#include "passes/kernels/chain.hpp"

namespace braid::test {
namespace {

using V = Body::V;

V mean_of_rows(Body& b, V x, int64_t rows, int64_t columns) {
  return b.map(Fn::mul,
               {b.reduce(Fn::add, x, {1}), b.splat(1.0 / static_cast<double>(columns), {rows})});
}

/// A layer norm of f32 rows with its weights.
V norm(Body& b, V x, V gain, V bias, int64_t rows, int64_t columns) {
  const auto over = [&](V per_row) { return b.broadcast(per_row, {rows, columns}, {0}); };
  const V centred = b.map(Fn::sub, {x, over(mean_of_rows(b, x, rows, columns))});
  const V variance = mean_of_rows(b, b.map(Fn::mul, {centred, centred}), rows, columns);
  const V scale = b.map(Fn::rsqrt, {b.map(Fn::add, {variance, b.splat(1e-5, {rows})})});
  const V scaled = b.map(Fn::mul, {centred, over(scale)});
  return b.map(Fn::add, {b.map(Fn::mul, {scaled, b.broadcast(gain, {rows, columns}, {1})}),
                         b.broadcast(bias, {rows, columns}, {1})});
}

class List {
 public:
  template <class Write>
  void add(const char* name, Write write) {
    Body b;
    write(b);
    cases.push_back({name, "chain", std::move(b.graph)});
  }

  void perceptron(const char* name, int64_t m, int64_t k, int64_t hidden, int64_t n, DType t,
                  bool transposed = false) {
    add(name, [=](Body& b) {
      const V x = b.in({m, k}, t);
      const V w1 = transposed ? b.in({hidden, k}, t) : b.in({k, hidden}, t);
      const V h = b.map(Fn::add, {b.dot(x, w1, false, transposed),
                                  b.broadcast(b.in({hidden}, t), {m, hidden}, {1})});
      const V w2 = transposed ? b.in({n, hidden}, t) : b.in({hidden, n}, t);
      const V y = b.dot(b.map(Fn::relu, {h}), w2, false, transposed);
      b.out(b.map(Fn::add, {y, b.broadcast(b.in({n}, t), {m, n}, {1})}));
    });
  }

  void norm_in_front(const char* name, int64_t m, int64_t k, int64_t n, DType t,
                     bool kept = false) {
    add(name, [=](Body& b) {
      const V x = b.in({m, k}, t);
      const V gain = b.in({k}, t), bias = b.in({k}, t);
      const V wide = t == DType::f32 ? x : b.cast(x, DType::f32);
      const V g = t == DType::f32 ? gain : b.cast(gain, DType::f32);
      const V c = t == DType::f32 ? bias : b.cast(bias, DType::f32);
      V y = norm(b, wide, g, c, m, k);
      if (t != DType::f32) y = b.cast(y, t);
      if (kept) b.out(y);
      const V w = b.in({n, k}, t), rest = b.in({m, n}, t);
      const V sum = b.map(Fn::add, {b.dot(y, w, false, true), rest});
      b.out(b.map(Fn::gelu, {sum}));
    });
  }

  void attention(const char* name, int64_t heads, int64_t rows, int64_t seen, int64_t depth,
                 DType t, bool masked = false) {
    add(name, [=](Body& b) {
      const int64_t width = heads * depth;
      const auto split = [&](V x, int64_t n) {
        return b.transpose(b.reshape(x, {n, heads, depth}), {1, 0, 2});
      };
      const V q = split(b.in({rows, width}, t), rows), k = split(b.in({seen, width}, t), seen);
      const V v = split(b.in({seen, width}, t), seen);
      V scores = b.map(Fn::mul, {b.dot(q, k, false, true), b.splat(0.25, {heads, rows, seen}, t)});
      if (t != DType::f32) scores = b.cast(scores, DType::f32);
      if (masked) {
        const V past = b.map(Fn::ge, {b.iota(1, {heads, rows, seen}, DType::i32),
                                      b.iota(2, {heads, rows, seen}, DType::i32)});
        scores = b.map(Fn::select, {past, scores, b.splat(-1e9, {heads, rows, seen})});
      }
      const auto over = [&](V per_row) {
        return b.broadcast(per_row, {heads, rows, seen}, {0, 1});
      };
      const V e = b.map(Fn::exp, {b.map(Fn::sub, {scores, over(b.reduce(Fn::max, scores, {2}))})});
      V p = b.map(Fn::div, {e, over(b.reduce(Fn::add, e, {2}))});
      if (t != DType::f32) p = b.cast(p, t);
      b.out(b.reshape(b.transpose(b.dot(p, v), {1, 0, 2}), {rows, width}));
    });
  }

  std::vector<KernelCase> cases;
};

}  // namespace

std::vector<KernelCase> chain_cases() {
  List list;
  list.perceptron("mlp_bf16", 128, 192, 256, 16, DType::bf16);
  list.perceptron("mlp_f16_rows", 48, 64, 96, 32, DType::f16, true);
  list.perceptron("mlp_f32", 12, 64, 128, 64, DType::f32);
  list.perceptron("mlp_f32_rows", 9, 36, 52, 28, DType::f32, true);
  list.perceptron("mlp_odd", 17, 13, 21, 7, DType::f32);
  list.perceptron("mlp_odd_bf16", 5, 19, 33, 11, DType::bf16);
  list.perceptron("mlp_one", 1, 64, 64, 64, DType::f32);
  list.norm_in_front("norm_row_bf16", 1, 768, 96, DType::bf16);
  list.norm_in_front("norm_rows_f16", 32, 384, 64, DType::f16, true);
  list.norm_in_front("norm_odd", 3, 129, 17, DType::f32, true);
  list.attention("decode_bf16", 3, 1, 128, 64, DType::bf16);
  list.attention("heads_f16", 4, 32, 32, 32, DType::f16);
  list.attention("heads_f32_masked", 2, 24, 24, 16, DType::f32, true);
  list.attention("heads_odd", 2, 5, 7, 3, DType::f32);
  // Three layers, and the last only where the sum of the second is positive.
  list.add("branch", [](Body& b) {
    V x = b.in({1, 64});
    const auto layer = [&](V h) {
      return b.map(Fn::add, {b.dot(h, b.in({64, 64})), b.broadcast(b.in({64}), {1, 64}, {1})});
    };
    const V h = layer(layer(x));
    const V yes = b.map(Fn::gt, {b.reduce(Fn::add, h, {0, 1}), b.splat(0, {})});
    b.out(b.map(Fn::select, {b.broadcast(yes, {1, 64}, {}), layer(h), h}));
  });
  // Its weights lie where no 16 bytes are aligned, and one operand is computed.
  list.add("computed_weights", [](Body& b) {
    const V x = b.in({16, 32}, DType::bf16), w = b.in({33, 48}, DType::bf16);
    const V part = b.slice(w, {1, 0}, {1, 1}, {32, 48});
    const V scaled = b.map(Fn::mul, {part, b.broadcast(b.in({32}, DType::bf16), {32, 48}, {0})});
    const V h = b.map(Fn::tanh, {b.dot(x, scaled)});
    b.out(h).out(b.dot(h, b.in({48, 24}, DType::bf16)));
  });
  // A cache whose row is replaced by the product.
  list.add("into_a_cache", [](Body& b) {
    const V x = b.in({1, 64}), at = b.in({}, DType::i32), cache = b.param({12, 32});
    const V total = b.reduce(Fn::add, x, {1});
    const V y = b.map(Fn::mul, {x, b.broadcast(total, {1, 64}, {0})});
    b.update(cache, b.dot(y, b.in({64, 32})), {at, b.splat(0, {}, DType::i32)});
  });
  fix_some_operands(list.cases);
  return std::move(list.cases);
}

/// What a chain is easily wrong about. Some cannot be computed by a chain; what can must be right.
std::vector<KernelCase> tricky_cases() {
  List list;
  // An earlier result is read at its own element and at another, and is a result itself.
  list.add("first_of_row", [](Body& b) {
    const V h = b.map(Fn::tanh, {b.dot(b.in({4, 64}), b.in({64, 64}))});
    const V first = b.broadcast(b.slice(h, {0, 0}, {1, 1}, {4, 1}), {4, 64}, {0, 1});
    b.out(h).out(b.dot(b.map(Fn::mul, {first, h}), b.in({64, 64})));
  });
  list.add("rotated", [](Body& b) {
    const V h = b.map(Fn::tanh, {b.dot(b.in({4, 64}), b.in({64, 64}))});
    const V right = b.slice(h, {0, 32}, {1, 1}, {4, 32}),
            left = b.slice(h, {0, 0}, {1, 1}, {4, 32});
    const V turned = b.concat({b.map(Fn::neg, {right}), left}, 1);
    b.out(h).out(b.dot(b.map(Fn::mul, {turned, b.in({4, 64})}), b.in({64, 64})));
  });
  // A param that other blocks write.
  list.add("state", [](Body& b) {
    const V s = b.param({1, 64});
    const V h = b.map(Fn::tanh, {b.dot(b.read(s), b.in({64, 64}))});
    b.assign(s, b.dot(h, b.in({64, 64})));
  });
  list.add("norm_of_state", [](Body& b) {
    const V s = b.param({1, 64}), x = b.read(s);
    const V total = b.broadcast(b.reduce(Fn::add, x, {1}), {1, 64}, {0});
    b.assign(s, b.dot(b.map(Fn::mul, {x, total}), b.in({64, 64})));
  });
  // The place of an update is what the kernel reduces.
  for (const bool in_operand : {true, false}) {
    list.add(in_operand ? "place_reduced" : "place_reduced_first", [=](Body& b) {
      const V pos = in_operand ? b.reduce(Fn::add, b.in({16}, DType::i32), {0})
                               : b.cast(b.reduce(Fn::add, b.in({1, 8}), {0, 1}), DType::i32);
      const V x = b.in({1, 64}), cache = b.param({12, 32});
      const V y = b.map(Fn::mul, {x, b.broadcast(b.cast(pos, DType::f32), {1, 64}, {})});
      b.update(cache, b.dot(y, b.in({64, 32})), {pos, b.splat(0, {}, DType::i32)});
    });
  }
  // Elements of an earlier result that lie in other blocks' parts.
  list.add("other_heads", [](Body& b) {
    const V d = b.dot(b.in({4, 8, 32}), b.in({4, 32, 16}));
    const V v = b.map(Fn::tanh, {b.reshape(b.transpose(d, {1, 0, 2}), {8, 64})});
    const V p = b.slice(v, {0, 0}, {1, 1}, {8, 8}), q = b.slice(v, {0, 8}, {1, 1}, {8, 8});
    b.out(v).out(b.dot(b.map(Fn::add, {p, q}), b.in({8, 16})));
  });
  list.add("other_columns", [](Body& b) {
    const V d = b.reduce(Fn::add, b.in({8, 4, 16, 20}), {3});
    const V v = b.map(Fn::tanh, {b.reshape(d, {8, 64})});
    const V p = b.slice(v, {0, 0}, {1, 1}, {8, 8}), q = b.slice(v, {0, 8}, {1, 1}, {8, 8});
    b.out(v).out(b.dot(b.map(Fn::add, {p, q}), b.in({8, 16})));
  });
  // The last product at two places; many terms, which a cluster would share.
  for (const int64_t k : {64, 2048}) {
    list.add(k == 64 ? "twice" : "twice_in_a_cluster", [=](Body& b) {
      const V x = b.in({1, k});
      const V total = b.broadcast(b.reduce(Fn::add, x, {1}), {1, k}, {0});
      const V y = b.dot(b.map(Fn::mul, {x, total}), b.in({k, 64}));
      const V first = b.slice(y, {0, 0}, {1, 1}, {1, 8});
      b.out(b.map(Fn::add, {y, b.reshape(b.broadcast(first, {1, 8, 8}, {0, 2}), {1, 64})}));
    });
  }
  // A reduction is asked for at its own row and at row 0.
  for (const int64_t rows : {1, 8, 16}) {
    list.add(rows == 1   ? "row_of_one"
             : rows == 8 ? "row_of_eight"
                         : "row_of_more",
             [=](Body& b) {
               const V x = b.in({rows, 64}), r = b.reduce(Fn::add, x, {1});
               const auto over = [&](V v) { return b.broadcast(v, {rows, 64}, {0}); };
               const V first = over(b.slice(r, {0}, {1}, {1}));
               const V s = b.reduce(Fn::add, b.map(Fn::mul, {x, first}), {1});
               const V a =
                   b.map(Fn::mul, {b.map(Fn::mul, {b.map(Fn::mul, {x, over(r)}), first}), over(s)});
               b.out(b.dot(a, b.in({64, 64})));
             });
  }
  // Indices that are loaded in two stages.
  list.add("gathers", [](Body& b) {
    const V x = b.in({4, 32}), at = b.in({4, 32}, DType::i32);
    const V r = b.cast(b.reduce(Fn::max, b.gather(b.in({9}), at, 0), {1}), DType::i32);
    const V g = b.broadcast(b.gather(b.in({8}), r, 0), {4, 32}, {0});
    b.out(b.dot(b.map(Fn::mul, {x, g}), b.in({32, 8})));
  });
  list.add("gathered_product", [](Body& b) {
    const V y = b.dot(b.in({4, 32}), b.in({32, 8}));
    b.out(b.dot(b.gather(b.in({8}), b.cast(y, DType::i32), 0), b.in({8, 8})));
  });
  // A reduction that comes after the last product in the body and does not depend on it.
  list.add("reduced_beside", [](Body& b) {
    const V h = b.dot(b.in({2, 32}), b.in({32, 48})), y = b.dot(h, b.in({48, 16}));
    const V most = b.broadcast(b.reduce(Fn::max, h, {1}), {2, 16}, {0});
    b.out(b.map(Fn::mul, {y, most}));
  });
  fix_some_operands(list.cases);
  return std::move(list.cases);
}

TEST_CASE("kernels: chains compile without local memory") { check_compiles(chain_cases()); }

TEST_CASE("kernels: chains give the interpreter's numbers") { check_numbers(chain_cases()); }

TEST_CASE("kernels: chains of random sizes give the interpreter's numbers") {
  std::mt19937 random(31);
  const auto upto = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  // Half of them sizes that tensor cores and packs like.
  const auto size = [&](int64_t most) {
    return random() % 2 == 0 ? upto(most) : 16 * upto(std::max<int64_t>(1, most / 16));
  };
  List list;
  std::vector<std::string> names(36);  // which the cases point to
  for (size_t i = 0; i < names.size(); ++i) {
    const DType t = std::array{DType::f32, DType::f16, DType::bf16}[random() % 3];
    names[i] = fmt::format("random_{}", i);
    const char* name = names[i].c_str();
    switch (i % 3) {
      case 0:
        list.perceptron(name, size(40), size(90), size(90), size(70), t, random() % 2 == 0);
        break;
      case 1:
        list.norm_in_front(name, size(40), 1 + size(300), size(90), t, random() % 2 == 0);
        break;
      default:
        list.attention(name, upto(4), size(40), size(90), size(40), t, random() % 2 == 0);
    }
  }
  fix_some_operands(list.cases);
  check_numbers(list.cases);
}

TEST_CASE("kernels: what chains are easily wrong about is right or refused") {
  std::vector<KernelCase> right;
  std::string refused;
  for (const KernelCase& c : tricky_cases()) {
    const std::string why = kernels::chain_refuses(c.body);
    if (why.empty()) {
      right.push_back(c);
    } else {
      refused += fmt::format("{}: {}\n", c.name, why);
    }
  }
  CAPTURE(refused);
  CHECK(refused.find("state: it reads a param that it writes\n") != std::string::npos);
  CHECK(refused.find("norm_of_state: it reads a param that it writes\n") != std::string::npos);
  CHECK(right.size() >= 10);
  check_compiles(right);
  check_numbers(right);
}

TEST_CASE("kernels: an earlier result that is made of itself sixty times is planned at once") {
  Body b;
  V h = b.dot(b.in({4, 32}), b.in({32, 32}));
  for (int i = 0; i < 60; ++i) h = b.map(Fn::mul, {b.map(Fn::add, {h, h}), b.splat(0.5, {4, 32})});
  b.out(h).out(b.dot(h, b.in({32, 16})));
  CHECK(kernels::chain_refuses(b.graph).empty());
}

TEST_CASE("kernels: what no chain can compute is said") {
  const auto refused = [](auto write) {
    Body b;
    write(b);
    return kernels::chain_refuses(b.graph);
  };
  CHECK(refused([](Body& b) { b.out(b.dot(b.in({4, 8}), b.in({8, 4}))); }) ==
        "its matrix product stands alone, which is the dot family's");
  CHECK(refused([](Body& b) { b.out(b.reduce(Fn::add, b.in({4, 8}), {1})); }) ==
        "it has no matrix product, which is the row family's");
  CHECK(refused([](Body& b) {
          const V y = b.dot(b.dot(b.in({4, 8}), b.in({8, 8})), b.in({8, 4}));
          b.out(b.reduce(Fn::add, y, {1}));
        }) == "it reduces what its last matrix product gives");
  CHECK(refused([](Body& b) {
          const V h = b.dot(b.in({2048, 2048}), b.in({2048, 2048}));
          b.out(b.dot(h, b.in({2048, 2048})));
        }) == "a block's part does not fit in shared memory");
}

}  // namespace braid::test
