// Ops whose size the device decides, against loops written here; and the example that uses them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "frontend/report/report_regions.hpp"
#include "frontend/selection.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"

using namespace braid;

namespace {

using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

WideTensor wide(const TensorType& type, const Values& values) {
  WideTensor t{type, {}, {}};
  for (double x : values) {
    if (is_float(type.dtype)) t.f.push_back(x);
    if (!is_float(type.dtype)) t.i.push_back(static_cast<int64_t>(x));
  }
  return t;
}

Values values_of(const WideTensor& t) {
  if (is_float(t.type.dtype)) return t.f;
  return {t.i.begin(), t.i.end()};
}

/// The outputs, by name.
std::map<std::string, Values> run(const Graph& g, const ir::TensorMap& inputs) {
  ir::TensorMap params;
  std::map<std::string, Values> out;
  for (const auto& [name, t] : ir::interpret(g.ir(), inputs, params)) out[name] = values_of(t);
  return out;
}

Values random_values(std::mt19937& random, size_t n, int distinct) {
  Values v(n);
  for (double& x : v) {
    x = static_cast<double>(random() % static_cast<unsigned>(distinct)) - distinct / 2;
  }
  return v;
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics()[0];
    CHECK(d.place.known());
    CHECK(!d.suggestion.empty());
    return d.code;
  }
  return "none";
}

}  // namespace

TEST_CASE("nonzero gives the indices of what is not 0, row by row") {
  std::mt19937 random(1);
  for (DType t : {f32, f16, i32, i64, u8, b1}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{7}, {1}, {0}, {3, 5}, {2, 3, 4}, {4, 0}}) {
      Graph g;
      const TensorType type{t, Shape::of(shape)};
      const Tensor x = g.input("x", {t, {shape.begin(), shape.end()}});
      const Selected rows = nonzero(x), flat = flatnonzero(x);
      const auto n = static_cast<size_t>(type.shape.numel());
      CHECK(to_string(rows.values.type()) == fmt::format("i32[{},{}]", n, shape.size()));
      CHECK(to_string(flat.values.type()) == fmt::format("i32[{}]", n));
      CHECK(to_string(rows.count.type()) == "i32[]");
      g.output("rows", rows.values);
      g.output("n", rows.count);
      g.output("flat", flat.values);
      g.output("m", flat.count);
      Values v = random_values(random, n, 3);
      if (t == u8 || t == b1)
        std::transform(v.begin(), v.end(), v.begin(), [](double y) { return std::abs(y); });
      Values want_rows, want_flat;
      for (size_t i = 0; i < n; ++i) {
        if (v[i] == 0) continue;
        want_flat.push_back(static_cast<double>(i));
        std::vector<double> at;
        size_t rest = i;
        for (size_t a = shape.size(); a-- > 0;) {
          at.insert(at.begin(), static_cast<double>(rest % static_cast<size_t>(shape[a])));
          rest /= static_cast<size_t>(shape[a]);
        }
        want_rows.insert(want_rows.end(), at.begin(), at.end());
      }
      const Values count{static_cast<double>(want_flat.size())};
      want_flat.resize(n);
      want_rows.resize(n * shape.size());
      auto out = run(g, {{"x", wide(type, v)}});
      CHECK(out["rows"] == want_rows);
      CHECK(out["flat"] == want_flat);
      CHECK(out["n"] == count);
      CHECK(out["m"] == count);
    }
  }
  Graph g;
  const Selected one = flatnonzero(g.input("x", {f32, {}}));
  CHECK(to_string(one.values.type()) == "i32[1]");
  const Selected symbolic = nonzero(g.input("y", {f32, {"B", 3}}));
  CHECK(to_string(symbolic.values.type(), &g.ir_graph().dims) == "i32[3*B,2]");
}

TEST_CASE("compact and masked_select choose rows and elements") {
  std::mt19937 random(2);
  Graph g;
  const Tensor x = g.input("x", {f32, {4, 3}}), m = g.input("m", {b1, {3}});
  const Tensor r = g.input("r", {b1, {4}});
  const Selected some = masked_select(x, m), rows = compact(r, x);
  CHECK(to_string(some.values.type()) == "f32[12]");
  CHECK(rows.values.type() == x.type());
  g.output("some", some.values);
  g.output("n", some.count);
  g.output("rows", rows.values);
  const Values v = random_values(random, 12, 90);
  auto out = run(g, {{"x", wide(x.type(), v)},
                     {"m", wide(m.type(), {1, 0, 1})},
                     {"r", wide(r.type(), {0, 1, 0, 1})}});
  CHECK(out["some"] == Values{v[0], v[2], v[3], v[5], v[6], v[8], v[9], v[11], 0, 0, 0, 0});
  CHECK(out["n"] == Values{8});
  CHECK(out["rows"] == Values{v[3], v[4], v[5], v[9], v[10], v[11], 0, 0, 0, 0, 0, 0});
  // Both broadcast: a column against a row.
  Graph h;
  const Selected both = masked_select(h.input("x", {i32, {2, 1}}), h.input("m", {b1, {1, 3}}));
  h.output("y", both.values);
  out = run(h, {{"x", wide({i32, {Dim(2), Dim(1)}}, {5, 6})},
                {"m", wide({b1, {Dim(1), Dim(3)}}, {1, 0, 1})}});
  CHECK(out["y"] == Values{5, 5, 6, 6, 0, 0});
}

TEST_CASE("model files name the results that they want") {
  const TomlModel model = read_toml(R"(
format = 1
[inputs]
x = { dtype = "f32", shape = [4, 3] }
m = { dtype = "b1", shape = [4] }
[graph]
nodes = [
  { out = ["rows", "n"], op = "compact", in = ["m", "x"] },
  { out = "only",        op = "compact", in = ["m", "m"] },
  { out = ["v", "c"],    op = "unique",  in = ["x"] },
  { out = ["w", "d", "where"], op = "unique", in = ["m"] },
]
[outputs]
rows = "rows"
n = "n"
only = "only"
v = "v"
c = "c"
where = "where"
)",
                                    "m.toml");
  std::mt19937 random(6);
  const Values x = random_values(random, 12, 3);
  auto out = run(*model.graph, {{"x", wide({f32, {Dim(4), Dim(3)}}, x)},
                                {"m", wide({b1, {Dim(4)}}, {1, 0, 0, 1})}});
  CHECK(out["rows"] == Values{x[0], x[1], x[2], x[9], x[10], x[11], 0, 0, 0, 0, 0, 0});
  CHECK(out["n"] == Values{2});
  CHECK(out["only"] == Values{1, 1, 0, 0});
  CHECK(out["where"] == Values{1, 0, 0, 1});
  const std::set<double> values(x.begin(), x.end());
  CHECK(out["c"] == Values{static_cast<double>(values.size())});
  CHECK(std::equal(values.begin(), values.end(), out["v"].begin()));
}

TEST_CASE("unique gives each value once, sorted, and where each element is") {
  std::mt19937 random(3);
  for (DType t : {f32, bf16, f64, i32, i64, i8, u8, b1}) {
    for (int64_t n : {0, 1, 2, 40}) {
      for (int distinct : {1, 6, 1000}) {
        Graph g;
        const Tensor x = g.input("x", {t, {n}});
        const Unique u = unique(x);
        CHECK(u.values.type() == x.type());
        g.output("values", u.values);
        g.output("n", u.count);
        g.output("inverse", u.inverse);
        Values v = random_values(random, static_cast<size_t>(n), t == i8 ? 100 : distinct);
        for (double& y : v) {
          if (t == u8 || t == bf16) y = static_cast<double>(static_cast<int>(std::abs(y)) % 200);
          if (t == b1) y = y > 0;
        }
        const std::set<double> want(v.begin(), v.end());
        Values sorted(want.begin(), want.end()), inverse;
        for (double y : v) {
          inverse.push_back(static_cast<double>(std::distance(want.begin(), want.find(y))));
        }
        const Values count{static_cast<double>(sorted.size())};
        sorted.resize(static_cast<size_t>(n));
        auto out = run(g, {{"x", wide(x.type(), v)}});
        CHECK(out["values"] == sorted);
        CHECK(out["n"] == count);
        CHECK(out["inverse"] == inverse);
      }
    }
  }
}

TEST_CASE("unique: zeros of both signs are one value, NaNs are each their own, and last") {
  Graph g;
  const Tensor x = g.input("x", {f32, {2, 4}});
  const Unique u = unique(x);
  g.output("values", u.values);
  g.output("n", u.count);
  g.output("inverse", u.inverse);
  auto out = run(g, {{"x", wide(x.type(), {kNan, -0.0, 0.0, kInf, -kInf, kNan, 2, 0.0})}});
  const Values v = out["values"];
  CHECK(v[0] == -kInf);
  CHECK(v[1] == 0);
  CHECK(std::signbit(v[1]));
  CHECK(v[2] == 2);
  CHECK(v[3] == kInf);
  CHECK(std::isnan(v[4]));
  CHECK(std::isnan(v[5]));
  CHECK(v[6] == 0);
  CHECK(out["n"] == Values{6});
  CHECK(out["inverse"] == Values{4, 1, 1, 3, 0, 5, 2, 1});
}

TEST_CASE("unique's squares need no memory") {
  for (DType t : {f32, f64, i32, b1}) {
    Graph g;
    const Unique u = unique(g.input("x", {t, {1000}}));
    g.output("values", u.values);
    g.output("n", u.count);
    g.output("inverse", u.inverse);
    const Program p = compile(g);
    for (const Buffer& b : p.buffers) CHECK(b.bytes <= 8000);
    CHECK(p.graphs == 1);
  }
}

TEST_CASE("reductions and softmax over the first elements of an axis") {
  std::mt19937 random(4);
  const Values v = random_values(random, 3 * 5 * 2, 50);
  for (DType t : {f32, f16, f64, i32, i64}) {
    for (int64_t count : {0, 1, 3, 5, 9}) {
      CAPTURE(name_of(t));
      CAPTURE(count);
      Graph g;
      const Tensor x = g.input("x", {t, {3, 5, 2}});
      const Tensor n = g.input("n", {count % 2 ? i32 : i64, {}});
      const ReduceOpts o{.axes = {1}, .count = n};
      g.output("sum", sum(x, o));
      g.output("max", max(x, {.axes = {-2}, .keep = true, .count = n}));
      g.output("min", min(x, o));
      g.output("prod", prod(x, o));
      g.output("any", any(greater(x, 10), o));
      g.output("all", all(greater(x, 10), o));
      if (is_float(t)) g.output("mean", mean(x, o));
      if (is_float(t)) g.output("softmax", softmax(x, 1, n));
      Values with_nan = v;
      if (is_float(t)) {
        for (size_t i = 0; i < v.size(); ++i) {  // what does not count is not seen at all
          if (static_cast<int64_t>(i / 2 % 5) >= count) with_nan[i] = i % 3 ? kNan : kInf;
        }
      }
      auto out = run(g, {{"x", wide(x.type(), with_nan)},
                         {"n", wide(n.type(), {static_cast<double>(count)})}});
      for (size_t r = 0; r < 6; ++r) {
        const auto at = [&](size_t k) { return v[r / 2 * 10 + k * 2 + r % 2]; };
        const size_t c = std::min<size_t>(static_cast<size_t>(count), 5);
        double total = 0, most = -kInf, least = kInf, product = 1, weights = 0;
        bool some = false, every = true;
        for (size_t k = 0; k < c; ++k) {
          total += at(k);
          product *= at(k);
          most = std::max(most, at(k));
          least = std::min(least, at(k));
          some = some || at(k) > 10;
          every = every && at(k) > 10;
        }
        for (size_t k = 0; k < c; ++k) weights += std::exp(at(k) - most);
        CHECK(out["sum"][r] == doctest::Approx(total));
        CHECK(out["prod"][r] == doctest::Approx(product));
        CHECK(out["max"][r] == (c == 0 ? 0 : most));
        CHECK(out["min"][r] == (c == 0 ? 0 : least));
        CHECK(out["any"][r] == some);
        CHECK(out["all"][r] == every);
        if (!is_float(t)) continue;
        const double by = std::max<double>(1, static_cast<double>(c));
        CHECK(std::abs(out["mean"][r] - total / by) <= 1e-3 * (1 + std::abs(total)));
        for (size_t k = 0; k < 5; ++k) {
          const double want = k < c ? std::exp(at(k) - most) / weights : 0;
          CHECK(std::abs(out["softmax"][r / 2 * 10 + k * 2 + r % 2] - want) <= 1e-3);
        }
      }
    }
  }
}

TEST_CASE("valid says which elements count") {
  Graph g;
  const Tensor n = g.input("n", {i32, {}});
  g.output("a", valid(n, {4}));
  g.output("b", valid(n, {2, 3}, -1));
  auto out = run(g, {{"n", wide({i32, {}}, {2})}});
  CHECK(out["a"] == Values{1, 1, 0, 0});
  CHECK(out["b"] == Values{1, 1, 0, 1, 1, 0});
}

TEST_CASE("compactions in branches and loops, however these are carried out") {
  using L = ir::Lowering;
  for (L branches : {L::select, L::predicate, L::node, L::host}) {
    for (L loops : {L::unroll, L::node, L::host}) {
      CAPTURE(name_of(branches));
      CAPTURE(name_of(loops));
      Graph g;
      const Tensor x = g.input("x", {f32, {6, 5}}), low = g.input("low", {f32, {}});
      const std::vector<Tensor> some = g.if_(
          greater(low, 0),
          [&] {
            const Tensor first = reshape(slice(x, {.axis = 1, .stop = 1}), {6});
            const Selected s = compact(greater(first, low), x);
            return std::vector<Tensor>{s.values, s.count};
          },
          [&] { return std::vector<Tensor>{x, g.full({i32, {}}, 6)}; });
      g.output("rows", some[0]);
      g.output("n", some[1]);
      // Each turn keeps the elements above the mean of those that are left.
      const LoopValues last = g.loop(3, {reshape(x, {30}), g.full({i32, {}}, 30)},
                                     [&](Tensor, const std::vector<Tensor>& now) {
                                       const ReduceOpts o{.axes = {0}, .count = now[1]};
                                       const Tensor left = logical_and(
                                           greater(now[0], mean(now[0], o)), valid(now[1], {30}));
                                       const Selected s = compact(left, now[0]);
                                       return LoopValues{{s.values, s.count}, {}};
                                     });
      g.output("left", last.carried[0]);
      g.output("left_n", last.carried[1]);
      Store store(Device::open("sim"));
      Options options;
      options.branches = branches;
      options.loops = loops;
      options.verify = true;
      Executable e = build(g, store, options);
      ir::Graph graph = g.ir();
      for (double threshold : {-1.0, 0.1, 5.0}) {
        std::map<std::string, HostTensor> inputs;
        inputs["x"] = random_tensor(e.type("x"), 5, "x");
        inputs["low"] = HostTensor(e.type("low"));
        inputs["low"].set(0, threshold);
        ir::TensorMap params;
        const ir::TensorMap want = ir::interpret(
            graph, {{"x", widen(inputs["x"])}, {"low", widen(inputs["low"])}}, params);
        e.poison();
        const auto got = e.run(inputs);
        CHECK(want.at("left_n").i[0] > 0);
        for (const auto& [name, value] : want) {
          CAPTURE(name);
          CHECK(relative_error(got.at(name), value) <= 1e-5);
        }
      }
    }
  }
}

TEST_CASE("reports tell how much room there is") {
  const TomlModel model = load_toml(BRAID_SOURCE_DIR "/examples/sparse_attention.toml");
  const Program p = compile(*model.graph);
  const std::string room = "room for 512 rows, the number of those that count stays in memory";
  size_t found = 0;
  for (const Kernel& k : p.kernels) found += report::room_text(k) == room;
  CHECK(found == 1);
  std::vector<report::Avoided> avoided;
  report::add_avoided(p, avoided);
  const auto it = std::find_if(avoided.begin(), avoided.end(),
                               [](const report::Avoided& a) { return a.op == "at (compact)"; });
  REQUIRE(it != avoided.end());
  CHECK(it->how == "sized by the device: " + room);
  CHECK(it->place.find("sparse_attention.toml:24") != std::string::npos);
}

TEST_CASE("selections that are refused have a code, a place and a remedy") {
  const auto code = [](const std::function<void(Graph&, Tensor, Tensor)>& f) {
    return code_of([&] {
      Graph g;
      f(g, g.input("x", {f32, {4, 3}}), g.input("n", {i32, {}}));
    });
  };
  CHECK(code([](Graph&, Tensor x, Tensor) { masked_select(x, x); }) == "E0340");
  CHECK(code([](Graph&, Tensor x, Tensor) { compact(x, x); }) == "E0340");
  CHECK(code([](Graph&, Tensor, Tensor n) { nonzero(n); }) == "E0340");
  CHECK(code([](Graph& g, Tensor, Tensor) {
          nonzero(g.input("large", {b1, {int64_t{1} << 20, 1 << 12}}));
        }) == "E0340");
  CHECK(code([](Graph& g, Tensor, Tensor) { unique(g.input("large", {f32, {16385}})); }) ==
        "E0341");
  CHECK(code([](Graph&, Tensor x, Tensor) { softmax(x, 0, x); }) == "E0342");
  CHECK(code([](Graph&, Tensor x, Tensor) { valid(x, {4}); }) == "E0342");
  CHECK(code([](Graph&, Tensor x, Tensor n) { sum(x, {.axes = {}, .count = n}); }) == "E0342");
  CHECK(code([](Graph&, Tensor x, Tensor n) { mean(x, {.axes = {0, 1}, .count = n}); }) == "E0342");
}

TEST_CASE("sparse attention is right for no key, some and all, in one graph") {
  const TomlModel model = load_toml(BRAID_SOURCE_DIR "/examples/sparse_attention.toml");
  CHECK(model.warnings.empty());
  const Device device = Device::open("sim");
  Store store(device);
  MessageOptions messages;
  std::vector<double> printed, items;
  messages.on_message = [&](const Message& m) {
    CHECK(m.text == "keys");
    (m.kind == ir::MessageKind::item ? items : printed)
        .push_back(static_cast<double>(m.value.int_at(0)));
  };
  Options options;
  options.require_single_graph = true;
  options.verify = true;
  Executable e = build(*model.graph, store, options, {}, messages);
  CHECK(e.program().graphs == 1);
  CHECK(e.program().breaks.empty());
  const size_t queries = 4, keys = 512, size = 64;
  const double none = 99, some = 1.2, all = -99;
  for (double threshold : {none, some, all}) {
    CAPTURE(threshold);
    std::map<std::string, HostTensor> inputs;
    for (const Binding& b : e.program().inputs) {
      inputs[b.name] =
          random_tensor(e.type(b.name), 77 + static_cast<uint64_t>(threshold + 99), b.name, 2.0);
    }
    e.set("threshold", threshold);
    printed.clear();
    items.clear();
    const std::map<std::string, HostTensor> out = e.run(inputs);
    // The same as dense attention with a mask.
    size_t count = 0;
    for (size_t s = 0; s < keys; ++s) {
      count += inputs.at("scores").at(static_cast<int64_t>(s)) > static_cast<float>(threshold);
    }
    if (threshold == none) CHECK(count == 0);
    if (threshold == some) CHECK((count > 50 && count < 450));
    if (threshold == all) CHECK(count == keys);
    CHECK(out.at("n").int_at(0) == static_cast<int64_t>(count));
    CHECK(printed == std::vector<double>{static_cast<double>(count)});
    CHECK(items == printed);
    const auto at = [&](const char* name, size_t i) {
      return inputs.at(name).at(static_cast<int64_t>(i));
    };
    for (size_t t = 0; t < queries; ++t) {
      Values weights(keys), sums(size);
      double most = -kInf, total = 0;
      for (size_t s = 0; s < keys; ++s) {
        weights[s] = -kInf;
        if (!(at("scores", s) > static_cast<float>(threshold))) continue;
        double product = 0;
        for (size_t d = 0; d < size; ++d) product += at("q", t * size + d) * at("k", s * size + d);
        weights[s] = product * 0.125;
        most = std::max(most, weights[s]);
      }
      for (double& w : weights) total += w = count == 0 ? 0 : std::exp(w - most);
      for (size_t s = 0; s < keys; ++s) {
        for (size_t d = 0; d < size; ++d) sums[d] += weights[s] * at("v", s * size + d);
      }
      for (size_t d = 0; d < size; ++d) {
        const double want = count == 0 ? 0 : sums[d] / total;
        CHECK(std::abs(out.at("y").at(static_cast<int64_t>(t * size + d)) - want) <= 1e-4);
      }
    }
  }
}
