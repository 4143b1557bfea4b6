// random_uniform, random_normal, random_bernoulli and dropout against the generator itself, and
// scatter against loops written here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/philox.hpp"

using namespace braid;

namespace {

using Values = std::vector<double>;

double draw(int64_t seed, int64_t launch, int64_t index) {
  const auto low = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x)); };
  const auto high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  const uint32_t word =
      philox4x32({low(index), high(index), low(launch), high(launch)}, {low(seed), high(seed)})[0];
  return static_cast<double>(word >> 8) / 16777216;
}

WideTensor scalar(int64_t x) {
  WideTensor t;
  t.type = {i64, {}};
  t.i = {x};
  return t;
}

}  // namespace

TEST_CASE("random_uniform draws by seed, launch and element, and counts launches") {
  const int64_t seed = 0x123456789abcdef0;
  Graph g;
  const Tensor u = random_uniform(g, "u", {f32, {2, 3, 4}}, {.seed = seed});
  const Tensor wide = random_uniform(g, "wide", {f64, {5}}, {.seed = -1, .low = -3, .high = 5});
  const Tensor half = random_uniform(g, "half", {bf16, {7}}, {.seed = 5, .low = 2, .high = 3});
  CHECK(u.type() == TensorType{f32, {Dim(2), Dim(3), Dim(4)}});
  CHECK(wide.dtype() == f64);
  CHECK(half.dtype() == bf16);
  g.output("u", u);
  g.output("wide", wide);
  g.output("half", half);
  ir::TensorMap params{
      {"u/launches", scalar(0)}, {"wide/launches", scalar(0)}, {"half/launches", scalar(41)}};
  for (int64_t launch = 0; launch < 3; ++launch) {
    const ir::TensorMap out = ir::interpret(g.ir(), {}, params);
    for (int64_t i = 0; i < 24; ++i) {
      CHECK(out.at("u").f[static_cast<size_t>(i)] == draw(seed, launch, i));
    }
    for (int64_t i = 0; i < 5; ++i) {
      CHECK(out.at("wide").f[static_cast<size_t>(i)] == draw(-1, launch, i) * 8 - 3);
    }
    for (int64_t i = 0; i < 7; ++i) {
      CHECK(out.at("half").f[static_cast<size_t>(i)] ==
            doctest::Approx(draw(5, launch + 41, i) + 2).epsilon(0x1p-8));
    }
    CHECK(params.at("u/launches").i[0] == launch + 1);
    CHECK(params.at("half/launches").i[0] == launch + 42);
  }
  for (const ir::Op& op : g.ir().ops()) {
    if (op.kind != ir::OpKind::param) continue;
    CHECK(std::get<ir::ParamAttr>(op.attrs).init == ir::Init::zeros);
  }
}

TEST_CASE("a counter in place of the state, and seeds from names") {
  Graph g;
  const Tensor counter = g.input("counter", {i64, {}});
  g.output("a", random_uniform(g, "a", {f32, {6}}, {.seed = 3, .counter = counter}));
  g.output("b", random_uniform(g, "b", {f32, {6}}, {.seed = 3, .counter = counter}));
  g.output("c", random_uniform(g, "c", {f32, {6}}, {.counter = counter}));
  {
    const Scope block = g.scope("block1");
    g.output("c", random_uniform(g, "c", {f32, {6}}, {.counter = counter}));
  }
  ir::TensorMap params;
  const ir::TensorMap out = ir::interpret(g.ir(), {{"counter", scalar(-7)}}, params);
  CHECK(out.at("a").f == out.at("b").f);
  for (int64_t i = 0; i < 6; ++i) CHECK(out.at("a").f[static_cast<size_t>(i)] == draw(3, -7, i));
  CHECK(out.at("c").f != out.at("a").f);
  CHECK(out.at("c").f != out.at("block1/c").f);
}

TEST_CASE("random_normal is Box and Muller of two draws") {
  Graph g;
  g.output("x", random_normal(g, "x", {f32, {50, 400}}, {.seed = 9}));
  g.output("h", random_normal(g, "h", {f16, {30}}, {.seed = 9}));
  ir::TensorMap params{{"x/launches", scalar(4)}, {"h/launches", scalar(4)}};
  const ir::TensorMap out = ir::interpret(g.ir(), {}, params);
  const Values& x = out.at("x").f;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto k = static_cast<int64_t>(2 * i);
    const double want = std::sqrt(-2 * std::log(1 - draw(9, 4, k))) *
                        std::cos(2 * std::numbers::pi * draw(9, 4, k + 1));
    REQUIRE(x[i] == doctest::Approx(want).epsilon(1e-5));
    sum += x[i];
    squares += x[i] * x[i];
    if (i < 30) CHECK(out.at("h").f[i] == doctest::Approx(want).epsilon(2e-3));
  }
  const auto n = static_cast<double>(x.size());
  CHECK(std::fabs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::fabs(squares / n - 1) < 5 * std::sqrt(2 / n));
}

TEST_CASE("random_bernoulli and dropout") {
  for (double p : {0.0, 0.3, 1.0}) {
    CAPTURE(p);
    Graph g;
    const Tensor x = g.input("x", {f32, {40, 50}}), h = g.input("h", {bf16, {64}});
    const Tensor hit = random_bernoulli(g, "hit", {40, 50}, p, {.seed = 2});
    CHECK(hit.dtype() == b1);
    g.output("hit", hit);
    g.output("y", dropout(g, "drop", x, p, {.seed = 2}));
    const Tensor small = dropout(g, "small", h, p, {.seed = 4});
    CHECK(small.dtype() == bf16);
    g.output("small", small);
    ir::TensorMap params{
        {"hit/launches", scalar(1)}, {"drop/launches", scalar(1)}, {"small/launches", scalar(0)}};
    const ir::TensorMap in{{"x", widen(random_tensor(x.type(), 1, "x"))},
                           {"h", widen(random_tensor(h.type(), 1, "h"))}};
    const ir::TensorMap out = ir::interpret(g.ir(), in, params);
    double kept = 0;
    for (size_t i = 0; i < 2000; ++i) {
      const bool below = draw(2, 1, static_cast<int64_t>(i)) < static_cast<float>(p);
      CHECK(out.at("hit").i[i] == below);
      const double want = below ? 0 : in.at("x").f[i] * (p == 1 ? 1 : 1 / (1 - p));
      CHECK(out.at("y").f[i] == doctest::Approx(want).epsilon(1e-6));
      kept += !below;
    }
    CHECK(std::fabs(kept / 2000 - (1 - p)) <= 5 * std::sqrt(p * (1 - p) / 2000));
    for (size_t i = 0; i < 64; ++i) {
      const bool below = draw(4, 0, static_cast<int64_t>(i)) < static_cast<float>(p);
      const double want = below ? 0 : in.at("h").f[i] * (p == 1 ? 1 : 1 / (1 - p));
      CHECK(out.at("small").f[i] == doctest::Approx(want).epsilon(0x1p-8));
    }
  }
}

TEST_CASE("replays of a graph differ, two builds of it do not, fused or not") {
  std::vector<Values> runs;
  for (bool fuse : {true, false}) {
    Graph g;
    const Tensor x = g.input("x", {f32, {16, 20}});
    const Tensor kept = dropout(g, "drop", x, 0.5);
    g.output("y", kept * 2.0);
    g.output("rows", sum(kept, {.axes = {1}}));
    Device device = Device::open("sim");
    Store store(device);
    Options options;
    options.fuse = fuse;
    Executable e = build(g, store, options);
    HostTensor ones(e.type("x"));
    for (int64_t i = 0; i < ones.numel(); ++i) ones.set(i, 1);
    for (int launch = 0; launch < 3; ++launch) {
      runs.push_back(widen(e.run({{"x", ones}}).at("y")).f);
    }
    CHECK(store.get("drop/launches").int_at(0) == 3);
  }
  for (size_t i = 0; i < 3; ++i) {
    CHECK(runs[i] == runs[i + 3]);
    CHECK(runs[i] != runs[(i + 1) % 3]);
  }
}

TEST_CASE("scatter by every combiner, in order of indices") {
  const std::vector<int64_t> at{2, 0, 2, -1, 4, 2, 5, 0};
  const std::vector<std::optional<Fn>> fns{std::nullopt, Fn::add, Fn::mul, Fn::min, Fn::max};
  for (DType t : {f32, f16, bf16, f64, i32, i64, i8, u8}) {
    for (const std::optional<Fn>& fn : fns) {
      for (int axis : {0, 1, -1}) {
        CAPTURE(name_of(t));
        CAPTURE(axis);
        Graph g;
        const Tensor x = g.input("x", {t, {5, 5}}), i = g.input("i", {i32, {4, 2}});
        const Tensor u = g.input(
            "u", {t, axis == 0 ? std::vector<DimArg>{4, 2, 5} : std::vector<DimArg>{5, 4, 2}});
        const Tensor y = scatter(x, i, u, {axis, fn});
        CHECK(y.type() == x.type());
        g.output("y", cast(y, f64));
        ir::TensorMap params;
        ir::TensorMap in{{"x", widen(random_tensor(x.type(), 5, "x"))},
                         {"i", widen(random_tensor(i.type(), 5, "i"))},
                         {"u", widen(random_tensor(u.type(), 5, "u"))}};
        in.at("i").i = at;
        const auto numbers = [&](const char* name) {
          const WideTensor& w = in.at(name);
          return is_float(t) ? w.f : Values(w.i.begin(), w.i.end());
        };
        const Values updates = numbers("u");
        Values want = numbers("x");
        for (size_t k = 0; k < 8; ++k) {
          if (at[k] < 0 || at[k] > 4) continue;
          for (size_t other = 0; other < 5; ++other) {
            const auto row = static_cast<size_t>(at[k]);
            double& e = want[axis == 0 ? row * 5 + other : other * 5 + row];
            const double v = updates[axis == 0 ? k * 5 + other : other * 8 + k];
            e = !fn              ? v
                : *fn == Fn::add ? e + v
                : *fn == Fn::mul ? e * v
                : *fn == Fn::min ? std::min(e, v)
                                 : std::max(e, v);
          }
        }
        if (t == i8 || t == u8) {
          for (double& e : want) {
            e = t == i8 ? static_cast<double>(static_cast<int8_t>(static_cast<int64_t>(e)))
                        : static_cast<double>(static_cast<uint8_t>(static_cast<int64_t>(e)));
          }
        }
        const Values got = ir::interpret(g.ir(), in, params).at("y").f;
        for (size_t k = 0; k < 25; ++k) {
          CHECK(got[k] == doctest::Approx(want[k]).epsilon(t == f64 ? 1e-12 : 0x1p-7));
        }
      }
    }
  }
}
