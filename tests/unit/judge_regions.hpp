// What a Program with regions may not do, decided by running it: every way through its branches and
// loops on bytes that know who wrote them, beside the same run by the names of values alone.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "judge_program.hpp"

namespace braid::test {

class RegionJudge {
 public:
  explicit RegionJudge(const Program& p) : p_(p), reach_(p.bodies.size()) {
    for (size_t b = p.bodies.size(); b-- > 0;) reach_[b] = touched(p.bodies[b]);
    for (const Body& body : p.bodies) order(body);
    for (uint32_t r = 0; r < p.regions.size(); ++r) {
      apart(p.regions[r]);
      if (p.regions[r].kind != Region::Kind::predicate) continue;
      for (const Region::State& s : p.regions[r].states) made_by_[s.after] = {r, &s};
    }
  }

  /// One way through, with random choices.
  void run(std::mt19937& random) {
    random_ = &random;
    bytes_.clear();
    taken_.clear();
    Names names;
    const auto hold = [&](uint32_t buffer, uint32_t value) {
      names[value] = ++newest_;
      write(whole(buffer), newest_);
    };
    for (const Binding& b : p_.inputs) hold(b.buffer, b.value);
    for (const ParamBinding& b : p_.params) hold(b.buffer, b.first_value);
    for (const ScalarBinding& b : p_.scalars) hold(b.buffer, b.value);
    for (const View& v : p_.views) {
      if (p_.buffers[v.buffer].segment != Segment::constant) continue;
      constants_[v.value] = ++newest_;
      write(whole(v.buffer), newest_);
    }
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].segment != Segment::ring) continue;
      ring_ = ++newest_;
      write(whole(b), newest_);
    }
    script(p_.script, names);
    for (const Binding& b : p_.outputs) expect(whole(b.buffer), names, b.value);
    for (const ParamBinding& b : p_.params) expect(whole(b.buffer), names, b.last_value);
  }

  const Verdict& verdict() const { return verdict_; }

 private:
  using Names = std::map<uint32_t, uint64_t>;  // value -> who made it in this run
  struct Access {
    Touch touch;
    uint32_t region = UINT32_MAX, side = 0;  // of a guarded node
  };

  Touch whole(uint32_t buffer) const {
    const Buffer& b = p_.buffers[buffer];
    const bool arena = b.segment == Segment::temp;
    return {arena ? int64_t{-1} : int64_t{buffer}, arena ? b.offset : 0,
            (arena ? b.offset : 0) + b.bytes, true};
  }

  // ---- order

  std::vector<Access> touched(const Node& n) const {
    std::vector<Access> all;
    if (n.kernel == kNoKernel) {
      const Region& r = p_.regions[n.region];
      for (uint32_t b : r.bodies) all.insert(all.end(), reach_[b].begin(), reach_[b].end());
      for (Access& a : all) a.region = UINT32_MAX;
      all.push_back({touch_of(p_, r.flag, false)});
      return all;
    }
    const Kernel& k = p_.kernels[n.kernel];
    for (size_t s = 0; s < n.args.size(); ++s) {
      const bool asks = k.guard && s + 1 == n.args.size();
      const Access a{touch_of(p_, n.args[s], k.args[s].role != Role::in),
                     k.guard && !asks ? n.region : UINT32_MAX, n.branch};
      if (a.touch.lo < a.touch.hi) all.push_back(a);
    }
    return all;
  }
  std::vector<Access> touched(const Body& body) const {
    std::vector<Access> all;
    for (const Node& n : body.nodes) {
      const std::vector<Access> more = touched(n);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  void order(const Body& body) {
    const Relation ended = ended_before(p_, body);
    std::vector<std::vector<Access>> all;
    for (const Node& n : body.nodes) all.push_back(touched(n));
    for (size_t b = 0; b < all.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        if (ended(a, b)) continue;
        if (body.nodes[a].lane == body.nodes[b].lane) verdict_.lanes = false;
        for (const Access& x : all[a]) {
          for (const Access& y : all[b]) {
            const bool either = x.region != UINT32_MAX && x.region == y.region && x.side != y.side;
            if (!either && conflict(x.touch, y.touch)) verdict_.order = false;
          }
        }
      }
      if (body.nodes[b].kernel != kNoKernel) apart(body.nodes[b]);
    }
  }

  void apart(const Node& node) {
    const Kernel& k = p_.kernels[node.kernel];
    const size_t slots = (k.args.size() - extra_arguments(k)) / k.parts;
    for (size_t s = 0; s < node.args.size(); ++s) {
      if (k.args[s].role == Role::in) continue;
      const Touch out = touch_of(p_, node.args[s], true);
      for (size_t t = 0; t < node.args.size(); ++t) {
        const Touch in = touch_of(p_, node.args[t], false);
        if (t == s || in.lo == in.hi || out.lo == out.hi || !conflict(out, in)) continue;
        bool allowed = false;
        for (const InPlace& i : k.in_place) {
          allowed = allowed || (s / slots == t / slots && i.out == s % slots && i.in == t % slots);
        }
        if (!allowed || in.lo != out.lo || in.hi != out.hi) verdict_.apart = false;
      }
    }
  }

  /// What a region says that it uses, it uses for all of its time.
  void apart(const Region& r) {
    for (size_t s = 0; s < r.args.size(); ++s) {
      const Touch out = touch_of(p_, r.args[s], true);
      for (size_t t = 0; t < r.args.size() && r.slots[s].role != Role::in; ++t) {
        const Touch other = touch_of(p_, r.args[t], false);
        if (s != t && out.lo < out.hi && other.lo < other.hi && conflict(out, other)) {
          verdict_.apart = false;
        }
      }
    }
  }

  // ---- values

  /// By the names: who made the value that `v` stands for, or 0.
  uint64_t maker(const Names& names, uint32_t v) const {
    const auto constant = constants_.find(v);
    if (constant != constants_.end()) return constant->second;
    const auto it = names.find(v);
    if (it != names.end()) return it->second;
    const auto made = made_by_.find(v);
    if (made == made_by_.end()) return 0;
    const auto side = taken_.find(made->second.first);
    return side == taken_.end() ? 0 : maker(names, made->second.second->exit[side->second]);
  }

  void write(const Touch& t, uint64_t who) {
    std::vector<std::pair<uint64_t, int64_t>>& space = bytes_[t.space];
    if (space.size() < static_cast<size_t>(t.hi)) space.resize(static_cast<size_t>(t.hi));
    for (int64_t at = t.lo; at < t.hi; ++at) space[static_cast<size_t>(at)] = {who, at - t.lo};
  }
  bool are(const Touch& t, uint64_t who) const {
    if (t.lo == t.hi) return true;
    const auto it = bytes_.find(t.space);
    if (who == 0 || it == bytes_.end() || it->second.size() < static_cast<size_t>(t.hi))
      return false;
    for (int64_t at = t.lo; at < t.hi; ++at) {
      if (it->second[static_cast<size_t>(at)] != std::pair(who, at - t.lo)) return false;
    }
    return true;
  }
  void expect(const Touch& t, Names& names, uint32_t value) {
    uint64_t who = maker(names, value);
    if (who == 0 && ring_ != 0 && are(t, ring_)) names[value] = who = std::exchange(ring_, 0);
    if (!are(t, who)) verdict_.values = false;
  }

  void node(const Node& n, Names& names) {
    const Kernel& k = p_.kernels[n.kernel];
    if (k.guard) {
      const size_t last = n.args.size() - 1;
      expect(touch_of(p_, n.args[last], false), names, n.values[last]);
      if (std::cmp_not_equal(taken_.at(n.region), *k.guard)) return;
    }
    for (size_t s = 0; s < n.args.size(); ++s) {
      if (k.args[s].role == Role::out) continue;
      expect(touch_of(p_, n.args[s], false), names,
             k.args[s].role == Role::in ? n.values[s] : n.values_before[s]);
    }
    for (size_t s = 0; s < n.args.size(); ++s) {
      if (k.args[s].role == Role::in) continue;
      names[n.values[s]] = ++newest_;
      write(touch_of(p_, n.args[s], true), newest_);
    }
  }

  uint32_t below(size_t n) { return static_cast<uint32_t>((*random_)() % n); }

  void body(uint32_t b, Names& names) {
    for (const Node& n : p_.bodies[b].nodes) {
      if (n.kernel == kNoKernel) {
        // Nobody has set it yet.
        write(whole(p_.views[p_.regions[n.region].flag].buffer), 0);
      } else if (n.region != UINT32_MAX) {
        taken_[n.region] = below(p_.regions[n.region].sides);
      }
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      const Region& region = p_.regions[r];
      const bool here = region.kind == Region::Kind::predicate &&
                        region.region == p_.bodies[b].region &&
                        region.branch == p_.bodies[b].branch;
      if (here && !taken_.contains(r)) taken_[r] = below(region.sides);
    }
    for (const Node& n : p_.bodies[b].nodes) {
      if (n.kernel == kNoKernel) {
        region(n.region, names);
      } else {
        node(n, names);
      }
    }
  }

  void script(const std::vector<Step>& steps, Names& names) {
    for (const Step& s : steps) {
      if (s.kind == Step::Kind::launch) body(s.index, names);
      if (s.kind == Step::Kind::region) region(s.index, names);
      if (s.kind == Step::Kind::read) {
        const Call& c = p_.calls[s.index];
        for (size_t i = 0; i < c.args.size(); ++i) {
          expect(touch_of(p_, c.args[i], false), names, c.values[i]);
        }
      }
      if (s.kind == Step::Kind::write) {
        const Call& c = p_.calls[s.index];
        for (size_t i = 0; i < c.results.size(); ++i) {
          names[c.result_values[i]] = ++newest_;
          write(touch_of(p_, c.results[i], true), newest_);
        }
      }
    }
  }

  void region(uint32_t index, Names& names) {
    const Region& r = p_.regions[index];
    for (size_t s = 0; s < r.args.size(); ++s) {
      if (r.slots[s].role == Role::out) continue;
      expect(touch_of(p_, r.args[s], false), names,
             r.slots[s].role == Role::in ? r.values[s] : r.values_before[s]);
    }
    std::vector<uint64_t> now;
    for (const Region::State& s : r.states) now.push_back(maker(names, s.before));
    const uint32_t side = below(r.sides);
    const Touch flag = touch_of(p_, r.flag, false);
    expect(flag, names, p_.views[r.flag].value);
    for (uint32_t turns = r.loop ? below(3) : 1; turns > 0; --turns) {
      // What a side made is not known to others, nor to the next iteration.
      Names inside = names;
      for (size_t k = 0; k < r.states.size(); ++k) {
        if (now[k] != 0) inside[r.states[k].entry[side]] = now[k];
      }
      if (r.slab != UINT32_MAX) write(whole(r.slab), 0);
      if (r.kind == Region::Kind::node) {
        body(r.bodies[side], inside);
      } else {
        script(r.scripts[side], inside);
      }
      if (r.slab != UINT32_MAX) write(whole(r.slab), 0);
      for (size_t k = 0; k < r.states.size(); ++k) {
        now[k] = maker(inside, r.states[k].exit[side]);
        const Touch at = touch_of(p_, r.states[k].view, false);
        const uint32_t exit = r.states[k].exit[side];
        if (exit != UINT32_MAX && !are(at, now[k])) verdict_.values = false;
        // What decides must be made anew.
        const bool decides = r.loop && at.space == flag.space && at.lo == flag.lo;
        if (decides && exit == r.states[k].entry[side]) verdict_.values = false;
      }
    }
    for (size_t k = 0; k < r.states.size(); ++k) {
      if (now[k] != 0) names[r.states[k].after] = now[k];
    }
  }

  const Program& p_;
  std::vector<std::vector<Access>> reach_;  // by body
  Verdict verdict_;
  std::mt19937* random_ = nullptr;
  uint64_t newest_ = 0, ring_ = 0;
  std::map<int64_t, std::vector<std::pair<uint64_t, int64_t>>> bytes_;
  std::map<uint32_t, uint64_t> constants_;
  std::map<uint32_t, uint32_t> taken_;  // by predicate region, of the body that runs
  std::map<uint32_t, std::pair<uint32_t, const Region::State*>> made_by_;
};

/// Judges at most `runs` ways through. Every index must be in range and edges go forward.
inline Verdict judge_regions(const Program& p, std::mt19937& random, int runs) {
  RegionJudge judge(p);
  for (int i = 0; i < runs && judge.verdict().good(); ++i) judge.run(random);
  return judge.verdict();
}

}  // namespace braid::test
