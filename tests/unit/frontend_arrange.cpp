// argmax, argmin, pad, stack, split, squeeze and unsqueeze against loops written here.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

constexpr DType kAll[] = {f32, f16, bf16, f64, i32, i64, i8, u8, b1};

/// The elements as numbers, whatever the dtype.
std::vector<double> numbers(const WideTensor& t) {
  return is_float(t.type.dtype) ? t.f : std::vector<double>(t.i.begin(), t.i.end());
}

std::vector<double> run(const Graph& g, const ir::TensorMap& inputs, const std::string& output) {
  ir::TensorMap params;
  return numbers(ir::interpret(g.ir(), inputs, params).at(output));
}

/// The first NaN, else the first of the extreme ones.
int64_t arg_of(const std::vector<double>& row, bool largest) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) return static_cast<int64_t>(i);
  }
  size_t best = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (largest ? row[i] > row[best] : row[i] < row[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

}  // namespace

TEST_CASE("argmax and argmin over every axis and all, in every dtype, with ties") {
  const std::vector<int64_t> extents{3, 4, 5};
  for (DType t : kAll) {
    for (int axis = -1; axis < 3; ++axis) {  // -1: all
      for (bool largest : {true, false}) {
        for (bool keep : {true, false}) {
          CAPTURE(name_of(t));
          CAPTURE(axis);
          CAPTURE(largest);
          Graph g;
          const Tensor x = g.input("x", {t, {3, 4, 5}});
          // Integers are 0 .. 7, and floats are made few: ties.
          const Tensor few = t == f32 ? round(x) : x;
          ArgOpts o{axis < 0 ? std::vector<int>{} : std::vector<int>{axis}, keep, keep ? i64 : i32};
          const Tensor y = largest ? argmax(few, o) : argmin(few, o);
          CHECK(y.dtype() == o.dtype);
          CHECK(y.rank() == (keep ? 3 : axis < 0 ? 0 : 2));
          g.output("y", y);
          const WideTensor v = widen(random_tensor(x.type(), 31, "x"));
          std::vector<double> values = numbers(v);
          if (t == f32) {
            for (double& e : values) e = std::nearbyint(e);
          }
          const size_t n = axis < 0 ? 60 : static_cast<size_t>(extents[static_cast<size_t>(axis)]);
          const size_t step = axis < 0 ? 1 : axis == 0 ? 20 : axis == 1 ? 5 : 1;
          std::vector<double> expected;
          for (size_t first = 0; first < 60; ++first) {
            if (first / step % n != 0) continue;
            std::vector<double> row;
            for (size_t k = 0; k < n; ++k) row.push_back(values[first + k * step]);
            expected.push_back(static_cast<double>(arg_of(row, largest)));
          }
          CHECK(run(g, {{"x", v}}, "y") == expected);
        }
      }
    }
  }
}

TEST_CASE("argmax and argmin: a NaN wins, infinities and zeros of both signs") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> rows{{1, nan, 3, nan},    {-inf, -inf, -inf, -inf},
                                              {inf, 2, inf, -inf}, {-0.0, 0.0, -0.0, 0.0},
                                              {nan, inf, -inf, 0}, {-2, -1, -3, -1}};
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  for (DType t : {f32, f16, bf16, f64}) {
    Graph g;
    const Tensor x = g.constant(HostTensor::from({t, {Dim(6), Dim(4)}}, all));
    g.output("max", argmax(x));
    g.output("min", argmin(x));
    g.output("first", argmax(x, {.axes = {}}));
    std::vector<double> most, least;
    for (const auto& row : rows) {
      most.push_back(static_cast<double>(arg_of(row, true)));
      least.push_back(static_cast<double>(arg_of(row, false)));
    }
    CHECK(run(g, {}, "max") == most);
    CHECK(run(g, {}, "min") == least);
    CHECK(run(g, {}, "first") == std::vector<double>{1});
  }
}

TEST_CASE("argmax takes the first of booleans, scalars and symbolic axes") {
  Graph g;
  const Tensor s = g.input("s", {f32, {}}), x = g.input("x", {f32, {"B", "T"}});
  g.output("scalar", argmax(s, {.axes = {}}));
  g.output("rows", argmax(x, {.axes = {1}}));
  g.output("all", argmin(x, {.axes = {}, .keep = true, .dtype = i64}));
  ir::Graph bound = g.ir();
  bound.bind_dims({{"B", 3}, {"T", 7}});
  WideTensor v = widen(random_tensor({f32, {Dim(3), Dim(7)}}, 3, "x"));
  WideTensor one = widen(random_tensor({f32, {}}, 3, "s"));
  ir::TensorMap params;
  const ir::TensorMap out = ir::interpret(bound, {{"x", v}, {"s", one}}, params);
  CHECK(out.at("scalar").i == std::vector<int64_t>{0});
  CHECK(out.at("all").i == std::vector<int64_t>{arg_of(v.f, false)});
  for (size_t r = 0; r < 3; ++r) {
    const auto row = v.f.begin() + static_cast<std::ptrdiff_t>(7 * r);
    CHECK(out.at("rows").i[r] == arg_of({row, row + 7}, true));
  }
}

TEST_CASE("pad surrounds a tensor in every dtype") {
  for (DType t : kAll) {
    CAPTURE(name_of(t));
    Graph g;
    const Tensor x = g.input("x", {t, {2, 3, 4}});
    const Tensor y = pad(x, {1, 0, 2}, {0, 3, 1}, t == b1 ? 1 : 5);
    CHECK(y.type() == TensorType{t, {Dim(3), Dim(6), Dim(7)}});
    g.output("y", y);
    g.output("same", pad(x, {0, 0, 0}, {0, 0, 0}));
    const WideTensor v = widen(random_tensor(x.type(), 4, "x"));
    const std::vector<double> in = numbers(v), out = run(g, {{"x", v}}, "y");
    CHECK(run(g, {{"x", v}}, "same") == in);
    for (size_t i = 0; i < 3 * 6 * 7; ++i) {
      const size_t a = i / 42, b = i / 7 % 6, c = i % 7;
      const bool inside = a >= 1 && b < 3 && c >= 2 && c < 6;
      CHECK(out[i] == (inside ? in[(a - 1) * 12 + b * 4 + c - 2] : t == b1 ? 1 : 5));
    }
  }
}

TEST_CASE("pad of scalars, empty and symbolic tensors") {
  Graph g;
  const Tensor s = g.input("s", {f32, {}}), none = g.input("none", {i32, {0, 2}});
  g.output("s", pad(s, {}, {}));
  g.output("filled", pad(none, {1, 0}, {1, 1}, -7));
  const ir::TensorMap in{{"s", widen(random_tensor({f32, {}}, 1, "s"))},
                         {"none", widen(random_tensor({i32, {Dim(0), Dim(2)}}, 1, "none"))}};
  CHECK(run(g, in, "filled") == std::vector<double>(6, -7));
  CHECK(run(g, in, "s") == in.at("s").f);

  Graph symbolic;
  const Tensor x = symbolic.input("x", {f32, {"B", 2}});
  const Tensor y = pad(x, {1, 1}, {2, 0}, -std::numeric_limits<double>::infinity());
  CHECK(to_string(y.type(), &symbolic.ir_graph().dims) == "f32[B + 3,3]");
}

TEST_CASE("stack, split, squeeze and unsqueeze") {
  for (DType t : {f32, bf16, i64, b1}) {
    Graph g;
    const Tensor x = g.input("x", {t, {2, 6}}), y = g.input("y", {t, {2, 6}});
    for (int axis : {0, 1, 2, -1}) g.output("s" + std::to_string(axis), stack({x, y}, axis));
    const std::vector<Tensor> parts = split(x, 3, -1);
    REQUIRE(parts.size() == 3);
    for (size_t i = 0; i < 3; ++i) g.output("p" + std::to_string(i), parts[i]);
    const Tensor longer = unsqueeze(unsqueeze(x, 0), -1);
    CHECK(longer.type() == TensorType{t, {Dim(1), Dim(2), Dim(6), Dim(1)}});
    CHECK(squeeze(longer, {0, -1}).type() == x.type());
    CHECK(squeeze(longer, {-1}).type() == TensorType{t, {Dim(1), Dim(2), Dim(6)}});
    const ir::TensorMap in{{"x", widen(random_tensor(x.type(), 1, "x"))},
                           {"y", widen(random_tensor(x.type(), 2, "y"))}};
    const std::vector<double> a = numbers(in.at("x")), b = numbers(in.at("y"));
    std::vector<double> rows = a, between, pairs;
    rows.insert(rows.end(), b.begin(), b.end());
    for (size_t r = 0; r < 2; ++r) {
      for (const auto* from : {&a, &b}) {
        for (size_t i = 0; i < 6; ++i) between.push_back((*from)[r * 6 + i]);
      }
    }
    for (size_t i = 0; i < 12; ++i) {
      pairs.push_back(a[i]);
      pairs.push_back(b[i]);
    }
    CHECK(run(g, in, "s0") == rows);
    CHECK(run(g, in, "s1") == between);
    CHECK(run(g, in, "s2") == pairs);
    CHECK(run(g, in, "s-1") == pairs);
    for (size_t p = 0; p < 3; ++p) {
      CHECK(run(g, in, "p" + std::to_string(p)) ==
            std::vector<double>{a[2 * p], a[2 * p + 1], a[6 + 2 * p], a[7 + 2 * p]});
    }
  }
}
