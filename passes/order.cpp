#include "passes/order.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// A list of readers that others may continue: stretches that part share what they have in common.
struct Reader {
  uint32_t node, next;  // next: in the vector that holds all; kNone at the end
};

/// What is known of the bytes [start, end): who wrote them last and who has read them since.
struct Stretch {
  int64_t end = 0;
  uint32_t writer = kNone;
  uint32_t readers = kNone;  // the last one's Reader
};

/// Disjoint stretches by start; bytes that nobody touched are in none. As long as every access is
/// of the same bytes, which for most buffers is all there is, they are `one_` and need no map.
class Space {
 public:
  template <class Visit>
  void touch(int64_t lo, int64_t hi, const Visit& visit) {
    if (is_one(lo, hi)) return visit(one_);
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
  void overwrite(int64_t lo, int64_t hi, uint32_t writer) {
    if (is_one(lo, hi)) {
      one_ = {.end = hi, .writer = writer};
      return;
    }
    const auto from = stretches_.lower_bound(lo);
    const auto to = stretches_.lower_bound(hi);
    stretches_.erase(from, to);
    stretches_.emplace_hint(to, lo, Stretch{.end = hi, .writer = writer});
  }

 private:
  /// Whether [lo, hi) is all that was ever touched. Where not, the map takes over.
  bool is_one(int64_t lo, int64_t hi) {
    if (!stretches_.empty()) return false;
    if (one_.end == 0) {
      one_lo_ = lo;
      one_.end = hi;
    }
    if (lo == one_lo_ && hi == one_.end) return true;
    stretches_.emplace(one_lo_, one_);
    return false;
  }
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
  int64_t one_lo_ = 0;
  Stretch one_{};
  std::map<int64_t, Stretch> stretches_;
};

bool can_be_written(Segment s) {
  return s != Segment::input && s != Segment::constant && s != Segment::scalar;
}

}  // namespace

Hazards find_hazards(const Program& p, const Body& body, bool by_offset) {
  // One space per buffer; the last one is the arena, where temporaries meet.
  std::vector<Space> spaces(p.buffers.size() + 1);
  struct Range {
    uint32_t buffer;
    size_t space;
    int64_t lo, hi;
  };
  const auto range_of = [&](uint32_t view) {
    const View& v = p.views[view];
    const Buffer& b = p.buffers[v.buffer];
    const bool arena = by_offset && b.segment == Segment::temp;
    const int64_t lo = v.offset + (arena ? b.offset : 0);
    return Range{v.buffer, arena ? p.buffers.size() : v.buffer, lo, lo + v.type.bytes()};
  };

  Hazards result;
  result.begin_.reserve(body.nodes.size() + 1);
  std::vector<Reader> readers;
  std::vector<Hazard> found;
  std::vector<Range> writes;
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
      const Range r = range_of(node.args[s]);
      if (r.lo == r.hi) continue;
      if (slots[s].role != Role::in) writes.push_back(r);
      if (slots[s].role == Role::out) continue;
      spaces[r.space].touch(r.lo, r.hi, [&](Stretch& stretch) {
        add(stretch.writer, EdgeReason::raw, r.buffer);
        if (stretch.readers != kNone && readers[stretch.readers].node == n) return;
        readers.push_back({n, stretch.readers});
        stretch.readers = static_cast<uint32_t>(readers.size() - 1);
      });
    }
    for (const Range& r : writes) {
      spaces[r.space].touch(r.lo, r.hi, [&](Stretch& stretch) {
        for (uint32_t i = stretch.readers; i != kNone; i = readers[i].next) {
          add(readers[i].node, EdgeReason::war, r.buffer);
        }
        add(stretch.writer, EdgeReason::waw, r.buffer);
      });
      spaces[r.space].overwrite(r.lo, r.hi, n);
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
