// The checker's rules one by one, with what it says; and files that want to keep it busy.
#include <doctest/doctest.h>

#include <ctime>
#include <string>

#include "passes/check.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

std::string complaints(const Program& p) {
  std::string text;
  for (const std::string& s : check(p)) text += s + "\n";
  return text;
}
bool complains(const Program& p, std::string_view of) {
  return complaints(p).find(of) != std::string::npos;
}

/// Programs by hand: tensors of 64 bytes, kernels that fill one from others.
struct Writer {
  Program p;
  Writer() {
    p.inputs.push_back({"x", tensor(Segment::input), 0});
    p.runs = p.graphs = 1;
  }
  static TensorType type() { return {DType::f32, Shape{16}}; }

  /// Its only view has the same index, and so has its only value.
  uint32_t tensor(Segment segment = Segment::temp) {
    const auto b = static_cast<uint32_t>(p.buffers.size());
    p.buffers.push_back({"b" + std::to_string(b), segment, type(), 64, 0});
    if (segment == Segment::temp) {
      p.buffers.back().offset = p.arena_bytes;
      p.arena_bytes += 256;
    }
    p.views.push_back({b, 0, type(), {1}, b});
    return b;
  }
  Body& body(uint32_t run, uint32_t lanes = 1, bool stream = false) {
    p.script.push_back({Step::Kind::launch, static_cast<uint32_t>(p.bodies.size())});
    Body& b = p.bodies.emplace_back();
    b.run = run;
    b.lanes = lanes;
    b.stream = stream;
    return b;
  }
  /// A kernel relu(a0 + a1 + ...) of the last body.
  uint32_t node(const std::vector<uint32_t>& in, uint32_t out, uint32_t lane = 0,
                bool waits = false) {
    Kernel k;
    Node n;
    k.symbol = "k" + std::to_string(p.kernels.size());
    k.waits = waits;
    Maker m;
    ValueId sum{};
    const auto slot = [&](const std::string& name, Role role, uint32_t view) {
      k.args.push_back({name, role, type()});
      n.args.push_back(view);
      n.values.push_back(view);
      n.values_before.push_back(UINT32_MAX);
    };
    for (uint32_t i = 0; i < in.size(); ++i) {
      const std::string name = "a" + std::to_string(i);
      const ValueId v = m.input(name, {16});
      sum = sum.valid() ? m.add(sum, v) : v;
      slot(name, Role::in, in[i]);
    }
    m.output("r0", in.empty() ? m.splat({16}, 1) : m.map(Fn::relu, {sum}));
    slot("r0", Role::out, out);
    k.body = m.g;
    n.kernel = static_cast<uint32_t>(p.kernels.size());
    p.kernels.push_back(std::move(k));
    Body& b = p.bodies.back();
    n.lane = lane;
    for (const Node& other : b.nodes) n.position += other.lane == lane;
    n.level = n.earliest = n.latest = b.run;
    b.nodes.push_back(std::move(n));
    return static_cast<uint32_t>(b.nodes.size() - 1);
  }
  void edge(uint32_t from, uint32_t to, EdgeKind kind = EdgeKind::full) {
    p.bodies.back().edges.push_back({from, to, kind, EdgeReason::raw, 0});
  }
  uint32_t call(uint32_t run, const std::vector<uint32_t>& args,
                const std::vector<uint32_t>& results) {
    Call c;
    c.function = "sample";
    c.args = c.values = args;
    c.results = c.result_values = results;
    c.level = c.earliest = c.latest = run;
    p.calls.push_back(std::move(c));
    return static_cast<uint32_t>(p.calls.size() - 1);
  }
  void step(Step::Kind kind, uint32_t index) { p.script.push_back({kind, index}); }
};

using Kind = Step::Kind;

/// x -> a in a graph, a -> b on the host, b -> c in a graph, which is the output.
Program sandwich() {
  Writer w;
  const uint32_t a = w.tensor(), b = w.tensor(), c = w.tensor(Segment::output);
  w.p.runs = 3;
  w.p.graphs = 2;
  w.body(0);
  w.node({0}, a);
  const uint32_t call = w.call(1, {a}, {b});
  for (Kind k : {Kind::read, Kind::wait, Kind::call, Kind::write}) w.step(k, call);
  w.body(2);
  w.node({b}, c);
  w.p.outputs.push_back({"y", c, c});
  return w.p;
}

/// Three kernels in a row on three lanes, the last two reached over programmatic edges; the last
/// also reads what the first makes, with no edge of its own.
Program chain(bool second_waits, bool third_waits) {
  Writer w;
  const uint32_t a = w.tensor(), b = w.tensor(), c = w.tensor();
  w.body(0, 3);
  w.node({0}, a, 0);
  w.node({0}, b, 1, second_waits);
  w.node({a}, c, 2, third_waits);
  w.edge(0, 1, EdgeKind::programmatic);
  w.edge(1, 2, EdgeKind::programmatic);
  return w.p;
}

/// What check() says of a kernel with this body and the last slot in place of the first.
std::string in_place(Maker& m) {
  Kernel k;
  k.symbol = "k";
  for (const ir::Op& op : m.g.ops()) {
    if (op.kind == OpKind::input) {
      k.args.push_back({std::string(m.g.strings[op.name]), Role::in, m.g.type(op.result)});
    }
    if (op.kind == OpKind::param) {
      k.args.push_back({std::string(m.g.strings[op.name]), Role::out, m.g.type(op.result)});
    }
  }
  for (const ir::Output& o : m.g.outputs) {
    k.args.push_back({o.name, Role::out, m.g.type(o.value)});
  }
  k.body = m.g;
  k.in_place = {{static_cast<uint32_t>(k.args.size() - 1), 0}};
  Program p;
  p.kernels.push_back(std::move(k));
  return complaints(p);
}

double seconds(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("a script of graphs around a host call") {
  const Program good = sandwich();
  CHECK_MESSAGE(complaints(good).empty(), complaints(good));
  const auto with = [&](const std::vector<size_t>& order) {
    Program p = good;
    p.script.clear();
    for (size_t i : order) p.script.push_back(good.script[i]);
    return complaints(p);
  };
  // 0 launch, 1 read, 2 wait, 3 call, 4 write, 5 launch
  CHECK(with({0, 1, 2, 3, 5}) == "the script has no write of call 0 (sample)\n");
  CHECK(with({0, 1, 3, 4, 5}) == "the script has no wait of call 0 (sample)\n");
  CHECK(with({0, 3, 4, 5}) == "the script has no read of call 0 (sample)\n");
  CHECK(with({0, 1, 2, 4, 5}) == "the script has no call of call 0 (sample)\n");
  CHECK(with({0, 1, 2, 3, 4}) == "the script never launches body 1\n");
  CHECK(with({0, 1, 2, 3, 4, 5, 5}) ==
        "steps 5 and 6 of the script are both the launch of body 1\n");
  CHECK(with({0, 1, 3, 2, 4, 5}).find("has the call of call 0 (sample) too early") !=
        std::string::npos);
  CHECK(with({1, 0, 2, 3, 4, 5}).find("call 0 (sample) reads buffer 1 'b1'") != std::string::npos);
  CHECK(with({0, 1, 2, 3, 5, 4}) == "the script goes from run 2 back to run 1\n");
}

TEST_CASE("calls without arguments or results need no copies") {
  Writer w;
  const uint32_t a = w.tensor(), y = w.tensor(Segment::output);
  w.p.runs = 2;
  w.p.graphs = 1;
  const uint32_t source = w.call(0, {}, {a}), log = w.call(0, {0}, {}), tick = w.call(0, {}, {});
  w.step(Kind::call, source);
  w.step(Kind::write, source);
  for (Kind k : {Kind::read, Kind::wait, Kind::call}) w.step(k, log);
  w.step(Kind::call, tick);
  w.body(1);
  w.node({a}, y);
  w.p.outputs.push_back({"y", y, y});
  CHECK_MESSAGE(complaints(w.p).empty(), complaints(w.p));
  Program p = w.p;
  p.script.insert(p.script.begin(), {Kind::wait, source});
  CHECK(complains(p, "has no read of call 0"));
  p.script.insert(p.script.begin(), {Kind::read, source});
  CHECK(complaints(p).empty());
  p = w.p;
  p.calls[log].results = p.calls[log].result_values = {0};
  CHECK(complains(p, "has no write of call 1"));
  p.script.insert(p.script.begin() + 5, {Kind::write, log});
  CHECK(complains(p, "call 1 (sample) writes the input 'b0'"));
}

TEST_CASE("a read may come early, and its bytes may be used again after it") {
  Writer w;
  const uint32_t a = w.tensor(), b = w.tensor(), y = w.tensor(Segment::output);
  w.p.buffers[b].offset = w.p.buffers[a].offset;
  w.p.runs = 4;
  w.p.graphs = 2;
  w.body(0);
  w.node({0}, a);
  const uint32_t first = w.call(1, {}, {}), log = w.call(3, {a}, {});
  w.step(Kind::call, first);
  w.step(Kind::read, log);
  w.body(2);
  w.node({0}, b);
  w.node({b}, y);
  w.edge(0, 1);
  w.step(Kind::wait, log);
  w.step(Kind::call, log);
  w.p.outputs.push_back({"y", y, y});
  CHECK_MESSAGE(complaints(w.p).empty(), complaints(w.p));
  std::swap(w.p.script[2], w.p.script[3]);
  CHECK(complains(w.p, "call 1 (sample) reads"));
}

TEST_CASE("runs alternate, and the graphs among them are counted") {
  Program p = sandwich();
  p.graphs = 1;
  CHECK(complaints(p) == "the plan is said to have 1 graphs, but 2 of its 3 runs are graphs\n");
  p = sandwich();
  p.bodies[1].stream = true;  // its only node needs no edge
  CHECK(complains(p, "do not alternate"));
  p = sandwich();
  p.bodies[1].run = p.bodies[1].nodes[0].level = p.bodies[1].nodes[0].earliest = 1;
  CHECK(complains(p, "run 1 has a graph and host work"));
  p = sandwich();
  p.runs = 2;
  CHECK(complains(p, "body 1 is in run 2 of 2"));
  // A run may be empty: all of its ops are views.
  p = sandwich();
  p.runs = 4;
  CHECK(complaints(p).empty());
  p.runs = 5;
  p.graphs = 3;
  CHECK(complaints(p).empty());
}

TEST_CASE("a stream is one lane, in order without edges") {
  Writer w;
  const uint32_t a = w.tensor(), b = w.tensor();
  w.p.graphs = 0;
  w.body(0, 1, true);
  w.node({0}, a);
  w.node({a}, b);
  CHECK_MESSAGE(complaints(w.p).empty(), complaints(w.p));
  Program p = w.p;
  p.bodies[0].lanes = 2;
  CHECK(complains(p, "body 0 is a stream of 2 lanes"));
  p = w.p;
  std::swap(p.bodies[0].nodes[0], p.bodies[0].nodes[1]);
  CHECK(!complaints(p).empty());
  p = w.p;
  p.kernels[1].waits = true;
  p.bodies[0].edges.push_back({0, 1, EdgeKind::programmatic, EdgeReason::raw, 0});
  CHECK(complains(p, "is programmatic, but in a stream"));
}

TEST_CASE("paths over programmatic edges order as long as every kernel behind one waits") {
  CHECK_MESSAGE(complaints(chain(true, true)).empty(), complaints(chain(true, true)));
  CHECK(complains(chain(false, true), "the edge 0 -> 1 is programmatic, but the kernel does not"));
  CHECK(complains(chain(true, false), "the edge 1 -> 2 is programmatic, but the kernel does not"));
  // A full edge out of a kernel that waits, into one that does not.
  Program p = chain(true, false);
  p.bodies[0].edges[1].kind = EdgeKind::full;
  CHECK(complaints(p).empty());
  // Once every edge is full nobody needs to wait.
  p = chain(false, false);
  for (Edge& e : p.bodies[0].edges) e.kind = EdgeKind::full;
  CHECK(complaints(p).empty());
  p.bodies[0].edges.pop_back();
  CHECK(complains(p, "nothing orders node 2 (k2) after node 0 (k0), which writes buffer 1 'b1'"));
}

TEST_CASE("in place: maps and reshapes of the very element, and nothing else") {
  const auto of = [](const std::function<void(Maker&, ValueId)>& build) {
    Maker m;
    build(m, m.input("x", {4, 4}));
    return in_place(m);
  };
  const auto refused = [](const std::string& text) {
    return text.find("other threads may need") != std::string::npos;
  };
  CHECK(of([](Maker& m, ValueId x) { m.output("r0", m.map(Fn::relu, {x})); }).empty());
  CHECK(of([](Maker& m, ValueId x) {
          const ValueId y = m.reshape(m.map(Fn::exp, {m.reshape(x, {16})}), {2, 8});
          m.output("r0", y);
        }).empty());
  CHECK(of([](Maker& m, ValueId x) {  // a second result of the same elements
          m.output("r0", m.map(Fn::exp, {x}));
          m.output("r1", m.add(x, x));
        })
            .empty());
  CHECK(of([](Maker& m, ValueId x) {  // added to a product
          m.output("r0", m.add(m.dot(m.input("a", {4, 4}), m.input("b", {4, 4})), x));
        })
            .empty());
  CHECK(of([](Maker& m, ValueId x) {  // and what is assigned besides
          const ValueId y = m.map(Fn::exp, {x});
          m.assign(m.param("s", {4, 4}), y);
          m.output("r0", y);
        })
            .empty());
  CHECK(refused(of([](Maker& m, ValueId x) { m.output("r0", m.transpose(x, {1, 0})); })));
  CHECK(refused(of([](Maker& m, ValueId x) { m.output("r0", m.add(x, m.transpose(x, {1, 0}))); })));
  // Rows: in every pass one thread has an element, and the last pass writes.
  CHECK(of([](Maker& m, ValueId x) { m.output("r0", m.softmax(x)); }).empty());
  CHECK(of([](Maker& m, ValueId x) {
          m.output("r1", m.reduce(Fn::add, x, 2));
          m.output("r0", m.map(Fn::relu, {x}));
        }).empty());
  CHECK(of([](Maker& m, ValueId x) {  // beside it, by the same thread
          m.output("r1", m.map(Fn::exp, {x}));
          m.output("r0", m.map(Fn::exp, {m.input("y", {4, 4})}));
        })
            .empty());
  CHECK(refused(of([](Maker& m, ValueId x) {  // columns
    const ValueId sum = m.reduce(Fn::add, x, 1);
    m.output("r0", m.add(x, m.broadcast(sum, {4, 4}, {1})));
  })));
  CHECK(refused(of([](Maker& m, ValueId x) {  // once a row, where all threads of the row need it
    const ValueId row = m.reduce(Fn::add, m.input("y", {4, 4, 3}), 4);
    m.output("r0", m.add(x, row));
  })));
  CHECK(refused(of([](Maker& m, ValueId x) {  // rows of one element: whose is it?
    m.output("r0", m.add(m.reshape(m.reduce(Fn::add, m.reshape(x, {16, 1}), 2), {4, 4}), x));
  })));
  CHECK(refused(of([](Maker& m, ValueId x) {  // written where the transposed element is computed
    m.output("r1", m.map(Fn::exp, {x}));
    m.output("r0", m.transpose(m.map(Fn::exp, {m.input("y", {4, 4})}), {1, 0}));
  })));
  CHECK(refused(of([](Maker& m, ValueId x) {  // a product's tiles do not walk so
    m.output("r1", m.add(m.dot(m.input("a", {4, 4}), m.input("b", {4, 4})), x));
    m.output("r0", m.map(Fn::exp, {m.input("y", {4, 4})}));
  })));
  CHECK(refused(of([](Maker& m, ValueId x) { m.output("r0", m.dot(x, m.input("b", {4, 4}))); })));
  CHECK(of([](Maker& m, ValueId x) { m.output("r0", m.cast(x, DType::i32)); }).empty());
  CHECK(of([](Maker& m, ValueId x) {
          m.output("r0", m.cast(x, DType::i64));
        }).find("cannot have out 'r0' i64[4,4] in place of in 'x' f32[4,4]") != std::string::npos);
  CHECK(of([](Maker& m, ValueId x) { m.output("r0", m.slice(x, 0, 0, 2)); }).find("cannot have") !=
        std::string::npos);
}

TEST_CASE("arguments in place are on the very same bytes, in the same part") {
  Writer w;
  const uint32_t a = w.tensor(), b = w.tensor();
  w.body(0);
  w.node({0}, a);
  w.node({a}, b);
  w.edge(0, 1);
  w.p.buffers[b].offset = w.p.buffers[a].offset;
  CHECK(complaints(w.p) == "node 1 (k1) writes argument 1 over argument 0\n");
  w.p.kernels[1].in_place = {{1, 0}};
  CHECK(complaints(w.p).empty());
  w.p.kernels[1].in_place = {{0, 1}};
  CHECK(complains(w.p, "cannot have in 'a0'"));

  // Two parts: each may be over its own input, not over the other's.
  const auto parts = [&](bool crossed) {
    Writer t;
    const uint32_t c = t.tensor(), d = t.tensor(), e = t.tensor(), f = t.tensor();
    t.body(0, 2);
    t.node({0}, c, 0);
    t.node({0}, d, 1);
    t.node({c}, e, 0);
    t.edge(0, 2);
    t.edge(1, 2);
    Kernel& k = t.p.kernels[2];
    k.parts = k.launch.grid[1] = 2;
    k.in_place = {{1, 0}};
    k.args.insert(k.args.end(), {k.args[0], k.args[1]});
    Node& n = t.p.bodies[0].nodes[2];
    n.args = n.values = {c, e, d, f};
    n.values_before.assign(4, UINT32_MAX);
    t.p.buffers[e].offset = t.p.buffers[crossed ? d : c].offset;
    t.p.buffers[f].offset = t.p.buffers[crossed ? c : d].offset;
    return t.p;
  };
  CHECK_MESSAGE(complaints(parts(false)).empty(), complaints(parts(false)));
  CHECK(complains(parts(true), "over argument"));
  Program p = parts(false);
  p.kernels[2].args[2].name = "other";
  CHECK(complains(p, "argument 2 of kernel k2 is in 'other'"));
  p = parts(false);
  p.kernels[2].launch.grid[1] = 1;
  CHECK(complaints(p).empty());  // nothing is written yet
  p.modules.emplace_back();
  CHECK(complains(p, "kernel k2 computes 2 parts, but its grid has 1 along y"));
  p.kernels[2].parts = 1;
  CHECK(complains(p, "has 4 arguments, but its body needs 2 for each of 1 parts"));
}

TEST_CASE("views of one value show as many elements of one dtype") {
  Program p = sandwich();
  p.views.push_back(p.views[1]);
  p.views.back().type.shape = Shape{4, 4};
  p.views.back().strides = {4, 1};
  CHECK(complaints(p).empty());
  p.views.back().type.shape = Shape{4, 2};
  p.views.back().strides = {2, 1};
  CHECK(complains(p, "shows value 1 as f32[4,2], view 1 as f32[16]"));
}

TEST_CASE("files made to keep the checker busy do not") {
  constexpr uint32_t kMany = 30'000;
  Writer w;
  w.body(0);
  for (uint32_t i = 0; i < kMany; ++i) {
    w.node({}, w.tensor());
    if (i > 0) w.edge(i - 1, i);
  }
  // One view over all that they write, which holds no value of its own.
  const auto whole = static_cast<uint32_t>(w.p.buffers.size());
  const TensorType type{DType::f32, Shape{Dim(w.p.arena_bytes / 4)}};
  w.p.buffers.push_back({"whole", Segment::temp, type, w.p.arena_bytes, 0});
  w.p.views.push_back({whole, 0, type, {1}, whole});
  Program bodies = w.p;
  for (uint32_t i = 1; i < kMany; ++i) {
    bodies.script.push_back({Step::Kind::launch, i});
    bodies.bodies.emplace_back();
  }
  CHECK(seconds([&] { check(bodies); }) < 5);

  // Small and large reads in turn: each of the large ones crosses every small one.
  Program reads = w.p;
  Call c;
  c.function = "f";
  for (uint32_t i = 0; i < kMany; ++i) {
    c.args.insert(c.args.end(), {whole, 1 + i});
    c.values.insert(c.values.end(), {whole, 1 + i});
  }
  reads.graphs = 1;
  reads.runs = 2;
  c.level = c.latest = 1;
  reads.calls.push_back(c);
  for (Kind k : {Kind::read, Kind::wait, Kind::call}) reads.script.push_back({k, 0});
  std::vector<std::string> found;
  CHECK(seconds([&] { found = check(reads); }) < 5);
  CHECK(found.size() >= 100);
  CHECK(found.size() < 300);

  // Constants all over each other.
  Program constants = w.p;
  constants.constants.resize(size_t{256} * kMany);
  for (uint32_t i = 0; i < kMany; ++i) {
    const auto b = static_cast<uint32_t>(constants.buffers.size());
    const int64_t bytes = i % 2 ? 64 : int64_t{256} * kMany;
    const TensorType t{DType::u8, Shape{Dim(bytes)}};
    constants.buffers.push_back(
        {"c", Segment::constant, t, bytes, i % 2 ? int64_t{256} * i : int64_t{0}});
    constants.views.push_back({b, 0, t, {1}, b});
  }
  CHECK(seconds([&] { check(constants); }) < 5);
}
