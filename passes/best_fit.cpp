#include "passes/best_fit.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory_resource>
#include <numeric>
#include <set>
#include <tuple>

namespace braid {
namespace {

/// Free blocks of the arena, each with the accesses that must be over before it is used again.
class FreeBlocks {
 public:
  FreeBlocks(const Timeline& timeline, const Over& over) : timeline_(timeline), over_(over) {}

  /// The smallest block that is free for `moment`; nothing if none is found.
  std::optional<int64_t> take(int64_t bytes, uint32_t moment) {
    constexpr int kTries = 16;  // where many blocks are still in use by other lanes
    int tries = 0;
    for (auto it = by_size_.lower_bound({bytes, 0, 0}); it != by_size_.end() && tries < kTries;
         ++it, ++tries) {
      const auto block = blocks_.find(std::get<2>(*it));
      if (!over_(block->second, moment)) continue;
      const int64_t offset = block->first;
      Temp rest = std::move(block->second);
      by_size_.erase(it);
      blocks_.erase(block);
      rest.bytes -= bytes;
      rest.offset += bytes;
      if (rest.bytes > 0) add(std::move(rest));
      return offset;
    }
    return std::nullopt;
  }

  /// Joins neighbours that one lane alone has used: the lane itself need not wait for either, while
  /// blocks joined across lanes would always be in use by one of them.
  void give(Temp block) {
    auto next = blocks_.lower_bound(block.offset);
    if (next != blocks_.end() && next->first == block.offset + block.bytes &&
        join(block, next->second)) {
      next = remove(next);
    }
    if (next != blocks_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second.bytes == block.offset && join(block, before->second)) {
        block.offset = before->first;
        remove(before);
      }
    }
    add(std::move(block));
  }

 private:
  using Blocks = std::pmr::map<int64_t, Temp>;  // by offset

  bool join(Temp& block, const Temp& other) const {
    const LastAccesses &a = block.last, &b = other.last;
    if (a.size() != 1 || b.size() != 1 || timeline_.lane(a[0]) != timeline_.lane(b[0])) {
      return false;
    }
    block.last.set(0, std::max(a[0], b[0]));
    block.bytes += other.bytes;
    return true;
  }
  void add(Temp block) {
    by_size_.insert({block.bytes, block.end, block.offset});
    const int64_t offset = block.offset;
    blocks_.emplace(offset, std::move(block));
  }
  Blocks::iterator remove(Blocks::iterator it) {
    by_size_.erase({it->second.bytes, it->second.end, it->first});
    return blocks_.erase(it);
  }

  const Timeline& timeline_;
  const Over& over_;
  std::pmr::unsynchronized_pool_resource pool_;
  Blocks blocks_{&pool_};
  /// Bytes, end, offset: of equal blocks the oldest first, which is likeliest to be over.
  std::pmr::set<std::tuple<int64_t, uint32_t, int64_t>> by_size_{&pool_};
};

}  // namespace

int64_t place_best_fit(std::vector<Temp>& temps, const Timeline& timeline, const Over& over) {
  std::vector<size_t> next(timeline.size() + 1, 0);  // a counting sort by the end
  for (const Temp& t : temps) ++next[t.end + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<uint32_t> by_end(temps.size());
  for (uint32_t t = 0; t < temps.size(); ++t) by_end[next[temps[t].end]++] = t;
  FreeBlocks free(timeline, over);
  int64_t arena = 0;
  auto ended = by_end.begin();
  for (Temp& t : temps) {
    for (; ended != by_end.end() && temps[*ended].end < t.first; ++ended) free.give(temps[*ended]);
    const std::optional<int64_t> offset = free.take(t.bytes, t.first);
    t.offset = offset.value_or(arena);
    if (!offset) arena += t.bytes;
  }
  return arena;
}

}  // namespace braid
