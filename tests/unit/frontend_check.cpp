// Good plans with one thing made wrong: the checker must refuse each, and the simulator, which
// does not ask the checker, must notice what can be seen by running.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "frontend_plans.hpp"
#include "ir/interpret.hpp"
#include "passes/check.hpp"
#include "runtime/simulator.hpp"

using namespace braid;
using namespace braid::testing;

namespace {

bool accepted(const Program& p) { return check(p).empty(); }

/// The sentences of check() as one text, for messages.
std::string complaints(const Program& p) {
  std::string text;
  for (const std::string& s : check(p)) text += s + "\n";
  return text;
}

bool complains(const Program& p, std::string_view of) {
  return complaints(p).find(of) != std::string::npos;
}

/// Every body of every plan.
void for_each_body(const std::function<void(const Plan&, size_t)>& visit) {
  for (const Plan& plan : plans()) {
    INFO(plan.name);
    for (size_t b = 0; b < plan.program.bodies.size(); ++b) visit(plan, b);
  }
}

/// Tries a few orders; false as soon as a run fails, or gives other results than the interpreter.
bool runs_right(const Plan& plan, const Program& p, uint64_t orders = 3) {
  for (uint64_t seed = 1; seed <= orders; ++seed) {
    const auto simulator = runtime::make_simulator({.seed = seed, .report_races = true});
    const Device device = Device::on(simulator);
    Store store(device);
    store.declare(p, seed);
    std::map<std::string, HostTensor> inputs;
    ir::TensorMap wide, params;
    for (const Binding& b : p.inputs) {
      inputs[b.name] = random_tensor(p.buffers[b.buffer].type, seed + 40, b.name);
      wide[b.name] = widen(inputs[b.name]);
    }
    for (const ParamBinding& b : p.params) {
      if (is_float(p.buffers[b.buffer].type.dtype)) {  // biases must not be zeros
        store.set(b.name, random_tensor(p.buffers[b.buffer].type, seed + 50, b.name, 0.5));
      }
      params[b.name] = widen(store.get(b.name));
    }
    const ir::TensorMap expected = ir::interpret(plan.graph, wide, params);
    std::map<std::string, HostTensor> got;
    try {
      Executable e(p, store);
      got = e.run(inputs);
    } catch (const CudaError&) {
      return false;
    }
    const auto same = [](const HostTensor& a, const WideTensor& b) {
      return relative_error(a, b) <= (is_float(b.type.dtype) ? 1e-5 : 0.0);
    };
    for (const auto& [name, want] : expected) {
      if (!same(got.at(name), want)) return false;
    }
    for (const auto& [name, want] : params) {
      if (!same(store.get(name), want)) return false;
    }
  }
  return true;
}

/// The nodes that touch a buffer, in launch order.
std::map<uint32_t, std::vector<uint32_t>> users_of(const Program& p, const Body& body) {
  std::map<uint32_t, std::vector<uint32_t>> users;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    for (const uint32_t view : body.nodes[n].args) {
      auto& list = users[p.views[view].buffer];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
  }
  return users;
}

/// Whether the node's kernel may write buffer `to` on the bytes of buffer `from`.
bool writes_over(const Program& p, const Node& node, uint32_t to, uint32_t from) {
  const Kernel& k = p.kernels[node.kernel];
  if (p.buffers[to].bytes != p.buffers[from].bytes) return false;
  const size_t slots = k.args.size() / k.parts;
  for (size_t s = 0; s < node.args.size(); ++s) {
    for (size_t t = 0; t < node.args.size(); ++t) {
      if (p.views[node.args[s]].buffer != to || p.views[node.args[t]].buffer != from) continue;
      const bool allowed = s / slots == t / slots &&
                           std::any_of(k.in_place.begin(), k.in_place.end(), [&](const InPlace& i) {
                             return i.out == s % slots && i.in == t % slots;
                           });
      if (!allowed) return false;
    }
  }
  return true;
}

struct Overlap {
  Program program;
  std::string what;
  bool live_together;
  bool in_one_node;  // some node touches both
};

/// Whether some node may write one of the two in place of the other.
bool in_place(const Program& p, const Body& body, uint32_t a, uint32_t b) {
  for (const Node& node : body.nodes) {
    const auto is = [&](uint32_t slot, uint32_t buffer) {
      return p.views[node.args[slot]].buffer == buffer;
    };
    for (const InPlace& i : in_place_of_parts(p.kernels[node.kernel])) {
      if ((is(i.out, a) && is(i.in, b)) || (is(i.out, b) && is(i.in, a))) return true;
    }
  }
  return false;
}

/// All pairs of temporaries, but those that a node may have in place of each other, moved to bytes
/// that nobody else has.
std::vector<Overlap> overlaps(const Program& p, const Body& body) {
  const auto reach = reach_of(body);
  const auto users = users_of(p, body);
  std::vector<uint32_t> temps;
  for (const auto& [buffer, nodes] : users) {
    if (p.buffers[buffer].segment == Segment::temp && p.buffers[buffer].bytes > 0) {
      temps.push_back(buffer);
    }
  }
  const auto all_before = [&](uint32_t a, uint32_t b) {
    for (const uint32_t x : users.at(a)) {
      for (const uint32_t y : users.at(b)) {
        if (!reach[y][x] && !(x == y && writes_over(p, body.nodes[x], b, a))) return false;
      }
    }
    return true;
  };
  std::vector<Overlap> out;
  for (size_t i = 0; i < temps.size(); ++i) {
    for (size_t j = i + 1; j < temps.size(); ++j) {
      const uint32_t a = temps[i], b = temps[j];
      if (in_place(p, body, a, b)) continue;
      Overlap o{p, fmt::format("{} and {}", p.buffers[a].name, p.buffers[b].name), false, false};
      const int64_t end = (p.arena_bytes + 255) / 256 * 256;
      o.program.buffers[a].offset = o.program.buffers[b].offset = end;
      o.program.arena_bytes = end + std::max(p.buffers[a].bytes, p.buffers[b].bytes);
      o.live_together = !all_before(a, b) && !all_before(b, a);
      const auto& of_a = users.at(a);
      o.in_one_node = std::any_of(of_a.begin(), of_a.end(), [&](uint32_t n) {
        const auto& of_b = users.at(b);
        return std::find(of_b.begin(), of_b.end(), n) != of_b.end();
      });
      out.push_back(std::move(o));
    }
  }
  return out;
}

/// Whether the kernel computes the same with two of its inputs exchanged, as x + y does.
bool symmetric(const Kernel& k, size_t s, size_t t) {
  if (k.args[s].role != Role::in || k.args[t].role != Role::in) return false;
  ir::TensorMap inputs, params;
  for (const ArgSlot& a : k.args) {
    const HostTensor value = random_tensor(a.type, 77, a.name);
    if (a.role == Role::in) inputs[a.name] = widen(value);
    if (a.role != Role::in) params[a.name] = widen(value);
  }
  ir::TensorMap other = inputs, params_of_other = params;
  std::swap(other[k.args[s].name], other[k.args[t].name]);
  const auto a = ir::interpret(k.body, inputs, params);
  const auto b = ir::interpret(k.body, other, params_of_other);
  const auto equal = [](const ir::TensorMap& x, const ir::TensorMap& y) {
    return std::all_of(x.begin(), x.end(), [&](const auto& e) {
      return relative_error(narrow(e.second), y.at(e.first)) <= 1e-6;
    });
  };
  return equal(a, b) && equal(params, params_of_other);
}

/// A result in place of an operand.
bool same_bytes(const Program& p, uint32_t view, uint32_t other) {
  const Buffer &a = p.buffers[p.views[view].buffer], &b = p.buffers[p.views[other].buffer];
  return a.segment == Segment::temp && b.segment == Segment::temp &&
         a.offset + p.views[view].offset == b.offset + p.views[other].offset;
}

/// Calls `visit` for every pair of arguments of one node that could be exchanged by mistake.
void for_each_swap(const Program& p, const Body& body,
                   const std::function<void(size_t, size_t, size_t)>& visit) {
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    const std::vector<ArgSlot>& slots = p.kernels[body.nodes[n].kernel].args;
    for (size_t s = 0; s < slots.size(); ++s) {
      for (size_t t = s + 1; t < slots.size(); ++t) {
        const bool same_view = body.nodes[n].args[s] == body.nodes[n].args[t];
        if (slots[s].type == slots[t].type && slots[s].type.bytes() > 0 && !same_view) {
          visit(n, s, t);
        }
      }
    }
  }
}

/// The work of two nodes exchanged; lanes, positions and edges stay.
void exchange_work(Body& body, uint32_t a, uint32_t b) {
  Node& x = body.nodes[a];
  Node& y = body.nodes[b];
  std::swap(x.kernel, y.kernel);
  std::swap(x.args, y.args);
  std::swap(x.values, y.values);
  std::swap(x.values_before, y.values_before);
}

}  // namespace

TEST_CASE("good plans are accepted, and run right under many orders") {
  bool lanes = false, reuse = false;
  for (const Plan& plan : plans()) {
    INFO(plan.name);
    CHECK_MESSAGE(accepted(plan.program), complaints(plan.program));
    CHECK(runs_right(plan, plan.program, 6));
    lanes = lanes || plan.program.bodies.at(0).lanes > 1;
    reuse = reuse || plan.reuses;
  }
  CHECK(lanes);  // else the mutations below would show little
  CHECK(reuse);
}

TEST_CASE("every edge is needed: the checker refuses each plan without one") {
  int edges = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (size_t i = 0; i < plan.program.bodies[b].edges.size(); ++i) {
      Program p = plan.program;
      const Edge edge = p.bodies[b].edges[i];
      p.bodies[b].edges.erase(p.bodies[b].edges.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK_MESSAGE(!accepted(p), plan.name, ": ", edge.from, " -> ", edge.to);
      ++edges;
    }
  });
  CHECK(edges > 50);
}

TEST_CASE("a missing edge between conflicting nodes is a race on the simulator") {
  int edges = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (size_t i = 0; i < plan.program.bodies[b].edges.size(); ++i) {
      Program p = plan.program;
      const Edge edge = p.bodies[b].edges[i];
      if (edge.reason == EdgeReason::lane) continue;
      p.bodies[b].edges.erase(p.bodies[b].edges.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK_MESSAGE(!runs_right(plan, p), plan.name, ": ", edge.from, " -> ", edge.to);
      ++edges;
    }
  });
  CHECK(edges > 30);
}

TEST_CASE("temporaries may share bytes exactly if one is over before the other begins") {
  int together = 0, apart = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (const Overlap& o : overlaps(plan.program, plan.program.bodies[b])) {
      CHECK_MESSAGE(accepted(o.program) == !o.live_together, plan.name, ": ", o.what, "\n",
                    complaints(o.program));
      ++(o.live_together ? together : apart);
    }
  });
  CHECK(together > 50);
  CHECK(apart > 50);
}

TEST_CASE("live temporaries in the same bytes do not pass the simulator") {
  int together = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (const Overlap& o : overlaps(plan.program, plan.program.bodies[b])) {
      // One node that reads and writes the same bytes is right when it is run as a whole.
      if (!o.live_together || o.in_one_node) continue;
      if (o.what.find("reduce_max") != o.what.npos) continue;  // a softmax forgives a wrong one
      CHECK_MESSAGE(!runs_right(plan, o.program), plan.name, ": ", o.what);
      ++together;
    }
  });
  CHECK(together > 10);
}

TEST_CASE("exchanged arguments of one type are refused, and seen by running") {
  int swaps = 0, seen = 0, harmless = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for_each_swap(plan.program, plan.program.bodies[b], [&](size_t n, size_t s, size_t t) {
      Program p = plan.program;
      Node& node = p.bodies[b].nodes[n];
      std::swap(node.args[s], node.args[t]);
      INFO(plan.name, ": node ", n, ", arguments ", s, " and ", t);
      CHECK(!accepted(p));
      ++swaps;
      if (symmetric(p.kernels[node.kernel], s, t) || same_bytes(p, node.args[s], node.args[t])) {
        ++harmless;
      } else {
        CHECK(!runs_right(plan, p));
        ++seen;
      }
    });
  });
  CHECK(seen > 20);
  CHECK(harmless < swaps / 2);
}

TEST_CASE("a node before its input is refused, and seen by running") {
  int pairs = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (const Edge& edge : plan.program.bodies[b].edges) {
      if (edge.reason == EdgeReason::lane) continue;
      INFO(plan.name, ": ", edge.from, " -> ", edge.to);
      Program p = plan.program;
      exchange_work(p.bodies[b], edge.from, edge.to);
      CHECK(!accepted(p));
      // Of shared bytes an early read gives something, and a softmax forgives a wrong maximum.
      if (edge.reason == EdgeReason::raw && !plan.reuses) {
        CHECK(!runs_right(plan, p));
        ++pairs;
      }
      p = plan.program;  // or only the edge the other way round
      for (Edge& e : p.bodies[b].edges) {
        if (e.from == edge.from && e.to == edge.to) std::swap(e.from, e.to);
      }
      CHECK(!accepted(p));
    }
  });
  CHECK(pairs > 30);
}

TEST_CASE("lanes are chains of their length") {
  for_each_body([](const Plan& plan, size_t b) {
    const Body& good = plan.program.bodies[b];
    for (size_t n = 0; n < good.nodes.size(); ++n) {
      INFO(plan.name, ": node ", n);
      Program p = plan.program;
      Node& node = p.bodies[b].nodes[n];
      node.position += 1;  // a gap, or somebody's place
      CHECK(!accepted(p));
      for (size_t m = 0; m < n; ++m) {
        if (good.nodes[m].lane != node.lane) continue;
        node.position = good.nodes[m].position;
        CHECK(complains(p, "shares its place in lane"));
      }
      node.position = 0;
      node.lane = good.lanes;
      CHECK(complains(p, "is on lane"));
    }
  });
}

TEST_CASE("a plan has no more lanes than it may have streams") {
  Program p = plans()[0].program;
  p.bodies[0].lanes = kMaxStreams + 1;
  CHECK(complains(p, "lanes"));
}

TEST_CASE("launch shapes that no device takes are refused") {
  const Program& good = plans()[0].program;
  for (size_t k = 0; k < good.kernels.size(); ++k) {
    const auto refused = [&](const std::function<void(LaunchShape&)>& change) {
      Program p = good;
      change(p.kernels[k].launch);
      return !accepted(p);
    };
    for (size_t axis = 0; axis < 3; ++axis) {
      CHECK(refused([&](LaunchShape& l) { l.grid[axis] = 0; }));
      CHECK(refused([&](LaunchShape& l) { l.grid[axis] = 0x80000000; }));
      CHECK(refused([&](LaunchShape& l) { l.block[axis] = 0; }));
      CHECK(refused([&](LaunchShape& l) { l.block[axis] = 1025; }));
    }
    CHECK(refused([](LaunchShape& l) { l.grid[1] = 65536; }));
    CHECK(refused([](LaunchShape& l) { l.block = {1, 1, 65}; }));
    CHECK(refused([](LaunchShape& l) { l.block = {64, 64, 1}; }));
    // 2^64 + 32 threads, which a 64-bit product takes for 32.
    CHECK(refused([](LaunchShape& l) { l.block = {1824726041, 105305443, 96}; }));
    CHECK(refused([](LaunchShape& l) { l.shared_bytes = 1 << 20; }));
    Program p = good;
    p.kernels[k].launch.block = {2048, 1, 1};  // whatever the file claims of its target
    p.target.max_threads_per_block = 4096;
    CHECK(!accepted(p));
  }
}

TEST_CASE("bindings with exchanged or shared buffers are refused") {
  for (const Plan& plan : plans()) {
    INFO(plan.name);
    const Program& good = plan.program;
    for (size_t i = 0; i < good.outputs.size(); ++i) {
      for (size_t j = 0; j < good.outputs.size(); ++j) {
        if (i == j) continue;
        Program p = good;
        p.outputs[i].buffer = good.outputs[j].buffer;
        CHECK(!accepted(p));
        p.outputs[j].buffer = good.outputs[i].buffer;
        CHECK(!accepted(p));
      }
      Program p = good;
      p.outputs[i].buffer = good.inputs[0].buffer;
      CHECK(complains(p, "is not one"));
    }
    for (size_t i = 0; i + 1 < good.params.size(); ++i) {
      Program p = good;
      std::swap(p.params[i].buffer, p.params[i + 1].buffer);
      CHECK(!accepted(p));
    }
  }
}

TEST_CASE("a param that is written is marked so, and no other is") {
  for (const Plan& plan : plans()) {
    for (size_t i = 0; i < plan.program.params.size(); ++i) {
      Program p = plan.program;
      p.params[i].written = !p.params[i].written;
      INFO(plan.name, ": ", p.params[i].name);
      CHECK(!accepted(p));
    }
  }
}

TEST_CASE("views and buffers lie where they may") {
  for (const Plan& plan : plans()) {
    INFO(plan.name);
    const Program& good = plan.program;
    for (size_t v = 0; v < good.views.size(); ++v) {
      const int64_t bytes = good.buffers[good.views[v].buffer].bytes;
      for (const int64_t offset : {bytes, int64_t{4}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
        Program p = good;
        p.views[v].offset = offset;
        CHECK(!accepted(p));
      }
      Program p = good;
      p.views[v].buffer = static_cast<uint32_t>(good.buffers.size());
      CHECK(!accepted(p));
      p = good;
      p.views[v].strides.assign(p.views[v].strides.size(), 3);
      CHECK((p.views[v].strides == good.views[v].strides || !accepted(p)));
    }
    for (size_t b = 0; b < good.buffers.size(); ++b) {
      const bool temp = good.buffers[b].segment == Segment::temp;
      for (const int64_t offset : {int64_t{-256}, int64_t{1}, good.arena_bytes + 256, INT64_MAX}) {
        Program p = good;
        p.buffers[b].offset = offset;
        CHECK(!accepted(p));
      }
      Program p = good;
      p.buffers[b].bytes += 4;
      CHECK(!accepted(p));
      if (temp) {
        p = good;
        p.arena_bytes = good.buffers[b].offset + good.buffers[b].bytes - 1;
        CHECK(!accepted(p));
      }
    }
    Program p = good;
    p.arena_bytes = -1;
    CHECK(!accepted(p));
  }
}

TEST_CASE("a run that is left and entered again is refused") {
  int paths = 0;
  for_each_body([&](const Plan& plan, size_t b) {
    for (const Edge& out : plan.program.bodies[b].edges) {
      Program p = plan.program;
      p.bodies[b].nodes[out.from].level = p.bodies[b].nodes[out.to].level + 1;
      CHECK_MESSAGE(!accepted(p), plan.name, ": ", out.from, " -> ", out.to);
      ++paths;
    }
  });
  CHECK(paths > 50);
}

TEST_CASE("a programmatic edge orders only a kernel that waits") {
  for_each_body([](const Plan& plan, size_t b) {
    for (size_t i = 0; i < plan.program.bodies[b].edges.size(); ++i) {
      Program p = plan.program;
      p.bodies[b].edges[i].kind = EdgeKind::programmatic;
      Kernel& kernel = p.kernels[p.bodies[b].nodes[p.bodies[b].edges[i].to].kernel];
      INFO(plan.name, ": edge ", i);
      kernel.waits = false;
      CHECK(complains(p, "the kernel does not wait"));
      kernel.waits = true;
      CHECK(accepted(p));
    }
  });
}

TEST_CASE("an edge twice, or out of order, is refused") {
  for_each_body([](const Plan& plan, size_t b) {
    const auto& edges = plan.program.bodies[b].edges;
    for (size_t i = 0; i < edges.size(); ++i) {
      Program p = plan.program;
      p.bodies[b].edges.insert(p.bodies[b].edges.begin() + static_cast<std::ptrdiff_t>(i),
                               edges[i]);
      CHECK_MESSAGE(!accepted(p), plan.name, ": edge ", i);
      if (i == 0) continue;
      p = plan.program;
      std::swap(p.bodies[b].edges[i - 1], p.bodies[b].edges[i]);
      CHECK_MESSAGE(!accepted(p), plan.name, ": edge ", i);
    }
  });
}

TEST_CASE("a kernel that says less than its body is refused") {
  for (const Plan& plan : plans()) {
    for (size_t k = 0; k < plan.program.kernels.size(); ++k) {
      for (size_t a = 0; a < plan.program.kernels[k].args.size(); ++a) {
        INFO(plan.name, ": kernel ", k, ", argument ", a);
        Program p = plan.program;
        ArgSlot& slot = p.kernels[k].args[a];
        slot.role = slot.role == Role::in ? Role::out : Role::in;
        CHECK(!accepted(p));
        p = plan.program;
        p.kernels[k].args[a].name += "x";
        CHECK(!accepted(p));
        p = plan.program;
        p.kernels[k].args.erase(p.kernels[k].args.begin() + static_cast<std::ptrdiff_t>(a));
        CHECK(!accepted(p));
      }
      Program p = plan.program;
      p.kernels[k].module = static_cast<uint32_t>(p.modules.size());
      CHECK(!accepted(p));
    }
  }
}

TEST_CASE("a constant that a node writes is refused") {
  Graph g("constants");
  g.output("y",
           g.input("x", {f32, {3000}}) * g.constant(random_tensor({f32, {Dim(3000)}}, 3, "c")));
  Program p = compile(g);
  CHECK(accepted(p));
  bool found = false;
  for (Node& node : p.bodies[0].nodes) {
    for (size_t a = 0; a < node.args.size(); ++a) {
      Kernel& kernel = p.kernels[node.kernel];
      if (p.buffers[p.views[node.args[a]].buffer].segment != Segment::constant) continue;
      found = true;
      for (size_t o = 0; o < node.args.size(); ++o) {
        if (kernel.args[o].role == Role::out) node.args[o] = node.args[a];
      }
    }
  }
  REQUIRE(found);
  CHECK(complains(p, "writes the constant"));
}
