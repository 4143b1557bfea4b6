#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels_kit.hpp"
#include "passes/kernels/dot_simt.hpp"

namespace braid::test {
namespace {

using V = Body::V;

class List {
 public:
  template <class Write>
  void add(const char* name, Write write) {
    Body b;
    write(b);
    cases.push_back({name, "dot", std::move(b.graph)});
  }
  void plain(const char* name, int64_t m, int64_t n, int64_t k, DType dtype = DType::f32) {
    add(name, [=](Body& b) {
      const V x = b.in({m, k}, dtype);
      b.out(b.dot(x, b.in({k, n}, dtype)));
    });
  }
  std::vector<KernelCase> cases;
};

}  // namespace

std::vector<KernelCase> dot_cases() {
  List list;
  list.plain("mlp", 128, 256, 256);
  list.plain("ffn", 32, 384, 1536);
  list.plain("gemv", 1, 300, 128);
  list.plain("outer", 40, 30, 1);
  list.plain("inner", 1, 1, 5000);
  list.plain("column", 200, 1, 64);
  list.plain("three", 3, 70, 33);
  list.plain("odd", 67, 45, 19);
  list.plain("wide_tile", 700, 760, 330);
  list.plain("widest_tile", 1400, 1530, 230);
  // Few elements and many terms: clusters share them.
  list.plain("towers_end", 32, 16, 2048);
  list.plain("cluster_odd", 13, 22, 1479);
  list.add("cluster_sgd", [](Body& b) {
    const V w = b.param({24, 16}), x = b.in({2048, 24}), g = b.in({2048, 16});
    const V step = b.map(Fn::mul, {b.dot(x, g, true, false), b.splat(0.01, {24, 16})});
    b.assign(w, b.map(Fn::sub, {b.read(w), step}));
  });
  // Rows that are no packs of 16 bytes, copied in words; packs along the other axis.
  list.plain("words", 64, 128, 239);
  list.plain("more_words", 36, 61, 200);
  list.plain("cluster_words", 24, 18, 1021);
  list.add("transposed",
           [](Body& b) { b.out(b.dot(b.in({96, 40}), b.in({96, 64}), true, false)); });
  list.add("cluster_transposed", [](Body& b) {
    const V y = b.dot(b.in({900, 20}), b.in({900, 24}), true, false);
    b.out(b.map(Fn::add, {y, b.broadcast(b.in({24}), {20, 24}, {1})}));
  });
  list.add("sliced", [](Body& b) {
    // Rows begin at 3, then at 16: only the second operand's packs are aligned.
    const V x = b.slice(b.in({20, 80}), {0, 3}, {1, 1}, {20, 64});
    b.out(b.dot(x, b.slice(b.in({64, 64}), {0, 16}, {1, 1}, {64, 48})));
  });
  list.add("strided", [](Body& b) {
    b.out(b.dot(b.slice(b.in({20, 130}), {0, 1}, {1, 2}, {20, 64}), b.in({64, 48})));
  });
  list.add("joined", [](Body& b) {
    const V x = b.concat({b.in({40, 30}), b.in({40, 34})}, 1);
    b.out(b.map(Fn::tanh, {b.dot(x, b.in({64, 32}))}));
  });
  list.add("interaction", [](Body& b) {
    const V first = b.reshape(b.in({5, 20}), {5, 1, 20});
    const V x = b.concat({first, b.in({5, 6, 20}), b.in({5, 2, 20})}, 1);
    b.out(b.dot(x, x, false, true));
  });
  list.plain("no_terms", 5, 6, 0);
  list.plain("no_result", 0, 6, 7);
  list.plain("in_f16", 33, 65, 100, DType::f16);
  list.plain("in_bf16", 64, 64, 64, DType::bf16);
  list.plain("in_f64", 31, 29, 200, DType::f64);
  list.plain("in_i32", 20, 21, 50, DType::i32);
  list.plain("in_i64", 20, 21, 50, DType::i64);
  list.add("linear_gelu", [](Body& b) {
    const V x = b.in({50, 48}), w = b.in({96, 48}), bias = b.in({96}), rest = b.in({50, 96});
    const V y = b.map(Fn::add, {b.dot(x, w, false, true), b.broadcast(bias, {50, 96}, {1})});
    b.out(b.map(Fn::add, {b.map(Fn::gelu, {y}), rest})).out(y);
  });
  list.add("both_transposed", [](Body& b) {
    const V x = b.in({30, 20}), w = b.in({25, 30});
    b.out(b.dot(x, w, true, true));
  });
  list.add("batched", [](Body& b) {
    const V x = b.in({2, 3, 17, 24}), w = b.in({2, 3, 24, 18});
    b.out(b.dot(x, w));
  });
  list.add("attention_scores", [](Body& b) {
    const V qkv = b.in({2, 10, 3 * 4 * 8});
    const auto heads = [&](int64_t which) {
      const V part = b.slice(qkv, {0, 0, which * 32}, {1, 1, 1}, {2, 10, 32});
      return b.transpose(b.reshape(part, {2, 10, 4, 8}), {0, 2, 1, 3});
    };
    const V scores = b.dot(heads(0), heads(1), false, true);
    const V mask = b.map(
        Fn::ge, {b.iota(2, {2, 4, 10, 10}, DType::i32), b.iota(3, {2, 4, 10, 10}, DType::i32)});
    const V scaled = b.map(Fn::mul, {scores, b.splat(0.3535, {2, 4, 10, 10})});
    b.out(b.map(Fn::select, {mask, scaled, b.splat(-1e9, {2, 4, 10, 10})}));
  });
  list.add("heads_merged", [](Body& b) {
    const V p = b.in({2, 4, 10, 10}), v = b.in({2, 4, 10, 8}), rest = b.in({2, 10, 32});
    const V y = b.reshape(b.transpose(b.dot(p, v), {0, 2, 1, 3}), {2, 10, 32});
    b.out(b.map(Fn::add, {y, rest}));
  });
  list.add("split_result", [](Body& b) {
    const V y = b.dot(b.in({14, 16}), b.in({16, 24}));
    b.out(b.map(Fn::tanh, {b.reshape(y, {2, 7, 3, 8})}));
  });
  list.add("broadcast_weights", [](Body& b) {
    const V x = b.in({3, 9, 12}), w = b.in({12, 11});
    b.out(b.dot(x, b.broadcast(w, {3, 12, 11}, {1, 2})));
  });
  list.add("embedded", [](Body& b) {
    const V x = b.gather(b.in({9, 16}), b.in({21}, DType::i32), 0);
    b.out(b.dot(x, b.cast(b.in({16, 40}, DType::bf16), DType::f32)));
  });
  list.add("sgd", [](Body& b) {
    const V w = b.param({40, 24}), x = b.in({60, 40}), g = b.in({60, 24});
    const V step = b.map(Fn::mul, {b.dot(x, g, true, false), b.splat(0.01, {40, 24})});
    b.assign(w, b.map(Fn::sub, {b.read(w), step}));
  });
  fix_some_operands(list.cases);
  return std::move(list.cases);
}

namespace {

/// Every tile that a product can have, whether or not it would be chosen: its operands along k or
/// across, in packs or in words, or element by element.
std::vector<KernelCase> tile_cases(const Target& target) {
  std::vector<KernelCase> cases;
  for (const bool k_fastest : {true, false}) {
    for (const int64_t more : {8, 7}) {
      for (size_t i = 0, tiles = 1; i < tiles; i += more == 8 ? 1 : 4) {
        const auto emit = [i, target](const ir::Graph& body, std::string_view symbol,
                                      const kernels::Use& use, size_t* count) {
          const kernels::Signature signature(body, use);
          const ir::Op& dot =
              *std::find_if(body.ops().begin(), body.ops().end(),
                            [](const ir::Op& op) { return op.kind == ir::OpKind::dot; });
          return kernels::emit_dot_simt(body, signature, dot, kernels::sinks_of(body, signature),
                                        symbol, [&](const kernels::SimtProblem& p) {
                                          const std::vector<kernels::SimtTile> all =
                                              kernels::simt_tiles(p, target);
                                          if (count) *count = all.size();
                                          return all[i];
                                        });
        };
        // More than one block each way but for the largest, chunks that are not whole.
        Body b;
        const int64_t m = 72, n = m + more, k = m + 80 + more;
        const V x = k_fastest ? b.in({m, k}) : b.in({k, m});
        const V w = k_fastest ? b.in({n, k}) : b.in({k, n});
        const V y = b.dot(x, w, !k_fastest, k_fastest);
        const V bias = b.broadcast(b.in({n}), {m, n}, {1});
        b.out(b.map(Fn::add, {b.map(Fn::mul, {y, b.in({m, n})}), bias}));
        emit(b.graph, "count", {}, &tiles);
        cases.push_back({.name = fmt::format("simt_{}_{}_{}", k_fastest ? "k" : "mn", more, i),
                         .family = "dot",
                         .body = std::move(b.graph),
                         .fixed = {false, i % 2 == 0},
                         .writes = [emit](const ir::Graph& body, std::string_view symbol,
                                          const kernels::Use& use) {
                           return emit(body, symbol, use, nullptr);
                         }});
      }
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("dot kernels compile without local memory") { check_compiles(dot_cases()); }

TEST_CASE("dot kernels compute what the interpreter computes") { check_numbers(dot_cases()); }

TEST_CASE("every tile of multiply-adds compiles without local memory") {
  check_compiles(tile_cases(*target_from_name("sm_80")));
}

TEST_CASE("every tile of multiply-adds computes the same") { check_numbers(tile_cases({})); }

TEST_CASE("every tile is consistent and small products still fill the device") {
  const Target target;
  const auto problem = [](int64_t m, int64_t n, int64_t k, int64_t bytes, bool split = true) {
    const DType t = bytes == 8 ? DType::f64 : DType::f32;
    return kernels::SimtProblem{.product = {.m = m, .n = n, .k = k, .operands = t, .result = t},
                                .a = {true, true, 16 / bytes},
                                .b = {false, true, 16 / bytes},
                                .bytes = bytes,
                                .may_split = split && bytes == 4};
  };
  for (const int64_t m : {1, 2, 5, 32, 128, 1000, 5000}) {
    for (const int64_t n : {1, 3, 64, 256, 4096}) {
      for (const int64_t k : {0, 1, 17, 256, 1025, 4096}) {
        for (const int64_t bytes : {4, 8}) {
          const kernels::SimtProblem p = problem(m, n, k, bytes);
          const std::vector<kernels::SimtTile> all = kernels::simt_tiles(p, target);
          CHECK(!all.empty());
          for (const kernels::SimtTile& t : all) {
            CHECK(t.threads() <= 512);
            CHECK(t.threads() % 32 == 0);
            CHECK(t.bm % t.tm == 0);
            CHECK(t.bn % t.tn == 0);
            CHECK(t.team() % t.lanes() == 0);
            CHECK(t.bk % (4 * t.team_slices()) == 0);
            CHECK(t.split * t.stretch(k) >= k);
            CHECK((t.split == 1 || (t.split - 1) * t.stretch(k) < k));
            CHECK(kernels::shared_bytes(p, t) <= 96 * 1024);
          }
        }
      }
    }
  }
  const auto blocks = [&](int64_t m, int64_t n, int64_t k) {
    const kernels::SimtTile t = kernels::choose_simt_tile(problem(m, n, k, 4), target);
    return kernels::divide_up(m, t.bm) * kernels::divide_up(n, t.bn) * t.split;
  };
  CHECK(blocks(128, 256, 256) >= 120);
  CHECK(blocks(128, 1024, 1024) >= 120);
  // Clusters: only where asked for, of float sums, and where the target has them.
  const auto split = [](const kernels::SimtProblem& p, const Target& on) {
    return kernels::choose_simt_tile(p, on).split;
  };
  CHECK(split(problem(32, 16, 2048, 4), target) > 1);
  CHECK(split(problem(13, 22, 1479, 4), target) > 1);
  CHECK(split(problem(32, 16, 2048, 4, false), target) == 1);
  CHECK(split(problem(32, 16, 2048, 4), *target_from_name("sm_80")) == 1);
  CHECK(split(problem(128, 256, 16, 4), target) == 1);
  CHECK(kernels::choose_simt_tile(problem(8192, 8192, 8192, 4), target).bm >= 64);
}

TEST_CASE("dot kernels refuse what they cannot compute, with the reason") {
  const auto refusal = [](const Body& b) { return kernels::family("dot").refuses(b.graph); };
  {
    Body b;
    b.out(b.map(Fn::neg, {b.in({4})}));
    CHECK(refusal(b) == "it has no matrix product");
  }
  {
    Body b;
    const V x = b.dot(b.in({2, 3}), b.in({3, 4}));
    b.out(b.dot(x, b.in({4, 5})));
    CHECK(refusal(b) == "it has more than one matrix product");
  }
  {
    Body b;
    b.out(b.reduce(Fn::add, b.dot(b.in({2, 3}), b.in({3, 4})), {1}));
    CHECK(refusal(b) == "it reduces an axis, which is the row family's");
  }
  {
    Body b;
    const V s = b.param({4, 4});
    b.assign(s, b.dot(b.read(s), b.in({4, 4})));
    CHECK(refusal(b) ==
          "it reads param s0 at other elements than those that the same thread writes");
  }
}

}  // namespace braid::test
