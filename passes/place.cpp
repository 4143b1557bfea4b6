#include "passes/place.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "passes/best_fit.hpp"

namespace braid {
namespace {

/// Beyond so many temporaries times lanes, or pairs in conflict, the best fit.
constexpr size_t kMostLanes = 64'000;
constexpr size_t kMostConflicts = 4'000'000;
/// Visits to a conflict that the search may make; each placement in some order makes as many as
/// there are conflicts.
constexpr size_t kMostVisits = 4'000'000;

/// For each temporary those that it may share no bytes with, in flat storage.
class Conflicts {
 public:
  /// Nothing if there are too many.
  static std::optional<Conflicts> find(const std::vector<Temp>& temps, const Timeline& timeline,
                                       const Over& over) {
    if (temps.size() * timeline.lanes() > kMostLanes) return std::nullopt;
    std::vector<std::vector<uint32_t>> starting(timeline.lanes());  // in each lane
    for (uint32_t t = 0; t < temps.size(); ++t) {
      starting[timeline.lane(temps[t].first)].push_back(t);
    }
    // In each lane the conflicts that begin after `t` are those between `t` and the first for which
    // it is over.
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (uint32_t t = 0; t < temps.size(); ++t) {
      for (const std::vector<uint32_t>& lane : starting) {
        const auto from = std::upper_bound(lane.begin(), lane.end(), t);
        const auto to = std::partition_point(
            from, lane.end(), [&](uint32_t other) { return !over(temps[t], temps[other].first); });
        for (auto other = from; other != to; ++other) pairs.emplace_back(t, *other);
      }
      if (pairs.size() > kMostConflicts) return std::nullopt;
    }
    return Conflicts(pairs, temps.size());
  }
  std::span<const uint32_t> of(uint32_t t) const {
    return {all_.data() + begin_[t], all_.data() + begin_[t + 1]};
  }
  size_t size() const { return all_.size(); }

 private:
  Conflicts(const std::vector<std::pair<uint32_t, uint32_t>>& pairs, size_t temps)
      : begin_(temps + 1, 0), all_(2 * pairs.size()) {
    for (const auto& [a, b] : pairs) {
      ++begin_[a + 1];
      ++begin_[b + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [a, b] : pairs) {
      all_[next[a]++] = b;
      all_[next[b]++] = a;
    }
  }
  std::vector<size_t> begin_;
  std::vector<uint32_t> all_;
};

using Sequence = std::vector<uint32_t>;

struct Placement {
  std::vector<int64_t> offsets;
  int64_t arena = 0;
};

class Placer {
 public:
  Placer(const std::vector<Temp>& temps, const Conflicts& conflicts, int64_t bound)
      : temps_(temps), conflicts_(conflicts), bound_(bound) {}

  Placement best() {
    std::vector<Sequence> sequences;
    const auto by = [&](auto key) {
      Sequence s(temps_.size());
      std::iota(s.begin(), s.end(), 0);
      std::stable_sort(s.begin(), s.end(),
                       [&](uint32_t a, uint32_t b) { return key(temps_[a]) > key(temps_[b]); });
      sequences.push_back(std::move(s));
    };
    const auto moments = [](const Temp& t) { return static_cast<double>(t.end - t.first + 1); };
    by([](const Temp& t) { return t.bytes; });
    by([&](const Temp& t) { return static_cast<double>(t.bytes) * moments(t); });
    by([](const Temp& t) { return -static_cast<int64_t>(t.first); });
    by([&](const Temp& t) { return moments(t); });
    for (const Sequence& s : sequences) {
      if (done()) break;
      Placement p = in_sequence(s);
      if (best_.offsets.empty() || p.arena < best_.arena) {
        best_ = std::move(p);
        sequence_ = s;
      }
    }
    search();
    return std::move(best_);
  }

 private:
  bool done() const {
    return !best_.offsets.empty() && (best_.arena <= bound_ || visits_ >= kMostVisits);
  }

  /// Each at the lowest place that is free between the conflicts placed before.
  Placement in_sequence(const Sequence& sequence) {
    Placement p{std::vector<int64_t>(temps_.size(), -1), 0};
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const uint32_t t : sequence) {
      taken.clear();
      for (const uint32_t other : conflicts_.of(t)) {
        const int64_t at = p.offsets[other];
        if (at >= 0) taken.emplace_back(at, at + temps_[other].bytes);
      }
      std::sort(taken.begin(), taken.end());
      int64_t offset = 0;
      for (const auto& [lo, hi] : taken) {
        if (offset + temps_[t].bytes <= lo) break;
        offset = std::max(offset, hi);
      }
      p.offsets[t] = offset;
      p.arena = std::max(p.arena, offset + temps_[t].bytes);
    }
    visits_ += conflicts_.size() + temps_.size();
    return p;
  }

  /// Moves what ends at the top, or what it conflicts with, to an earlier place in the sequence; a
  /// sequence that needs no more bytes than the one before it takes its place.
  void search() {
    std::minstd_rand random(1);
    const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
    Placement current = best_;
    Sequence sequence = sequence_;
    // Where lanes run side by side the bound is mostly out of reach.
    const size_t patience = 64 + 4 * temps_.size();
    for (size_t tries = 0; !done() && tries < patience; ++tries) {
      Sequence next = sequence;
      std::vector<uint32_t> top;
      for (uint32_t t = 0; t < temps_.size(); ++t) {
        if (current.offsets[t] + temps_[t].bytes == current.arena) top.push_back(t);
      }
      for (size_t moves = 1 + below(3); moves > 0; --moves) {
        uint32_t t = top[below(top.size())];
        const auto others = conflicts_.of(t);
        if (below(2) == 0 && !others.empty()) t = others[below(others.size())];
        const auto at = std::find(next.begin(), next.end(), t);
        const auto place = static_cast<size_t>(at - next.begin());
        const auto to = next.begin() + static_cast<std::ptrdiff_t>(below(place + 1));
        std::rotate(to, at, at + 1);
      }
      Placement p = in_sequence(next);
      if (p.arena > current.arena) continue;
      current = std::move(p);
      sequence = std::move(next);
      if (current.arena >= best_.arena) continue;
      best_ = current;
      tries = 0;
    }
  }

  const std::vector<Temp>& temps_;
  const Conflicts& conflicts_;
  const int64_t bound_;
  Placement best_;
  Sequence sequence_;
  size_t visits_ = 0;
};

}  // namespace

Over over_by_order(const Timeline& timeline) {
  return [&timeline](const Temp& t, uint32_t moment) {
    return t.last.all([&](uint32_t last) { return timeline.ordered(last, moment); });
  };
}

int64_t place(std::vector<Temp>& temps, const Timeline& timeline, const Over& over, int64_t bound) {
  if (temps.empty()) return 0;
  const std::optional<Conflicts> conflicts = Conflicts::find(temps, timeline, over);
  if (!conflicts) return place_best_fit(temps, timeline, over);
  const Placement best = Placer(temps, *conflicts, bound).best();
  for (size_t t = 0; t < temps.size(); ++t) temps[t].offset = best.offsets[t];
  return best.arena;
}

}  // namespace braid
