// What orders the nodes of a body: conflicts over bytes, and clocks over lanes that answer
// "does a happen before b?" in O(1).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// `from` and the node it is listed for touch the same bytes, and one of them writes.
struct Hazard {
  uint32_t from = 0;
  EdgeReason reason = EdgeReason::raw;
  uint32_t buffer = 0;  // of the later node's argument
};

/// The hazards of each node of a body, in flat storage.
class Hazards {
 public:
  std::span<const Hazard> of(uint32_t node) const {
    return {all_.data() + begin_[node], all_.data() + begin_[node + 1]};
  }

 private:
  friend class HazardFinder;
  std::vector<Hazard> all_;
  std::vector<size_t> begin_;
};

/// Arguments lie all over the heap, and waiting for them is what loops over many nodes mostly do:
/// asks for those of a node a little ahead of `n`.
inline void prefetch_args(const Body& body, uint32_t n) {
  constexpr size_t kAhead = 12;
  if (n + kAhead < body.nodes.size()) __builtin_prefetch(body.nodes[n + kAhead].args.data());
}

/// What a view says of its bytes, in little memory: large programs are visited several times.
struct Range {
  int64_t lo = 0, hi = 0;  // in the buffer; for temporaries in the arena if they have offsets there
  uint32_t buffer = 0;
  Segment segment = Segment::temp;
};
/// By view. With `by_offset` temporaries lie in the arena, else each in bytes of its own.
std::vector<Range> ranges_of(const Program& p, bool by_offset);

/// The conflicts that the launch order decides: each node with the last writer of what it reads
/// or writes and with the readers since. Earlier conflicts follow from these. Sorted by `from`,
/// one per pair of nodes, the lowest reason kept. With `by_offset` temporaries conflict where
/// their bytes in the arena meet; without, each has bytes of its own.
///
/// A conditional node touches what its region lists. A guarded kernel counts as if it ran: whoever
/// reads what it may leave as it was waits for it, and it waits for whoever wrote that. The value
/// of a conditional node is bytes like any other, which its setter writes and the node reads.
///
/// Programs of many bodies use one finder: what it needs per buffer it makes once.
class HazardFinder {
 public:
  HazardFinder(const Program& p, bool by_offset);
  ~HazardFinder();
  Hazards find(const Body& body);
  const std::vector<Range>& ranges() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};
/// The same for one body.
Hazards find_hazards(const Program& p, const Body& body, bool by_offset);

/// For every node and lane, how many of the lane's first nodes happen before the node. Because
/// each lane is a chain, the ancestors of a node in a lane are a prefix of it, so this is exact.
class Clocks {
 public:
  explicit Clocks(const Body& body)
      : lanes_(body.lanes), counts_(body.nodes.size() * body.lanes, 0) {}

  /// Records that `from` happens before `to`. `from` must have all its predecessors already.
  void order(const Body& body, uint32_t from, uint32_t to) {
    const Node& f = body.nodes[from];
    uint32_t* t = counts_.data() + size_t{to} * lanes_;
    const uint32_t* s = counts_.data() + size_t{from} * lanes_;
    for (uint32_t l = 0; l < lanes_; ++l) t[l] = t[l] < s[l] ? s[l] : t[l];
    if (t[f.lane] <= f.position) t[f.lane] = f.position + 1;
  }
  /// How many nodes of `lane` happen before `node`.
  uint32_t before(uint32_t node, uint32_t lane) const {
    return counts_[size_t{node} * lanes_ + lane];
  }
  /// Whether `a` happens before `b`.
  bool ordered(const Body& body, uint32_t a, uint32_t b) const {
    return before(b, body.nodes[a].lane) > body.nodes[a].position;
  }

 private:
  uint32_t lanes_;
  std::vector<uint32_t> counts_;
};

/// The node before each node in its lane; UINT32_MAX for a lane's first.
std::vector<uint32_t> lane_predecessors(const Body& body);

}  // namespace braid
