// softmax, layer_norm, attention and linear against loops written here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

using Values = std::vector<double>;

WideTensor random(const Tensor& t, const std::string& name) {
  return widen(random_tensor(t.type(), 23, name));
}

void check_close(const Values& got, const Values& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

/// What the last cast to a half dtype may cost: casts round in the wide reference too.
double half_an_ulp(DType t) { return t == f16 ? 0x1p-11 : 0x1p-8; }

}  // namespace

TEST_CASE("softmax over any axis, safe for large values") {
  for (DType t : {f32, f16, bf16}) {
    for (int axis : {0, 1, -1}) {
      CAPTURE(axis);
      Graph g;
      const Tensor x = g.input("x", {t, {3, 4, 5}});
      const Tensor y = softmax(x * 300.0, axis);
      CHECK(y.type() == x.type());
      g.output("y", y);
      ir::TensorMap params;
      const WideTensor v = random(x, "x");
      const size_t n = axis == 0 ? 3 : axis == 1 ? 4 : 5;
      const size_t step = axis == 0 ? 20 : axis == 1 ? 5 : 1;
      Values expected(60);
      for (size_t i = 0; i < 60; ++i) {
        const size_t first = i - i / step % n * step;
        double largest = -1e300, total = 0;
        for (size_t k = 0; k < n; ++k) largest = std::max(largest, 300 * v.f[first + k * step]);
        for (size_t k = 0; k < n; ++k) total += std::exp(300 * v.f[first + k * step] - largest);
        expected[i] = std::exp(300 * v.f[i] - largest) / total;
      }
      check_close(ir::interpret(g.ir(), {{"x", v}}, params).at("y").f, expected,
                  t == f32 ? 1e-9 : half_an_ulp(t));
    }
  }
}

TEST_CASE("layer_norm takes mean and variance in two passes, in f32 for half dtypes") {
  for (DType t : {f32, bf16}) {
    Graph g;
    const Tensor x = g.input("x", {t, {6, 33}});
    const Tensor gamma = g.input("gamma", {t, {33}}), beta = g.input("beta", {t, {33}});
    const Tensor y = layer_norm(x + 100.0, gamma, beta, 0.01);
    CHECK(y.type() == x.type());
    g.output("y", y);
    for (const ir::Op& op : g.ir().ops()) {
      if (op.kind == ir::OpKind::reduce) CHECK(g.ir().type(op.result).dtype == f32);
    }
    ir::TensorMap params;
    const ir::TensorMap in{
        {"x", random(x, "x")}, {"gamma", random(gamma, "gamma")}, {"beta", random(beta, "beta")}};
    Values expected(6 * 33);
    for (size_t r = 0; r < 6; ++r) {
      double mean = 0, variance = 0;
      for (size_t k = 0; k < 33; ++k) mean += (in.at("x").f[r * 33 + k] + 100) / 33;
      for (size_t k = 0; k < 33; ++k) {
        variance += std::pow(in.at("x").f[r * 33 + k] + 100 - mean, 2) / 33;
      }
      for (size_t k = 0; k < 33; ++k) {
        expected[r * 33 + k] = (in.at("x").f[r * 33 + k] + 100 - mean) /
                                   std::sqrt(variance + 0.01) * in.at("gamma").f[k] +
                               in.at("beta").f[k];
      }
    }
    // 1/33, eps and the like are constants of f32 in the graph.
    check_close(ir::interpret(g.ir(), in, params).at("y").f, expected,
                t == f32 ? 1e-4 : half_an_ulp(t));
  }
}

TEST_CASE("attention: heads, scale, causal masks, fewer queries than keys") {
  struct Case {
    size_t queries, keys;
    bool causal;
  };
  for (const Case& c : {Case{5, 5, false}, Case{5, 5, true}, Case{2, 5, false}, Case{2, 5, true}}) {
    CAPTURE(c.queries);
    CAPTURE(c.causal);
    const size_t heads = 3, d = 4, features = heads * d;
    Graph g;
    const DimArg t(static_cast<int64_t>(c.queries)), s(static_cast<int64_t>(c.keys));
    const Tensor q = g.input("q", {f32, {2, t, 12}});
    const Tensor k = g.input("k", {f32, {2, s, 12}}), v = g.input("v", {f32, {2, s, 12}});
    const Tensor y = attention(q, k, v, {.heads = 3, .causal = c.causal});
    CHECK(y.type() == q.type());
    g.output("y", y);
    ir::TensorMap params;
    const ir::TensorMap in{{"q", random(q, "q")}, {"k", random(k, "k")}, {"v", random(v, "v")}};
    Values expected(2 * c.queries * features);
    for (size_t b = 0; b < 2; ++b) {
      for (size_t h = 0; h < heads; ++h) {
        for (size_t i = 0; i < c.queries; ++i) {
          const size_t seen = c.causal ? i + 1 + c.keys - c.queries : c.keys;
          const auto at = [&](const char* name, size_t length, size_t row, size_t column) {
            return in.at(name).f[(b * length + row) * features + h * d + column];
          };
          Values weight(seen);
          double total = 0;
          for (size_t j = 0; j < seen; ++j) {
            double score = 0;
            for (size_t e = 0; e < d; ++e)
              score += at("q", c.queries, i, e) * at("k", c.keys, j, e);
            weight[j] = std::exp(score / 2);  // sqrt(d)
            total += weight[j];
          }
          for (size_t e = 0; e < d; ++e) {
            double sum = 0;
            for (size_t j = 0; j < seen; ++j) sum += weight[j] / total * at("v", c.keys, j, e);
            expected[(b * c.queries + i) * features + h * d + e] = sum;
          }
        }
      }
    }
    check_close(ir::interpret(g.ir(), in, params).at("y").f, expected, 1e-9);
  }
}

TEST_CASE("attention: any number of leading axes, one set of keys for all, half dtypes") {
  struct Case {
    DType dtype;
    std::vector<DimArg> q, kv;
    size_t batch, shared;  // leading extents of q; of them those that share keys and values
  };
  for (const Case& c :
       {Case{f64, {3, 8}, {4, 8}, 1, 1}, Case{f32, {2, 3, 3, 8}, {2, 3, 4, 8}, 6, 1},
        Case{f32, {2, 3, 3, 8}, {2, 1, 4, 8}, 6, 3}, Case{f16, {2, 3, 8}, {2, 4, 8}, 2, 1},
        Case{bf16, {3, 8}, {4, 8}, 1, 1}}) {
    CAPTURE(name_of(c.dtype));
    CAPTURE(c.batch);
    CAPTURE(c.shared);
    Graph g;
    const Tensor q = g.input("q", {c.dtype, c.q});
    const Tensor k = g.input("k", {c.dtype, c.kv}), v = g.input("v", {c.dtype, c.kv});
    const Tensor y = attention(q, k, v, {.heads = 2, .scale = 0.25});
    CHECK(y.type() == q.type());
    g.output("y", y);
    const DType wide = c.dtype == f64 ? f64 : f32;
    std::vector<DType> dots;
    for (const ir::Op& op : g.ir().ops()) {
      const DType t = g.ir().type(op.result).dtype;
      if (op.kind == ir::OpKind::dot) dots.push_back(t);
      if (op.kind == ir::OpKind::reduce) CHECK(t == wide);
    }
    CHECK(dots == std::vector<DType>{wide, c.dtype});
    ir::TensorMap params;
    const ir::TensorMap in{{"q", random(q, "q")}, {"k", random(k, "k")}, {"v", random(v, "v")}};
    Values expected(c.batch * 24);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t keys = i / 24 / c.shared * 32, query = i / 8 * 8, head = i % 8 / 4 * 4;
      double total = 0;
      for (size_t j = 0; j < 4; ++j) {
        double score = 0;
        for (size_t e = head; e < head + 4; ++e) {
          score += in.at("q").f[query + e] * in.at("k").f[keys + j * 8 + e];
        }
        total += std::exp(score / 4);
        expected[i] += std::exp(score / 4) * in.at("v").f[keys + j * 8 + i % 8];
      }
      expected[i] /= total;
    }
    // Of the half dtypes only the weights are rounded: in the wide reference the product is not.
    const bool half = c.dtype == f16 || c.dtype == bf16;
    check_close(ir::interpret(g.ir(), in, params).at("y").f, expected,
                half ? half_an_ulp(c.dtype) : 1e-12);
  }
}

TEST_CASE("linear makes its params and computes x w + b") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4, 6}});
  {
    const auto scope = g.scope("mlp");
    g.output("y", linear(g, "l1", x, 3));
    g.output("z", linear(g, "l2", x, 3, false));
  }
  ir::TensorMap params;
  for (const ir::Op& op : g.ir().ops()) {
    if (op.kind != ir::OpKind::param) continue;
    const std::string name(g.ir().strings[op.name]);
    params[name] = widen(random_tensor(g.ir().type(op.result), 5, name));
    CHECK(std::get<ir::ParamAttr>(op.attrs).init == ir::Init::normal);
    if (name.ends_with("/w")) {
      CHECK(std::get<ir::ParamAttr>(op.attrs).scale == doctest::Approx(1 / std::sqrt(6.0)));
    }
  }
  REQUIRE(params.size() == 3);
  const WideTensor v = random(x, "x");
  const Values w1 = params.at("mlp/l1/w").f, b1 = params.at("mlp/l1/b").f;
  const Values w2 = params.at("mlp/l2/w").f;
  Values y(12), z(12);
  for (size_t i = 0; i < 12; ++i) {
    y[i] = b1[i % 3];
    for (size_t k = 0; k < 6; ++k) {
      y[i] += v.f[i / 3 * 6 + k] * w1[k * 3 + i % 3];
      z[i] += v.f[i / 3 * 6 + k] * w2[k * 3 + i % 3];
    }
  }
  const ir::TensorMap out = ir::interpret(g.ir(), {{"x", v}}, params);
  check_close(out.at("mlp/y").f, y, 1e-12);
  check_close(out.at("mlp/z").f, z, 1e-12);
}
