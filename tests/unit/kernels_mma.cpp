// Matrix products by tensor cores.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "kernels_kit.hpp"
#include "passes/kernels/dot_mma.hpp"

namespace braid::test {
namespace {

using V = Body::V;

class List {
 public:
  template <class Write>
  void add(const std::string& name, Write write) {
    Body b;
    write(b);
    cases.push_back({name, "dot", std::move(b.graph)});
  }
  /// A product of plain operands; f32 goes by way of tf32.
  void plain(const std::string& name, int64_t m, int64_t n, int64_t k, DType t, bool ta = false,
             bool tb = false) {
    add(name, [=](Body& b) {
      const V x = ta ? b.in({k, m}, t) : b.in({m, k}, t);
      b.out(b.dot(x, tb ? b.in({n, k}, t) : b.in({k, n}, t), ta, tb, t == DType::f32));
    });
  }
  std::vector<KernelCase> cases;
};

std::vector<KernelCase> mma_cases() {
  List list;
  constexpr DType kHalf[] = {DType::bf16, DType::f16, DType::f32};
  for (const DType t : kHalf) {
    const std::string tag(name_of(t));
    for (int flags = 0; flags < 4; ++flags) {
      const bool ta = flags & 1, tb = flags & 2;
      // Copies of 16 bytes, over edges and within; then element by element.
      list.plain(fmt::format("even_{}_{}", tag, flags), 40, 72, 152, t, ta, tb);
      list.plain(fmt::format("whole_{}_{}", tag, flags), 64, 64, 256, t, ta, tb);
      list.plain(fmt::format("odd_{}_{}", tag, flags), 37, 43, 53, t, ta, tb);
      list.plain(fmt::format("row_{}_{}", tag, flags), 1, 88, 328, t, ta, tb);
      list.plain(fmt::format("column_{}_{}", tag, flags), 72, 1, 264, t, ta, tb);
      list.plain(fmt::format("few_{}_{}", tag, flags), 5, 48, 96, t, ta, tb);
    }
    list.plain("inner_" + tag, 3, 2, 1000, t);
    list.plain("short_" + tag, 30, 20, 8, t);
    list.plain("shorter_" + tag, 30, 20, 3, t);
    list.plain("no_terms_" + tag, 5, 6, 0, t);
    list.plain("no_result_" + tag, 0, 6, 7, t);
    list.add("mixed_" + tag, [&](Body& b) {
      // One operand in copies, the other through registers.
      b.out(b.dot(b.in({24, 64}, t), b.in({64, 27}, t), false, false, t == DType::f32));
    });
    list.add("sliced_" + tag, [&](Body& b) {
      // Rows begin at 3, then at 16: only the second operand's packs are aligned.
      const V x = b.slice(b.in({20, 80}, t), {0, 3}, {1, 1}, {20, 64});
      const V w = b.slice(b.in({64, 64}, t), {0, 16}, {1, 1}, {64, 48});
      b.out(b.dot(x, w, false, false, t == DType::f32));
    });
    list.add("joined_" + tag, [&](Body& b) {
      const V x = b.concat({b.in({40, 30}, t), b.in({40, 34}, t)}, 1);
      b.out(b.dot(x, b.in({64, 32}, t), false, false, t == DType::f32));
    });
    list.add("batch_" + tag, [&](Body& b) {
      const V y =
          b.dot(b.in({2, 3, 17, 24}, t), b.in({2, 3, 24, 18}, t), false, false, t == DType::f32);
      b.out(b.map(Fn::tanh, {y}));
    });
    list.add("heads_" + tag, [&](Body& b) {
      const V qkv = b.in({2, 10, 3 * 4 * 16}, t);
      const auto heads = [&](int64_t which) {
        const V part = b.slice(qkv, {0, 0, which * 64}, {1, 1, 1}, {2, 10, 64});
        return b.transpose(b.reshape(part, {2, 10, 4, 16}), {0, 2, 1, 3});
      };
      b.out(b.dot(heads(0), heads(1), false, true, t == DType::f32));
    });
    list.add("weighted_" + tag, [&](Body& b) {
      const V p = b.in({2, 4, 16, 16}, t), v = b.in({2, 16, 4 * 16}, t);
      const V heads = b.transpose(b.reshape(v, {2, 16, 4, 16}), {0, 2, 1, 3});
      const V y = b.dot(p, heads, false, false, t == DType::f32);
      b.out(b.reshape(b.transpose(y, {0, 2, 1, 3}), {2, 16, 64}));
    });
    list.add("shared_weights_" + tag, [&](Body& b) {
      const V w = b.broadcast(b.in({16, 24}, t), {3, 16, 24}, {1, 2});
      b.out(b.dot(b.in({3, 9, 16}, t), w, false, false, t == DType::f32));
    });
    list.add("embedded_" + tag, [&](Body& b) {
      const V x = b.gather(b.in({9, 16}, t), b.in({21}, DType::i32), 0);
      b.out(b.dot(x, b.cast(b.in({16, 40}, DType::f64), t), false, false, t == DType::f32));
    });
    list.add("linear_gelu_" + tag, [&](Body& b) {
      const V x = b.in({50, 48}, t), w = b.in({96, 48}, t), bias = b.in({96}, t);
      const V rest = b.in({50, 96}, t);
      const V y = b.map(
          Fn::add, {b.dot(x, w, false, true, t == DType::f32), b.broadcast(bias, {50, 96}, {1})});
      b.out(b.map(Fn::add, {b.map(Fn::gelu, {y}), rest})).out(y);
    });
    list.add("sgd_" + tag, [&](Body& b) {
      const V w = b.param({40, 24}, t), x = b.in({64, 40}, t), g = b.in({64, 24}, t);
      const V step =
          b.map(Fn::mul, {b.dot(x, g, true, false, t == DType::f32), b.splat(0.01, {40, 24}, t)});
      b.assign(w, b.map(Fn::sub, {b.read(w), step}));
    });
  }
  list.add("wide_result", [](Body& b) {
    b.out(b.dot_to(b.in({33, 64}, DType::bf16), b.in({64, 40}, DType::bf16), DType::f32));
  });
  // Larger tiles.
  list.plain("tall", 8, 3000, 64, DType::bf16);
  list.plain("wide", 1000, 520, 136, DType::f16);
  list.plain("widest", 2100, 1100, 48, DType::bf16);
  std::mt19937_64 random(11);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 30; ++i) {
    const DType t = kHalf[pick(0, 2)];
    const int64_t unit = pick(0, 1) ? 8 : 1;
    list.plain(fmt::format("random_{}", i), pick(1, 200), unit * pick(1, 200 / unit),
               unit * pick(1, 400 / unit), t, pick(0, 1), pick(0, 1));
  }
  fix_some_operands(list.cases);
  return std::move(list.cases);
}

/// Every tile that a product of these operands can have, whether or not it would be chosen.
std::vector<KernelCase> tile_cases() {
  std::vector<KernelCase> cases;
  for (const DType t : {DType::bf16, DType::f32}) {
    for (const bool k_fastest : {true, false}) {
      for (size_t i = 0, tiles = 1; i < tiles; ++i) {
        const auto emit = [i](const ir::Graph& body, std::string_view symbol,
                              const kernels::Use& use, size_t* count) {
          const kernels::Signature signature(body, use);
          const ir::Op& dot =
              *std::find_if(body.ops().begin(), body.ops().end(),
                            [](const ir::Op& op) { return op.kind == ir::OpKind::dot; });
          return kernels::emit_dot_mma(body, signature, dot, kernels::sinks_of(body, signature),
                                       symbol, [&](const kernels::MmaProblem& p) {
                                         const std::vector<kernels::MmaTile> all =
                                             kernels::mma_tiles(p, Target{});
                                         if (count) *count = all.size();
                                         return all[i];
                                       });
        };
        // More than one block each way, chunks that are not whole.
        Body b;
        const int64_t m = t == DType::f32 ? 72 : 136, n = m + 8, k = m + 80;
        const V x = k_fastest ? b.in({m, k}, t) : b.in({k, m}, t);
        const V w = k_fastest ? b.in({n, k}, t) : b.in({k, n}, t);
        const V y = b.dot(x, w, !k_fastest, k_fastest, t == DType::f32);
        const V bias = b.broadcast(b.in({n}, t), {m, n}, {1});
        b.out(b.map(Fn::add, {b.map(Fn::mul, {y, b.in({m, n}, t)}), bias}));
        emit(b.graph, "count", {}, &tiles);
        cases.push_back(
            {.name = fmt::format("tile_{}_{}_{}", name_of(t), k_fastest ? "k" : "mn", i),
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

TEST_CASE("every tile of tensor cores compiles without local memory") {
  check_compiles(tile_cases());
}

TEST_CASE("every tile of tensor cores computes the same") { check_numbers(tile_cases()); }

TEST_CASE("tensor core kernels compile without local memory") { check_compiles(mma_cases()); }

TEST_CASE("tensor core kernels compute what the interpreter computes") {
  check_numbers(mma_cases());
}

TEST_CASE("every tile of tensor cores is consistent, and small products fill the device") {
  const Target target;
  const auto problem = [](int64_t m, int64_t n, int64_t k, bool tf32, kernels::DotOperand b) {
    const DType t = tf32 ? DType::f32 : DType::bf16;
    return kernels::MmaProblem{
        .product = {.m = m, .n = n, .k = k, .operands = t, .result = t, .tf32 = tf32},
        .a = {true, true},
        .b = b};
  };
  for (const int64_t m : {1, 2, 5, 32, 128, 1000, 5000}) {
    for (const int64_t n : {1, 3, 64, 256, 4096}) {
      for (const int64_t k : {8, 17, 256, 4096}) {
        for (int flags = 0; flags < 8; ++flags) {
          const kernels::MmaProblem p =
              problem(m, n, k, flags & 1, {(flags & 2) != 0, (flags & 4) != 0});
          for (const kernels::MmaTile& t : kernels::mma_tiles(p, target)) {
            CHECK(t.threads() <= 256);
            CHECK(t.rows % t.warp_rows == 0);
            CHECK(t.columns % t.warp_columns == 0);
            CHECK(t.warp_rows % 16 == 0);
            CHECK(t.warp_columns % 8 == 0);
            CHECK(t.bk % (p.depth() * t.slices) == 0);
            CHECK(t.stages >= 1);
            CHECK(kernels::shared_bytes(p, t) <= 96 * 1024);
            CHECK(kernels::estimate_cycles(p, t, target) >=
                  kernels::estimate_cycles(p, kernels::choose_mma_tile(p, target), target));
          }
        }
      }
    }
  }
  const auto blocks = [&](int64_t m, int64_t n, int64_t k) {
    const kernels::MmaTile t =
        kernels::choose_mma_tile(problem(m, n, k, false, {false, true}), target);
    return kernels::divide_up(m, t.bm()) * kernels::divide_up(n, t.bn());
  };
  CHECK(blocks(128, 256, 256) >= 64);
  CHECK(blocks(128, 768, 768) >= 48);
  CHECK(blocks(128, 384, 1536) >= 48);
  CHECK(blocks(1, 768, 3072) >= 48);
  CHECK(blocks(4, 3072, 768) >= 96);
  CHECK(kernels::choose_mma_tile(problem(8192, 8192, 8192, false, {}), target).rows == 128);
}

}  // namespace braid::test
