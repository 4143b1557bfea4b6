// Races inside one graph: conflicting accesses by two nodes with no path of edges between them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

struct Access {
  Range range;
  uint32_t node;
};

/// Whether one node's arguments may be the same bytes: each thread reads what it then writes.
bool in_place(const Nest::Node& node, const Range& a, const Range& b) {
  const Range &out = a.write ? a : b, &in = a.write ? b : a;
  if (in.write || out.low != in.low || out.high != in.high) return false;
  const std::vector<InPlace>& pairs = node.call.record->in_place;
  const InPlace found{static_cast<uint32_t>(out.slot), static_cast<uint32_t>(in.slot)};
  return std::find(pairs.begin(), pairs.end(), found) != pairs.end();
}

/// Whether two kernels run only if one flag holds different things. Whoever changed it between them
/// would have to be ordered with both.
bool exclude_each_other(const Nest::Node& a, const Nest::Node& b) {
  if (a.conditional || b.conditional) return false;
  const std::optional<int32_t>&x = a.call.record->guard, &y = b.call.record->guard;
  return x && y && *x != *y && a.call.args.back() == b.call.args.back();
}

/// Two nodes, the smaller first, and the first bytes on which they conflict. One node conflicts
/// with itself if two of its arguments overlap and one is written, unless the kernel allows it in
/// place: threads run in no order.
struct Conflict {
  uint32_t a, b;
  Range at;
  bool a_writes, b_writes;
  uint32_t x, y;  // the nodes of one graph that are or contain them, the smaller first
};

/// The nodes of one graph that are or contain two different nodes; nothing if these never run
/// together, or one contains the other.
std::optional<std::pair<uint32_t, uint32_t>> in_one_graph(const Nest& nest, uint32_t a,
                                                          uint32_t b) {
  while (nest.nodes[a].graph != nest.nodes[b].graph) {
    const Nest::Graph& of_a = nest.graphs[nest.nodes[a].graph];
    const Nest::Graph& of_b = nest.graphs[nest.nodes[b].graph];
    if (of_a.depth == of_b.depth && of_a.owner == of_b.owner) return {};
    if (of_a.depth >= of_b.depth) a = of_a.owner;
    if (of_b.depth >= of_a.depth) b = of_b.owner;
  }
  if (a == b) return {};
  return std::minmax(a, b);
}

/// All pairs with conflicting accesses that may run together, each once, by a sweep over addresses.
std::vector<Conflict> find_conflicts(const Nest& nest) {
  std::vector<Access> accesses;
  for (uint32_t n = 0; n < nest.nodes.size(); ++n) {
    for (const Range& range : ranges_of(nest.nodes[n])) accesses.push_back({range, n});
  }
  std::sort(accesses.begin(), accesses.end(), [](const Access& x, const Access& y) {
    return std::tie(x.range.low, x.node) < std::tie(y.range.low, y.node);
  });
  std::vector<Conflict> conflicts;
  std::vector<Access> readers, writers;  // those whose range may reach the sweep's place
  const auto meet = [&](std::vector<Access>& open, const Access& now) {
    std::erase_if(open, [&](const Access& o) { return o.range.high <= now.range.low; });
    for (const Access& o : open) {
      Range at = now.range;
      at.high = std::min(o.range.high, now.range.high);
      if (o.node == now.node) {
        if (in_place(nest.nodes[o.node], o.range, now.range)) continue;
        conflicts.push_back({o.node, o.node, at, o.range.write, now.range.write, o.node, o.node});
        continue;
      }
      const auto nodes = in_one_graph(nest, o.node, now.node);
      if (!nodes || exclude_each_other(nest.nodes[o.node], nest.nodes[now.node])) continue;
      const auto& [a, b] =
          std::minmax(o, now, [](const Access& x, const Access& y) { return x.node < y.node; });
      conflicts.push_back(
          {a.node, b.node, at, a.range.write, b.range.write, nodes->first, nodes->second});
    }
  };
  for (const Access& now : accesses) {
    meet(writers, now);
    if (now.range.write) meet(readers, now);
    (now.range.write ? writers : readers).push_back(now);
  }
  const auto key = [](const Conflict& c) { return std::tie(c.x, c.y, c.a, c.b); };
  std::stable_sort(conflicts.begin(), conflicts.end(),
                   [&](const Conflict& x, const Conflict& y) { return key(x) < key(y); });
  conflicts.erase(
      std::unique(conflicts.begin(), conflicts.end(),
                  [&](const Conflict& x, const Conflict& y) { return key(x) == key(y); }),
      conflicts.end());
  return conflicts;
}

/// Drops the conflicts whose nodes are ordered. Reachability is found for a block of first nodes
/// at a time, so that memory stays linear in the number of nodes.
std::vector<Conflict> unordered(const std::vector<Conflict>& conflicts, const Nest& nest) {
  constexpr uint32_t kWords = 16;
  constexpr uint32_t kBlock = kWords * 64;
  std::vector<Conflict> races;
  std::vector<std::array<uint64_t, kWords>> reached(nest.nodes.size());
  for (auto first = conflicts.begin(); first != conflicts.end();) {
    const uint32_t start = first->x;
    const uint32_t end = nest.graphs[nest.nodes[start].graph].end;
    for (uint32_t n = start; n < end; ++n) {
      reached[n].fill(0);
      for (const uint32_t from : nest.nodes[n].before) {
        if (from < start) continue;
        for (uint32_t w = 0; w < kWords; ++w) reached[n][w] |= reached[from][w];
        const uint32_t bit = from - start;
        if (bit < kBlock) reached[n][bit / 64] |= uint64_t{1} << (bit % 64);
      }
    }
    const uint32_t stop = std::min(end, start + kBlock);
    for (; first != conflicts.end() && first->x < stop; ++first) {
      const uint32_t bit = first->x - start;
      if ((reached[first->y][bit / 64] >> (bit % 64) & 1) == 0) races.push_back(*first);
    }
  }
  const auto key = [](const Conflict& c) { return std::tie(c.a, c.b); };
  std::sort(races.begin(), races.end(),
            [&](const Conflict& x, const Conflict& y) { return key(x) < key(y); });
  return races;
}

std::string bytes_text(const Range& range) {
  return range.handle ? fmt::format("handle {:#x}", range.low)
                      : fmt::format("bytes {:#x} to {:#x}", range.low, range.high);
}

}  // namespace

std::vector<std::string> find_races(const Nest& nest) {
  constexpr size_t kMostReports = 8;
  std::vector<std::string> reports;
  const std::vector<Conflict> races = unordered(find_conflicts(nest), nest);
  for (const Conflict& r : races) {
    if (reports.size() == kMostReports) {
      reports.push_back(fmt::format("and {} more races", races.size() - kMostReports));
      break;
    }
    if (r.a == r.b) {
      reports.push_back(
          fmt::format("race: two arguments of {} share {}, and one of them is written",
                      node_text(nest, r.a), bytes_text(r.at)));
      continue;
    }
    reports.push_back(fmt::format("race: {} {} and {} {} {}, and no path of edges orders them",
                                  node_text(nest, r.a), r.a_writes ? "writes" : "reads",
                                  node_text(nest, r.b), r.b_writes ? "writes" : "reads",
                                  bytes_text(r.at)));
  }
  return reports;
}

}  // namespace braid::runtime::sim
