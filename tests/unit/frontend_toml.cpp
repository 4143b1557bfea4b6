#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <regex>
#include <set>
#include <string>

#include "frontend/selection.hpp"
#include "frontend/toml.hpp"
#include "frontend/toml_internal.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;

namespace {

/// The IR without names: ops, operands, types and attributes.
std::string shape_of(const ir::Graph& g) {
  static const std::regex names("\"[^\"]*\"");
  return std::regex_replace(ir::print(g), names, "");
}

const ir::Graph& read(TomlModel& model, const std::string& text) {
  model = read_toml(text, "test.toml");
  const ir::Graph& g = model.graph->ir();
  for (const Diagnostic& d : ir::verify(g)) FAIL_CHECK(render(d));
  return g;
}

/// Random values for all inputs and params, and what comes out.
struct Run {
  ir::TensorMap inputs, params, outputs;
  explicit Run(const ir::Graph& g, uint64_t seed = 5) {
    for (const ir::Op& op : g.ops()) {
      if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) continue;
      const std::string name(g.strings[op.name]);
      ir::TensorMap& map = op.kind == ir::OpKind::input ? inputs : params;
      map[name] = widen(random_tensor(g.type(op.result), seed, name, 0.5));
    }
  }
  Run& go(const ir::Graph& g) {
    outputs = ir::interpret(g, inputs, params);
    return *this;
  }
};

using Matrix = std::vector<std::vector<double>>;

Matrix matrix(const WideTensor& t) {
  const auto cols = static_cast<size_t>(t.type.shape[1].value());
  Matrix m;
  for (size_t i = 0; i < t.f.size(); i += cols) {
    m.emplace_back(t.f.begin() + static_cast<std::ptrdiff_t>(i),
                   t.f.begin() + static_cast<std::ptrdiff_t>(i + cols));
  }
  return m;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix plus(Matrix a, const Matrix& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[0].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

Matrix plus_row(Matrix a, const std::vector<double>& row) {
  for (auto& r : a) {
    for (size_t j = 0; j < r.size(); ++j) r[j] += row[j];
  }
  return a;
}

Matrix map(Matrix a, double (*f)(double)) {
  for (auto& r : a) {
    for (double& x : r) x = f(x);
  }
  return a;
}

Matrix normalised(Matrix a, const std::vector<double>& gamma, const std::vector<double>& beta) {
  for (auto& r : a) {
    const auto n = static_cast<double>(r.size());
    double mean = 0, variance = 0;
    for (double x : r) mean += x / n;
    for (double x : r) variance += (x - mean) * (x - mean) / n;
    for (size_t j = 0; j < r.size(); ++j) {
      r[j] = (r[j] - mean) / std::sqrt(variance + 1e-5) * gamma[j] + beta[j];
    }
  }
  return a;
}

Matrix attended(const Matrix& q, const Matrix& k, const Matrix& v, size_t heads) {
  Matrix out(q.size(), std::vector<double>(q[0].size(), 0.0));
  const size_t size = q[0].size() / heads;
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < q.size(); ++i) {
      std::vector<double> weight(k.size());
      double total = 0;
      for (size_t j = 0; j < k.size(); ++j) {
        double dot = 0;
        for (size_t d = h * size; d < (h + 1) * size; ++d) dot += q[i][d] * k[j][d];
        total += weight[j] = std::exp(dot / std::sqrt(static_cast<double>(size)));
      }
      for (size_t j = 0; j < k.size(); ++j) {
        for (size_t d = h * size; d < (h + 1) * size; ++d) {
          out[i][d] += weight[j] / total * v[j][d];
        }
      }
    }
  }
  return out;
}

void check_close(const WideTensor& got, const Matrix& want, double tolerance = 1e-6) {
  const Matrix m = matrix(got);
  REQUIRE(m.size() == want.size());
  REQUIRE(m[0].size() == want[0].size());
  double worst = 0, scale = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    for (size_t j = 0; j < m[0].size(); ++j) {
      worst = std::max(worst, std::fabs(m[i][j] - want[i][j]));
      scale = std::max(scale, std::fabs(want[i][j]));
    }
  }
  CHECK(scale > 0.01);
  CHECK(worst <= tolerance * scale);
}

std::string example(const std::string& name) {
  return std::string(BRAID_SOURCE_DIR) + "/examples/" + name;
}

std::vector<std::string> param_names(const ir::Graph& g) {
  std::vector<std::string> names;
  for (const ir::Op& op : g.ops()) {
    if (op.kind == ir::OpKind::param) names.emplace_back(g.strings[op.name]);
  }
  return names;
}

}  // namespace

TEST_CASE("the mlp examples compute relu(x w1 + b1) w2 + b2") {
  for (const char* file : {"mlp.toml", "mlp_bf16.toml"}) {
    CAPTURE(file);
    const TomlModel model = load_toml(example(file));
    const ir::Graph& g = model.graph->ir();
    CHECK(ir::verify(g).empty());
    CHECK(g.name == std::string(file).substr(0, std::string(file).size() - 5));
    Run run(g);
    run.go(g);
    const WideTensor& y = run.outputs.at("y");
    CHECK(y.type.dtype == (std::string(file) == "mlp.toml" ? f32 : bf16));
    CHECK(y.type.shape == Shape{128, 16});
    const Matrix h = map(
        plus_row(product(matrix(run.inputs["x"]), matrix(run.params["w1"])), run.params["b1"].f),
        [](double x) { return x > 0 ? x : 0; });
    check_close(y, plus_row(product(h, matrix(run.params["w2"])), run.params["b2"].f));
  }
}

TEST_CASE("the encoder example computes two transformer blocks") {
  const TomlModel model = load_toml(example("encoder.toml"));
  const ir::Graph& g = model.graph->ir();
  CHECK(ir::verify(g).empty());
  CHECK(model.compile.streams == 4);
  CHECK(g.repeats == std::vector<ir::Repeat>{{"block", 2}});
  Run run(g);
  run.go(g);
  Matrix x = matrix(run.inputs["x"]);
  for (const std::string scope : {"block0/", "block1/"}) {
    const auto row = [&](const char* name) { return run.params.at(scope + name).f; };
    const auto by = [&](const Matrix& a, const char* name) {
      return product(a, matrix(run.params.at(scope + name)));
    };
    const Matrix n1 = normalised(x, row("g1"), row("c1"));
    const Matrix r = plus(x, by(attended(by(n1, "wq"), by(n1, "wk"), by(n1, "wv"), 4), "wo"));
    const Matrix n2 = normalised(r, row("g2"), row("c2"));
    const Matrix m = map(plus_row(by(n2, "w1"), row("b1")),
                         [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
    x = plus(r, plus_row(by(m, "w2"), row("b2")));
  }
  check_close(run.outputs.at("y"), normalised(x, run.params["gf"].f, run.params["bf"].f), 1e-5);
}

TEST_CASE("each op is the builder's function") {
  struct Case {
    std::string node;  // without `out`
    std::function<Tensor(Graph&, Tensor x, Tensor y, Tensor n, Tensor p, Tensor v, Tensor m,
                         Tensor z, Tensor k)>
        build;
  };
  std::vector<Case> cases;
  for (const ScalarInfo& s : scalar_functions()) {
    if (s.fn == Fn::cast || s.fn == Fn::clamp || s.fn == Fn::random) continue;
    const bool logic = (s.classes & kFloats) == 0;
    const std::string a = logic ? "p" : "x";
    std::vector<std::string> in(static_cast<size_t>(s.arity), a);
    if (s.rule == TypeRule::select) in[0] = "p";
    cases.push_back({fmt::format("op = \"{}\", in = [\"{}\"]", s.name, fmt::join(in, "\", \"")),
                     [fn = s.fn, in](Graph&, Tensor x, Tensor, Tensor, Tensor p, Tensor, Tensor,
                                     Tensor, Tensor) {
                       std::vector<In> operands;
                       for (const std::string& name : in) operands.push_back(name == "p" ? p : x);
                       return apply(fn, operands);
                     }});
  }
#define CASE(text, expression)                                                                    \
  cases.push_back({text, [](Graph& g, Tensor x, Tensor y, Tensor n, Tensor p, Tensor v, Tensor m, \
                            Tensor z, Tensor k) {                                                 \
                     (void)g, (void)x, (void)y, (void)n, (void)p, (void)v, (void)m, (void)z;      \
                     (void)k;                                                                     \
                     return expression;                                                           \
                   }})
  CASE(R"(op = "sub", in = ["x"], rhs = 2.5)", x - 2.5);
  CASE(R"(op = "sub", in = [1, "x"])", apply(Fn::sub, {1.0, x}));
  CASE(R"(op = "lt", in = ["x"], rhs = -inf)", less(x, -INFINITY));
  CASE(R"(op = "select", in = ["p", "x", 0])", select(p, x, 0.0));
  CASE(R"(op = "add", in = "x", rhs = 1)", x + 1.0);
  CASE(R"(op = "cast", in = ["x"], dtype = "i32")", cast(x, i32));
  CASE(R"(op = "clamp", in = ["x"], low = -1, high = 0.5)", clamp(x, -1.0, 0.5));
  CASE(R"(op = "reduce_sum", in = ["x"])", sum(x));
  CASE(R"(op = "reduce_sum", in = ["x"], axes = [0, 1], keep = true)", sum(x, {{0, 1}, true}));
  CASE(R"(op = "reduce_mean", in = ["x"], axes = [0])", mean(x, {{0}}));
  CASE(R"(op = "reduce_max", in = ["x"], axes = [])", braid::max(x, {{}}));
  CASE(R"(op = "reduce_min", in = ["x"])", braid::min(x));
  CASE(R"(op = "reduce_prod", in = ["x"], axes = [-2])", prod(x, {{-2}}));
  CASE(R"(op = "reduce_any", in = ["p"])", any(p));
  CASE(R"(op = "reduce_all", in = ["p"], axes = [0])", all(p, {{0}}));
  CASE(R"(op = "matmul", in = ["x", "y"])", matmul(x, y));
  CASE(R"(op = "matmul", in = ["x", "x"], tb = true)", matmul(x, x, {false, true}));
  CASE(R"(op = "matmul", in = ["n", "n"], ta = true, out_dtype = "i64")",
       matmul(n, n, {true, false, i64}));
  CASE(R"(op = "linear", in = ["x", "y"])", matmul(x, y));
  CASE(R"(op = "linear", in = ["x", "y", "y"])", matmul(x, y) + y);
  CASE(R"(op = "reshape", in = ["x"], shape = ["2*A", -1])", reshape(x, {4, -1}));
  CASE(R"(op = "transpose", in = ["x"], perm = [1, 0])", transpose(x, {1, 0}));
  CASE(R"(op = "broadcast", in = ["x"], shape = [3, "A", 2])", broadcast_to(x, {3, 2, 2}));
  CASE(R"(op = "slice", in = ["x"], axis = 1, start = 1)", slice(x, {1, 1}));
  CASE(R"(op = "slice", in = ["x"], stop = -1, step = 2)", slice(x, {0, 0, -1, 2}));
  CASE(R"(op = "concat", in = ["x", "y", "x"], axis = 1)", concat({x, y, x}, 1));
  CASE(R"(op = "gather", in = ["x", "n"], axis = 1)", gather(x, n, 1));
  CASE(R"(op = "iota", dtype = "i64", shape = [3, "A"], axis = 1)", g.iota({i64, {3, 2}}, 1));
  CASE(R"(op = "full", dtype = "f16", shape = ["A"], value = 0.5)", g.full({f16, {2}}, 0.5));
  CASE(R"(op = "softmax", in = ["x"])", softmax(x));
  CASE(R"(op = "softmax", in = ["x"], axis = 0)", softmax(x, 0));
  CASE(R"(op = "layer_norm", in = ["x", "v", "v"], eps = 0.25)", layer_norm(x, v, v, 0.25));
  CASE(R"(op = "attention", in = ["x", "y", "x"], heads = 2, causal = true, scale = 3)",
       attention(x, y, x, {2, true, 3.0}));
  CASE(R"(op = "attention", in = ["x", "x", "x", "p"], heads = 2, kv_heads = 2)",
       attention(x, x, x, {.heads = 2, .kv_heads = 2, .mask = p}));
  CASE(R"(op = "argmax", in = ["x"])", argmax(x));
  CASE(R"(op = "argmax", in = ["x"], axes = [0], keep = true, dtype = "i64")",
       argmax(x, {{0}, true, i64}));
  CASE(R"(op = "argmin", in = ["x"], axes = [])", argmin(x, {{}}));
  CASE(R"(op = "scatter", in = ["x", "m", "y"])", scatter(x, m, y));
  CASE(R"(op = "scatter", in = ["x", "m", "y"], axis = -1)", scatter(x, m, y, {-1}));
  CASE(R"(op = "random_uniform", dtype = "f16", shape = ["A", 3], seed = 9007199254740993)",
       random_uniform(g, "", {f16, {2, 3}}, {.seed = 9007199254740993}));
  CASE(
      R"(op = "random_uniform", in = "k", dtype = "f32", shape = [], seed = 1, low = -1, high = 3)",
      random_uniform(g, "", {f32, {}}, {1, k, -1, 3}));
  CASE(R"(op = "random_normal", dtype = "f32", shape = [3], seed = -5)",
       random_normal(g, "", {f32, {3}}, {.seed = -5}));
  CASE(R"(op = "random_bernoulli", in = ["k"], shape = ["A"], p = 0.25, seed = 5)",
       random_bernoulli(g, "", {2}, 0.25, {5, k}));
  CASE(R"(op = "dropout", in = "x", rate = 0.1, seed = 2)", dropout(g, "", x, 0.1, {.seed = 2}));
  CASE(R"(op = "dropout", in = ["x", "k"], rate = 0.1, seed = 2)", dropout(g, "", x, 0.1, {2, k}));
  CASE(R"(op = "log_softmax", in = ["x"], axis = 0)", log_softmax(x, 0));
  CASE(R"(op = "rms_norm", in = ["x", "v"])", rms_norm(x, v));
  CASE(R"(op = "rms_norm", in = ["x", "v"], eps = 0.5)", rms_norm(x, v, 0.5));
  CASE(R"(op = "l2_normalize", in = ["x"], axis = 0, eps = 2)", l2_normalize(x, 0, 2));
  CASE(R"(op = "cross_entropy", in = ["y", "m"])", cross_entropy(y, m));
  CASE(R"(op = "pad", in = ["x"], low = [1, 0], high = [0, 2], value = -inf)",
       pad(x, {1, 0}, {0, 2}, -INFINITY));
  CASE(R"(op = "pad", in = ["n"], low = [1, 1], high = [1, 1])", pad(n, {1, 1}, {1, 1}));
  CASE(R"(op = "stack", in = ["x", "y", "x"], axis = -1)", stack({x, y, x}, -1));
  CASE(R"(op = "unsqueeze", in = ["x"], axis = 1)", unsqueeze(x, 1));
  CASE(R"(op = "squeeze", in = ["z"], axes = [0, -1])", squeeze(z, {0, -1}));
  CASE(R"(op = "nonzero", in = ["n"])", nonzero(n).values);
  CASE(R"(op = "flatnonzero", in = "p")", flatnonzero(p).values);
  CASE(R"(op = "masked_select", in = ["x", "p"])", masked_select(x, p).values);
  CASE(R"(op = "unique", in = ["x"])", unique(x).values);
  CASE(R"(op = "valid", in = ["k"], shape = ["A", 3], axis = -1)", valid(k, {2, 3}, 1));
  CASE(R"(op = "softmax", in = ["x", "k"], axis = 0)", softmax(x, 0, k));
  CASE(R"(op = "reduce_mean", in = ["x", "k"])", mean(x, {.count = k}));
#undef CASE
  std::set<std::string> covered;
  for (const Case& c : cases) {
    CAPTURE(c.node);
    std::smatch op;
    REQUIRE(std::regex_search(c.node, op, std::regex("op = \"([a-z_0-9]+)\"")));
    covered.insert(op[1]);
    TomlModel model;
    const ir::Graph& got = read(model, fmt::format(R"(
format = 1
name = "g"
[dims]
A = 2
[inputs]
x = {{ dtype = "f32", shape = ["A", 2] }}
y = {{ dtype = "f32", shape = ["A", 2] }}
n = {{ dtype = "i32", shape = ["A", 2] }}
p = {{ dtype = "b1", shape = ["A", 2] }}
v = {{ dtype = "f32", shape = [2] }}
m = {{ dtype = "i64", shape = ["A"] }}
z = {{ dtype = "f16", shape = [1, "A", 1] }}
k = {{ dtype = "i64", shape = [] }}
[graph]
nodes = [ {{ out = "o", {} }} ]
[outputs]
o = "o"
)",
                                                   c.node));
    Graph want("g");
    const Tensor x = want.input("x", {f32, {2, 2}}), y = want.input("y", {f32, {2, 2}});
    const Tensor n = want.input("n", {i32, {2, 2}}), p = want.input("p", {b1, {2, 2}});
    const Tensor v = want.input("v", {f32, {2}}), m = want.input("m", {i64, {2}});
    const Tensor z = want.input("z", {f16, {1, 2, 1}});
    const Tensor k = want.input("k", {i64, {}});
    want.output("o", c.build(want, x, y, n, p, v, m, z, k));
    CHECK(shape_of(got) == shape_of(want.ir()));
  }
  for (const toml_reader::OpSpec& op : toml_reader::ops()) {
    if (op.name.starts_with("scatter_")) continue;  // checked below
    if (op.name == "compact") continue;             // needs a mask: frontend_selections.cpp
    CHECK_MESSAGE(covered.count(op.name) > 0, "no case for op " << op.name);
  }
}

TEST_CASE("scatter by every combiner, and copies of a block with seeds of their own") {
  for (const ScalarInfo& f : scalar_functions()) {
    const toml_reader::OpSpec* op = toml_reader::find_op(fmt::format("scatter_{}", f.name));
    CAPTURE(f.name);
    REQUIRE((op != nullptr) == f.combiner);
    if (op == nullptr) continue;
    TomlModel model;
    const ir::Graph& g = read(model, fmt::format(R"(
format = 1
[inputs]
x = {{ dtype = "{}", shape = [4, 2] }}
i = {{ dtype = "i32", shape = [3] }}
u = {{ dtype = "{}", shape = [4, 3] }}
[graph]
nodes = [ {{ out = "o", op = "{}", in = ["x", "i", "u"], axis = 1 }} ]
[outputs]
o = "o"
)",
                                                 f.classes & kFloats ? "f32" : "b1",
                                                 f.classes & kFloats ? "f32" : "b1", op->name));
    const ir::Op& made = g.def(g.outputs[0].value);
    CHECK(std::get<ir::ScatterAttr>(made.attrs) == ir::ScatterAttr{1, f.fn});
  }
  TomlModel model;
  const ir::Graph& g = read(model, R"(
format = 1
[inputs]
x = { dtype = "f32", shape = [40] }
[block.b]
in = ["h"]
out = ["y"]
nodes = [ { out = "y", op = "dropout", in = "h", rate = 0.5 } ]
[graph]
nodes = [
  { out = "one", block = "b", in = ["x"], repeat = 2, name = "layer{i}" },
]
[outputs]
one = "one"
)");
  std::set<int64_t> seeds;
  std::set<std::string> names;
  for (const ir::Op& op : g.ops()) {
    if (op.kind == ir::OpKind::param) names.insert(std::string(g.strings[op.name]));
    const auto* map = std::get_if<ir::MapAttr>(&op.attrs);
    if (map == nullptr || map->fn != Fn::random) continue;
    const ir::Op* seed = &g.def(op.operands[0]);
    while (seed->kind == ir::OpKind::view) seed = &g.def(seed->operands[0]);
    HostTensor one(TensorType{DType::i64, {}});
    one.bytes = g.literals[std::get<ir::ConstAttr>(seed->attrs).literal].bytes;
    seeds.insert(one.int_at(0));
  }
  CHECK(seeds.size() == 2);
  CHECK(names == std::set<std::string>{"layer0/y/launches", "layer1/y/launches"});
}

TEST_CASE("dims are resolved by dependency, in any order") {
  TomlModel model;
  const ir::Graph& g = read(model, R"(
format = 1
[dims]
F = "4*D"
E = "(F - 2*(D + 1)) / 3 + 1"
D = 10
S = { default = 8, max = 64 }
H = "S*D/5"
U = {}
[inputs]
a = { dtype = "f32", shape = ["F", "E", "D*D"] }
b = { dtype = "f32", shape = ["S", "H", "U + S", 3] }
[graph]
nodes = []
[outputs]
a = "a"
b = "b"
)");
  CHECK(to_string(g.type(g.outputs[0].value), &g.dims) == "f32[40,7,100]");
  CHECK(g.name == "model");
  REQUIRE(g.dims.symbols().size() == 2);
  CHECK(g.dims.symbols()[0].name == "S");
  CHECK(g.dims.symbols()[0].default_value == 8);
  CHECK(g.dims.symbols()[0].max == 64);
  CHECK(!g.dims.symbols()[1].default_value.has_value());
  ir::Graph bound = g;
  bound.bind_dims({{"S", 16}, {"U", 5}});
  CHECK(to_string(bound.type(bound.outputs[1].value)) == "f32[16,32,21,3]");
}

TEST_CASE("nodes may stand in any order; equal order keeps equal text") {
  const std::string head = R"(
format = 1
[inputs]
x = { dtype = "f32", shape = [3] }
[graph]
nodes = [
)";
  const std::string tail = "]\n[outputs]\nd = \"d\"\n";
  const std::string a = R"({ out = "a", op = "relu", in = ["x"] },)";
  const std::string b = R"({ out = "b", op = "neg", in = ["a"] },)";
  const std::string c = R"({ out = "c", op = "exp", in = ["x"] },)";
  const std::string d = R"({ out = "d", op = "sub", in = ["b", "c"] },)";
  TomlModel one, two;
  const std::string sorted = ir::print(read(one, head + a + b + c + d + tail));
  CHECK(ir::print(read(two, head + d + b + a + c + tail)) == sorted);
  // What is free to go keeps its place in the file.
  const std::string other = ir::print(read(two, head + c + a + b + d + tail));
  CHECK(other != sorted);
  CHECK(other.find("exp") < other.find("relu"));
}

TEST_CASE("blocks: scopes, repeat, shared params, inputs that all copies share") {
  TomlModel model;
  const ir::Graph& g = read(model, R"(
format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
s = { dtype = "f32", shape = [4] }
[block.step]
in = ["h", "scale"]
out = ["y"]
params.w = { dtype = "f32", shape = [4] }
params.c = { dtype = "f32", shape = [4], init = "zeros", scale = 0.5 }
nodes = [
  { out = "p", op = "mul", in = ["h", "w"] },
  { out = "q", op = "mul", in = ["p", "scale"] },
  { out = "y", op = "add", in = ["q", "c"] },
]
[block.pair]
in = ["h", "scale"]
out = ["y"]
nodes = [ { out = "y", block = "step", in = ["h", "scale"], repeat = 2, name = "in{i}" } ]
[graph]
nodes = [
  { out = "a", block = "step", in = ["x", "s"], repeat = 3, share = ["c"], name = "step{i}" },
  { out = "b", block = "step", in = ["a", "s"] },
  { out = "c", block = "pair", in = ["b", "s"], name = "last" },
]
[outputs]
o = "c"
)");
  CHECK(param_names(g) == std::vector<std::string>{"step/c", "step0/w", "step1/w", "step2/w", "b/w",
                                                   "b/c", "last/in0/w", "last/in0/c", "last/in1/w",
                                                   "last/in1/c"});
  CHECK(g.repeats == std::vector<ir::Repeat>{{"step", 3}, {"last/in", 2}});
  Run run(g);
  run.go(g);
  for (size_t i = 0; i < 4; ++i) {
    double v = run.inputs["x"].f[i];
    const auto step = [&](const std::string& w, const std::string& c) {
      v = v * run.params[w].f[i] * run.inputs["s"].f[i] + run.params[c].f[i];
    };
    for (const char* w : {"step0/w", "step1/w", "step2/w"}) step(w, "step/c");
    step("b/w", "b/c");
    step("last/in0/w", "last/in0/c");
    step("last/in1/w", "last/in1/c");
    CHECK(run.outputs.at("o").f[i] == doctest::Approx(v));
  }
}

TEST_CASE("state: a param's name is its value from before, `out` the new one") {
  TomlModel model;
  const ir::Graph& g = read(model, R"(
format = 1
[inputs]
x = { dtype = "f32", shape = [3] }
row = { dtype = "f32", shape = [1, 2] }
at = { dtype = "i32", shape = [] }
[params]
m = { dtype = "f32", shape = [3] }
cache = { dtype = "f32", shape = [4, 2] }
[graph]
nodes = [
  { assign = "m", in = ["next"], out = "m_new" },
  { out = "next", op = "add", in = ["m", "x"] },
  { out = "before", op = "neg", in = ["m"] },
  { out = "after", op = "neg", in = ["m_new"] },
  { update = "cache", in = ["row"], at = ["at", 0], out = "cache_new" },
  { out = "old_sum", op = "reduce_sum", in = ["cache"], axes = [] },
  { out = "new_sum", op = "reduce_sum", in = ["cache_new"], axes = [] },
]
[outputs]
before = "before"
after = "after"
old_sum = "old_sum"
new_sum = "new_sum"
)");
  Run run(g);
  run.inputs["at"].i = {2};
  const ir::TensorMap old = run.params;
  run.go(g);
  for (size_t i = 0; i < 3; ++i) {
    const double m = old.at("m").f[i], x = run.inputs["x"].f[i];
    CHECK(run.outputs.at("before").f[i] == -m);
    CHECK(run.outputs.at("after").f[i] == doctest::Approx(-(m + x)));
    CHECK(run.params.at("m").f[i] == doctest::Approx(m + x));
  }
  double old_sum = 0, new_sum = 0;
  for (size_t i = 0; i < 8; ++i) {
    const double was = old.at("cache").f[i];
    const double now = i / 2 == 2 ? run.inputs["row"].f[i % 2] : was;
    CHECK(run.params.at("cache").f[i] == now);
    old_sum += was;
    new_sum += now;
  }
  CHECK(run.outputs.at("old_sum").f[0] == doctest::Approx(old_sum));
  CHECK(run.outputs.at("new_sum").f[0] == doctest::Approx(new_sum));
}

TEST_CASE("ops carry the node's name and place; settings are read") {
  TomlModel model;
  const ir::Graph& g =
      read(model,
           "format = 1\n[inputs]\nx = { dtype = \"f32\", shape = [2, 3] }\n"
           "[graph]\nnodes = [\n"
           "  { out = \"s\", op = \"softmax\", in = [\"x\"] },\n"
           "  { out = \"same\", op = \"reshape\", in = [\"s\"], shape = [2, 3] },\n"
           "]\n[outputs]\no = \"same\"\n"
           "[compile]\ntarget = \"sm_100\"\nstreams = 3\n");
  CHECK(model.compile.target == "sm_100");
  CHECK(model.compile.streams == 3);
  REQUIRE(g.ops().size() > 4);
  for (const ir::Op& op : g.ops()) {
    const Place place = g.place(op.loc);
    CHECK(place.file == "test.toml");
    if (op.kind == ir::OpKind::input) continue;
    CHECK(place.line == 6);
    CHECK(place.column == 21);
    const std::string name(g.strings[op.name]);
    CHECK((name == "s" || name.substr(0, 2) == "s/"));
  }
}

TEST_CASE("a missing file is an error that names it") {
  try {
    load_toml("no_such_folder/model.toml");
    FAIL("it was read");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0100");
    CHECK(e.diagnostics()[0].message ==
          "cannot read 'no_such_folder/model.toml': No such file or directory");
  }
  CHECK_THROWS_AS(load_toml(BRAID_SOURCE_DIR), Error);
}
