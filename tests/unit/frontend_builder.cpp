// What each builder function computes, against loops written here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

using Values = std::vector<double>;

/// A graph whose inputs and params hold seeded random values.
struct Model {
  Graph g{"test"};
  ir::TensorMap inputs, params;

  WideTensor values(const Tensor& t, const std::string& name) {
    return widen(random_tensor(t.type(), 11, name, 1.0, -9, 9));
  }
  Tensor input(const std::string& name, TypeArg type) {
    const Tensor t = g.input(name, std::move(type));
    inputs[name] = values(t, name);
    return t;
  }
  Tensor param(const std::string& name, TypeArg type) {
    const Tensor t = g.param(name, std::move(type));
    params[name] = values(t, name);
    return t;
  }
  const Values& of(const std::string& name) {
    const auto it = inputs.find(name);
    return it != inputs.end() ? it->second.f : params.at(name).f;
  }
  WideTensor run(Tensor t) {
    g.output("out" + std::to_string(g.ir().outputs.size()), t);
    return ir::interpret(g.ir(), inputs, params).at(g.ir().outputs.back().name);
  }
};

Values doubles(const WideTensor& t) {
  if (is_float(t.type.dtype)) return t.f;
  return Values(t.i.begin(), t.i.end());
}

void check_close(const WideTensor& got, const Values& expected, double tolerance = 1e-12) {
  const Values values = doubles(got);
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(values[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

Values filled(size_t n, const std::function<double(size_t)>& f) {
  Values v(n);
  for (size_t i = 0; i < n; ++i) v[i] = f(i);
  return v;
}

size_t count(const Graph& g, ir::OpKind kind) {
  const auto& ops = g.ir().ops();
  return static_cast<size_t>(
      std::count_if(ops.begin(), ops.end(), [&](const ir::Op& op) { return op.kind == kind; }));
}

}  // namespace

TEST_CASE("functions of one operand are the ones they are named after") {
  struct Case {
    Tensor (*build)(In);
    double (*expect)(double);
  };
  const Case cases[] = {
      {neg, [](double x) { return -x; }},
      {braid::abs, [](double x) { return std::fabs(x); }},
      {braid::exp, [](double x) { return std::exp(x); }},
      {braid::tanh, [](double x) { return std::tanh(x); }},
      {sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {relu, [](double x) { return x > 0 ? x : 0; }},
      {gelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {gelu_tanh,
       [](double x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
      {silu, [](double x) { return x / (1 + std::exp(-x)); }},
      {braid::erf, [](double x) { return std::erf(x); }},
      {braid::sin, [](double x) { return std::sin(x); }},
      {braid::cos, [](double x) { return std::cos(x); }},
      {braid::floor, [](double x) { return std::floor(x); }},
      {braid::ceil, [](double x) { return std::ceil(x); }},
      {braid::round, [](double x) { return std::nearbyint(x); }},
      {sign, [](double x) { return x > 0   ? 1.0
                                   : x < 0 ? -1.0
                                           : 0.0; }},
      {reciprocal, [](double x) { return 1 / x; }},
  };
  for (const Case& c : cases) {
    CAPTURE(&c - cases);
    Model m;
    const Tensor x = m.input("x", {f32, {5, 3}});
    check_close(m.run(c.build(x)), filled(15, [&](size_t i) { return c.expect(m.of("x")[i]); }),
                1e-6);
  }
  Model m;
  const Tensor x = m.input("x", {f32, {9}});
  const auto square = [&](size_t i) { return m.of("x")[i] * m.of("x")[i]; };
  check_close(m.run(braid::sqrt(x * x)), filled(9, [&](size_t i) { return std::sqrt(square(i)); }));
  check_close(m.run(rsqrt(x * x)), filled(9, [&](size_t i) { return 1 / std::sqrt(square(i)); }));
  check_close(m.run(braid::log(x * x)), filled(9, [&](size_t i) { return std::log(square(i)); }));
}

TEST_CASE("operators and functions of two and three operands broadcast") {
  Model m;
  const Tensor a = m.input("a", {f32, {4, 1, 3}}), b = m.input("b", {f32, {5, 1}});
  const auto check = [&](Tensor got, const std::function<double(double, double)>& f) {
    CHECK(to_string(got.type()).substr(got.dtype() == b1 ? 2 : 3) == "[4,5,3]");
    check_close(m.run(got), filled(60, [&](size_t i) {
                  return f(m.of("a")[i / 15 * 3 + i % 3], m.of("b")[i / 3 % 5]);
                }));
  };
  check(a + b, [](double x, double y) { return x + y; });
  check(a - b, [](double x, double y) { return x - y; });
  check(a * b, [](double x, double y) { return x * y; });
  check(a / b, [](double x, double y) { return x / y; });
  check(minimum(a, b), [](double x, double y) { return std::min(x, y); });
  check(maximum(a, b), [](double x, double y) { return std::max(x, y); });
  check(braid::pow(abs(a), b), [](double x, double y) { return std::pow(std::fabs(x), y); });
  check(mod(a, b), [](double x, double y) { return x - std::floor(x / y) * y; });
  check(less(a, b), [](double x, double y) { return x < y; });
  check(less_equal(a, b), [](double x, double y) { return x <= y; });
  check(greater(a, b), [](double x, double y) { return x > y; });
  check(greater_equal(a, b), [](double x, double y) { return x >= y; });
  check(equal(a, b), [](double x, double y) { return x == y; });
  check(not_equal(a, b), [](double x, double y) { return x != y; });
  check(logical_and(greater(a, 0.0), greater(b, 0.0)),
        [](double x, double y) { return x > 0 && y > 0; });
  check(logical_or(greater(a, 0.0), logical_not(greater(b, 0.0))),
        [](double x, double y) { return x > 0 || !(y > 0); });
  check(logical_xor(greater(a, 0.0), greater(b, 0.0)),
        [](double x, double y) { return (x > 0) != (y > 0); });
  check(select(less(a, b), a, 2.5), [](double x, double y) { return x < y ? x : 2.5; });
  check(clamp(a + b, -0.5, 0.75), [](double x, double y) { return std::clamp(x + y, -0.5, 0.75); });
  check(3.0 - (-(a * b)), [](double x, double y) { return 3 + x * y; });
}

TEST_CASE("equal shapes need no view, and a number takes the dtype of the tensor") {
  Model m;
  const Tensor a = m.input("a", {bf16, {4, 3}}), n = m.input("n", {i32, {4}});
  CHECK((a * a).dtype() == bf16);
  CHECK(count(m.g, ir::OpKind::view) == 0);
  CHECK((a * 0.5).dtype() == bf16);
  CHECK(count(m.g, ir::OpKind::view) == 1);
  const Tensor shifted = 7.0 - n;
  CHECK(shifted.dtype() == i32);
  const std::vector<int64_t> x = m.inputs.at("n").i;
  check_close(m.run(shifted), filled(4, [&](size_t i) { return 7.0 - static_cast<double>(x[i]); }));
  CHECK(cast(n, f32).dtype() == f32);
}

TEST_CASE("reductions fold the axes they are given") {
  Model m;
  const Tensor x = m.input("x", {f32, {3, 4, 5}});
  const Values& v = m.of("x");
  const auto fold = [&](std::function<double(double, double)> f, double first) {
    return filled(4, [&](size_t j) {
      double r = first;
      for (size_t i = 0; i < 3; ++i) {
        for (size_t k = 0; k < 5; ++k) r = f(r, v[i * 20 + j * 5 + k]);
      }
      return r;
    });
  };
  const ReduceOpts o{.axes = {0, -1}};
  check_close(m.run(sum(x, o)), fold(std::plus<>(), 0));
  check_close(m.run(prod(x, o)), fold(std::multiplies<>(), 1));
  check_close(m.run(braid::max(x, o)),
              fold([](double a, double b) { return a > b ? a : b; }, -1e9));
  check_close(m.run(braid::min(x, o)), fold([](double a, double b) { return a < b ? a : b; }, 1e9));
  check_close(m.run(mean(x, o)), fold([](double a, double b) { return a + b / 15; }, 0), 1e-6);
  check_close(m.run(any(greater(x, 1.0), o)),
              fold([](double a, double b) { return a || b > 1; }, 0));
  check_close(m.run(all(less(x, 1.0), o)), fold([](double a, double b) { return a && b < 1; }, 1));

  CHECK(to_string(sum(x).type()) == "f32[3,4]");
  CHECK(to_string(sum(x, {.axes = {}}).type()) == "f32[]");
  CHECK(to_string(braid::max(x, {.axes = {1}, .keep = true}).type()) == "f32[3,1,5]");
  CHECK(to_string(mean(x, {.axes = {0, 2}, .keep = true}).type()) == "f32[1,4,1]");
  const Tensor half = m.input("half", {f16, {3, 8}});
  CHECK(mean(half).dtype() == f16);
}

TEST_CASE("matmul: all transpositions, broadcast batches, one product for a shared right side") {
  for (int flags = 0; flags < 4; ++flags) {
    CAPTURE(flags);
    const bool ta = flags & 1, tb = flags & 2;
    Model m;
    const Tensor a = ta ? m.input("a", {f32, {2, 1, 5, 3}}) : m.input("a", {f32, {2, 1, 3, 5}});
    const Tensor b = tb ? m.input("b", {f32, {6, 4, 5}}) : m.input("b", {f32, {6, 5, 4}});
    const Tensor c = matmul(a, b, {.ta = ta, .tb = tb});
    CHECK(to_string(c.type()) == "f32[2,6,3,4]");
    check_close(m.run(c), filled(144, [&](size_t i) {
                  const size_t n = i % 4, row = i / 4 % 3, p = i / 12 % 6, q = i / 72;
                  double s = 0;
                  for (size_t k = 0; k < 5; ++k) {
                    s += m.of("a")[q * 15 + (ta ? k * 3 + row : row * 5 + k)] *
                         m.of("b")[p * 20 + (tb ? n * 5 + k : k * 4 + n)];
                  }
                  return s;
                }));
  }
  for (bool ta : {false, true}) {
    Model m;
    const Tensor a = ta ? m.input("a", {f32, {2, 5, 3}}) : m.input("a", {f32, {2, 3, 5}});
    const Tensor w = m.input("w", {f32, {5, 4}});
    const Tensor c = matmul(a, w, {.ta = ta});
    const ir::Graph& g = m.g.ir();
    const auto dot = std::find_if(g.ops().begin(), g.ops().end(),
                                  [](const ir::Op& op) { return op.kind == ir::OpKind::dot; });
    REQUIRE(dot != g.ops().end());
    CHECK(g.type(dot->result).shape.rank() == (ta ? 3 : 2));
    check_close(m.run(c), filled(24, [&](size_t i) {
                  double s = 0;
                  for (size_t k = 0; k < 5; ++k) {
                    const size_t row = i / 4 % 3;
                    s += m.of("a")[i / 12 * 15 + (ta ? k * 3 + row : row * 5 + k)] *
                         m.of("w")[k * 4 + i % 4];
                  }
                  return s;
                }));
  }
  Model m;
  const Tensor h = m.input("h", {bf16, {3, 3}});
  CHECK(matmul(h, h, {.out = f32}).dtype() == f32);
  CHECK(matmul(h, h).dtype() == bf16);
}

TEST_CASE("views, concat, gather, iota, full and constant") {
  Model m;
  const Tensor x = m.input("x", {f32, {4, 6}}), y = m.input("y", {f32, {2, 6}});
  const Values &v = m.of("x"), &u = m.of("y");
  check_close(m.run(transpose(x, {1, 0})),
              filled(24, [&](size_t i) { return v[i % 4 * 6 + i / 4]; }));
  check_close(m.run(slice(x, {.axis = -1, .start = -5, .stop = -1, .step = 3})),
              filled(8, [&](size_t i) { return v[i / 2 * 6 + 1 + i % 2 * 3]; }));
  CHECK(to_string(slice(x, {.axis = 0, .start = 3, .stop = 1}).type()) == "f32[0,6]");
  check_close(m.run(concat({x, y}, 0)),
              filled(36, [&](size_t i) { return i < 24 ? v[i] : u[i - 24]; }));
  check_close(m.run(broadcast_to(y, {3, 2, 6})), filled(36, [&](size_t i) { return u[i % 12]; }));
  check_close(m.run(reshape(x, {2, -1, 3})), v);
  CHECK(to_string(reshape(x, {2, -1, 3}).type()) == "f32[2,4,3]");

  const int64_t index[] = {3, -7, 99, 1};
  HostTensor rows(TensorType{i32, {2, 2}});
  for (int i = 0; i < 4; ++i) rows.set_int(i, index[i]);
  const Tensor picked = gather(x, m.g.constant(rows), 1);
  CHECK(to_string(picked.type()) == "f32[4,2,2]");
  const size_t column[] = {3, 0, 5, 1};
  check_close(m.run(picked), filled(16, [&](size_t i) { return v[i / 4 * 6 + column[i % 4]]; }));

  check_close(m.run(m.g.iota({i64, {3, 2}}, 0)), {0, 0, 1, 1, 2, 2});
  check_close(m.run(m.g.iota({f32, {2, 3}}, -1)), {0, 1, 2, 0, 1, 2});
  check_close(m.run(m.g.full({f64, {2}}, 0.125)), {0.125, 0.125});
}

TEST_CASE("symbolic dims carry through shapes") {
  Graph g("symbolic");
  g.dim("B", 8, 64);
  const Tensor x = g.input("x", {f32, {"B", "T", 768}}), w = g.input("w", {f32, {768, "4*D"}});
  const auto str = [&](Tensor t) { return to_string(t.type(), &g.ir().dims); };
  CHECK(str(x + g.input("bias", {f32, {768}})) == str(x));
  CHECK(str(x + g.input("row", {f32, {"B", 1, 1}})) == str(x));
  const Tensor y = matmul(x, w);
  CHECK(y.type().shape[0] == x.type().shape[0]);
  CHECK(y.type().shape[2] == w.type().shape[1]);
  CHECK(str(reshape(x, {"B", -1, 64})).find("12*T") != std::string::npos);
  CHECK(str(slice(x, {.axis = 1, .start = 1})).find("T - 1") != std::string::npos);
  REQUIRE(g.ir().dims.symbols().size() == 3);
  CHECK(g.ir().dims.symbols()[0].max == 64);
}

TEST_CASE("graphs with symbolic dims compute, once the dims are bound") {
  Graph g("symbolic");
  const Tensor x = g.input("x", {f32, {"B", "T", 4}}), row = g.input("row", {f32, {"T", 1}});
  const Tensor w = g.input("w", {f32, {4, "2*D"}});
  g.output("sum", x + row * 2.0);
  g.output("product", matmul(x, w));
  g.output("flat", reshape(x, {-1, "4*T"}));
  g.output("tail", slice(x, {.axis = 1, .start = 1}));
  g.output("spread", broadcast_to(row, {"B", "T", 3}));
  ir::Graph bound = g.ir();
  bound.bind_dims({{"B", 3}, {"T", 5}, {"D", 1}});
  ir::TensorMap params, in;
  for (const ir::Op& op : bound.ops()) {
    if (op.kind != ir::OpKind::input) continue;
    const std::string name(bound.strings[op.name]);
    in[name] = widen(random_tensor(bound.type(op.result), 3, name));
  }
  const Values &v = in.at("x").f, &r = in.at("row").f, &m = in.at("w").f;
  REQUIRE(v.size() == 60);
  const ir::TensorMap out = ir::interpret(bound, in, params);
  check_close(out.at("sum"), filled(60, [&](size_t i) { return v[i] + 2 * r[i / 4 % 5]; }));
  check_close(out.at("product"), filled(30, [&](size_t i) {
                double s = 0;
                for (size_t k = 0; k < 4; ++k) s += v[i / 2 * 4 + k] * m[k * 2 + i % 2];
                return s;
              }));
  check_close(out.at("flat"), v);
  CHECK(to_string(out.at("flat").type) == "f32[3,20]");
  check_close(out.at("tail"), filled(48, [&](size_t i) { return v[i / 16 * 20 + 4 + i % 16]; }));
  check_close(out.at("spread"), filled(45, [&](size_t i) { return r[i / 3 % 5]; }));
}

TEST_CASE("slices count as in Python") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  struct Case {
    int64_t start;
    std::optional<int64_t> stop;
    int64_t step;
    std::vector<double> picked;
  };
  for (const Case& c :
       {Case{0, {}, 1, {0, 1, 2, 3, 4, 5, 6}}, Case{-3, {}, 1, {4, 5, 6}},
        Case{1, -1, 2, {1, 3, 5}}, Case{0, {}, 3, {0, 3, 6}}, Case{-99, 2, 1, {0, 1}},
        Case{5, 99, 1, {5, 6}}, Case{5, 2, 1, {}}, Case{99, {}, 1, {}}, Case{2, 2, 5, {}},
        Case{6, {}, 7, {6}}, Case{-kMax - 1, kMax, 1, {0, 1, 2, 3, 4, 5, 6}},
        Case{3, {}, INT32_MAX, {3}}}) {
    CAPTURE(c.start);
    CAPTURE(c.step);
    Model m;
    const Tensor x = m.g.iota({i64, {7}}, 0);
    check_close(m.run(slice(x, {.start = c.start, .stop = c.stop, .step = c.step})), c.picked);
  }
  Graph g;
  CHECK_THROWS_AS(slice(g.iota({i32, {7}}, 0), {.step = kMax}), Error);
}

TEST_CASE("update: starts are clamped so that the box fits, and a number is one element") {
  Model m;
  const Tensor p = m.param("p", {f32, {3, 4}}), box = m.input("box", {f32, {2, 2}});
  const Values old = m.of("p"), b = m.of("box");
  m.g.update(p, box, {99.0, -99.0});
  m.g.update(p, 2.5, {m.g.full({i32, {}}, 0), 3.0});
  Values expected = old;
  expected[4] = b[0], expected[5] = b[1], expected[8] = b[2], expected[9] = b[3];
  expected[3] = 2.5;
  check_close(m.run(p), expected);
  check_close(m.params.at("p"), expected);

  const Tensor scalar = m.param("scalar", {i32, {}});
  m.g.update(scalar, -3.0, {});
  check_close(m.run(scalar), {-3});
}

TEST_CASE("a param's tensor is the version current at the time of use") {
  Model m;
  const Tensor p = m.param("p", {f32, {3, 4}}), x = m.input("x", {f32, {3, 4}});
  const Values before = m.of("p"), v = m.of("x");
  const Tensor old = p + 0.0;
  CHECK(count(m.g, ir::OpKind::read) == 1);
  const Tensor kept = m.g.read(p);
  m.g.assign(p, p * 2.0 + x);
  CHECK(count(m.g, ir::OpKind::read) == 1);  // one read a version
  const Tensor middle = p + 0.0;
  CHECK(count(m.g, ir::OpKind::read) == 2);
  m.g.update(p, slice(x, {.axis = 0, .start = 0, .stop = 1}), {2.0, 0.0});
  const Tensor last = p + 0.0;
  m.g.output("old", old);
  m.g.output("kept", kept);
  m.g.output("middle", middle);
  m.g.output("last", last);
  CHECK(ir::verify(m.g.ir()).empty());
  const ir::TensorMap out = ir::interpret(m.g.ir(), m.inputs, m.params);
  const Values assigned = filled(12, [&](size_t i) { return before[i] * 2 + v[i]; });
  const Values updated = filled(12, [&](size_t i) { return i < 8 ? assigned[i] : v[i - 8]; });
  check_close(out.at("old"), before);
  check_close(out.at("kept"), before);
  check_close(out.at("middle"), assigned);
  check_close(out.at("last"), updated);
  check_close(m.params.at("p"), updated);

  m.g.assign(p, 1.5);
  ir::interpret(m.g.ir(), m.inputs, m.params);
  check_close(m.params.at("p"), Values(12, 1.5));
}
