// Kernels of the user's, from model files and from C++, on the simulator with their references.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "frontend/compile.hpp"
#include "frontend/report/cpp.hpp"
#include "frontend/toml.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "runtime/simulator.hpp"

using namespace braid;

namespace {

const std::string kExamples = std::string(BRAID_SOURCE_DIR) + "/examples";

/// y = a * x + b * n, and where there is a state: state += x.
void scale(std::span<const HostTensor> in, std::span<HostTensor> out, double a, double b) {
  for (int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, a * in[0].at(i) + b);
}

void add_to_second(std::span<const HostTensor> in, std::span<HostTensor> out) {
  for (int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, in[1].at(i) + 2 * in[0].at(i));
}

void rope(std::span<const HostTensor> in, std::span<HostTensor> out) {
  const int64_t half = in[1].type.shape[1].value();
  for (int64_t i = 0; i < in[1].numel(); ++i) {
    const int64_t a = i / half * 2 * half + i % half, b = a + half;
    out[0].set(a, in[0].at(a) * in[1].at(i) - in[0].at(b) * in[2].at(i));
    out[0].set(b, in[0].at(b) * in[1].at(i) + in[0].at(a) * in[2].at(i));
  }
}

Tensor rope_of_ops(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const std::vector<Tensor> h = split(x, 2, 1);
  return concat({h[0] * cos - h[1] * sin, h[1] * cos + h[0] * sin}, 1);
}

KernelSpec accumulate() {
  return {.name = "accumulate",
          .code =
              "__global__ void accumulate(const float* x, float* s, int n) {\n"
              "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
              "  if (i < n) s[i] += 2 * x[i];\n"
              "}\n",
          .parameters = {"in x: f32[N]", "inout s: f32[N]", "i32 n = N"},
          .grid = {"ceil(N, 64)"},
          .block = {64},
          .reference = "accumulate"};
}

void check_good(const Program& p) {
  const std::vector<std::string> wrong = check(p);
  for (const std::string& w : wrong) MESSAGE(w);
  CHECK(wrong.empty());
}

std::vector<Diagnostic> mistakes_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.diagnostics();
  }
  return {};
}

std::string first_code(const std::function<void()>& f) {
  const std::vector<Diagnostic> all = mistakes_of(f);
  if (all.empty()) return "none";
  return all[0].code;
}

}  // namespace

TEST_CASE("kernels: the example turns as ops do, as a graph and one by one") {
  for (const int64_t rows : {1, 7, 32}) {
    const TomlModel model = load_toml(kExamples + "/rope.toml");
    CHECK(model.warnings.empty());
    Options o;
    o.dims = {{"T", rows}};
    const Program p = compile(*model.graph, o);
    check_good(p);
    size_t users = 0;
    for (const Kernel& k : p.kernels) {
      if (k.code != Code::user) continue;
      ++users;
      CHECK(k.symbol.starts_with("user_rope_"));
      CHECK(k.function == "rope<64>");
      CHECK(k.parameters.size() == 5);
      CHECK(k.parameters[4].number == static_cast<double>(rows));
      CHECK(k.launch.grid[0] == (rows * 32 + 127) / 128);
      const Module& m = p.modules[k.module];
      CHECK(m.file == kExamples + "/rope.cu");
      CHECK(m.source.starts_with("#line 1 \"" + kExamples));
      CHECK(ir::print(k.body).find("__global__") == std::string::npos);
    }
    CHECK(users == 1);  // both nodes share it
    CHECK(p.graphs == 1);
    CHECK(p.bodies[0].lanes > 1);

    Graph g("reference");
    const Tensor x = g.input("x", {f32, {rows, 128}});
    const Tensor cos = g.input("cos", {f32, {rows, 32}}), sin = g.input("sin", {f32, {rows, 32}});
    const auto weight = [&](const char* name, int64_t in, int64_t out) {
      return g.param(name, {f32, {in, out}});
    };
    const Tensor q = rope_of_ops(matmul(x, weight("wq", 128, 64)), cos, sin);
    const Tensor k = rope_of_ops(matmul(x, weight("wk", 128, 64)), cos, sin);
    const Tensor h = attention(q, k, matmul(x, weight("wv", 128, 64)), {.causal = true});
    const Tensor f2 = gelu(matmul(x, weight("w1", 128, 512)));
    const Tensor f4 = gelu(matmul(f2, weight("w2", 512, 256)));
    g.output("y", matmul(h, weight("wo", 64, 128)) + matmul(f4, weight("w3", 256, 128)));
    g.output("q", q);

    Store store(Device::open("sim")), other(Device::open("sim"));
    Executable mine = build(*model.graph, store, o, {{"rope", rope}});
    Executable theirs = build(g, other);
    std::map<std::string, HostTensor> in;
    for (const char* name : {"x", "cos", "sin"}) {
      in.emplace(name, random_tensor(mine.type(name), 11, name));
    }
    const auto want = theirs.run(in);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::stream}) {
      mine.poison();
      const auto got = mine.run(in, mode);
      CHECK(relative_error(got.at("y"), want.at("y")) < 1e-5);
      CHECK(relative_error(got.at("q"), want.at("q")) < 1e-5);
    }
  }
}

TEST_CASE("kernels: random shapes, dtypes and numbers") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto rows = static_cast<int64_t>(1 + random() % 9);
    const auto cols = static_cast<int64_t>(1 + random() % 50);
    const double a = static_cast<double>(random() % 100) / 16;
    const bool symbolic = random() % 2 == 0;
    Graph g("scales");
    g.dim("R", rows);
    const TypeArg type{f32, {symbolic ? DimArg("R") : DimArg(rows), cols}};
    const Tensor x = g.input("x", type);
    KernelSpec spec{.name = "scale",
                    .code = "__global__ void scale(const float*, float, float*, int, long long){}",
                    .parameters = {"in x: f32[N, M]", fmt::format("f32 {}", a), "out y: f32[M, N]",
                                   "i32 count = N*M", "i64 ceil(N*M, 32) * 3"},
                    .grid = {"ceil(M, 8)", "N", 2},
                    .block = {8, "4 * 2"},
                    .shared = "N * 16",
                    .reference = "scale"};
    const Tensor y = g.kernel(spec, {exp(x)})[0];
    g.output("y", y + 1.0);
    CHECK(y.type().shape[0] == Dim(cols));
    const Program p = compile(g);
    check_good(p);
    for (const Kernel& k : p.kernels) {
      if (k.code != Code::user) continue;
      CHECK(k.parameters[1].number == a);
      CHECK(k.parameters[3].number == static_cast<double>(rows * cols));
      CHECK(k.parameters[4].number == static_cast<double>((rows * cols + 31) / 32 * 3));
      CHECK(k.launch.grid[0] == (cols + 7) / 8);
      CHECK(k.launch.grid[1] == rows);
      CHECK(k.launch.shared_bytes == rows * 16);
      CHECK(k.launch.block[1] == 8);
    }
    Store store(Device::open("sim"));
    const HostFunction reference = [a](std::span<const HostTensor> in, std::span<HostTensor> out) {
      scale(in, out, a, 0.5);
    };
    Executable run = build(g, store, {}, {{"scale", reference}});
    const HostTensor in = random_tensor(run.type("x"), 5 + random(), "x");
    const HostTensor got = run.run({{"x", in}}).at("y");
    for (int64_t i = 0; i < in.numel(); ++i) {
      CHECK(got.at(i) == doctest::Approx(a * std::exp(in.at(i)) + 1.5));
    }
    // The text form carries all of it.
    const std::string text = ir::print(g.ir());
    CHECK(ir::print(ir::parse(text)) == text);
  }
}

TEST_CASE("kernels: an inout param changes in place, an inout value is copied") {
  Graph g("state");
  const Tensor x = g.input("x", {f32, {100}});
  const Tensor s = g.param("s", {f32, {100}});
  const Tensor before = g.read(s);
  const Tensor now = g.kernel(accumulate(), {x, s})[0];
  g.output("sum", g.read(s) + before);
  g.output("now", now);
  const Tensor h = x * 3.0;
  const Tensor changed = g.kernel(accumulate(), {x, h})[0];
  g.output("h", h * 1.0);
  g.output("changed", changed);
  const Program p = compile(g);
  check_good(p);
  CHECK(p.params.size() == 1);
  CHECK(p.params[0].written);
  Store store(Device::open("sim"));
  Executable run = build(g, store, {}, {{"accumulate", add_to_second}});
  HostTensor state = random_tensor({f32, {Dim(100)}}, 3, "s");
  store.set("s", state);
  for (uint64_t launch = 0; launch < 3; ++launch) {
    const HostTensor in = random_tensor(run.type("x"), 20 + launch, "x");
    run.poison();
    const auto got = run.run({{"x", in}}, launch == 1 ? LaunchMode::stream : LaunchMode::graph);
    for (int64_t i = 0; i < 100; ++i) {
      const double next = state.at(i) + 2 * in.at(i);
      CHECK(got.at("now").at(i) == doctest::Approx(next));
      CHECK(got.at("sum").at(i) == doctest::Approx(next + state.at(i)));
      CHECK(got.at("h").at(i) == doctest::Approx(3 * in.at(i)));
      CHECK(got.at("changed").at(i) == doctest::Approx(5 * in.at(i)));
    }
    state = store.get("s");
    for (int64_t i = 0; i < 100; ++i) CHECK(state.at(i) == got.at("now").at(i));
  }
}

TEST_CASE("kernels: in branches and loops") {
  Graph g("regions");
  const Tensor x = g.input("x", {f32, {12}});
  const Tensor s = g.param("s", {f32, {12}}, {.init = ir::Init::zeros});
  const Tensor y = g.if_(
      greater(sum(x, {.axes = {}}), 0), [&] { return g.kernel(accumulate(), {x, x})[0]; },
      [&] {
        g.kernel(accumulate(), {x, s});
        return x * 2.0;
      });
  const Tensor z =
      g.loop(3, y, [&](Tensor, Tensor v) { return g.kernel(accumulate(), {x, v})[0]; });
  g.output("z", z);
  for (const ir::Lowering how : {ir::Lowering::automatic, ir::Lowering::node, ir::Lowering::host}) {
    Options o;
    o.branches = o.loops = how;
    check_good(compile(g, o));
    Store store(Device::open("sim"));
    Executable run = build(g, store, o, {{"accumulate", add_to_second}});
    double state = 0;
    for (const double value : {0.5, -0.25}) {
      HostTensor in(run.type("x"));
      for (int64_t i = 0; i < 12; ++i) in.set(i, value);
      run.poison();
      const HostTensor got = run.run({{"x", in}}).at("z");
      if (value < 0) state += 2 * value;
      const double first = value > 0 ? 3 * value : 2 * value;
      CHECK(got.at(5) == doctest::Approx(first + 3 * 2 * value));
      CHECK(store.get("s").at(5) == doctest::Approx(state));
    }
  }
}

TEST_CASE(
    "kernels: a view is copied for a kernel, a reshape is not; one value for two parameters") {
  Graph g("views");
  const Tensor x = g.input("x", {f32, {4, 6}});
  KernelSpec spec{.name = "two",
                  .code = "__global__ void two(const float*, const float*, float*) {}",
                  .parameters = {"in a: f32[N]", "in b: f32[N]", "out y: f32[N]"},
                  .reference = "two"};
  const Tensor flat = reshape(x, {24});
  const Tensor turned = reshape(transpose(x, {1, 0}), {24});
  g.output("y", g.kernel(spec, {flat, turned})[0]);
  g.output("z", g.kernel(spec, {flat, flat})[0]);
  check_good(compile(g));
  Store store(Device::open("sim"));
  const HostFunction two = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    for (int64_t i = 0; i < 24; ++i) out[0].set(i, in[0].at(i) - 2 * in[1].at(i));
  };
  Executable run = build(g, store, {}, {{"two", two}});
  const HostTensor in = random_tensor(run.type("x"), 4, "x");
  const auto got = run.run({{"x", in}});
  for (int64_t i = 0; i < 24; ++i) {
    CHECK(got.at("y").at(i) == doctest::Approx(in.at(i) - 2 * in.at(i % 4 * 6 + i / 4)));
    CHECK(got.at("z").at(i) == doctest::Approx(-in.at(i)));
  }
}

TEST_CASE("kernels: without a reference the simulator says what is missing") {
  Graph g("alone");
  const Tensor x = g.input("x", {f32, {8}});
  KernelSpec spec = accumulate();
  spec.reference.clear();
  g.output("y", g.kernel(spec, {x, x * 2.0})[0]);
  Store store(Device::open("sim"));
  const std::vector<Diagnostic> wrong = mistakes_of([&] { build(g, store); });
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].code == "E0808");
  CHECK(wrong[0].message.find("'accumulate'") != std::string::npos);
  CHECK(wrong[0].message.find("frontend_kernels.cpp") != std::string::npos);
  Graph named("named");
  const Tensor n = named.input("x", {f32, {8}});
  named.output("y", named.kernel(accumulate(), {n, n * 2.0})[0]);
  CHECK(first_code([&] { build(named, store); }) == "E0806");
  // What the reference throws ends the launch.
  Executable run =
      build(named, store, {},
            {{"accumulate", [](auto, auto) { throw std::runtime_error("out of rope"); }}});
  try {
    run.run({{"x", random_tensor(run.type("x"), 1, "x")}});
    FAIL("it should have thrown");
  } catch (const CudaError& e) {
    CHECK(std::string(e.what()).find("out of rope") != std::string::npos);
  }
}

TEST_CASE("kernels: mistakes of calls in C++") {
  Graph g("wrong");
  const Tensor x = g.input("x", {f32, {8}}), h = g.input("h", {f16, {8}});
  const Tensor m = g.input("m", {f32, {8, 2}}), five = g.input("five", {f32, {5}});
  const Tensor s = g.param("s", {f32, {8}});
  const auto code = [&](KernelSpec spec, std::vector<In> in) {
    return first_code([&] { g.kernel(spec, std::move(in)); });
  };
  const KernelSpec good = accumulate();
  CHECK(code(good, {x}) == "E0323");
  CHECK(code(good, {x, x, x}) == "E0323");
  CHECK(code(good, {h, x}) == "E0322");
  CHECK(code(good, {m, x}) == "E0322");
  CHECK(code(good, {five, x}) == "E0322");
  KernelSpec spec = good;
  spec.parameters[2] = "i32 n = Q";
  CHECK(code(spec, {x, x}) == "E0321");
  spec.parameters[2] = "f32 n = N";
  CHECK(code(spec, {x, x}) == "E0321");
  spec.parameters[2] = "i8 300";
  CHECK(code(spec, {x, x}) == "E0321");
  spec.parameters[2] = "half 1";
  CHECK(code(spec, {x, x}) == "E0205");
  spec.parameters[2] = "out y: f32[ceil(N, 3)]";
  CHECK(code(spec, {x, x}) == "E0321");
  spec = good;
  spec.block = {2048};
  CHECK(code(spec, {x, x}) == "E0324");
  spec.block = {64, 32};
  CHECK(code(spec, {x, x}) == "E0324");
  spec.block = {0};
  CHECK(code(spec, {x, x}) == "E0324");
  spec = good;
  spec.shared = 300000;
  CHECK(code(spec, {x, x}) == "E0324");
  spec = good;
  spec.grid = {1, 70000};
  CHECK(code(spec, {x, x}) == "E0324");
  spec.grid = {1, 1, 1, 1};
  CHECK(code(spec, {x, x}) == "E0321");
  spec = good;
  spec.code.clear();
  CHECK(code(spec, {x, x}) == "E0325");
  spec.file = "no such file.cu";
  CHECK(code(spec, {x, x}) == "E0325");
  spec = good;
  spec.parameters = {"inout a: f32[N]", "inout b: f32[N]"};
  CHECK(code(spec, {s, s}) == "E0323");
  CHECK(code(good, {x, 1.0}) == "E0305");
}

TEST_CASE("kernels: a launch that the dims make too large is refused when they are bound") {
  const auto model = [](int64_t threads) {
    Graph g("dims");
    g.dim("T", threads);
    const Tensor x = g.input("x", {f32, {"T"}});
    KernelSpec spec = accumulate();
    spec.block = {"N"};
    spec.grid = {1};
    g.output("y", g.kernel(spec, {x, x * 2.0})[0]);
    return mistakes_of([&] { compile(g); });
  };
  CHECK(model(1024).empty());
  for (const int64_t threads : {0, 1025}) {
    const std::vector<Diagnostic> wrong = model(threads);
    REQUIRE(wrong.size() == 1);
    CHECK(wrong[0].code == "E0324");
    CHECK(wrong[0].place.known());
    CHECK(wrong[0].message.find("accumulate") != std::string::npos);
    CHECK(wrong[0].message.find(std::to_string(threads)) != std::string::npos);
  }
}

TEST_CASE("kernels: model files") {
  const std::string head =
      "format = 1\nname = \"m\"\n[dims]\nT = { default = 6 }\nD = 4\n"
      "[inputs]\nx = { dtype = \"f32\", shape = [\"T\", \"D\"] }\n"
      "[params]\nc = { dtype = \"f32\", shape = [\"T\", \"D\"] }\n";
  const std::string kernel =
      "[kernels.add]\n"
      "code = '''\n__global__ void add(const float* x, float* c, float* y, int n) {\n}\n'''\n"
      "parameters = [\"in x: f32[N, D]\", \"inout c: f32[N, D]\", \"out y: f32[N * D]\", "
      "\"i32 N * D\"]\n"
      "grid = [\"ceil(N, 2)\", 1]\nblock = 32\nshared = \"4 * D\"\nreference = \"add\"\n";
  const std::string text =
      head + kernel +
      "[graph]\nnodes = [\n"
      "  { kernel = \"add\", in = [\"x\", \"c\"], out = [\"y\", \"c_now\"] },\n"
      "  { kernel = \"add\", in = [\"x\", \"c_now\"], out = \"z\", graph = false },\n"
      "]\n[outputs]\ny = \"y\"\nz = \"z\"\nc_now = \"c_now\"\n";
  const TomlModel model = read_toml(text, "folder/m.toml");
  const Program p = compile(*model.graph);
  check_good(p);
  bool seen = false;
  for (const Kernel& k : p.kernels) {
    if (k.code != Code::user) continue;
    seen = true;
    CHECK(k.launch.grid[0] == 3);
    CHECK(k.launch.shared_bytes == 16);
    CHECK(k.parameters[3].number == 24);
    // The code's place in the model's file: the line behind the quotes.
    CHECK(p.modules[k.module].source.starts_with("#line 12 \"folder/m.toml\"\n__global__"));
  }
  CHECK(seen);
  Store store(Device::open("sim"));
  const HostFunction add = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    for (int64_t i = 0; i < in[0].numel(); ++i) {
      out[0].set(i, 3 * in[0].at(i));
      out[1].set(i, in[1].at(i) + in[0].at(i));
    }
  };
  Executable run = build(*model.graph, store, {}, {{"add", add}});
  const HostTensor in = random_tensor(run.type("x"), 4, "x");
  const HostTensor before = random_tensor(run.type("x"), 5, "c");
  store.set("c", before);
  const auto got = run.run({{"x", in}});
  for (int64_t i = 0; i < 24; ++i) {
    CHECK(got.at("y").at(i) == doctest::Approx(3 * in.at(i)));
    CHECK(got.at("z").at(i) == doctest::Approx(3 * in.at(i)));
    CHECK(got.at("c_now").at(i) == doctest::Approx(before.at(i) + in.at(i)));
    CHECK(store.get("c").at(i) == got.at("c_now").at(i));
  }
}

TEST_CASE("kernels: warnings of old values and of what nothing uses") {
  const auto warnings = [](const std::string& nodes, const std::string& out) {
    const std::string text =
        "format = 1\nname = \"m\"\n"
        "[inputs]\nx = { dtype = \"f32\", shape = [8] }\n"
        "[params]\nc = { dtype = \"f32\", shape = [8] }\n"
        "[kernels.add]\ncode = \"__global__ void add(const float* x, float* y, float* c) {}\"\n"
        "parameters = [\"in x: f32[N]\", \"out y: f32[N]\", \"inout c: f32[N]\"]\n"
        "grid = 1\nblock = 8\n"
        "[graph]\nnodes = [\n" +
        nodes + "]\n[outputs]\ny = \"" + out + "\"\n";
    std::string codes;
    for (const Diagnostic& d : read_toml(text, "m.toml").warnings) {
      codes += fmt::format("{}:{} ", d.code, d.place.line);
    }
    return codes;
  };
  const std::string sum = "  { out = \"s\", op = \"add\", in = [\"y\", \"c\"] },\n";
  CHECK(warnings("  { kernel = \"add\", in = [\"x\", \"c\"], out = \"y\" },\n" + sum, "s") ==
        "E0507:15 ");
  CHECK(warnings("  { kernel = \"add\", in = [\"x\", \"c\"], out = [\"y\", \"n\"] },\n" + sum,
                 "s") == "E0507:15 ");
  CHECK(warnings("  { kernel = \"add\", in = [\"x\", \"c\"], out = [\"y\", \"n\"] },\n"
                 "  { out = \"s\", op = \"add\", in = [\"y\", \"n\"] },\n",
                 "s") == "");
  CHECK(warnings("  { out = \"s\", op = \"add\", in = [\"x\", \"c\"] },\n", "s") == "E0508:7 ");
  CHECK(warnings("  { kernel = \"add\", in = [\"x\", \"x\"], out = [\"y\", \"n\"] },\n"
                 "  { out = \"s\", op = \"add\", in = [\"x\", \"c\"] },\n",
                 "s") == "E0508:14 ");
}

TEST_CASE("kernels: the C++ of a plan has the parameters in the function's order") {
  const TomlModel model = load_toml(kExamples + "/rope.toml");
  Program p = compile(*model.graph);
  for (uint32_t m = 0; m < p.modules.size(); ++m) {
    p.modules[m].image = runtime::simulator_image(p, m);
  }
  const std::string text = to_cpp(p);
  CHECK(text.find("unsigned long long numbers[] = {0x20};") != std::string::npos);
  CHECK(text.find("std::array<void*, 5> arguments{&a[0], &a[1], &a[2], &a[3], &numbers[0]};") !=
        std::string::npos);
}
