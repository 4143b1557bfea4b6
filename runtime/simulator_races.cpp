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
bool in_place(const Call& call, const Range& a, const Range& b) {
  const Range &out = a.write ? a : b, &in = a.write ? b : a;
  if (in.write || out.low != in.low || out.high != in.high) return false;
  const std::vector<InPlace>& pairs = call.record->in_place;
  const InPlace found{static_cast<uint32_t>(out.slot), static_cast<uint32_t>(in.slot)};
  return std::find(pairs.begin(), pairs.end(), found) != pairs.end();
}

/// Two nodes, the smaller first, and the first bytes on which they conflict. One node conflicts
/// with itself if two of its arguments overlap and one is written, unless the kernel allows it in
/// place: threads run in no order.
struct Conflict {
  uint32_t a, b;
  Range at;
  bool a_writes, b_writes;
};

/// All pairs with conflicting accesses, each once, by a sweep over addresses.
std::vector<Conflict> find_conflicts(const std::vector<Call>& calls) {
  std::vector<Access> accesses;
  for (uint32_t n = 0; n < calls.size(); ++n) {
    for (const Range& range : ranges_of(calls[n])) accesses.push_back({range, n});
  }
  std::sort(accesses.begin(), accesses.end(), [](const Access& x, const Access& y) {
    return std::tie(x.range.low, x.node) < std::tie(y.range.low, y.node);
  });
  std::vector<Conflict> conflicts;
  std::vector<Access> readers, writers;  // those whose range may reach the sweep's place
  const auto meet = [&](std::vector<Access>& open, const Access& now) {
    std::erase_if(open, [&](const Access& o) { return o.range.high <= now.range.low; });
    for (const Access& o : open) {
      if (o.node == now.node && in_place(calls[o.node], o.range, now.range)) continue;
      const Range at{now.range.low, std::min(o.range.high, now.range.high), true};
      const auto& [a, b] =
          std::minmax(o, now, [](const Access& x, const Access& y) { return x.node < y.node; });
      conflicts.push_back({a.node, b.node, at, a.range.write, b.range.write});
    }
  };
  for (const Access& now : accesses) {
    meet(writers, now);
    if (now.range.write) meet(readers, now);
    (now.range.write ? writers : readers).push_back(now);
  }
  const auto key = [](const Conflict& c) { return std::tie(c.a, c.b); };
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
std::vector<Conflict> unordered(const std::vector<Conflict>& conflicts,
                                const std::vector<std::vector<uint32_t>>& before) {
  constexpr uint32_t kWords = 16;
  constexpr uint32_t kBlock = kWords * 64;
  std::vector<Conflict> races;
  std::vector<std::array<uint64_t, kWords>> reached(before.size());
  for (auto first = conflicts.begin(); first != conflicts.end();) {
    const uint32_t start = first->a;
    for (uint32_t n = start; n < before.size(); ++n) {
      reached[n].fill(0);
      for (const uint32_t from : before[n]) {
        if (from < start) continue;
        for (uint32_t w = 0; w < kWords; ++w) reached[n][w] |= reached[from][w];
        const uint32_t bit = from - start;
        if (bit < kBlock) reached[n][bit / 64] |= uint64_t{1} << (bit % 64);
      }
    }
    for (; first != conflicts.end() && first->a - start < kBlock; ++first) {
      const uint32_t bit = first->a - start;
      if ((reached[first->b][bit / 64] >> (bit % 64) & 1) == 0) races.push_back(*first);
    }
  }
  return races;
}

}  // namespace

std::vector<std::string> find_races(const std::vector<Call>& calls,
                                    const std::vector<std::vector<uint32_t>>& before) {
  constexpr size_t kMostReports = 8;
  std::vector<std::string> reports;
  const std::vector<Conflict> races = unordered(find_conflicts(calls), before);
  for (const Conflict& r : races) {
    if (reports.size() == kMostReports) {
      reports.push_back(fmt::format("and {} more races", races.size() - kMostReports));
      break;
    }
    if (r.a == r.b) {
      reports.push_back(fmt::format(
          "race: two arguments of {} share bytes {:#x} to {:#x}, and one of them is written",
          call_text(calls, r.a), r.at.low, r.at.high));
      continue;
    }
    reports.push_back(
        fmt::format("race: {} {} and {} {} bytes {:#x} to {:#x}, and no path of edges orders them",
                    call_text(calls, r.a), r.a_writes ? "writes" : "reads", call_text(calls, r.b),
                    r.b_writes ? "writes" : "reads", r.at.low, r.at.high));
  }
  return reports;
}

}  // namespace braid::runtime::sim
