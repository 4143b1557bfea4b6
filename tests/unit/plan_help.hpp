// Programs made by hand, down to buffers and nodes, and orders decided from the definition.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ir/program.hpp"

namespace braid::test {

/// A Program of one body, or several. Kernels are roles alone: their bodies are empty.
struct PlanMaker {
  Program p;
  PlanMaker() {
    p.bodies.emplace_back();
    p.script.push_back({Step::Kind::launch, 0});
  }
  Body& body() { return p.bodies.back(); }
  /// What follows is of a further body, launched after the one before.
  void next_body() {
    p.script.push_back({Step::Kind::launch, static_cast<uint32_t>(p.bodies.size())});
    p.bodies.emplace_back();
    lengths_.clear();
  }

  uint32_t buffer(Segment segment, int64_t bytes, int64_t offset = 0) {
    const auto b = static_cast<uint32_t>(p.buffers.size());
    const TensorType type{DType::u8, Shape::of(std::vector<int64_t>{bytes})};
    p.buffers.push_back({"b" + std::to_string(b), segment, type, bytes, offset});
    p.views.push_back({b, 0, type, {1}, b});
    return b;
  }
  uint32_t temp(int64_t bytes, int64_t offset = 0) { return buffer(Segment::temp, bytes, offset); }

  struct Use {
    uint32_t buffer;
    Role role;
  };
  uint32_t node(const std::vector<Use>& uses, uint32_t lane = 0) {
    Kernel k;
    Node n;
    for (const Use& u : uses) {
      k.args.push_back({"", u.role, p.buffers[u.buffer].type});
      n.args.push_back(u.buffer);  // each buffer's only view
    }
    n.kernel = static_cast<uint32_t>(p.kernels.size());
    n.lane = lane;
    lengths_.resize(std::max(lengths_.size(), size_t{lane} + 1), 0);
    n.position = lengths_[lane]++;
    body().lanes = static_cast<uint32_t>(lengths_.size());
    p.kernels.push_back(std::move(k));
    body().nodes.push_back(std::move(n));
    return static_cast<uint32_t>(body().nodes.size() - 1);
  }

 private:
  std::vector<uint32_t> lengths_;  // of the lanes
};

/// One access of a node, in bytes of an address space.
struct Touch {
  int64_t space, lo, hi;
  bool write;
};

/// Temporaries lie in one space by their offsets, or each in its own.
inline std::vector<Touch> touches(const Program& p, const Node& n, bool by_offset) {
  std::vector<Touch> result;
  for (size_t s = 0; s < n.args.size(); ++s) {
    const View& v = p.views[n.args[s]];
    const Buffer& b = p.buffers[v.buffer];
    const bool arena = by_offset && b.segment == Segment::temp;
    const int64_t lo = v.offset + (arena ? b.offset : 0);
    const Touch t{arena ? int64_t{-1} : int64_t{v.buffer}, lo, lo + v.type.bytes(), false};
    if (t.lo == t.hi) continue;
    const Role role = slots_of(p, n)[s].role;
    if (role != Role::out) result.push_back(t);
    if (role != Role::in) result.push_back({t.space, t.lo, t.hi, true});
  }
  return result;
}

/// A relation between nodes, one bit a pair.
class Relation {
 public:
  explicit Relation(size_t n) : n_(n), words_((n + 63) / 64), bits_(n * words_, 0) {}
  size_t size() const { return n_; }
  bool operator()(size_t from, size_t to) const {
    return bits_[from * words_ + to / 64] >> (to % 64) & 1;
  }
  void set(size_t from, size_t to, bool on = true) {
    uint64_t& word = bits_[from * words_ + to / 64];
    const uint64_t bit = uint64_t{1} << (to % 64);
    word = on ? word | bit : word & ~bit;
  }
  /// Whatever `other` relates to, `from` does too.
  void include(size_t from, size_t other) {
    for (size_t w = 0; w < words_; ++w) bits_[from * words_ + w] |= bits_[other * words_ + w];
  }
  bool operator==(const Relation&) const = default;

 private:
  size_t n_, words_;
  std::vector<uint64_t> bits_;
};

/// Which pairs the launch order must keep: a conflict over bytes, or neighbours in a lane.
inline Relation must_order(const Program& p, const Body& body, bool by_offset) {
  const size_t n = body.nodes.size();
  Relation r(n);
  std::vector<std::vector<Touch>> all;
  for (const Node& node : body.nodes) all.push_back(touches(p, node, by_offset));
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      bool ordered = body.nodes[a].lane == body.nodes[b].lane &&
                     body.nodes[a].position + 1 == body.nodes[b].position;
      for (const Touch& x : all[a]) {
        for (const Touch& y : all[b]) {
          ordered =
              ordered || (x.space == y.space && x.lo < y.hi && y.lo < x.hi && (x.write || y.write));
        }
      }
      r.set(a, b, ordered);
    }
  }
  return r;
}

/// Edges go from lower to higher index.
inline Relation closure(Relation r) {
  for (size_t a = r.size(); a-- > 0;) {
    for (size_t b = a + 1; b < r.size(); ++b) {
      if (r(a, b)) r.include(a, b);
    }
  }
  return r;
}

/// From the definition: a pair is an edge iff nothing lies between.
inline Relation reduction(const Relation& closed) {
  Relation r(closed.size());
  for (size_t a = 0; a < r.size(); ++a) {
    for (size_t b = a + 1; b < r.size(); ++b) {
      bool edge = closed(a, b);
      for (size_t v = a + 1; v < b && edge; ++v) edge = !(closed(a, v) && closed(v, b));
      r.set(a, b, edge);
    }
  }
  return r;
}

/// The most nodes of which none reaches another: by Dilworth's theorem all nodes less a maximum
/// matching of nodes with later nodes that they reach.
inline size_t largest_antichain(const Relation& closed) {
  const size_t n = closed.size();
  std::vector<size_t> partner(n, n);
  size_t matched = 0;
  for (size_t a = 0; a < n; ++a) {
    std::vector<bool> tried(n, false);
    const std::function<bool(size_t)> augment = [&](size_t from) {
      for (size_t to = 0; to < n; ++to) {
        if (!closed(from, to) || tried[to]) continue;
        tried[to] = true;
        if (partner[to] == n || augment(partner[to])) {
          partner[to] = from;
          return true;
        }
      }
      return false;
    };
    matched += augment(a);
  }
  return n - matched;
}

inline Relation edges_of(const Body& body) {
  Relation r(body.nodes.size());
  for (const Edge& e : body.edges) r.set(e.from, e.to);
  return r;
}

/// `nodes` nodes over `lanes` lanes: each fills one to three temporaries, reads some of the last
/// `window` of them, and now and then an input or a param, which some write.
inline PlanMaker random_plan(std::mt19937& random, uint32_t nodes, uint32_t lanes,
                             uint32_t window = 12) {
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  PlanMaker m;
  std::vector<uint32_t> params, temps;
  const uint32_t input = m.buffer(Segment::input, 64);
  for (int i = 0; i < 3; ++i) params.push_back(m.buffer(Segment::param, 128));
  for (uint32_t n = 0; n < nodes; ++n) {
    std::vector<PlanMaker::Use> uses;
    const auto use = [&](uint32_t buffer, Role role) {
      for (const auto& u : uses) {
        if (u.buffer == buffer) return;
      }
      uses.push_back({buffer, role});
    };
    for (uint32_t i = below(4); i > 0 && !temps.empty(); --i) {
      use(temps[temps.size() - 1 - below(std::min<size_t>(temps.size(), window))], Role::in);
    }
    if (below(6) == 0) use(input, Role::in);
    if (below(5) == 0) use(params[below(params.size())], Role::in);
    if (below(9) == 0) use(params[below(params.size())], below(2) ? Role::out : Role::inout);
    for (uint32_t i = 1 + below(3); i > 0; --i) {
      const int64_t sizes[] = {0, 1, 255, 256, 257, 1000, 4096, 5000, 1 << below(16)};
      temps.push_back(m.temp(sizes[below(std::size(sizes))]));
      use(temps.back(), Role::out);
    }
    m.node(uses, below(lanes));
  }
  return m;
}

/// Lets some results lie on operands of as many bytes.
inline void allow_in_place(PlanMaker& m, std::mt19937& random) {
  for (Kernel& k : m.p.kernels) {
    for (uint32_t out = 0; out < k.args.size(); ++out) {
      for (uint32_t in = 0; in < k.args.size(); ++in) {
        const bool roles = k.args[out].role == Role::out && k.args[in].role == Role::in;
        if (roles && random() % 4 != 0) k.in_place.push_back({out, in});
      }
    }
  }
}

/// Cuts a Program's one body into several, with calls between that take and give temporaries.
inline void cut_into_script(PlanMaker& m, std::mt19937& random) {
  const Body whole = std::move(m.p.bodies[0]);
  m.p.bodies.assign(1, {});
  m.p.script = {{Step::Kind::launch, 0}};
  std::vector<uint32_t> lengths(whole.lanes, 0), made, given;
  for (const Node& node : whole.nodes) {
    if (!m.body().nodes.empty() && random() % 8 == 0) {
      Call call;
      for (uint32_t view : made) {
        if (random() % 6 == 0) call.args.push_back(view);
      }
      // What later nodes read: buffers that no node has filled are the calls' results.
      call.results.push_back(m.temp(256 * (1 + static_cast<int64_t>(random() % 8))));
      given.push_back(call.results[0]);
      const auto index = static_cast<uint32_t>(m.p.calls.size());
      m.p.calls.push_back(std::move(call));
      for (const auto kind :
           {Step::Kind::read, Step::Kind::wait, Step::Kind::call, Step::Kind::write}) {
        m.p.script.push_back({kind, index});
      }
      m.next_body();
      lengths.assign(whole.lanes, 0);
    }
    Node n = node;
    m.body().lanes = whole.lanes;
    n.position = lengths[n.lane]++;
    if (!given.empty() && random() % 5 == 0) {
      Kernel k = m.p.kernels[n.kernel];
      const uint32_t view = given[random() % given.size()];
      k.args.push_back({"", Role::in, m.p.views[view].type});
      n.args.push_back(view);
      n.kernel = static_cast<uint32_t>(m.p.kernels.size());
      m.p.kernels.push_back(std::move(k));
    }
    for (size_t s = 0; s < n.args.size(); ++s) {
      if (m.p.kernels[n.kernel].args[s].role == Role::out &&
          m.p.buffers[n.args[s]].segment == Segment::temp) {
        made.push_back(n.args[s]);
      }
    }
    m.body().nodes.push_back(std::move(n));
  }
}

}  // namespace braid::test
