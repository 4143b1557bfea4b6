#include <doctest/doctest.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/cost.hpp"
#include "passes/pipeline.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

Options verified() {
  Options o;
  o.verify = true;
  return o;
}

/// Runs a Program on bytes: every buffer at its place, unwritten memory poisoned, nodes in any
/// order that the edges allow, kernels by the interpreter.
class ProgramMachine {
 public:
  explicit ProgramMachine(const Program& p) : p_(p), arena_(bytes_of(p.arena_bytes)) {
    for (const Buffer& b : p.buffers) {
      own_.push_back(bytes_of(b.segment == Segment::temp ? 0 : b.bytes));
      if (b.segment == Segment::constant && b.bytes > 0) {
        std::memcpy(own_.back().data(), p.constants.data() + b.offset,
                    static_cast<size_t>(b.bytes));
      }
    }
  }

  Results run(const ir::TensorMap& inputs, const ir::TensorMap& params, std::mt19937& random) {
    for (const Binding& b : p_.inputs) store(b.buffer, narrow(inputs.at(b.name)));
    for (const ParamBinding& b : p_.params) store(b.buffer, narrow(params.at(b.name)));
    for (const Step& step : p_.script) {
      const Body& body = p_.bodies[step.index];
      std::vector<std::pair<uint32_t, uint32_t>> edges;
      for (const Edge& e : body.edges) edges.emplace_back(e.from, e.to);
      for (uint32_t n : random_order(body.nodes.size(), edges, random)) launch(body.nodes[n]);
    }
    Results r;
    for (const Binding& b : p_.outputs) r.outputs[b.name] = load(b.buffer);
    for (const ParamBinding& b : p_.params) r.params[b.name] = load(b.buffer);
    return r;
  }

 private:
  using Bytes = std::vector<std::byte>;
  static Bytes bytes_of(int64_t n) { return Bytes(static_cast<size_t>(n), std::byte{0xFF}); }

  std::byte* at(uint32_t buffer) {
    const Buffer& b = p_.buffers[buffer];
    return b.segment == Segment::temp ? arena_.data() + b.offset : own_[buffer].data();
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void store(uint32_t buffer, const HostTensor& t) {
    REQUIRE(t.type == p_.buffers[buffer].type);
    copy(at(buffer), t.bytes.data(), t.bytes.size());
  }
  WideTensor load(uint32_t buffer) { return load(buffer, 0, p_.buffers[buffer].type); }
  WideTensor load(uint32_t buffer, int64_t offset, const TensorType& type) {
    HostTensor t(type);
    copy(t.bytes.data(), at(buffer) + offset, t.bytes.size());
    return widen(t);
  }

  void launch(const Node& node) {
    const Kernel& k = p_.kernels[node.kernel];
    for (uint32_t part = 0; part < k.parts; ++part) compute(node, k, part);
  }

  void compute(const Node& node, const Kernel& k, size_t part) {
    ir::TensorMap inputs, params;
    const size_t slots = k.args.size() / k.parts, end = (part + 1) * slots;
    size_t slot = part * slots;
    std::map<std::string, size_t> slot_of;
    for (const ir::Op& op : k.body.ops()) {
      if (op.kind != OpKind::input && op.kind != OpKind::param) continue;
      const View& v = p_.views[node.args.at(slot)];
      (op.kind == OpKind::input ? inputs : params)[k.args.at(slot).name] =
          load(v.buffer, v.offset, v.type);
      slot_of[k.args[slot].name] = slot;
      ++slot;
    }
    const ir::TensorMap outputs = ir::interpret(k.body, inputs, params, ir::Rounding::dtype);
    for (const auto& [name, value] : outputs) slot_of.emplace(name, 0);
    for (; slot < end; ++slot) slot_of[k.args[slot].name] = slot;
    const auto put = [&](const std::string& name, const WideTensor& value) {
      const View& v = p_.views[node.args.at(slot_of.at(name))];
      const HostTensor t = narrow(value);
      copy(at(v.buffer) + v.offset, t.bytes.data(), t.bytes.size());
    };
    for (const auto& [name, value] : outputs) put(name, value);
    for (const auto& [name, value] : params) put(name, value);
  }

  const Program& p_;
  Bytes arena_;
  std::vector<Bytes> own_;
};

ir::Graph mlp() {
  Maker m;
  ValueId x = m.input("x", {8, 16});
  for (const char* layer : {"l1", "l2"}) {
    const std::string name = layer;
    const ValueId w = m.weight(name + "/w", {16, 16}), b = m.weight(name + "/b", {16});
    x = m.map(Fn::relu, {m.bias(m.dot(x, w), b)});
  }
  m.output("y", m.softmax(x));
  return m.g;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.diagnostics().at(0).code;
  }
  return "no error";
}

std::filesystem::path scratch(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("braid_pipeline_" + name);
  std::filesystem::remove_all(path);
  return path;
}

}  // namespace

TEST_CASE("the table of passes") {
  std::vector<std::string_view> names;
  for (const Pass& p : passes()) {
    names.push_back(p.name);
    CHECK(!p.what.empty());
    CHECK((p.extension == "bir" || p.extension == "txt"));
  }
  CHECK(names == std::vector<std::string_view>{
                     "bind",  "simplify", "split",  "host",  "control", "recompute", "views",
                     "home",  "levels",   "fuse",   "chain", "choose",  "breaks",    "group",
                     "waits", "lanes",    "memory", "edges", "source",  "check"});
  PassTimes times;
  const Compilation c = run_passes(mlp(), verified(), "memory", &times);
  REQUIRE(times.size() == 17);
  CHECK(times.back().first == "memory");
  CHECK(c.program.bodies[0].edges.empty());
  CHECK_THROWS_AS(run_passes(mlp(), verified(), "memroy"), InternalError);
}

TEST_CASE("a small model becomes the plan one would write by hand") {
  Options o = verified();
  o.chain = false;
  const Program p = run_passes(mlp(), o).program;
  // Two layers alike share a kernel, the softmax has its own.
  REQUIRE(p.bodies.size() == 1);
  const Body& body = p.bodies[0];
  REQUIRE(body.nodes.size() == 3);
  REQUIRE(p.kernels.size() == 2);
  CHECK(body.nodes[0].kernel == body.nodes[1].kernel);
  const Kernel& layer = p.kernels[body.nodes[0].kernel];
  CHECK(layer.family == "dot");
  CHECK(layer.symbol.starts_with("dot_add_relu_"));
  CHECK(layer.flops >= 2 * 8 * 16 * 16);
  CHECK(layer.bytes_moved == 4 * (8 * 16 + 16 * 16 + 16 + 8 * 16));
  CHECK(p.kernels[body.nodes[2].kernel].family == "row");
  REQUIRE(body.edges.size() == 2);
  for (const Edge& e : body.edges) CHECK(e.reason == EdgeReason::raw);
  REQUIRE(p.inputs.size() == 1);
  CHECK(p.buffers[p.inputs[0].buffer].segment == Segment::input);
  REQUIRE(p.outputs.size() == 1);
  CHECK(p.buffers[p.outputs[0].buffer].segment == Segment::output);
  REQUIRE(p.params.size() == 4);
  CHECK(p.params[0].name == "l1/w");
  CHECK(!p.params[0].written);
  CHECK(p.arena_bytes == 1024);  // two activations of 512 bytes
  CHECK(p.graphs == 1);
  REQUIRE(p.modules.size() == 1);
  for (const Kernel& k : p.kernels) {
    CHECK(p.modules[0].source.find(k.symbol) != std::string::npos);
    CHECK(k.launch.grid[0] >= 1);
  }
  for (const Node& n : body.nodes) CHECK(n.estimate_us > 0);
  CHECK(check(p).empty());
}

TEST_CASE("random programs compute what their graphs say, in any order that the edges allow") {
  std::mt19937 random(40);
  size_t nodes = 0, shared = 0, forked = 0;
  for (int round = 0; round < 120; ++round) {
    const ir::Graph g = random_graph(random, 5 + static_cast<int>(random() % 40));
    const uint64_t seed = random();
    const Results wanted = run_whole(g, seed);
    Options o = verified();
    o.fuse = random() % 4 != 0;
    o.reuse = random() % 4 != 0;
    o.reduce = random() % 4 != 0;
    o.group = random() % 4 != 0;
    o.simplify = random() % 4 != 0;
    o.streams = 1 + static_cast<int>(random() % 8);
    o.force_lanes = random() % 2 != 0;
    CAPTURE(to_string(o));
    CAPTURE(ir::print(g));
    const Program p = run_passes(g, o).program;  // runs the checker
    forked += p.bodies[0].lanes > 1;
    CHECK(p.source_ops == g.ops().size());
    if (!o.reuse) CHECK(p.arena_bytes == p.temp_bytes_unshared);
    nodes += p.bodies[0].nodes.size();
    shared += p.arena_bytes < p.temp_bytes_unshared;
    const Results got = ProgramMachine(p).run(random_tensors(g, OpKind::input, seed),
                                              random_tensors(g, OpKind::param, seed), random);
    REQUIRE(same(wanted, got));
    // Kernels are shared by equal bodies and named apart.
    std::set<std::string> symbols, bodies;
    for (const Kernel& k : p.kernels) {
      symbols.insert(k.symbol);
      bodies.insert(k.family + std::to_string(k.parts) + ir::print(k.body));
    }
    CHECK(symbols.size() == p.kernels.size());
    CHECK(bodies.size() == p.kernels.size());
  }
  CHECK(nodes > 500);
  CHECK(shared > 15);
  CHECK(forked > 20);
}

TEST_CASE("params are bound to their first and last version") {
  Maker m;
  const ValueId p0 = m.param("count", {4}), q0 = m.param("idle", {4});
  const ValueId next = m.add(m.read(p0), m.input("x", {4}));
  const ValueId p1 = m.assign(p0, next);
  m.output("y", m.mul(m.read(p1), m.read(q0)));
  const Compilation c = run_passes(m.g, verified());
  const Program& p = c.program;
  REQUIRE(p.params.size() == 2);
  CHECK(p.params[0].name == "count");
  CHECK(p.params[0].written);
  CHECK(p.params[0].first_value != p.params[0].last_value);
  CHECK(c.graph.def(ValueId{p.params[0].last_value}).kind == OpKind::assign);
  CHECK(!p.params[1].written);
  CHECK(p.params[1].first_value == p.params[1].last_value);
  bool in_place = false;
  for (const Node& n : p.bodies[0].nodes) {
    for (size_t s = 0; s < n.args.size(); ++s) {
      if (p.kernels[n.kernel].args[s].role != Role::inout) continue;
      in_place = true;
      CHECK(n.values_before[s] == p.params[0].first_value);
      CHECK(n.values[s] == p.params[0].last_value);
      CHECK(p.views[n.args[s]].buffer == p.params[0].buffer);
    }
  }
  CHECK(in_place);
}

TEST_CASE("constants stand in their segment, aligned, and are read from there") {
  const std::string text = R"(bir 1
graph "g" {
  %0: f32[3] = input "x"
  %1: f32[3] = constant hex"0000803f0000004000004040"
  %2: f32[3] = mul %0, %1
  %3: f32[3] = constant hex"000080bf0000003f00002041"
  %4: f32[3] = add %2, %3
  output "y" %4
}
)";
  const Program p = run_passes(ir::parse(text), verified()).program;
  size_t constants = 0;
  for (const Buffer& b : p.buffers) {
    if (b.segment != Segment::constant) continue;
    CHECK(b.offset == static_cast<int64_t>(256 * constants));
    ++constants;
  }
  CHECK(constants == 2);
  CHECK(p.constants.size() == 256 + 12);
  std::mt19937 random(1);
  WideTensor x{{DType::f32, Shape{3}}, {2.0, 3.0, -4.0}, {}};
  const Results r = ProgramMachine(p).run({{"x", x}}, {}, random);
  CHECK(r.outputs.at("y").f == std::vector<double>{1.0, 6.5, -2.0});
}

TEST_CASE("dims: defaults, values, and what is wrong with them") {
  const std::string text = R"(bir 1
graph "g" {
  dim B = 8 max 64
  dim T
  %0: f32[B,T] = input "x"
  %1: f32[B,T] = tanh %0
  output "y" %1
}
)";
  const ir::Graph g = ir::parse(text);
  Options o = verified();
  o.dims = {{"T", 5}};
  const Program p = run_passes(g, o).program;
  CHECK(p.dims == DimTable::Bindings{{"B", 8}, {"T", 5}});
  CHECK(p.buffers[p.inputs[0].buffer].bytes == 4 * 8 * 5);
  o.dims = {{"T", 3}, {"B", 64}};
  CHECK(run_passes(g, o).program.dims == DimTable::Bindings{{"B", 64}, {"T", 3}});
  const auto code = [&](DimTable::Bindings dims) {
    o.dims = std::move(dims);
    return code_of([&] { run_passes(g, o); });
  };
  CHECK(code({}) == "E0602");
  CHECK(code({{"T", 1}, {"B", 65}}) == "E0603");
  CHECK(code({{"T", 1}, {"C", 1}}) == "E0601");
}

TEST_CASE("nodes carry their ops and the place of the last one, without folders") {
  const std::string text = R"(bir 1
graph "g" {
  %0: f32[4] = input "x"
  %1: f32[4] = tanh %0 "a/tanh" loc("some/folder/model.toml":7:3)
  %2: f32[4] = exp %1 "a/scale" loc("some/folder/model.toml":12:5)
  output "y" %2
}
)";
  const Program p = run_passes(ir::parse(text), verified()).program;
  REQUIRE(p.bodies[0].nodes.size() == 1);
  CHECK(p.bodies[0].nodes[0].ops == std::vector<std::string>{"a/tanh", "a/scale (exp)"});
  CHECK(p.bodies[0].nodes[0].place == "model.toml:12:5");
}

TEST_CASE("the same bytes on every run") {
  std::mt19937 random(41);
  for (int round = 0; round < 10; ++round) {
    const ir::Graph g = random_graph(random, 60);
    const Program a = run_passes(g, verified()).program, b = run_passes(g, verified()).program;
    CHECK(to_text(a) == to_text(b));
    CHECK(write_program(a) == write_program(b));
  }
}

TEST_CASE("math = tf32 marks f32 products before anything else looks at them") {
  const ir::Graph g = ir::parse(R"(bir 1
graph "g" {
  %0: f32[8,16] = input "x"
  %1: f32[16,8] = input "w"
  %2: f32[8,8] = dot %0, %1
  %3: bf16[8,16] = cast %0
  %4: bf16[16,8] = cast %1
  %5: f32[8,8] = dot %3, %4
  %6: f32[8,8] = dot %0, %1 {tf32=true}
  output "y" %2
  output "z" %5
  output "t" %6
}
)");
  const auto dots = [&](Math math) {
    Options o = verified();
    o.math = math;
    const Program p = run_passes(g, o).program;
    CHECK(p.options.find(math == Math::tf32 ? " math=tf32 " : " math=strict ") !=
          std::string::npos);
    std::string s;
    for (const Kernel& k : read_program(write_program(p), "memory").kernels) {
      for (const ir::Op& op : k.body.ops()) {
        if (op.kind != ir::OpKind::dot) continue;
        s += std::string(name_of(k.body.type(op.operands[0]).dtype)) +
             (std::get<ir::DotAttr>(op.attrs).tf32 ? " tf32, " : " strict, ");
      }
    }
    return s;
  };
  CHECK(dots(Math::strict) == "f32 strict, bf16 strict, f32 tf32, ");
  // The two f32 products are one by then.
  CHECK(dots(Math::tf32) == "bf16 strict, f32 tf32, ");
}

TEST_CASE("prices count what is touched") {
  const auto bytes = [](const std::string& ops) {
    const ir::Graph g = ir::parse("bir 1\ngraph \"b\" {\n" + ops + "}\n");
    return bytes_moved(g);
  };
  CHECK(bytes(R"(
  %0: f32[1000,8] = input "table"
  %1: i32[3] = input "at"
  %2: f32[3,8] = gather %0, %1 {axis=0}
  output "y" %2
)") == 4 * (3 * 8 + 3 + 3 * 8));
  CHECK(bytes(R"(
  %0: state f32[100,8] = param "cache"
  %1: f32[1,8] = input "row"
  %2: i32[] = input "at"
  %3: i32[] = constant 0
  %4: state f32[100,8] = update %0, %1, %2, %3
)") == 4 * (8 + 8 + 1));
  CHECK(bytes(R"(
  %0: f32[8] = input "x"
  %1: f32[2] = slice %0 {starts=[1], steps=[2]}
  %2: f32[2] = slice %0 {starts=[2], steps=[2]}
  %3: f32[2] = add %1, %2
  output "y" %3
)") == 4 * (2 + 2 + 2));
  CHECK(bytes(R"(
  %0: f32[8] = input "x"
  %1: f32[8] = add %0, %0
  output "y" %1
)") == 4 * (8 + 8));
}

TEST_CASE("limits and cancelling") {
  Options o = verified();
  for (int streams : {0, -1, kMaxStreams + 1}) {
    o.streams = streams;
    CHECK(code_of([&] { run_passes(mlp(), o); }) == "E0704");
  }
  o.streams = 1;
  CHECK(run_passes(mlp(), o).program.bodies[0].lanes == 1);
  int64_t steps = 0;
  o.progress = [&](std::string_view phase, int64_t step, int64_t total) {
    CHECK(!phase.empty());
    CHECK(step <= total);
    return ++steps < 2;
  };
  CHECK(code_of([&] { run_passes(mlp(), o); }) == "E0703");
  CHECK(steps == 2);
}

TEST_CASE("the dump folder holds every stage") {
  const std::filesystem::path folder = scratch("dump") / "deep";
  Options o = verified();
  const std::string plain = to_text(run_passes(mlp(), o).program);
  o.dump_dir = folder.string();
  const Program p = run_passes(mlp(), o).program;
  CHECK(to_text(p) == plain);
  CHECK(read_file(folder / "00-input.bir") == ir::print(mlp(), {.places = true}));
  size_t stage = 1;
  for (const Pass& pass : passes()) {
    std::ostringstream name;
    name << (stage < 10 ? "0" : "") << stage << '-' << pass.name << '.' << pass.extension;
    CHECK(!read_file(folder / name.str()).empty());
    ++stage;
  }
  CHECK(read_file(folder / "program.txt") == to_text(p));
  CHECK(read_file(folder / "program.json") == to_json(p));
  CHECK(read_file(folder / "program.dot") == to_dot(p));
  std::string sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kernels")) {
    CHECK(entry.path().extension() == ".cu");
    sources += read_file(entry.path());
  }
  for (const Kernel& k : p.kernels) CHECK(sources.find(k.symbol) != std::string::npos);
  std::filesystem::remove_all(folder.parent_path());
}

TEST_CASE("a dump folder that cannot be is an error") {
  const std::filesystem::path file = scratch("file");
  std::ofstream(file) << "not a folder";
  Options o = verified();
  o.dump_dir = (file / "dump").string();
  CHECK(code_of([&] { run_passes(mlp(), o); }) == "E0701");
  std::filesystem::remove_all(file);
}

TEST_CASE("100k ops pass through everything but kernel text in near-linear time") {
  const auto milliseconds = [](size_t ops, bool fuse_on) {
    Maker m;
    std::mt19937 random(42);
    std::vector<ValueId> live;
    for (int i = 0; i < 8; ++i) live.push_back(m.input("x" + std::to_string(i), {16, 16}));
    const ValueId w = m.weight("w", {16, 16});
    while (m.g.ops().size() < ops) {
      ValueId& a = live[random() % live.size()];
      const ValueId b = live[random() % live.size()];
      switch (random() % 4) {
        case 0:
          a = m.dot(a, w);
          break;
        case 1:
          a = m.map(Fn::tanh, {a});
          break;
        case 2:
          a = m.softmax(a);
          break;
        default:
          a = m.add(a, b);
      }
    }
    for (size_t i = 0; i < live.size(); ++i) m.output("y" + std::to_string(i), live[i]);
    Options o;
    o.fuse = fuse_on;
    PassTimes times;
    const std::clock_t start = std::clock();
    const Compilation c = run_passes(std::move(m.g), o, "edges", &times);
    const double total = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::string text;
    for (const auto& [name, ms] : times) {
      text += " " + std::string(name) + " " + std::to_string(static_cast<int>(ms));
    }
    MESSAGE(ops << " ops, " << c.program.bodies[0].nodes.size() << " nodes, "
                << c.program.kernels.size() << " kernels: " << total << " ms;" << text);
    CHECK(c.program.bodies[0].nodes.size() > ops / 20);
    return total;
  };
  for (bool fuse_on : {true, false}) {
    const double small = milliseconds(10'000, fuse_on), large = milliseconds(100'000, fuse_on);
    CHECK(large < 40 * small + 500);
  }
}
