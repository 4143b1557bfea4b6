// How good plans are: against an exact search on small problems, and against the lower bound on
// graphs such as models have.
#include <doctest/doctest.h>

#include <limits>
#include <numeric>

#include "memory_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

struct Interval {
  uint32_t first, end;
  int64_t bytes;
};

/// The fewest bytes by trying all sequences, each interval at the lowest place that is free. Some
/// sequence gives an optimal plan: the one by its offsets.
class Exact {
 public:
  /// Only plans below `known` are looked for.
  Exact(const std::vector<Interval>& intervals, int64_t known)
      : intervals_(intervals), best_(known), offsets_(intervals.size(), -1) {
    search(0, 0);
  }
  int64_t bytes() const { return best_; }

 private:
  void search(size_t placed, int64_t arena) {
    if (arena >= best_) return;
    if (placed == intervals_.size()) {
      best_ = arena;
      return;
    }
    for (size_t i = 0; i < intervals_.size(); ++i) {
      if (offsets_[i] >= 0) continue;
      offsets_[i] = lowest(i);
      search(placed + 1, std::max(arena, offsets_[i] + intervals_[i].bytes));
      offsets_[i] = -1;
    }
  }
  int64_t lowest(size_t i) const {
    const Interval& t = intervals_[i];
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < intervals_.size(); ++j) {
        const Interval& o = intervals_[j];
        if (offsets_[j] < 0 || o.end < t.first || t.end < o.first) continue;
        if (offset < offsets_[j] + o.bytes && offsets_[j] < offset + t.bytes) {
          offset = offsets_[j] + o.bytes;
          moved = true;
        }
      }
    }
    return offset;
  }

  const std::vector<Interval>& intervals_;
  int64_t best_;
  std::vector<int64_t> offsets_;
};

/// One lane in which each interval's temporary is written at its first node and read at its last.
PlanMaker plan_of(const std::vector<Interval>& intervals, uint32_t nodes) {
  PlanMaker m;
  std::vector<uint32_t> temps;
  for (const Interval& i : intervals) temps.push_back(m.temp(i.bytes));
  for (uint32_t n = 0; n < nodes; ++n) {
    std::vector<PlanMaker::Use> uses;
    for (size_t i = 0; i < intervals.size(); ++i) {
      if (intervals[i].first == n) uses.push_back({temps[i], Role::out});
      if (intervals[i].end == n && intervals[i].first != n) uses.push_back({temps[i], Role::in});
    }
    m.node(uses);
  }
  return m;
}

/// A random series-parallel graph: every leaf is a node that reads what its predecessors make.
class SeriesParallel {
 public:
  SeriesParallel(std::mt19937& random, uint32_t leaves, uint32_t lanes)
      : random_(random), lanes_(lanes) {
    grow(leaves, {});
  }
  PlanMaker m;

 private:
  using Ends = std::vector<uint32_t>;  // nodes

  Ends grow(uint32_t leaves, const Ends& before) {
    if (leaves == 1) return {leaf(before)};
    const uint32_t left = 1 + below(leaves - 1);
    if (below(2) == 0) return grow(leaves - left, grow(left, before));
    Ends ends = grow(left, before);
    const Ends right = grow(leaves - left, before);
    ends.insert(ends.end(), right.begin(), right.end());
    return ends;
  }

  /// Behind a predecessor that ends its lane, else in the lane with the fewest nodes.
  uint32_t leaf(const Ends& before) {
    tails_.resize(lanes_, UINT32_MAX);
    lengths_.resize(lanes_, 0);
    auto lane = static_cast<uint32_t>(std::min_element(lengths_.begin(), lengths_.end()) -
                                      lengths_.begin());
    std::vector<PlanMaker::Use> uses;
    for (uint32_t b : before) {
      uses.push_back({made_[b], Role::in});
      for (uint32_t l = 0; l < lanes_; ++l) {
        if (tails_[l] == b) lane = l;
      }
    }
    made_.push_back(m.temp(256 * (1 + below(16))));
    uses.push_back({made_.back(), Role::out});
    ++lengths_[lane];
    return tails_[lane] = m.node(uses, lane);
  }

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::mt19937& random_;
  uint32_t lanes_;
  std::vector<uint32_t> made_, tails_, lengths_;  // by node; by lane
};

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

TEST_CASE("small plans of one lane are as small as an exact search makes them") {
  std::mt19937 random(40);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  // No plan of this one reaches its lower bound of 8.
  std::vector<Interval> intervals{{3, 5, 256},  {5, 8, 1024}, {2, 4, 512}, {0, 2, 1024},
                                  {1, 1, 1024}, {7, 8, 256},  {2, 5, 512}, {6, 6, 1024}};
  uint32_t nodes = 9;
  int above_bound = 0;
  for (int round = 0; round < 600; ++round) {
    PlanMaker m = plan_of(intervals, nodes);
    plan_memory(m.p, {});
    check_plan(m.p);
    CHECK(m.p.arena_lower_bound == live_apart(m.p));
    if (m.p.arena_bytes > m.p.arena_lower_bound) {
      ++above_bound;
      CHECK(Exact(intervals, m.p.arena_bytes).bytes() == m.p.arena_bytes);
    }
    CHECK((round > 0 || above_bound == 1));
    nodes = 4 + below(8);
    intervals.resize(4 + below(5));
    for (Interval& i : intervals) {
      i.first = below(nodes);
      i.end = i.first + below(std::min(nodes - i.first, 2 + below(nodes)));
      i.bytes = 256 * (1 + below(9));
    }
  }
  MESSAGE("600 problems: " << above_bound << " above the lower bound, all at the exact minimum");
}

TEST_CASE("series-parallel graphs stay close to the lower bound") {
  std::mt19937 random(41);
  for (const uint32_t lanes : {1u, 8u}) {
    double worst = 0, sum = 0, of_unshared = 0;
    const int rounds = 10;
    for (int round = 0; round < rounds; ++round) {
      SeriesParallel g(random, 40 + static_cast<uint32_t>(random() % 160), lanes);
      if (round % 2) allow_in_place(g.m, random);
      plan_memory(g.m.p, {});
      check_plan(g.m.p);
      const double r = ratio(g.m.p.arena_bytes, g.m.p.arena_lower_bound);
      worst = std::max(worst, r);
      sum += r;
      of_unshared += ratio(g.m.p.arena_bytes, g.m.p.temp_bytes_unshared);
    }
    MESSAGE(lanes << " lanes: planned / lower bound " << sum / rounds << " in the mean, " << worst
                  << " at worst; planned / sum " << of_unshared / rounds);
    CHECK(worst <= (lanes == 1 ? 1.05 : 4.0));
  }
}
