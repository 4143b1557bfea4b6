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

/// What the nodes of one body know of all bytes: one space per buffer, and the arena. Nearly every
/// buffer is touched as a whole only, and then it is one stretch.
class Memory {
 public:
  Memory(const Program& p, bool by_offset)
      : p_(p), by_offset_(by_offset), whole_(p.buffers.size()) {}

  void begin_body() {
    ++body_;
    parts_.clear();
    arena_ = {};
  }
  template <class Visit>
  void touch(const Range& r, const Visit& visit) {
    if (Space* space = space_of(r)) return space->touch(r.lo, r.hi, visit);
    visit(whole_[r.buffer].stretch);
  }
  /// Of bytes that have just been touched.
  void overwrite(const Range& r, uint32_t writer) {
    if (Space* space = space_of(r)) return space->overwrite(r.lo, r.hi, writer);
    whole_[r.buffer].stretch = {.end = r.hi, .writer = writer};
  }

 private:
  struct Whole {
    Stretch stretch;
    uint32_t body = 0;      // of what is said here
    bool in_parts = false;  // parts_ says it
  };

  /// Null while the buffer is one stretch.
  Space* space_of(const Range& r) {
    if (by_offset_ && r.segment == Segment::temp) return &arena_;
    Whole& whole = whole_[r.buffer];
    const int64_t bytes = p_.buffers[r.buffer].bytes;
    if (whole.body != body_) whole = {{.end = bytes}, body_, false};
    if (whole.in_parts) return &parts_[r.buffer];
    if (r.lo == 0 && r.hi == whole.stretch.end) return nullptr;
    whole.in_parts = true;
    Space& space = parts_[r.buffer];
    space.touch(0, bytes, [&](Stretch& s) { s = whole.stretch; });
    return &space;
  }

  const Program& p_;
  const bool by_offset_;
  uint32_t body_ = 0;
  std::vector<Whole> whole_;  // by buffer
  std::map<uint32_t, Space> parts_;
  Space arena_;
};

bool can_be_written(Segment s) {
  return s != Segment::input && s != Segment::constant && s != Segment::scalar;
}

}  // namespace

std::vector<Range> ranges_of(const Program& p, bool by_offset) {
  std::vector<Range> ranges;
  ranges.reserve(p.views.size());
  for (const View& v : p.views) {
    const Buffer& b = p.buffers[v.buffer];
    const int64_t lo = v.offset + (by_offset && b.segment == Segment::temp ? b.offset : 0);
    ranges.push_back({lo, lo + v.type.bytes(), v.buffer, b.segment});
  }
  return ranges;
}

class HazardFinder::State {
 public:
  State(const Program& p, bool by_offset)
      : p_(p), ranges_(ranges_of(p, by_offset)), memory_(p, by_offset) {}

  const std::vector<Range>& ranges() const { return ranges_; }

  void find(const Body& body, std::vector<Hazard>& all, std::vector<size_t>& begin) {
    Readers readers;
    std::vector<Hazard> found;
    std::vector<uint32_t> writes;  // views
    memory_.begin_body();
    begin.reserve(body.nodes.size() + 1);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      prefetch_args(body, n);
      const Node& node = body.nodes[n];
      const std::vector<ArgSlot>& slots = slots_of(p_, node);
      found.clear();
      writes.clear();
      const auto add = [&](uint32_t from, EdgeReason reason, uint32_t buffer) {
        if (from != kNone && from != n) found.push_back({from, reason, buffer});
      };
      for (size_t s = 0; s < slots.size(); ++s) {
        const Range& r = ranges_[node.args[s]];
        if (r.lo == r.hi || !can_be_written(r.segment)) continue;
        if (slots[s].role != Role::in) writes.push_back(node.args[s]);
        if (slots[s].role == Role::out) continue;
        memory_.touch(r, [&](Stretch& stretch) {
          add(stretch.writer, EdgeReason::raw, r.buffer);
          stretch.readers = readers.add(n, stretch.readers);
        });
      }
      for (uint32_t view : writes) {
        const Range& r = ranges_[view];
        memory_.touch(r, [&](Stretch& stretch) {
          readers.each(stretch.readers,
                       [&](uint32_t reader) { add(reader, EdgeReason::war, r.buffer); });
          add(stretch.writer, EdgeReason::waw, r.buffer);
        });
        memory_.overwrite(r, n);
      }
      std::sort(found.begin(), found.end(), [](const Hazard& a, const Hazard& b) {
        return std::tuple(a.from, a.reason, a.buffer) < std::tuple(b.from, b.reason, b.buffer);
      });
      found.erase(std::unique(found.begin(), found.end(),
                              [](const Hazard& a, const Hazard& b) { return a.from == b.from; }),
                  found.end());
      begin.push_back(all.size());
      all.insert(all.end(), found.begin(), found.end());
    }
    begin.push_back(all.size());
  }

 private:
  const Program& p_;
  const std::vector<Range> ranges_;
  Memory memory_;
};

HazardFinder::HazardFinder(const Program& p, bool by_offset)
    : state_(std::make_unique<State>(p, by_offset)) {}
HazardFinder::~HazardFinder() = default;

const std::vector<Range>& HazardFinder::ranges() const { return state_->ranges(); }

Hazards HazardFinder::find(const Body& body) {
  Hazards result;
  state_->find(body, result.all_, result.begin_);
  return result;
}

Hazards find_hazards(const Program& p, const Body& body, bool by_offset) {
  return HazardFinder(p, by_offset).find(body);
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
