#include "frontend_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace braid::testing {

void build_mlp(Graph& g) {
  const Tensor x = g.input("x", {f32, {8, 24}});
  const Tensor h = relu(linear(g, "l1", x, 16));
  const Tensor left = linear(g, "left", h, 8);
  const Tensor right = tanh(linear(g, "right", h, 8));
  g.output("y", left * right);
  g.output("z", softmax(left) - right);
}

void build_attention(Graph& g) {
  const Tensor x = g.input("x", {f32, {6, 16}});
  const Tensor n = layer_norm(x, g.param("gamma", {f32, {16}}), g.param("beta", {f32, {16}}));
  const Tensor q = linear(g, "q", n, 16), k = linear(g, "k", n, 16), v = linear(g, "v", n, 16);
  const Tensor a = attention(q, k, v, {.heads = 2, .causal = true});
  g.output("y", x + linear(g, "o", a, 16));
}

void build_swap(Graph& g) {
  const Tensor p = g.param("p", {f32, {5, 40}}), q = g.param("q", {f32, {5, 40}});
  const Tensor old = g.read(p);
  g.output("before", p - q * g.input("x", {f32, {5, 40}}));
  g.assign(p, q);
  g.assign(q, old);
  g.output("after", sum(p * 2.0 - q));
}

void build_updates(Graph& g) {
  const Tensor cache = g.param("cache", {f32, {7, 16}});
  const Tensor at = g.param("at", {i32, {}}, {.init = ir::Init::zeros});
  const Tensor x = g.input("x", {f32, {1, 16}});
  g.output("before", max(cache));
  g.update(cache, linear(g, "row", x, 16), {at, 0.0});
  g.output("between", matmul(x, cache, {.tb = true}));
  g.update(cache, exp(x), {at + 1.0, 0.0});
  g.assign(at, at + 1.0);
  g.output("after", mean(cache, {.axes = {0}}));
}

void build_softmax(Graph& g) {
  const Tensor x = g.input("x", {f32, {9, 33}});
  g.output("y", softmax(x * 1.5) + softmax(x, 0));
}

namespace {

struct Access {
  uint32_t buffer;
  int64_t space, low, high;  // bytes; the arena is one space, other buffers are each their own
  bool write, read;
};

std::vector<Access> accesses_of(const Program& p, const Node& node) {
  std::vector<Access> out;
  for (size_t a = 0; a < node.args.size(); ++a) {
    const View& v = p.views[node.args[a]];
    const Buffer& b = p.buffers[v.buffer];
    const Role role = p.kernels[node.kernel].args[a].role;
    const int64_t space = b.segment == Segment::temp ? -1 : int64_t{v.buffer};
    const int64_t low = b.offset + v.offset;
    out.push_back(
        {v.buffer, space, low, low + v.type.bytes(), role != Role::in, role != Role::out});
  }
  return out;
}

/// The edge that two nodes in this order need, if any.
std::optional<Edge> needed_edge(const Program& p, const Body& body, uint32_t from, uint32_t to) {
  std::optional<Edge> edge;
  for (const Access& a : accesses_of(p, body.nodes[from])) {
    for (const Access& b : accesses_of(p, body.nodes[to])) {
      if (a.space != b.space || a.low >= b.high || b.low >= a.high || (!a.write && !b.write)) {
        continue;
      }
      const EdgeReason reason = a.write && b.read ? EdgeReason::raw
                                : a.write         ? EdgeReason::waw
                                                  : EdgeReason::war;
      if (!edge || reason == EdgeReason::raw) edge = {from, to, EdgeKind::full, reason, b.buffer};
    }
  }
  return edge;
}

/// A lane whose last node the new one needs, else a new lane, else the one with the oldest end.
uint32_t choose_lane(const std::vector<uint32_t>& ends, const std::vector<bool>& needs,
                     uint32_t lanes) {
  for (uint32_t l = 0; l < ends.size(); ++l) {
    if (needs[ends[l]]) return l;
  }
  if (ends.size() < lanes) return static_cast<uint32_t>(ends.size());
  return static_cast<uint32_t>(std::min_element(ends.begin(), ends.end()) - ends.begin());
}

/// Without the edges that a path of others implies.
void reduce(Body& body) {
  const auto reach = reach_of(body);
  const std::vector<Edge> all = body.edges;
  std::erase_if(body.edges, [&](const Edge& e) {
    return std::any_of(all.begin(), all.end(), [&](const Edge& other) {
      return other.to == e.to && other.from != e.from && reach[other.from][e.from];
    });
  });
}

}  // namespace

Program spread(Program p, uint32_t lanes) {
  for (Body& body : p.bodies) {
    body.edges.clear();
    std::vector<uint32_t> ends, length(lanes, 0);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      std::vector<std::optional<Edge>> edges(n);
      std::vector<bool> needs(n);
      for (uint32_t from = 0; from < n; ++from) {
        edges[from] = needed_edge(p, body, from, n);
        needs[from] = edges[from].has_value();
      }
      const uint32_t lane = choose_lane(ends, needs, lanes);
      if (lane == ends.size()) {
        ends.push_back(n);
      } else if (const uint32_t last = std::exchange(ends[lane], n); !edges[last]) {
        edges[last] = {last, n, EdgeKind::full, EdgeReason::lane, UINT32_MAX};
      }
      body.nodes[n].lane = lane;
      body.nodes[n].position = length[lane]++;
      for (const auto& e : edges) {
        if (e) body.edges.push_back(*e);
      }
    }
    body.lanes = std::max<uint32_t>(1, static_cast<uint32_t>(ends.size()));
    reduce(body);
  }
  // What was asked for now: the checker looks.
  const std::string key = "streams=";
  const size_t at = p.options.find(key) + key.size();
  p.options.replace(at, p.options.find(' ', at) - at, std::to_string(kMaxStreams));
  return p;
}

namespace {

std::vector<Plan> compile_all() {
  struct Entry {
    const char* name;
    void (*build)(Graph&);
  };
  static constexpr Entry kGraphs[] = {{"mlp", build_mlp},
                                      {"attention", build_attention},
                                      {"swap", build_swap},
                                      {"updates", build_updates},
                                      {"softmax", build_softmax}};
  std::vector<Plan> all;
  for (const Entry& e : kGraphs) {
    for (const bool fuse : {true, false}) {
      for (const uint32_t lanes : {1u, 3u}) {
        Graph g(e.name);
        e.build(g);
        Options o;
        o.fuse = fuse;
        o.reuse = lanes == 1;
        o.streams = 1;  // the order as written: where nodes move, a softmax hides a wrong maximum
        Program p = spread(compile(g, o), lanes);
        const bool reuses = p.arena_bytes < p.temp_bytes_unshared;
        all.push_back({fmt::format("{}, {}, {} lanes", e.name, fuse ? "fused" : "unfused", lanes),
                       g.ir(), std::move(p), reuses});
      }
    }
  }
  return all;
}

}  // namespace

const std::vector<Plan>& plans() {
  static const std::vector<Plan> all = compile_all();
  return all;
}

std::vector<std::vector<bool>> reach_of(const Body& body) {
  const size_t n = body.nodes.size();
  std::vector<std::vector<bool>> reach(n, std::vector<bool>(n, false));
  for (size_t to = 0; to < n; ++to) {
    for (const Edge& e : body.edges) {
      if (e.to != to) continue;
      reach[to][e.from] = true;
      for (size_t a = 0; a < n; ++a) {
        if (reach[e.from][a]) reach[to][a] = true;
      }
    }
  }
  return reach;
}

}  // namespace braid::testing
