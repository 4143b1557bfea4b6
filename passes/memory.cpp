// Memory: places the temporaries in the arena.
// needs: lanes. breaks: edges (they depend on who shares bytes).
//
// Two temporaries may share bytes only if every access of one happens before every access of the
// other, by data and lanes alone: so sharing makes no node wait that need not.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kAlignment = 256;
/// Up to so many temporaries every pair is looked at; above, a best fit in launch order.
constexpr size_t kSmall = 4000;

int64_t padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The last of some accesses in each lane that has any, as nodes. All of them are over when these
/// are.
using Last = std::vector<uint32_t>;

/// One temporary. Its writer comes before every other access.
struct Temp {
  uint32_t buffer = 0;
  int64_t bytes = 0;  // padded
  int64_t offset = 0;
  uint32_t first = kNone, end = 0;  // nodes, in launch order
  Last last;
};

std::vector<Temp> find_temps(const Program& p, const Body& body) {
  std::vector<Temp> temps;
  std::vector<uint32_t> temp_of(p.buffers.size(), kNone);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    for (uint32_t view : node.args) {
      const uint32_t b = p.views[view].buffer;
      if (p.buffers[b].segment != Segment::temp || p.buffers[b].bytes == 0) continue;
      if (temp_of[b] == kNone) {
        temp_of[b] = static_cast<uint32_t>(temps.size());
        temps.push_back({b, padded(p.buffers[b].bytes), 0, n, n, {}});
      }
      Temp& t = temps[temp_of[b]];
      t.end = n;
      const auto same = std::find_if(t.last.begin(), t.last.end(), [&](uint32_t other) {
        return body.nodes[other].lane == node.lane;
      });
      if (same == t.last.end()) {
        t.last.push_back(n);
      } else {
        *same = n;
      }
    }
  }
  return temps;
}

/// The order that data and lanes give before any bytes are shared.
class Order {
 public:
  Order(const Program& p, const Body& body) : body_(body), clocks_(body) {
    const Hazards hazards = find_hazards(p, body, false);
    const std::vector<uint32_t> lane_before = lane_predecessors(body);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      if (lane_before[n] != kNone) clocks_.order(body, lane_before[n], n);
      for (const Hazard& h : hazards.of(n)) {
        if (!clocks_.ordered(body, h.from, n)) clocks_.order(body, h.from, n);
      }
    }
  }
  /// Whether all of `a` is over before `node` starts.
  bool over(const Last& a, uint32_t node) const {
    return std::all_of(a.begin(), a.end(),
                       [&](uint32_t n) { return clocks_.ordered(body_, n, node); });
  }
  /// Whether one lane alone holds all of `a` and `b`.
  bool one_lane(const Last& a, const Last& b) const {
    return a.size() == 1 && b.size() == 1 && body_.nodes[a[0]].lane == body_.nodes[b[0]].lane;
  }

 private:
  const Body& body_;
  Clocks clocks_;
};

/// Greedy by size: the largest first, each at the lowest gap between the placed temporaries that
/// it may not share with (Pisarchyk and Lee, arXiv 2001.03288, with the order of the clocks in
/// place of a total one).
int64_t place_by_size(std::vector<Temp>& temps, const Order& order) {
  std::vector<Temp*> by_size;
  for (Temp& t : temps) by_size.push_back(&t);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Temp* a, const Temp* b) { return a->bytes > b->bytes; });
  int64_t arena = 0;
  std::vector<const Temp*> placed;  // by offset
  for (Temp* t : by_size) {
    int64_t offset = 0;
    for (const Temp* other : placed) {
      if (offset + t->bytes <= other->offset) break;
      const int64_t end = other->offset + other->bytes;
      if (end <= offset || order.over(other->last, t->first) || order.over(t->last, other->first)) {
        continue;
      }
      offset = end;
    }
    t->offset = offset;
    arena = std::max(arena, offset + t->bytes);
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), t,
                         [](const Temp* a, const Temp* b) { return a->offset < b->offset; });
    placed.insert(at, t);
  }
  return arena;
}

/// Free blocks of the arena, each with the accesses that must be over before it is used again.
class FreeBlocks {
 public:
  explicit FreeBlocks(const Order& order) : order_(order) {}

  /// The smallest block that is free for `node`; nothing if none is found.
  std::optional<int64_t> take(int64_t bytes, uint32_t node) {
    constexpr int kTries = 16;  // where many blocks are still in use by other lanes
    int tries = 0;
    for (auto it = by_size_.lower_bound({bytes, 0, 0}); it != by_size_.end() && tries < kTries;
         ++it, ++tries) {
      const auto block = blocks_.find(std::get<2>(*it));
      if (!order_.over(block->second.last, node)) continue;
      const int64_t offset = block->first, rest = block->second.bytes - bytes;
      by_size_.erase(it);
      if (rest > 0) {
        add(offset + bytes, {rest, block->second.since, std::move(block->second.last)});
      }
      blocks_.erase(block);
      return offset;
    }
    return std::nullopt;
  }

  /// Joins neighbours that one lane alone has used: the lane itself need not wait for either, while
  /// blocks joined across lanes would always be in use by one of them.
  void give(int64_t offset, int64_t bytes, uint32_t node, Last last) {
    Block block{bytes, node, std::move(last)};
    auto next = blocks_.lower_bound(offset);
    if (next != blocks_.end() && next->first == offset + block.bytes && join(block, next->second)) {
      next = remove(next);
    }
    if (next != blocks_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second.bytes == offset && join(block, before->second)) {
        offset = before->first;
        remove(before);
      }
    }
    add(offset, std::move(block));
  }

 private:
  struct Block {
    int64_t bytes;
    uint32_t since;  // the node in launch order that gave it
    Last last;
  };
  using Blocks = std::map<int64_t, Block>;  // by offset

  bool join(Block& block, const Block& other) const {
    if (!order_.one_lane(block.last, other.last)) return false;
    block.last[0] = std::max(block.last[0], other.last[0]);
    block.bytes += other.bytes;
    return true;
  }
  void add(int64_t offset, Block block) {
    by_size_.insert({block.bytes, block.since, offset});
    blocks_.emplace(offset, std::move(block));
  }
  Blocks::iterator remove(Blocks::iterator it) {
    by_size_.erase({it->second.bytes, it->second.since, it->first});
    return blocks_.erase(it);
  }

  const Order& order_;
  Blocks blocks_;
  /// Bytes, since, offset: of equal blocks the oldest first, which is likeliest to be over.
  std::set<std::tuple<int64_t, uint32_t, int64_t>> by_size_;
};

/// Best fit in launch order: near-linear. `temps` come by their first node.
int64_t place_in_order(std::vector<Temp>& temps, const Order& order, size_t nodes) {
  std::vector<std::vector<const Temp*>> ending(nodes);
  for (const Temp& t : temps) ending[t.end].push_back(&t);
  FreeBlocks free(order);
  int64_t arena = 0;
  auto next = temps.begin();
  for (uint32_t n = 0; n < nodes; ++n) {
    for (; next != temps.end() && next->first == n; ++next) {
      const std::optional<int64_t> offset = free.take(next->bytes, n);
      next->offset = offset.value_or(arena);
      if (!offset) arena += next->bytes;
    }
    for (const Temp* t : ending[n]) free.give(t->offset, t->bytes, n, t->last);
  }
  return arena;
}

/// The most bytes that are live at one node. They conflict under any order that the launch order
/// keeps to, so no plan needs less.
int64_t most_live(const std::vector<Temp>& temps, size_t nodes) {
  std::vector<int64_t> change(nodes + 1, 0);
  for (const Temp& t : temps) {
    change[t.first] += t.bytes;
    change[t.end + 1] -= t.bytes;
  }
  int64_t live = 0, most = 0;
  for (int64_t c : change) most = std::max(most, live += c);
  return most;
}

}  // namespace

void plan_memory(Program& p, const Options& o) {
  p.arena_bytes = p.arena_lower_bound = p.temp_bytes_unshared = 0;
  for (const Body& body : p.bodies) {
    std::vector<Temp> temps = find_temps(p, body);
    int64_t unshared = 0;
    for (Temp& t : temps) {
      t.offset = unshared;
      unshared += t.bytes;
    }
    int64_t arena = unshared;
    if (o.reuse) {
      const Order order(p, body);
      arena = temps.size() <= kSmall ? place_by_size(temps, order)
                                     : place_in_order(temps, order, body.nodes.size());
    }
    for (const Temp& t : temps) p.buffers[t.buffer].offset = p.arena_bytes + t.offset;
    p.arena_bytes += arena;
    p.arena_lower_bound += most_live(temps, body.nodes.size());
    p.temp_bytes_unshared += unshared;
  }
}

}  // namespace braid
