// softmax, norms, cross_entropy, attention and linear against loops written here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

TEST_CASE("log_softmax keeps what softmax would round to zero") {
  for (DType t : {f32, f64, f16, bf16}) {
    for (int axis : {0, 1}) {
      CAPTURE(name_of(t));
      Graph g;
      const Tensor x = g.input("x", {t, {5, 7}});
      const Tensor y = log_softmax(x * 200.0, axis);
      CHECK(y.type() == x.type());
      g.output("y", y);
      ir::TensorMap params;
      const WideTensor v = random(x, "x");
      const size_t n = axis == 0 ? 5 : 7, step = axis == 0 ? 7 : 1;
      Values expected(35);
      for (size_t i = 0; i < 35; ++i) {
        const size_t first = i - i / step % n * step;
        double largest = -1e300, total = 0;
        for (size_t k = 0; k < n; ++k) largest = std::max(largest, 200 * v.f[first + k * step]);
        for (size_t k = 0; k < n; ++k) total += std::exp(200 * v.f[first + k * step] - largest);
        expected[i] = 200 * v.f[i] - largest - std::log(total);
      }
      check_close(ir::interpret(g.ir(), {{"x", v}}, params).at("y").f, expected,
                  t == f32 || t == f64 ? 1e-9 : half_an_ulp(t));
    }
  }
}

TEST_CASE("rms_norm and l2_normalize") {
  for (DType t : {f32, f16, bf16, f64}) {
    CAPTURE(name_of(t));
    Graph g;
    const Tensor x = g.input("x", {t, {4, 9}}), gamma = g.input("gamma", {t, {9}});
    const Tensor y = rms_norm(x, gamma, 0.25), z = l2_normalize(x, 0), zero = l2_normalize(x * 0.0);
    CHECK(y.type() == x.type());
    CHECK(z.type() == x.type());
    g.output("y", y);
    g.output("z", z);
    g.output("zero", zero);
    for (const ir::Op& op : g.ir().ops()) {
      if (op.kind != ir::OpKind::reduce) continue;
      CHECK(g.ir().type(op.result).dtype == (t == f64 ? f64 : f32));
    }
    ir::TensorMap params;
    const ir::TensorMap in{{"x", random(x, "x")}, {"gamma", random(gamma, "gamma")}};
    const Values& v = in.at("x").f;
    Values normed(36), unit(36);
    for (size_t i = 0; i < 36; ++i) {
      double row = 0, column = 0;
      for (size_t k = 0; k < 9; ++k) row += v[i / 9 * 9 + k] * v[i / 9 * 9 + k] / 9;
      for (size_t k = 0; k < 4; ++k) column += v[k * 9 + i % 9] * v[k * 9 + i % 9];
      normed[i] = v[i] / std::sqrt(row + 0.25) * in.at("gamma").f[i % 9];
      unit[i] = v[i] / std::sqrt(column);
    }
    const ir::TensorMap out = ir::interpret(g.ir(), in, params);
    const double tolerance = t == f64 ? 1e-12 : t == f32 ? 1e-7 : half_an_ulp(t);
    check_close(out.at("y").f, normed, tolerance);
    check_close(out.at("z").f, unit, tolerance);
    for (double e : out.at("zero").f) CHECK(e == 0);
  }
}

TEST_CASE("cross_entropy: any leading axes, wide results, labels out of range") {
  for (DType t : {f32, f16, bf16, f64}) {
    for (DType index : {i32, i64}) {
      CAPTURE(name_of(t));
      Graph g;
      const Tensor x = g.input("x", {t, {2, 5, 7}}), labels = g.input("labels", {index, {2, 5}});
      const Tensor y = cross_entropy(x * 20.0, labels);
      CHECK(y.type() == TensorType{t == f64 ? f64 : f32, {Dim(2), Dim(5)}});
      g.output("y", y);
      ir::TensorMap params;
      ir::TensorMap in{{"x", random(x, "x")}, {"labels", random(labels, "labels")}};
      in.at("labels").i = {0, 6, 3, -1, 7, 2, 6, 100000, 1, 5};
      const Values& v = in.at("x").f;
      const std::vector<double> got = ir::interpret(g.ir(), in, params).at("y").f;
      for (size_t r = 0; r < 10; ++r) {
        CAPTURE(r);
        const int64_t label = in.at("labels").i[r];
        if (label < 0 || label > 6) {
          CHECK(std::isnan(got[r]));
          continue;
        }
        const auto logit = [&](size_t k) { return 20 * v[r * 7 + k]; };
        double largest = -1e300, total = 0;
        for (size_t k = 0; k < 7; ++k) largest = std::max(largest, logit(k));
        for (size_t k = 0; k < 7; ++k) total += std::exp(logit(k) - largest);
        const double want = std::log(total) + largest - logit(static_cast<size_t>(label));
        CHECK(got[r] == doctest::Approx(want).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("cross_entropy of impossible classes is infinite, of a NaN it is NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  Graph g;
  const Tensor x = g.constant(
      HostTensor::from({f32, {Dim(3), Dim(2)}}, std::vector<double>{0, -inf, 0, -inf, NAN, 0}));
  const Tensor labels = g.input("labels", {i32, {3}});
  g.output("y", cross_entropy(x, labels));
  ir::TensorMap params;
  WideTensor l = random(labels, "labels");
  l.i = {0, 1, 1};
  const Values y = ir::interpret(g.ir(), {{"labels", l}}, params).at("y").f;
  CHECK(y[0] == 0);
  CHECK(y[1] == inf);
  CHECK(std::isnan(y[2]));
}

TEST_CASE("attention: masks of booleans and floats, grouped heads, rows that see nothing") {
  struct Case {
    DType dtype;
    size_t heads, kv_heads, queries, keys;
    bool boolean, causal;
    std::vector<DimArg> mask;  // broadcasts to [2, heads, queries, keys]
  };
  for (const Case& c :
       {Case{f32, 4, 2, 3, 5, true, false, {3, 5}},
        Case{f32, 4, 1, 3, 5, true, false, {2, 1, 3, 5}},
        Case{f64, 6, 3, 2, 4, false, false, {2, 6, 2, 4}}, Case{f32, 4, 4, 5, 5, true, true, {5}},
        Case{f64, 4, 2, 1, 6, true, false, {2, 1, 1, 6}}, Case{f16, 4, 2, 3, 5, true, true, {1, 5}},
        Case{bf16, 2, 1, 3, 5, false, true, {2, 3, 1}}, Case{f32, 3, 3, 3, 4, false, false, {}}}) {
    CAPTURE(name_of(c.dtype));
    CAPTURE(c.heads);
    CAPTURE(c.kv_heads);
    const size_t d = 4, wide = c.heads * d, narrow = c.kv_heads * d;
    Graph g;
    const auto dim = [](size_t n) { return DimArg(static_cast<int64_t>(n)); };
    const Tensor q = g.input("q", {c.dtype, {2, dim(c.queries), dim(wide)}});
    const Tensor k = g.input("k", {c.dtype, {2, dim(c.keys), dim(narrow)}});
    const Tensor v = g.input("v", {c.dtype, {2, dim(c.keys), dim(narrow)}});
    const Tensor mask = g.input("mask", {c.boolean ? b1 : c.dtype, c.mask});
    const Tensor y = attention(q, k, v,
                               {.heads = static_cast<int>(c.heads),
                                .causal = c.causal,
                                .kv_heads = static_cast<int>(c.kv_heads),
                                .mask = mask});
    CHECK(y.type() == q.type());
    g.output("y", y);
    ir::TensorMap params;
    ir::TensorMap in{{"q", random(q, "q")},
                     {"k", random(k, "k")},
                     {"v", random(v, "v")},
                     {"mask", random(mask, "mask")}};
    WideTensor& m = in.at("mask");
    // One row of the mask lets nothing through, where rows differ.
    const bool dark = c.mask.size() > 1 && c.mask.back().value > 1 && c.mask[0].value > 1;
    if (dark) {
      const auto n = static_cast<size_t>(c.mask.back().value);
      for (size_t i = 0; i < n; ++i) {
        if (c.boolean) m.i[m.i.size() - n + i] = 0;
        if (!c.boolean) m.f[m.f.size() - n + i] = -std::numeric_limits<double>::infinity();
      }
    }
    // The mask's element for [b, h, i, j]: its axes align at the end.
    const std::vector<size_t> full{2, c.heads, c.queries, c.keys};
    const auto mask_at = [&](std::vector<size_t> at) {
      size_t linear = 0;
      for (size_t axis = 0; axis < c.mask.size(); ++axis) {
        const auto extent = static_cast<size_t>(c.mask[axis].value);
        linear = linear * extent + (extent == 1 ? 0 : at[4 - c.mask.size() + axis]);
      }
      return linear;
    };
    size_t blind = 0;
    Values expected(2 * c.queries * wide);
    for (size_t n = 0; n < expected.size(); ++n) {
      const size_t b = n / wide / c.queries, i = n / wide % c.queries, h = n % wide / d;
      const size_t group = h / (c.heads / c.kv_heads);
      double total = 0, sum = 0;
      for (size_t j = 0; j < c.keys; ++j) {
        if (c.causal && j > i + c.keys - c.queries) continue;
        const size_t at = mask_at({b, h, i, j});
        if (c.boolean && m.i[at] == 0) continue;
        double score = c.boolean ? 0 : m.f[at];
        for (size_t e = 0; e < d; ++e) {
          score += in.at("q").f[(b * c.queries + i) * wide + h * d + e] *
                   in.at("k").f[(b * c.keys + j) * narrow + group * d + e] / 2;
        }
        total += std::exp(score);
        sum += std::exp(score) * in.at("v").f[(b * c.keys + j) * narrow + group * d + n % d];
      }
      blind += total == 0;
      expected[n] = total == 0 ? 0 : sum / total;
    }
    if (dark) CHECK(blind > 0);
    const bool half = c.dtype == f16 || c.dtype == bf16;
    check_close(ir::interpret(g.ir(), in, params).at("y").f, expected,
                half ? half_an_ulp(c.dtype) : 1e-9);
  }
}
