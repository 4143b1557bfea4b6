// inspect --format=cpp: the programs are built with the system's compiler and run on the simulator,
// whose images stand in for cubins; they must compute what Executable does, bit for bit.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <tuple>

#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "frontend/report/cpp.hpp"
#include "frontend/toml.hpp"
#include "frontend_plans.hpp"
#include "ir/file.hpp"
#include "runtime/device.hpp"
#include "runtime/simulator.hpp"
#include "temp_folder.hpp"

using namespace braid;
using braid::testing::TempFolder;

namespace {

namespace fs = std::filesystem;

/// With the simulator's images in the place of cubins.
Program with_images(Program p) {
  for (uint32_t m = 0; m < p.modules.size(); ++m) {
    p.modules[m].image = runtime::simulator_image(p, m);
  }
  return p;
}

struct Ran {
  int code = 0;
  std::string out, err;
};

Ran run(const TempFolder& folder, const std::string& command) {
  const std::string out = folder.path + "/stdout.txt", err = folder.path + "/stderr.txt";
  const int status = std::system(fmt::format("{} >{} 2>{}", command, out, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

void write_text(const std::string& path, const std::string& text) {
  write_file(path, text.data(), text.size());
}

constexpr const char* kWarnings = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror";

/// A plan's program, built.
class Built {
 public:
  explicit Built(const std::string& text) {
    write_text(folder_.path + "/plan.cpp", text);
    const Ran r = run(
        folder_, fmt::format("{} -std=c++20 -O0 {} -shared -fPIC {}/plan.cpp -I{} "
                             "-o {}/plan.so",
                             BRAID_CXX, kWarnings, folder_.path, BRAID_CUDA_INCLUDE, folder_.path));
    REQUIRE_MESSAGE(r.code == 0, r.err);
    fs::create_directory(data());
  }
  std::string data() const { return folder_.path + "/data"; }
  Ran operator()(const std::string& arguments) const {
    return run(folder_,
               fmt::format("{} {}/plan.so {}", BRAID_PLAN_RUNNER, folder_.path, arguments));
  }

 private:
  TempFolder folder_;
};

void identity(std::span<const HostTensor> in, std::span<HostTensor> out) {
  for (size_t i = 0; i < in.size(); ++i) out[i].bytes = in[i].bytes;
}

/// The tool's run: what the seed and the names give, except for what is given.
std::map<std::string, HostTensor> expected(const Program& p,
                                           const std::map<std::string, HostTensor>& given = {},
                                           const std::map<std::string, double>& scalars = {}) {
  Store store(Device::open("sim"));
  store.declare(p, 1);
  std::map<std::string, HostTensor> in;
  for (const Binding& b : p.inputs) in[b.name] = random_tensor(p.buffers[b.buffer].type, 1, b.name);
  for (const auto& [name, value] : given) {
    if (in.contains(name)) {
      in[name] = value;
    } else {
      store.set(name, value);
    }
  }
  Executable e(p, store,
               {{"identity", identity},
                {"print", [](std::span<const HostTensor>, std::span<HostTensor>) {}}});
  for (const auto& [name, value] : scalars) e.set(name, value);
  return e.run(in);
}

void same_outputs(const Built& plan, const std::map<std::string, HostTensor>& want) {
  for (const auto& [name, value] : want) {
    CAPTURE(name);
    write_npy(plan.data() + "/want.npy", value);
    CHECK(read_file(plan.data() + "/" + name + ".out.npy") == read_file(plan.data() + "/want.npy"));
    CHECK(std::any_of(value.bytes.begin(), value.bytes.end(),
                      [](std::byte b) { return b != std::byte{0}; }));
  }
}

size_t count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// Host functions are called between graphs.
Options breaking() {
  Options o;
  o.host = ir::HostWay::script;
  return o;
}

/// Graphs around host calls, kernels outside graphs, a scalar, branches, params that change, a
/// constant, every init and dtype.
void build_many(Graph& g) {
  const Tensor x = g.input("x", {f32, {8, 16}});
  const Scope block = g.scope("block");
  const Tensor k = g.input("k", {i32, {8}});
  const Tensor flags = g.input("flags", {b1, {8, 16}});
  const Tensor half = g.input("half", {f16, {3, 5}});
  const Tensor gain = g.scalar("gain", f32, 1.5);
  const Tensor state = g.param("state", {f32, {8, 16}}, {.init = ir::Init::zeros});
  const Tensor shift = g.param("shift", {bf16, {16}}, {.scale = 3});
  const Tensor ones = g.param("ones", {f64, {8, 1}}, {.init = ir::Init::ones});
  const HostTensor table = random_tensor({f32, {8, 16}}, 9, "table");
  std::vector<Tensor> branches;
  for (int i = 0; i < 3; ++i) {
    branches.push_back(relu(linear(g, fmt::format("l{}", i), x * gain, 16 + 16 * i)));
  }
  const Tensor h = select(flags, branches[0] + state, g.constant(table));
  g.assign(state, h);
  const std::vector<Tensor> back = g.host("identity", {h, k}, {{f32, {8, 16}}, {i32, {8}}});
  g.host("print", {branches[1]});
  const Tensor soft = [&] {
    const Outside outside = g.outside_graphs();
    return softmax(back[0], 1);
  }();
  g.output("y", soft * gain + branches[0]);
  g.output("n", back[1] + k);
  g.output("wide", cast(branches[2], bf16));
  g.output("shifted", cast(shift, f32) + h);
  g.output("exact", cast(h, f64) + ones);
  g.output("halved", half * 0.5);
}

using Tensors = std::vector<Tensor>;
using ir::Lowering;

/// A loop that ends when its count does, with a loop and a branch in it, and a branch of three
/// sides after it. With `host`, an iteration calls the host.
void build_control(Graph& g, Lowering branches, Lowering loops, bool host) {
  const TypeArg rows{f32, {4, 8}};
  const Tensor x = g.input("x", rows), w = g.param("w", {f32, {8, 8}});
  const Tensor n = g.input("n", {i32, {}}), which = g.input("which", {i32, {}});
  const auto begin = [](Tensor, const Tensors& c) { return greater(c[1], 0); };
  const auto step = [&](Tensor i, const Tensors& c) {
    const Tensor inner = g.loop(3, c[0],
                                [&](Tensor j, Tensor h) {
                                  g.print(i * 10 + j, "inner");
                                  return tanh(matmul(h, w) + cast(j, f32));
                                },
                                {.lowering = loops, .unroll = 1});
    Tensor h = g.if_(
        greater(sum(inner, {.axes = {0, 1}}), 0), [&] { return inner * 0.5; },
        [&] {
          g.print(inner, "low");
          return matmul(inner, w) - 1.5;
        },
        {.lowering = branches});
    if (host) h = g.host("identity", {h}, {rows})[0];
    g.if_(equal(i, 1), [&] { g.item(sum(h, {.axes = {0, 1}}), "total"); }, {.lowering = branches});
    return LoopValues{{h, c[1] - 1}, {}};
  };
  const Tensor y = g.while_({x, n}, begin, step, {.lowering = loops, .unroll = 1}).carried[0];
  const std::vector<std::function<Tensor()>> cases{[&] { return matmul(y, w); },
                                                   [&] { return exp(y); }, [&] { return y - x; }};
  g.output("y", g.switch_(which, cases, {.lowering = branches}));
}

struct Sent {
  std::map<std::string, HostTensor> outputs;
  std::vector<Message> messages;
};

/// As expected(), and what the program tells.
Sent expected_messages(const Program& p, const std::map<std::string, HostTensor>& given) {
  Store store(Device::open("sim"));
  store.declare(p, 1);
  std::map<std::string, HostTensor> in;
  for (const Binding& b : p.inputs) in[b.name] = random_tensor(p.buffers[b.buffer].type, 1, b.name);
  for (const auto& [name, value] : given) in[name] = value;
  Sent sent;
  Executable e(p, store, {{"identity", identity}},
               {.on_message = [&](const Message& m) { sent.messages.push_back(m); }});
  sent.outputs = e.run(in);
  return sent;
}

HostTensor number(int64_t n) {
  HostTensor t({i32, {}});
  t.set_int(0, n);
  return t;
}

/// "inner i32[] = 12   ..": what the program prints of a message, up to its place.
std::string printed(const Message& m) {
  std::string values;
  for (int64_t i = 0; i < std::min<int64_t>(m.value.numel(), 8); ++i) {
    values += fmt::format(" {:g}", m.value.at(i));
  }
  if (m.value.numel() > 8) values += " ..";
  return fmt::format("{} {} ={}   {}", m.text, to_string(m.value.type), values, m.op);
}

size_t regions_of(const Program& p, Region::Kind kind) {
  return static_cast<size_t>(std::count_if(p.regions.begin(), p.regions.end(),
                                           [&](const Region& r) { return r.kind == kind; }));
}

void same_launches(const Program& p) {
  const Built plan(to_cpp(p));
  for (const auto& [n, which] : {std::pair(3, 0), {0, 1}, {2, 2}, {5, 1}}) {
    CAPTURE(n);
    CAPTURE(which);
    write_npy(plan.data() + "/n.npy", number(n));
    write_npy(plan.data() + "/which.npy", number(which));
    const Ran r = plan(plan.data() + (n == 5 ? " 2" : " 0"));
    REQUIRE_MESSAGE(r.code == 0, r.err);
    const Sent want = expected_messages(p, {{"n", number(n)}, {"which", number(which)}});
    same_outputs(plan, want.outputs);
    CHECK(want.messages.size() >= static_cast<size_t>(3 * n));
    size_t at = 0;
    for (const Message& m : want.messages) {
      const std::string line = printed(m);
      CAPTURE(line);
      at = r.err.find(line, at);
      REQUIRE_MESSAGE(at != std::string::npos, r.err);
      const std::string where = r.err.substr(at, r.err.find('\n', at) - at);
      CHECK(where.find(", launch 0, iteration " +
                       fmt::format("{}", fmt::join(m.iterations, "."))) != std::string::npos);
    }
    CHECK(count(r.err, "\n") == want.messages.size() + 2);  // and the files that it read
  }
}

}  // namespace

TEST_CASE("cpp: the program of the perceptron computes what the tool does") {
  const std::string file = fmt::format("{}/examples/mlp.toml", BRAID_SOURCE_DIR);
  const TomlModel model = read_toml(read_file(file), "mlp.toml");
  const Program p = with_images(compile(model.graph->ir()));
  const std::string text = to_cpp(p);
  CHECK(to_cpp(p) == text);
  CHECK(count(text, "CALL(cuGraphAddNode(") == p.bodies[0].nodes.size());
  CHECK(count(text, "CALL(cuGraphInstantiateWithParams(") == 1);
  CHECK(text.find("// n0, stream 0: h/dot, h (add), a (relu) (mlp.toml:24:21)") !=
        std::string::npos);

  const Built plan(text);
  Ran r = plan(plan.data() + " 0");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(r.out.rfind("y f32[128,16] ", 0) == 0);
  same_outputs(plan, expected(p));

  const HostTensor x = random_tensor({f32, {128, 256}}, 7, "other");
  const HostTensor b2 = random_tensor({f32, {16}}, 8, "other");
  write_npy(plan.data() + "/x.npy", x);
  write_npy(plan.data() + "/b2.npy", b2);
  r = plan(plan.data() + " 1");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(r.out.find(" us a launch") != std::string::npos);
  same_outputs(plan, expected(p, {{"x", x}, {"b2", b2}}));

  write_npy(plan.data() + "/x.npy", b2);
  r = plan(plan.data() + " 0");
  CHECK(r.code == 1);
  CHECK(r.err.find("x.npy: it holds {'descr':'<f4','fortran_order':False,'shape':(16,),}; x is "
                   "f32[128,256]") != std::string::npos);
  // The simulator sees what a program leaves out.
  std::string unordered = text;
  const std::string_view edge = ", from, edges, 1, &node)";
  unordered.replace(unordered.find(edge), edge.size(), ", nullptr, nullptr, 0, &node)");
  const std::string unused = "const CUgraph";
  for (size_t at = unordered.find(unused); at != std::string::npos;
       at = unordered.find(unused, at + 20)) {
    unordered.insert(at, "[[maybe_unused]] ");
  }
  r = Built(unordered)("");
  CHECK(r.code == 1);
  CHECK(r.err.find("race") != std::string::npos);
  CHECK(plan("a b c").code == 1);
  CHECK(plan("a fast").err.find("usage: ") != std::string::npos);
}

TEST_CASE("cpp: graphs, kernels outside graphs, host calls, scalars and params that change") {
  Graph g("many");
  build_many(g);
  const Program p = with_images(compile(g, breaking()));
  REQUIRE(p.calls.size() == 2);
  const auto outside =
      std::count_if(p.bodies.begin(), p.bodies.end(), [](const Body& b) { return b.stream; });
  REQUIRE(outside >= 1);
  REQUIRE(static_cast<std::ptrdiff_t>(p.bodies.size()) >= outside + 2);
  REQUIRE(!p.constants.empty());
  const std::string text = to_cpp(p);
  size_t nodes = 0;
  for (const Body& b : p.bodies) nodes += b.stream ? 0 : b.nodes.size();
  CHECK(count(text, "CALL(cuGraphAddNode(") == nodes);

  const Built plan(text);
  Ran r = plan(plan.data() + " 0");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(r.err.rfind("f32[8,32]: ", 0) == 0);
  same_outputs(plan, expected(p));

  HostTensor gain({f32, {}});
  gain.set(0, -0.75);
  fs::create_directory(plan.data() + "/block");
  write_npy(plan.data() + "/block/gain.npy", gain);
  const HostTensor state = random_tensor({f32, {8, 16}}, 5, "state");
  const HostTensor k = random_tensor({i32, {8}}, 5, "k");
  write_npy(plan.data() + "/block/state.npy", state);
  write_npy(plan.data() + "/block/k.npy", k);
  r = plan(plan.data() + " 2");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(count(r.err, "read ") == 3);
  CHECK(count(r.err, "\n") == 4);  // timed launches print nothing
  same_outputs(plan,
               expected(p, {{"block/state", state}, {"block/k", k}}, {{"block/gain", -0.75}}));
}

TEST_CASE(
    "cpp: lanes, programmatic edges and kernels of several parts stand as the plan has them") {
  Graph g("lanes");
  testing::build_attention(g);
  Options separate;
  separate.chain = false;
  Program p = testing::spread(compile(g, separate), 3);
  REQUIRE(!p.bodies[0].edges.empty());
  p = with_images(std::move(p));
  {
    const Built plan(to_cpp(p));
    const Ran r = plan(plan.data() + " 0");
    REQUIRE_MESSAGE(r.code == 0, r.err);
    same_outputs(plan, expected(p));
  }

  for (Edge& e : p.bodies[0].edges) e.kind = EdgeKind::programmatic;
  const std::string text = to_cpp(p);
  size_t edges = 0;
  for (size_t at = text.find("edges[] = {"); at != std::string::npos;
       at = text.find("edges[] = {", at + 1)) {
    const std::string list = text.substr(at, text.find("};", at) - at);
    edges += count(list, "programmatic");
    CHECK(count(list, "full") == 0);
  }
  CHECK(edges == p.bodies[0].edges.size());
}

TEST_CASE("cpp: no name breaks out of its place") {
  constexpr char kText[] = "a\"b\\ */ // ?\?/\n#error x\r\0\xff\xe2\x80\xae(%s)\"; } \\";
  const std::string hostile(kText, sizeof kText - 1);
  Graph g("names");
  const Tensor x = g.input("x", {f32, {4, 4}});
  const Tensor w = g.param("w", {f32, {4, 4}});
  const Tensor h = relu(x + w);
  const Tensor back = g.host("identity", {h}, {{f32, {4, 4}}})[0];
  g.output("y", back * g.scalar("s", f32, 2));
  g.output("z", h + 1.0);
  Program p = with_images(compile(g, breaking()));
  p.name = p.options = p.target.arch = hostile;
  p.inputs[0].name = hostile + "in";
  p.params[0].name = "a/../../" + hostile;
  p.scalars[0].name = "";
  p.scalars[0].initial = -std::numeric_limits<double>::infinity();
  p.params[0].scale = std::numeric_limits<double>::infinity();
  p.outputs[0].name = "../up";
  p.outputs[1].name = "_/up";  // the same file as the other
  for (Buffer& b : p.buffers) b.name = hostile;
  for (Body& b : p.bodies) {
    for (Node& n : b.nodes) n.ops = {hostile, hostile}, n.place = hostile;
  }
  for (Call& c : p.calls) c.op = c.place = hostile;
  const std::string text = to_cpp(p);
  CHECK(std::all_of(text.begin(), text.end(),
                    [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  CHECK(count(text, "\n#error") == 1);  // our own
  const Built plan(text);
  const Ran r = plan(plan.data() + " 0");
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(fs::exists(plan.data() + "/_/up.out.npy"));
  CHECK(fs::exists(plan.data() + "/_/up_2.out.npy"));

  // A function that is not the tool's, and symbols, which the images above had to know.
  for (Call& c : p.calls) c.function = hostile;
  const Built other(to_cpp(p));
  const Ran stopped = other("");
  CHECK(stopped.code == 1);
  CHECK(stopped.err.find("whose body is not part of a plan: write it here, in host0_a_b_") !=
        std::string::npos);
  for (Kernel& k : p.kernels) k.symbol = hostile;
  const Built symbols(to_cpp(p));
  CHECK(symbols("").err.find("CUDA_ERROR_NOT_FOUND") != std::string::npos);
}

TEST_CASE("cpp: branches and loops as conditional nodes, guarded kernels and by the host") {
  using Kind = Region::Kind;
  for (const auto& [branches, loops, host] :
       {std::tuple(Lowering::node, Lowering::node, false),
        std::tuple(Lowering::predicate, Lowering::node, false),
        std::tuple(Lowering::host, Lowering::host, false),
        std::tuple(Lowering::node, Lowering::automatic, true)}) {
    CAPTURE(branches);
    CAPTURE(loops);
    Graph g("control");
    build_control(g, branches, loops, host);
    const Program p = with_images(compile(g, breaking()));
    REQUIRE(p.regions.size() >= 4);
    if (branches == Lowering::node) REQUIRE(regions_of(p, Kind::node) >= 2);
    if (branches == Lowering::predicate) REQUIRE(regions_of(p, Kind::predicate) >= 1);
    if (branches == Lowering::host || host) REQUIRE(regions_of(p, Kind::host) >= 1);
    const std::string text = to_cpp(p);
    CHECK(count(text, " = conditional_node(") == regions_of(p, Kind::node));
    CHECK(count(text, "decided(arena") >= regions_of(p, Kind::host));
    same_launches(p);
  }
}

TEST_CASE("cpp: a program whose graphs call host functions is refused") {
  Graph g("calls");
  const Tensor x = g.input("x", {f32, {4}});
  g.output("y", g.host("ask", {exp(x)}, {{f32, {4}}})[0] * 2.0);
  const Program p = with_images(compile(g));
  REQUIRE(p.exchanges.size() == 1);
  try {
    to_cpp(p);
    FAIL("it was written");
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().at(0);
    CHECK(d.code == "E0879");
    CHECK(d.message.find("'ask'") != std::string::npos);
    CHECK(d.suggestion.find("--host=break") != std::string::npos);
  }
}

TEST_CASE("cpp: a check that fails ends the program, and says where") {
  Graph g("checked");
  const Tensor x = g.input("x", {f32, {4, 8}});
  g.print(x, "x");
  const auto step = [&](Tensor, Tensor v) {
    g.check_range(v, -1e3, 1e3, "v");
    return v * 10.0;
  };
  g.output("y", g.loop(6, x, step, {.lowering = Lowering::node, .unroll = 1}));
  const Program p = with_images(compile(g));
  REQUIRE(p.messages.size() >= 2);
  const Built plan(to_cpp(p));
  HostTensor small({f32, {4, 8}});
  for (int64_t i = 0; i < 32; ++i) small.set(i, 1e-6 * static_cast<double>(i + 1));
  write_npy(plan.data() + "/x.npy", small);
  Ran r = plan(plan.data() + " 3");
  CHECK_MESSAGE(r.code == 0, r.err);
  same_outputs(plan, expected(p, {{"x", small}}));
  small.set(5, 0.5);
  small.set(7, -0.75);
  write_npy(plan.data() + "/x.npy", small);
  r = plan(plan.data());
  CHECK(r.code == 1);
  CHECK(count(r.err, "x f32[4,8] =") == 1);
  const MessageSource& check = p.messages[1];
  REQUIRE(!check.place.empty());
  const std::string what = fmt::format(
      "error: the check '{}' failed for 2 elements: {}, {}, launch "
      "0, iteration 4; 1 more failed",
      check.text, check.op, check.place);
  CHECK_MESSAGE(r.err.find(what) != std::string::npos, r.err);
  CHECK(r.out.empty());
}

TEST_CASE("cpp: without cubins there is no program") {
  Graph g("raw");
  g.output("y", relu(g.input("x", {f32, {4}})));
  try {
    to_cpp(compile(g));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.diagnostics().at(0).code == "E0813");
  }
}
