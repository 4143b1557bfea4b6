// Inside the checker: what the bytes hold, and who has touched them, while a script is walked.
#pragma once

#include <map>
#include <vector>

#include "passes/check_parts.hpp"

namespace braid::checking {

/// For every node and lane of a body: how many of the lane's first nodes have ended before the
/// node's first access. Exact if lanes are chains, which is checked on the way.
class Clock {
 public:
  Clock(const Program& p, const Body& body, Findings& out);
  bool ordered(uint32_t first, uint32_t then) const {
    const Node& node = body_.nodes[first];
    return first == then || before(then, node.lane) > node.position;
  }

 private:
  uint32_t before(uint32_t node, uint32_t lane) const {
    return counts_[size_t{node} * body_.lanes + lane];
  }
  void follow(uint32_t from, uint32_t to);

  const Body& body_;
  std::vector<uint32_t> counts_;
};

/// The side of a predicate region that an access belongs to; an access of no side runs whatever is
/// chosen. Accesses of two sides of one region never both run.
struct Tag {
  uint32_t region = kNone, side = 0;
};

/// Nodes of one step that have touched some bytes: those that a later one may have to come after.
/// By lane the last one, since lanes are chains. All others come before one of these.
class Accesses {
 public:
  /// A node that wrote, or that read, may run with `node` and is not ordered before it; kNone if
  /// there is none.
  uint32_t unordered_writer(const Clock& clock, uint32_t node, Tag tag) const;
  uint32_t unordered_reader(const Clock& clock, uint32_t node, Tag tag) const;
  /// After these tests.
  void read(uint32_t node, uint32_t lane, Tag tag);
  void write(uint32_t node, uint32_t lane, Tag tag);

 private:
  using ByLane = std::map<uint32_t, uint32_t>;
  struct Side {
    ByLane writers, readers;
  };
  void fold(ByLane& into, const ByLane& from);

  ByLane writers_, readers_;  // that run whatever is chosen, or that some of them come after
  std::map<uint32_t, std::map<uint32_t, Side>> guarded_{};  // by region and side
  uint32_t writing_ = kNone;  // the one region with writers in guarded_
  ByLane written_{};          // those, of all its sides
};

/// A value and the address where it begins.
struct Held {
  uint32_t value = kNone;  // kNone: nothing
  int64_t origin = 0;
  bool operator==(const Held&) const = default;
};

/// What is known of a stretch of bytes.
struct Stretch {
  int64_t end = 0;
  Held base{};
  /// What the bytes hold if one of these sides of `region` is taken; kNone: there are none.
  uint32_t region = kNone;
  std::map<uint32_t, Held> sides{};
  size_t step = SIZE_MAX;  // of the script, in which the accesses below happened
  Accesses accesses{};
};
using Space = std::map<int64_t, Stretch>;  // by start; disjoint

/// Tables that the walks over all scripts share.
struct Facts {
  explicit Facts(const Program& p);
  const Program& p;
  /// The constants, which nobody writes.
  Space constants;
  /// The state of a predicate region by the value that it holds afterwards, and by region and
  /// place.
  std::map<uint32_t, std::pair<uint32_t, const Region::State*>> by_after;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, const Region::State*> by_place;
  /// Kernel::in_place by kernel; sorted.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> in_place;
  /// By buffer: the region whose handle it is.
  std::map<uint32_t, uint32_t> handle_of;
  /// By region and slot: what the bytes hold afterwards.
  std::vector<std::vector<uint32_t>> left;
};

/// What one walk knows of all bytes.
class Memory {
 public:
  explicit Memory(const Facts& facts) : facts_(facts) {}

  /// Whether the bytes hold all of the value and nothing else, for a reader of the side. Where
  /// predicate regions made the value, all their sides must have made it.
  bool holds(const Range& r, uint32_t value, Tag tag = {});
  /// What the first bytes hold that are not `value`'s, for messages.
  uint32_t other_than(const Range& r, uint32_t value, Tag tag);
  void put(const Range& r, uint32_t value, Tag tag = {});
  bool untouched(int64_t space) const { return !spaces_.contains(space); }

  /// Calls visit(accesses) for what touched the bytes in this step, stretch by stretch.
  template <class Visit>
  void accesses(const Range& r, size_t step, const Visit& visit) {
    Space& space = spaces_[r.space];
    cover(space, r.lo, r.hi);
    for (auto it = space.find(r.lo); it != space.end() && it->first < r.hi; ++it) {
      Stretch& s = it->second;
      if (s.step != step) s.accesses = {};  // what earlier steps did is over
      s.step = step;
      visit(s.accesses);
    }
  }

 private:
  static void cover(Space& space, int64_t lo, int64_t hi);
  const Held* seen(const Stretch& s, Tag tag) const;
  bool all_hold(const Range& r, const Held& held, Tag tag) const;
  bool join(const Range& r, const Region::State& state, uint32_t region);

  const Facts& facts_;
  std::map<int64_t, Space> spaces_;
};

}  // namespace braid::checking
