#include "passes/order.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Who has read bytes since they were written last: lists in one store.
class Readers {
 public:
  uint32_t add(uint32_t node, uint32_t list) {
    if (list != kNone && all_[list].node == node) return list;
    all_.push_back({node, list});
    return static_cast<uint32_t>(all_.size() - 1);
  }
  template <class Visit>
  void each(uint32_t list, const Visit& visit) const {
    for (; list != kNone; list = all_[list].next) visit(all_[list].node);
  }

 private:
  struct Reader {
    uint32_t node, next;
  };
  std::vector<Reader> all_;
};

/// What is known of the bytes up to `end`: who wrote them last and who has read them since.
struct Stretch {
  int64_t end = 0;
  uint32_t writer = kNone;
  uint32_t readers = kNone;
};

/// Disjoint stretches of an address space by start; bytes that nobody touched are in none.
class Space {
 public:
  template <class Visit>
  void touch(int64_t lo, int64_t hi, const Visit& visit) {
    split(lo);
    split(hi);
    int64_t at = lo;
    auto it = stretches_.lower_bound(lo);
    while (at < hi) {
      const int64_t next = it == stretches_.end() || it->first >= hi ? hi : it->first;
      if (next > at) it = stretches_.emplace_hint(it, at, Stretch{.end = next});
      visit(it->second);
      at = it->second.end;
      ++it;
    }
  }
  /// Of bytes that have just been touched.
  void overwrite(int64_t lo, int64_t hi, uint32_t writer) {
    const auto first = stretches_.find(lo);
    first->second = {.end = hi, .writer = writer};
    stretches_.erase(std::next(first), stretches_.lower_bound(hi));
  }

 private:
  void split(int64_t at) {
    auto it = stretches_.upper_bound(at);
    if (it == stretches_.begin()) return;
    --it;
    if (it->first < at && at < it->second.end) {
      const Stretch tail = it->second;
      it->second.end = at;
      stretches_.emplace(at, tail);
    }
  }
  std::map<int64_t, Stretch> stretches_;
};

/// One space per buffer, and the arena, where temporaries meet if `by_offset`. Nearly every buffer
/// is touched as a whole only, and then it is one stretch.
class Memory {
 public:
  struct Range {
    uint32_t buffer;
    bool arena;
    int64_t lo, hi;
  };

  Memory(const Program& p, bool by_offset)
      : p_(p), by_offset_(by_offset), whole_(p.buffers.size()) {}

  Range range(uint32_t view) const {
    const View& v = p_.views[view];
    const Buffer& b = p_.buffers[v.buffer];
    const bool arena = by_offset_ && b.segment == Segment::temp;
    const int64_t lo = v.offset + (arena ? b.offset : 0);
    return {v.buffer, arena, lo, lo + v.type.bytes()};
  }
  template <class Visit>
  void touch(const Range& r, const Visit& visit) {
    if (Space* space = space_of(r)) return space->touch(r.lo, r.hi, visit);
    visit(whole_[r.buffer]);
  }
  void overwrite(const Range& r, uint32_t writer) {
    if (Space* space = space_of(r)) return space->overwrite(r.lo, r.hi, writer);
    whole_[r.buffer] = {.end = r.hi, .writer = writer};
  }

 private:
  /// Null while the buffer is one stretch.
  Space* space_of(const Range& r) {
    if (r.arena) return &arena_;
    Stretch& whole = whole_[r.buffer];
    const int64_t bytes = p_.buffers[r.buffer].bytes;
    if (whole.end != kInParts) {
      if (r.lo == 0 && r.hi == bytes) return nullptr;
      Space& space = parts_[r.buffer];
      space.touch(0, bytes, [&](Stretch& s) { s = {bytes, whole.writer, whole.readers}; });
      whole.end = kInParts;
      return &space;
    }
    return &parts_[r.buffer];
  }

  static constexpr int64_t kInParts = -1;
  const Program& p_;
  const bool by_offset_;
  std::vector<Stretch> whole_;  // by buffer; `end` is kInParts or of no meaning
  std::map<uint32_t, Space> parts_;
  Space arena_;
};

bool can_be_written(Segment s) {
  return s != Segment::input && s != Segment::constant && s != Segment::scalar;
}

}  // namespace

Hazards find_hazards(const Program& p, const Body& body, bool by_offset) {
  Memory memory(p, by_offset);
  Readers readers;
  Hazards result;
  result.begin_.reserve(body.nodes.size() + 1);
  std::vector<Hazard> found;
  std::vector<Memory::Range> writes;
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    const std::vector<ArgSlot>& slots = p.kernels[node.kernel].args;
    found.clear();
    writes.clear();
    const auto add = [&](uint32_t from, EdgeReason reason, uint32_t buffer) {
      if (from != kNone && from != n) found.push_back({from, reason, buffer});
    };
    for (size_t s = 0; s < slots.size(); ++s) {
      if (!can_be_written(p.buffers[p.views[node.args[s]].buffer].segment)) continue;
      const Memory::Range r = memory.range(node.args[s]);
      if (r.lo == r.hi) continue;
      if (slots[s].role != Role::in) writes.push_back(r);
      if (slots[s].role == Role::out) continue;
      memory.touch(r, [&](Stretch& stretch) {
        add(stretch.writer, EdgeReason::raw, r.buffer);
        stretch.readers = readers.add(n, stretch.readers);
      });
    }
    for (const Memory::Range& r : writes) {
      memory.touch(r, [&](Stretch& stretch) {
        readers.each(stretch.readers,
                     [&](uint32_t reader) { add(reader, EdgeReason::war, r.buffer); });
        add(stretch.writer, EdgeReason::waw, r.buffer);
      });
      memory.overwrite(r, n);
    }
    std::sort(found.begin(), found.end(), [](const Hazard& a, const Hazard& b) {
      return std::tuple(a.from, a.reason, a.buffer) < std::tuple(b.from, b.reason, b.buffer);
    });
    found.erase(std::unique(found.begin(), found.end(),
                            [](const Hazard& a, const Hazard& b) { return a.from == b.from; }),
                found.end());
    result.begin_.push_back(result.all_.size());
    result.all_.insert(result.all_.end(), found.begin(), found.end());
  }
  result.begin_.push_back(result.all_.size());
  return result;
}

std::vector<uint32_t> lane_predecessors(const Body& body) {
  std::vector<uint32_t> before(body.nodes.size(), kNone), tail(body.lanes, kNone);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    before[n] = tail[body.nodes[n].lane];
    tail[body.nodes[n].lane] = n;
  }
  return before;
}

}  // namespace braid
