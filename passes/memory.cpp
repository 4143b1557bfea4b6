// Memory: places the temporaries in the arena.
// needs: lanes. breaks: edges (they depend on who shares bytes).
#include <algorithm>
#include <map>

#include "passes/order.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

constexpr int64_t kAlignment = 256;
/// Up to so many temporaries every pair is looked at; above, a best fit in launch order.
constexpr size_t kSmall = 4000;

int64_t padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// One temporary: its writer, which comes before every other access, and the last access per lane.
struct Temp {
  uint32_t buffer = 0;
  int64_t bytes = 0;  // padded
  int64_t offset = 0;
  uint32_t first = UINT32_MAX;  // nodes, in launch order
  uint32_t last = 0;
  std::vector<std::pair<uint32_t, uint32_t>> ends;  // lane, last position in it
};

std::vector<Temp> find_temps(const Program& p, const Body& body) {
  std::vector<Temp> temps;
  std::vector<uint32_t> temp_of(p.buffers.size(), UINT32_MAX);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    for (uint32_t view : node.args) {
      const uint32_t b = p.views[view].buffer;
      if (p.buffers[b].segment != Segment::temp || p.buffers[b].bytes == 0) continue;
      if (temp_of[b] == UINT32_MAX) {
        temp_of[b] = static_cast<uint32_t>(temps.size());
        temps.push_back({b, padded(p.buffers[b].bytes), 0, n, n, {}});
      }
      Temp& t = temps[temp_of[b]];
      t.last = n;
      const auto end = std::find_if(t.ends.begin(), t.ends.end(),
                                    [&](const auto& e) { return e.first == node.lane; });
      if (end == t.ends.end()) {
        t.ends.emplace_back(node.lane, node.position);
      } else {
        end->second = node.position;
      }
    }
  }
  return temps;
}

/// Data dependences and lanes: what orders the nodes before any bytes are shared.
Clocks clocks_of(const Program& p, const Body& body) {
  const Hazards hazards = find_hazards(p, body, false);
  const std::vector<uint32_t> lane_before = lane_predecessors(body);
  Clocks clocks(body);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    if (lane_before[n] != UINT32_MAX) clocks.order(body, lane_before[n], n);
    for (const Hazard& h : hazards.of(n)) clocks.order(body, h.from, n);
  }
  return clocks;
}

/// Whether every access of `a` happens before node `n`.
bool over_before(const Clocks& clocks, const Temp& a, uint32_t n) {
  return std::all_of(a.ends.begin(), a.ends.end(),
                     [&](const auto& e) { return clocks.before(n, e.first) > e.second; });
}

/// Greedy by size: the largest first, each at the lowest gap between the placed temporaries that
/// it may not share with (Pisarchyk and Lee, arXiv 2001.03288, with the order of the clocks in
/// place of a total one).
int64_t place_by_size(std::vector<Temp>& temps, const Clocks& clocks) {
  std::vector<Temp*> order;
  for (Temp& t : temps) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const Temp* a, const Temp* b) { return a->bytes > b->bytes; });
  int64_t arena = 0;
  std::vector<const Temp*> placed;  // by offset
  for (Temp* t : order) {
    int64_t offset = 0;
    for (const Temp* other : placed) {
      if (offset + t->bytes <= other->offset) break;
      const bool apart =
          over_before(clocks, *other, t->first) || over_before(clocks, *t, other->first);
      if (!apart) offset = std::max(offset, other->offset + other->bytes);
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

/// Best fit in launch order: a node's results take the smallest free block that its clock shows to
/// be free, else the arena grows. Near-linear.
int64_t place_in_order(std::vector<Temp>& temps, const Clocks& clocks, size_t nodes) {
  struct Block {
    int64_t offset;
    const Temp* held_by;
  };
  constexpr int kTries = 8;
  std::vector<std::vector<Temp*>> begins(nodes), ends(nodes);
  for (Temp& t : temps) {
    begins[t.first].push_back(&t);
    ends[t.last].push_back(&t);
  }
  std::multimap<int64_t, Block> free;
  int64_t arena = 0;
  for (uint32_t n = 0; n < nodes; ++n) {
    for (Temp* t : begins[n]) {
      auto it = free.lower_bound(t->bytes);
      int tries = 0;
      while (it != free.end() && tries < kTries && !over_before(clocks, *it->second.held_by, n)) {
        ++it;
        ++tries;
      }
      if (it == free.end() || tries == kTries) {
        t->offset = arena;
        arena += t->bytes;
        continue;
      }
      const int64_t rest = it->first - t->bytes;
      const Block block = it->second;
      t->offset = block.offset;
      free.erase(it);
      if (rest > 0) free.emplace(rest, Block{block.offset + t->bytes, block.held_by});
    }
    for (const Temp* t : ends[n]) free.emplace(t->bytes, Block{t->offset, t});
  }
  return arena;
}

/// The most bytes that are live at one node, if nodes run in launch order.
int64_t most_live(const std::vector<Temp>& temps, size_t nodes) {
  std::vector<int64_t> change(nodes + 1, 0);
  for (const Temp& t : temps) {
    change[t.first] += t.bytes;
    change[t.last + 1] -= t.bytes;
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
      const Clocks clocks = clocks_of(p, body);
      arena = temps.size() <= kSmall ? place_by_size(temps, clocks)
                                     : place_in_order(temps, clocks, body.nodes.size());
    }
    for (const Temp& t : temps) p.buffers[t.buffer].offset = p.arena_bytes + t.offset;
    p.arena_bytes += arena;
    p.arena_lower_bound += most_live(temps, body.nodes.size());
    p.temp_bytes_unshared += unshared;
  }
}

}  // namespace braid
