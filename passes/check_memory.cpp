// What the bytes hold, and who has touched them.
//
// A predicate region has no moment at which it is carried out: the nodes of its sides stand among
// all others. So what a guarded node writes holds for its side alone, over what the bytes held
// before, until somebody needs the value that the region leaves there (Region::State::after): then
// every side must have made what it should leave (exit), or left the bytes as they were if it
// should do nothing. From there on they hold that value whatever was chosen.
#include "passes/check_memory.hpp"

#include <algorithm>
#include <set>

namespace braid::checking {

Clock::Clock(const Program& p, const Body& body, Findings& out)
    : body_(body), counts_(body.nodes.size() * body.lanes, 0) {
  std::vector<uint32_t> length(body.lanes, 0);
  size_t edge = 0;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    const bool waits = node.kernel != kNoKernel && p.kernels[node.kernel].waits;
    for (; edge < body.edges.size() && body.edges[edge].to == n; ++edge) {
      const Edge& e = body.edges[edge];
      if (e.kind == EdgeKind::full || waits) follow(e.from, n);
    }
    if (body.stream && n > 0) follow(n - 1, n);
    uint32_t& next = length[node.lane];
    if (node.position != next) {
      out.add("{} is at position {} of lane {}, which holds {} nodes before it",
              node_name(p, body, n), node.position, node.lane, next);
    }
    if (before(n, node.lane) < next) {
      out.add("lane {} is not a chain: nothing orders {} after the node before it", node.lane,
              node_name(p, body, n));
    }
    ++next;
  }
}

void Clock::follow(uint32_t from, uint32_t to) {
  uint32_t* const t = &counts_[size_t{to} * body_.lanes];
  for (uint32_t l = 0; l < body_.lanes; ++l) t[l] = std::max(t[l], before(from, l));
  uint32_t& own = t[body_.nodes[from].lane];
  own = std::max(own, body_.nodes[from].position + 1);
}

// ---- accesses

uint32_t Accesses::unordered_writer(const Clock& clock, uint32_t node, Tag tag) const {
  const auto find = [&](const ByLane& writers) {
    for (const auto& [lane, w] : writers) {
      if (!clock.ordered(w, node)) return w;
    }
    return kNone;
  };
  if (const uint32_t w = find(writers_); w != kNone) return w;
  if (writing_ == kNone) return kNone;
  if (writing_ != tag.region) return find(written_);
  const auto& sides = guarded_.at(writing_);
  const auto own = sides.find(tag.side);
  return own == sides.end() ? kNone : find(own->second.writers);
}

uint32_t Accesses::unordered_reader(const Clock& clock, uint32_t node, Tag tag) const {
  const auto find = [&](const ByLane& readers) {
    for (const auto& [lane, r] : readers) {
      if (!clock.ordered(r, node)) return r;
    }
    return kNone;
  };
  if (const uint32_t r = find(readers_); r != kNone) return r;
  for (const auto& [region, sides] : guarded_) {
    if (region == tag.region) {
      const auto own = sides.find(tag.side);
      if (own == sides.end()) continue;
      if (const uint32_t r = find(own->second.readers); r != kNone) return r;
      continue;
    }
    for (const auto& [side, accesses] : sides) {
      if (const uint32_t r = find(accesses.readers); r != kNone) return r;
    }
  }
  return kNone;
}

void Accesses::fold(ByLane& into, const ByLane& from) {
  for (const auto& [lane, node] : from) {
    const auto [at, added] = into.emplace(lane, node);
    if (!added) at->second = std::max(at->second, node);
  }
}

void Accesses::read(uint32_t node, uint32_t lane, Tag tag) {
  ByLane& readers = tag.region == kNone ? readers_ : guarded_[tag.region][tag.side].readers;
  readers[lane] = node;
}

void Accesses::write(uint32_t node, uint32_t lane, Tag tag) {
  if (tag.region == kNone) {
    *this = {};
    writers_[lane] = node;
    return;
  }
  // All but the other sides of this region come before the node. Who comes after it comes after
  // them, but those sides must be compared with them still.
  for (const auto& [region, sides] : guarded_) {
    if (region == tag.region) continue;
    for (const auto& [side, accesses] : sides) {
      fold(writers_, accesses.writers);
      fold(readers_, accesses.readers);
    }
  }
  std::map<uint32_t, Side> own = std::move(guarded_[tag.region]);
  guarded_.clear();
  own[tag.side] = {{{lane, node}}, {}};
  guarded_[tag.region] = std::move(own);
  if (writing_ != tag.region) written_.clear();
  writing_ = tag.region;
  written_[lane] = node;
}

// ---- values

Facts::Facts(const Program& program) : p(program) {
  for (const Kernel& k : p.kernels) {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (const InPlace& i : k.in_place) pairs.emplace_back(i.out, i.in);
    std::sort(pairs.begin(), pairs.end());
    in_place.push_back(std::move(pairs));
  }
  for (uint32_t v = 0; v < p.views.size(); ++v) {
    const Buffer& b = p.buffers[p.views[v].buffer];
    if (b.segment != Segment::constant || b.bytes == 0) continue;
    constants[b.offset] = {.end = b.offset + b.bytes, .base = {p.views[v].value, b.offset}};
  }
  for (uint32_t r = 0; r < p.regions.size(); ++r) {
    const Region& region = p.regions[r];
    const bool predicate = region.kind == Region::Kind::predicate;
    if (region.kind == Region::Kind::node) handle_of[p.views[region.flag].buffer] = r;
    left.push_back(region.values);
    for (size_t s = 0; s < region.args.size(); ++s) {
      if (p.views[region.args[s]].buffer == region.slab) left[r][s] = kNone;
    }
    for (const Region::State& state : region.states) {
      const Range range = range_of(p, state.view);
      if (predicate) {
        by_after.try_emplace(state.after, r, &state);
        by_place.try_emplace({r, range.space, range.lo}, &state);
        continue;
      }
      // A loop may run no time, and a side leave what it does not write.
      const bool nothing = (region.loop && state.before == kNone) ||
                           std::count(state.exit.begin(), state.exit.end(), kNone) > 0;
      for (size_t s = 0; s < region.args.size() && nothing; ++s) {
        if (region.values[s] == state.after) left[r][s] = kNone;
      }
    }
  }
}

/// Splits so that [lo, hi) is covered by whole stretches; creates unwritten ones in the gaps.
void Memory::cover(Space& space, int64_t lo, int64_t hi) {
  const auto split = [&](int64_t at) {
    auto it = space.upper_bound(at);
    if (it == space.begin()) return;
    --it;
    if (it->first < at && at < it->second.end) {
      Stretch tail = it->second;
      it->second.end = at;
      space.emplace(at, std::move(tail));
    }
  };
  split(lo);
  split(hi);
  int64_t at = lo;
  for (auto it = space.lower_bound(lo); at < hi; ++it) {
    const int64_t next = it == space.end() || it->first >= hi ? hi : it->first;
    if (next > at) it = space.emplace(at, Stretch{.end = next}).first;
    at = it->second.end;
  }
}

/// Null where that depends on what another region does.
const Held* Memory::seen(const Stretch& s, Tag tag) const {
  if (s.region == kNone) return &s.base;
  if (s.region != tag.region) return nullptr;
  const auto own = s.sides.find(tag.side);
  return own == s.sides.end() ? &s.base : &own->second;
}

bool Memory::all_hold(const Range& r, const Held& held, Tag tag) const {
  const auto found = spaces_.find(r.space);
  if (r.space != kConstants && found == spaces_.end()) return false;
  const Space& space = r.space == kConstants ? facts_.constants : found->second;
  int64_t at = r.lo;
  auto it = space.upper_bound(r.lo);
  if (it != space.begin()) --it;
  for (; it != space.end() && at < r.hi; ++it) {
    const Held* const is = seen(it->second, tag);
    if (it->first > at || it->second.end <= at || !is || *is != held) return false;
    at = it->second.end;
  }
  return held.value != kNone && at >= r.hi;
}

uint32_t Memory::other_than(const Range& r, uint32_t value, Tag tag) {
  const auto found = spaces_.find(r.space);
  if (found == spaces_.end()) return kNone;
  for (auto it = found->second.lower_bound(r.lo); it != found->second.end() && it->first < r.hi;
       ++it) {
    const Held* const is = seen(it->second, tag);
    if (!is) return kNone;
    if (*is != Held{value, r.lo}) return is->value;
  }
  return kNone;
}

/// Gives the bytes what `region` leaves there, if all its sides have made it.
bool Memory::join(const Range& r, const Region::State& state, uint32_t region) {
  const auto found = spaces_.find(r.space);
  if (found == spaces_.end()) return false;
  cover(found->second, r.lo, r.hi);
  const auto begin = found->second.find(r.lo), end = found->second.lower_bound(r.hi);
  for (auto it = begin; it != end; ++it) {
    const Stretch& s = it->second;
    for (uint32_t side = 0; side < state.exit.size(); ++side) {
      const auto own = s.region == region ? s.sides.find(side) : s.sides.end();
      const Held& held = own == s.sides.end() ? s.base : own->second;
      if (held != Held{state.exit[side], r.lo} || held.value == kNone) return false;
    }
  }
  for (auto it = begin; it != end; ++it) {
    Stretch& s = it->second;
    s.base = {state.after, r.lo};
    if (s.region != region) continue;
    s.region = kNone;
    s.sides.clear();
  }
  return true;
}

bool Memory::holds(const Range& r, uint32_t value, Tag tag) {
  if (r.lo == r.hi || all_hold(r, {value, r.lo}, tag)) return true;
  // Values that regions made of each other, the newest first.
  std::vector<std::pair<uint32_t, const Region::State*>> made;
  std::set<uint32_t> passed;
  for (uint32_t v = value;;) {
    const auto it = facts_.by_after.find(v);
    if (it == facts_.by_after.end() || !passed.insert(v).second) return false;
    const auto [region, state] = it->second;
    if (range_of(facts_.p, state->view) != r) return false;
    made.push_back(it->second);
    if (join(r, *state, region)) break;
    v = state->before;
  }
  made.pop_back();
  for (; !made.empty(); made.pop_back()) {
    if (!join(r, *made.back().second, made.back().first)) return false;
  }
  return all_hold(r, {value, r.lo}, tag);
}

void Memory::put(const Range& r, uint32_t value, Tag tag) {
  if (r.lo == r.hi) return;
  if (tag.region != kNone) {
    // The other sides may need what other regions leave here.
    const auto state = facts_.by_place.find({tag.region, r.space, r.lo});
    if (state != facts_.by_place.end()) holds(r, state->second->before);
  }
  Space& space = spaces_[r.space];
  cover(space, r.lo, r.hi);
  const auto begin = space.find(r.lo), end = space.lower_bound(r.hi);
  if (tag.region == kNone) {
    Stretch first = std::move(begin->second);
    first.end = r.hi;
    first.base = {value, r.lo};
    first.region = kNone;
    first.sides.clear();
    space.erase(begin, end);
    space.emplace(r.lo, std::move(first));
    return;
  }
  for (auto it = begin; it != end; ++it) {
    Stretch& s = it->second;
    if (s.region != kNone && s.region != tag.region) {
      s.base = {};
      s.sides.clear();
    }
    s.region = tag.region;
    s.sides[tag.side] = {value, r.lo};
  }
}

}  // namespace braid::checking
