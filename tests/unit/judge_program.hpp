// What a Program may not do, decided from the definitions: by the closure of everything that must
// happen before something else, and by running the script on bytes that know whose they are.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan_help.hpp"

namespace braid::test {

struct Verdict {
  bool lanes = true;   // of every body are chains
  bool order = true;   // of every two accesses that conflict
  bool values = true;  // are what every reader expects, and the caller at the end
  bool apart = true;   // are the arguments of a node, but for what may be in place, and results
  bool good() const { return lanes && order && values && apart; }
};

/// Whether node `a` has ended before node `b` touches memory. Each node starts, goes on (once it
/// has waited, if its code does) and ends; an edge orders these moments.
inline Relation ended_before(const Program& p, const Body& body) {
  const size_t n = body.nodes.size();
  Relation moments(3 * n);
  const auto start = [](size_t v) { return 3 * v; };
  const auto go = [](size_t v) { return 3 * v + 1; };
  const auto end = [](size_t v) { return 3 * v + 2; };
  const auto waits = [&](size_t v) {
    const uint32_t k = body.nodes[v].kernel;
    return k != kNoKernel && p.kernels[k].waits;
  };
  for (size_t v = 0; v < n; ++v) {
    moments.set(start(v), go(v));
    moments.set(go(v), end(v));
    if (body.stream && v > 0) moments.set(end(v - 1), start(v));
  }
  for (const Edge& e : body.edges) {
    if (e.kind == EdgeKind::full) {
      moments.set(end(e.from), start(e.to));
    } else {
      moments.set(start(e.from), start(e.to));
      if (waits(e.to)) moments.set(end(e.from), go(e.to));
    }
  }
  const Relation closed = closure(moments);
  Relation ended(n);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      ended.set(a, b, closed(end(a), waits(b) ? go(b) : start(b)) || closed(end(a), start(b)));
    }
  }
  return ended;
}

/// Bytes that know which value they belong to and where in it they stand.
class KnownBytes {
 public:
  explicit KnownBytes(const Program& p) : p_(p) {
    for (const Binding& b : p.inputs) fill(b.buffer, b.value);
    for (const ParamBinding& b : p.params) fill(b.buffer, b.first_value);
    for (const ScalarBinding& b : p.scalars) fill(b.buffer, b.value);
    for (const View& v : p.views) {
      if (p.buffers[v.buffer].segment == Segment::constant) fill(v.buffer, v.value);
    }
  }
  bool read(uint32_t view, uint32_t value) const {
    const View& v = p_.views[view];
    if (p_.buffers[v.buffer].segment == Segment::mailbox) return true;  // it holds no values
    return are(v.buffer, v.offset, v.type.bytes(), value);
  }
  void write(uint32_t view, uint32_t value) {
    const View& v = p_.views[view];
    put(v.buffer, v.offset, v.type.bytes(), value);
  }
  bool at_the_end() const {
    const auto whole = [&](uint32_t b, uint32_t value) {
      return are(b, 0, p_.buffers[b].bytes, value);
    };
    for (const Binding& b : p_.outputs) {
      if (!whole(b.buffer, b.value)) return false;
    }
    for (const ParamBinding& b : p_.params) {
      if (!whole(b.buffer, b.last_value)) return false;
    }
    return true;
  }

 private:
  using Byte = std::pair<uint32_t, int64_t>;
  void fill(uint32_t buffer, uint32_t value) { put(buffer, 0, p_.buffers[buffer].bytes, value); }
  std::pair<uint32_t, int64_t> base(uint32_t buffer) const {
    const Buffer& b = p_.buffers[buffer];
    return b.segment == Segment::temp ? std::pair(UINT32_MAX, b.offset)
                                      : std::pair(buffer, int64_t{0});
  }
  void put(uint32_t buffer, int64_t offset, int64_t bytes, uint32_t value) {
    const auto [space, lo] = base(buffer);
    std::vector<Byte>& s = spaces_[space];
    const auto end = static_cast<size_t>(lo + offset + bytes);
    if (s.size() < end) s.resize(end, {UINT32_MAX, 0});
    for (int64_t i = 0; i < bytes; ++i) s[static_cast<size_t>(lo + offset + i)] = {value, i};
  }
  bool are(uint32_t buffer, int64_t offset, int64_t bytes, uint32_t value) const {
    const auto [space, lo] = base(buffer);
    const auto it = spaces_.find(space);
    for (int64_t i = 0; i < bytes; ++i) {
      const auto at = static_cast<size_t>(lo + offset + i);
      if (it == spaces_.end() || at >= it->second.size()) return false;
      if (it->second[at] != Byte{value, i} || value == UINT32_MAX) return false;
    }
    return true;
  }

  const Program& p_;
  std::map<uint32_t, std::vector<Byte>> spaces_;
};

/// The bytes of one argument.
inline Touch touch_of(const Program& p, uint32_t view, bool write) {
  const View& v = p.views[view];
  const Buffer& b = p.buffers[v.buffer];
  const bool arena = b.segment == Segment::temp;
  const int64_t lo = v.offset + (arena ? b.offset : 0);
  return {arena ? int64_t{-1} : int64_t{v.buffer}, lo, lo + v.type.bytes(), write};
}

inline bool conflict(const Touch& a, const Touch& b) {
  return a.space == b.space && a.lo < b.hi && b.lo < a.hi && (a.write || b.write);
}

inline void judge_body(const Program& p, const Body& body, KnownBytes& bytes, Verdict& verdict) {
  const Relation ended = ended_before(p, body);
  std::vector<std::vector<Touch>> all;
  for (const Node& node : body.nodes) all.push_back(touches(p, node, true));
  for (size_t b = 0; b < all.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const Node &x = body.nodes[a], &y = body.nodes[b];
      if (x.lane == y.lane && !ended(a, b)) verdict.lanes = false;
      for (const Touch& s : all[a]) {
        for (const Touch& t : all[b]) {
          if (conflict(s, t) && !ended(a, b)) verdict.order = false;
        }
      }
    }
    const Node& node = body.nodes[b];
    const Kernel& k = p.kernels[node.kernel];
    const size_t slots = k.args.size() / k.parts;
    for (size_t s = 0; s < node.args.size(); ++s) {
      if (k.args[s].role == Role::in) continue;
      const Touch out = touch_of(p, node.args[s], true);
      for (size_t t = 0; t < node.args.size(); ++t) {
        const Touch in = touch_of(p, node.args[t], false);
        if (t == s || in.lo == in.hi || out.lo == out.hi || !conflict(out, in)) continue;
        bool allowed = false;
        for (const InPlace& i : k.in_place) {
          allowed = allowed || (s / slots == t / slots && i.out == s % slots && i.in == t % slots);
        }
        if (!allowed || in.lo != out.lo || in.hi != out.hi) verdict.apart = false;
      }
    }
    for (size_t s = 0; s < node.args.size(); ++s) {
      const Role role = k.args[s].role;
      if (role == Role::out) continue;
      const uint32_t expected = role == Role::in ? node.values[s] : node.values_before[s];
      if (!bytes.read(node.args[s], expected)) verdict.values = false;
    }
    for (size_t s = 0; s < node.args.size(); ++s) {
      if (k.args[s].role != Role::in) bytes.write(node.args[s], node.values[s]);
    }
  }
}

/// Judges order and values; every index must be in range and edges go forward.
inline Verdict judge(const Program& p) {
  Verdict verdict;
  KnownBytes bytes(p);
  for (const Step& step : p.script) {
    if (step.kind == Step::Kind::launch) judge_body(p, p.bodies[step.index], bytes, verdict);
    if (step.kind == Step::Kind::read) {
      const Call& c = p.calls[step.index];
      for (size_t i = 0; i < c.args.size(); ++i) {
        if (!bytes.read(c.args[i], c.values[i])) verdict.values = false;
      }
    }
    if (step.kind == Step::Kind::write) {
      const Call& c = p.calls[step.index];
      for (size_t i = 0; i < c.results.size(); ++i) {
        bytes.write(c.results[i], c.result_values[i]);
        for (size_t j = 0; j < i; ++j) {
          if (conflict(touch_of(p, c.results[i], true), touch_of(p, c.results[j], true))) {
            verdict.apart = false;
          }
        }
      }
    }
  }
  if (!bytes.at_the_end()) verdict.values = false;
  return verdict;
}

}  // namespace braid::test
