#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "random_graph.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

/// Parses the body of a graph.
Graph graph(const std::string& body) { return parse("bir 1\ngraph \"g\" {\n" + body + "}\n"); }

WideTensor floats(DType t, std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return {{t, {Dim(n)}}, std::move(values), {}};
}

WideTensor ints(DType t, std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return {{t, {Dim(n)}}, {}, std::move(values)};
}

std::string message_of(const Graph& g, const TensorMap& inputs, TensorMap params) {
  try {
    interpret(g, inputs, params);
  } catch (const Error& e) {
    return e.diagnostics().at(0).message;
  }
  return "no error";
}

}  // namespace

TEST_CASE("wide keeps doubles between ops, dtype rounds every result") {
  const Graph g = graph(R"(
    %0: f16[2] = input "x"
    %1: f16[] = constant 0.0009765625
    %2: f16[2] = broadcast %1 {axes=[]}
    %3: f16[2] = mul %2, %0
    %4: f16[2] = add %0, %3
    %5: f16[2] = sub %4, %0
    output "y" %5
  )");
  TensorMap params;
  const TensorMap in{{"x", floats(DType::f16, {1.5, 1024})}};
  // 1.5 + 1.5 * 2^-10 lies half way between two values of f16; the even one is 1.5 + 2^-9.
  CHECK(interpret(g, in, params).at("y").f == std::vector<double>{1.5 * 0x1p-10, 1});
  CHECK(interpret(g, in, params, Rounding::dtype).at("y").f == std::vector<double>{0x1p-9, 1});
}

TEST_CASE("a reduction in dtype mode is rounded once, at its end") {
  const Graph g = graph(R"(
    %0: f16[5] = input "x"
    %1: f16[] = reduce_add %0 {axes=[0]}
    output "y" %1
  )");
  TensorMap params;
  const TensorMap in{{"x", floats(DType::f16, {2048, 1, 1, 1, -2048})}};
  CHECK(interpret(g, in, params, Rounding::dtype).at("y").f == std::vector<double>{3});
}

TEST_CASE("integers wrap to their dtype after every op, in both modes") {
  const Graph g = graph(R"(
    %0: i8[3] = input "x"
    %1: i8[3] = mul %0, %0
    %2: i8[3] = div %1, %0
    %3: u8[3] = cast %1
    %4: i8[] = reduce_add %0 {axes=[0]}
    %5: b1[3] = cast %0
    %6: b1[3] = not %5
    output "square" %1
    output "back" %2
    output "unsigned" %3
    output "sum" %4
    output "zero" %6
  )");
  for (Rounding r : {Rounding::wide, Rounding::dtype}) {
    TensorMap params;
    const TensorMap out = interpret(g, {{"x", ints(DType::i8, {100, -100, 0})}}, params, r);
    CHECK(out.at("square").i == std::vector<int64_t>{16, 16, 0});
    CHECK(out.at("back").i == std::vector<int64_t>{0, 0, 0});
    CHECK(out.at("unsigned").i == std::vector<int64_t>{16, 16, 0});
    CHECK(out.at("sum").i == std::vector<int64_t>{0});
    CHECK(out.at("zero").i == std::vector<int64_t>{0, 0, 1});
  }
}

TEST_CASE("params: reads see their version, the last version remains") {
  const Graph g = graph(R"(
    %0: state f32[3] = param "p"
    %1: f32[3] = read %0
    %2: f32[3] = input "x"
    %3: state f32[3] = assign %0, %2
    %4: f32[3] = read %3
    %5: f32[3] = add %4, %1
    %6: state f32[3] = assign %3, %5
    %7: f32[3] = read %0
    %8: state f32[3] = param "only read"
    %9: f32[3] = read %8
    %10: state f32[2] = param "q"
    %11: f32[1] = constant 9
    %12: i32[] = input "at"
    %13: state f32[2] = update %10, %11, %12
    output "first" %7
    output "second" %4
    output "x" %2
    output "also x" %2
    output "other" %9
  )");
  const WideTensor p = floats(DType::f32, {1, 2, 3}), x = floats(DType::f32, {10, 20, 30});
  for (const auto& [at, q] : std::vector<std::pair<int64_t, std::vector<double>>>{
           {0, {9, 5}}, {1, {4, 9}}, {-7, {9, 5}}, {99, {4, 9}}}) {
    TensorMap params{{"p", p}, {"only read", x}, {"q", floats(DType::f32, {4, 5})}};
    const TensorMap in{{"x", x}, {"at", {{DType::i32, {}}, {}, {at}}}};
    const TensorMap out = interpret(g, in, params);
    CHECK(out.at("first").f == p.f);
    CHECK(out.at("second").f == x.f);
    CHECK(out.at("x").f == x.f);
    CHECK(out.at("also x").f == x.f);
    CHECK(out.at("other").f == x.f);
    CHECK(params.at("p").f == std::vector<double>{11, 22, 33});
    CHECK(params.at("only read").f == x.f);
    CHECK(params.at("q").f == q);
  }
}

TEST_CASE("two params change places") {
  const Graph g = graph(R"(
    %0: state i64[2] = param "a"
    %1: state i64[2] = param "b"
    %2: i64[2] = read %0
    %3: i64[2] = read %1
    %4: state i64[2] = assign %0, %3
    %5: state i64[2] = assign %1, %2
  )");
  const WideTensor a = ints(DType::i64, {1, INT64_MAX}), b = ints(DType::i64, {INT64_MIN, 4});
  TensorMap params{{"a", a}, {"b", b}};
  CHECK(interpret(g, {}, params).empty());
  CHECK(params.at("a").i == b.i);
  CHECK(params.at("b").i == a.i);
}

TEST_CASE("what is missing or of another type is named") {
  const Graph g = graph(R"(
    %0: f32[3] = input "image"
    %1: state f32[3] = param "weight"
    %2: f32[3] = read %1
    %3: f32[3] = add %0, %2
    output "y" %3
  )");
  const WideTensor good = floats(DType::f32, {1, 2, 3});
  CHECK(message_of(g, {{"image", good}}, {{"weight", good}}) == "no error");
  CHECK(message_of(g, {}, {{"weight", good}}) == "the input 'image' is missing");
  CHECK(message_of(g, {{"image", good}}, {}) == "the param 'weight' is missing");
  CHECK(message_of(g, {{"image", floats(DType::f16, {1, 2, 3})}}, {{"weight", good}}) ==
        "the input 'image' is f32[3], but f16[3] was given");
  CHECK(message_of(g, {{"image", good}}, {{"weight", floats(DType::f32, {1})}}) ==
        "the param 'weight' is f32[3], but f32[1] was given");
}

TEST_CASE("rounding between ops changes results of random graphs only a little") {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    test::RandomGraphOptions options;
    options.dtypes = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::b1};
    if (seed % 2 == 0) options.compact = 10;
    const Graph g = test::RandomGraph(seed, options).run();
    CAPTURE(seed);
    TensorMap inputs, params;
    for (const Op& op : g.ops()) {
      const std::string name(g.strings[op.name]);
      if (op.kind != OpKind::input && op.kind != OpKind::param) continue;
      (op.kind == OpKind::input ? inputs : params)[name] =
          widen(random_tensor(g.type(op.result), seed, name));
    }
    TensorMap rounded_params = params;
    const TensorMap wide = interpret(g, inputs, params);
    const TensorMap rounded = interpret(g, inputs, rounded_params, Rounding::dtype);
    const auto compare = [&](const TensorMap& as, const TensorMap& bs) {
      REQUIRE(as.size() == bs.size());
      for (const auto& [name, a] : as) {
        const WideTensor& b = bs.at(name);
        CAPTURE(name);
        CHECK(a.i == b.i);
        REQUIRE(a.f.size() == b.f.size());
        for (size_t i = 0; i < a.f.size(); ++i) {
          ++compared;
          const bool same = (std::isnan(a.f[i]) && std::isnan(b.f[i])) || a.f[i] == b.f[i];
          CHECK((same || std::fabs(a.f[i] - b.f[i]) <= 1e-3 * (1 + std::fabs(a.f[i]))));
        }
        CHECK(widen(narrow(b)).f == b.f);
      }
    };
    compare(wide, rounded);
    compare(params, rounded_params);
  }
  CHECK(compared > 10000);
}

TEST_CASE("tf32 products round their operands where values are rounded at all") {
  const Graph g = graph(R"(
    %0: f32[1,3] = input "a"
    %1: f32[3,1] = input "b"
    %2: f32[1,1] = dot %0, %1 {tf32=true}
    %3: f32[1,1] = dot %0, %1
    output "y" %2
    output "z" %3
  )");
  WideTensor a{{DType::f32, {Dim(1), Dim(3)}}, {1 + 0x1p-11, 3, 1 + 0x1p-12}, {}};
  WideTensor b{{DType::f32, {Dim(3), Dim(1)}}, {-1, 0x1p-9, 1 + 0x1p-10}, {}};
  TensorMap params;
  const double exact = -1 - 0x1p-11 + 3 * 0x1p-9 + (1 + 0x1p-12) * (1 + 0x1p-10);
  const double rounded = -1 - 0x1p-10 + 3 * 0x1p-9 + 1 + 0x1p-10;
  const TensorMap wide = interpret(g, {{"a", a}, {"b", b}}, params);
  CHECK(wide.at("y").f[0] == exact);
  CHECK(wide.at("z").f[0] == exact);
  const TensorMap narrow = interpret(g, {{"a", a}, {"b", b}}, params, Rounding::dtype);
  CHECK(narrow.at("y").f[0] == rounded);
  CHECK(narrow.at("z").f[0] == static_cast<double>(static_cast<float>(exact)));
}

TEST_CASE("a large product is done in moments, and right wherever one looks") {
  const int64_t m = 300, n = 257, k = 1023;
  const Graph g = parse(R"(bir 1
graph "g" {
  %0: f32[1023,300] = input "a"
  %1: f32[257,1023] = input "b"
  %2: f32[300,257] = dot %0, %1 {ta=true, tb=true}
  output "y" %2
}
)");
  TensorMap params, in;
  for (const Op& op : g.ops()) {
    const std::string name(g.strings[op.name]);
    if (op.kind == OpKind::input) in[name] = widen(random_tensor(g.type(op.result), 8, name));
  }
  const WideTensor y = interpret(g, in, params).at("y");
  for (int64_t i = 0; i < m; i += 23) {
    for (int64_t j = 0; j < n; j += 17) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += in.at("a").f[static_cast<size_t>(l * m + i)] *
               in.at("b").f[static_cast<size_t>(j * k + l)];
      }
      CHECK(std::fabs(y.f[static_cast<size_t>(i * n + j)] - sum) < 1e-10);
    }
  }
}
