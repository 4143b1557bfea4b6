// When temporaries are in use, over a whole script.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "passes/order.hpp"

namespace braid {

/// Where temporaries get places of their own: the outermost script, or one side of a region, whose
/// temporaries lie in the region's slab.
struct Level {
  uint32_t region = UINT32_MAX, side = 0;
  /// Of a conditional node's side: the launch of its body.
  std::vector<Step> script{};
};
/// The outermost one, then those of all regions in order, each region's sides in order.
std::vector<Level> levels_of(const Program& p);

/// The moments of a level's script, numbered in its order: every node of a body that it launches,
/// every copy between host and device, and every region that the host follows. All of it goes to
/// one stream, so what a step enqueues comes after everything that earlier steps enqueued; inside a
/// body data and lanes decide, not shared bytes. A region, as a node or as a step, is one moment,
/// with everything that its sides touch around it.
class Timeline {
 public:
  /// Keeps references to the level, the bodies and the finder, which knows each buffer by itself.
  /// Each body stands in the script at most once.
  Timeline(const Program& p, const Level& level, HazardFinder& finder);

  const Level& level() const { return level_; }

  size_t size() const { return step_.size(); }
  uint32_t step(uint32_t moment) const { return step_[moment]; }
  /// A moment's lane among those of all steps; those of a step follow one another.
  uint32_t lane(uint32_t moment) const { return lane_[moment]; }
  uint32_t lanes() const { return lanes_; }
  /// Whether moment `a` is over before `b` begins.
  bool ordered(uint32_t a, uint32_t b) const {
    const uint32_t s = step_[b];
    if (step_[a] != s) return step_[a] < s;
    return clocks_[s] && clocks_[s]->ordered(*bodies_[s], a - begin_[s], b - begin_[s]);
  }

  /// Calls visit(moment, range) for every access, moment by moment.
  template <class Visit>
  void accesses(const Program& p, const Visit& visit) const {
    for (uint32_t s = 0; s < level_.script.size(); ++s) {
      const Step& step = level_.script[s];
      if (const Body* body = bodies_[s]) {
        for (uint32_t n = 0; n < body->nodes.size(); ++n) {
          prefetch_args(*body, n);
          for (uint32_t view : body->nodes[n].args) visit(begin_[s] + n, ranges_[view]);
        }
      } else if (step.kind == Step::Kind::read) {
        for (uint32_t view : p.calls[step.index].args) visit(begin_[s], ranges_[view]);
      } else if (step.kind == Step::Kind::write) {
        for (uint32_t view : p.calls[step.index].results) visit(begin_[s], ranges_[view]);
      } else if (step.kind == Step::Kind::region) {
        for (uint32_t view : p.regions[step.index].args) visit(begin_[s], ranges_[view]);
      }
    }
  }
  /// The node of a moment; null for a copy, and for a region that the host follows.
  const Node* node(uint32_t moment) const {
    const uint32_t s = step_[moment];
    return bodies_[s] ? &bodies_[s]->nodes[moment - begin_[s]] : nullptr;
  }

 private:
  const Level& level_;
  const std::vector<Range>& ranges_;   // by view
  std::vector<uint32_t> step_, lane_;  // by moment
  // By step: its first moment, and for a launch the body and its order.
  std::vector<uint32_t> begin_;
  std::vector<const Body*> bodies_;
  std::vector<std::optional<Clocks>> clocks_;
  uint32_t lanes_ = 0;
};

/// The last accesses of something, one in each lane that has any; mostly one alone.
class LastAccesses {
 public:
  explicit LastAccesses(uint32_t moment) : first_(moment) {}
  size_t size() const { return 1 + more_.size(); }
  uint32_t operator[](size_t i) const { return i == 0 ? first_ : more_[i - 1]; }
  void set(size_t i, uint32_t moment) { (i == 0 ? first_ : more_[i - 1]) = moment; }
  void add(uint32_t moment) { more_.push_back(moment); }
  template <class Test>
  bool all(const Test& test) const {
    return test(first_) && std::all_of(more_.begin(), more_.end(), test);
  }

 private:
  uint32_t first_;
  std::vector<uint32_t> more_;
};

/// A temporary, or several that lie in place one on the other.
struct Temp {
  int64_t bytes = 0;  // padded to kArenaAlignment
  int64_t offset = 0;
  uint32_t first = 0, end = 0;  // moments, in the script's order; nothing comes before the first
  LastAccesses last{0};         // in the step that uses it last: when these are over, it is free
};

inline constexpr int64_t kArenaAlignment = 256;

/// Of the temporaries that a level places: those whose region is the level's. All that take bytes.
struct Lifetimes {
  std::vector<Temp> temps;        // by `first`
  std::vector<uint32_t> buffers;  // by first use
  std::vector<uint32_t> temp_of;  // by place in `buffers`
};

/// `place_of` by buffer: the place in Lifetimes::buffers of its level. It serves all levels of a
/// program, one after the other, since each buffer is of one; at first all UINT32_MAX. Throws
/// InternalError if a buffer turns up in two levels.
Lifetimes find_lifetimes(const Program& p, const Timeline& timeline,
                         std::vector<uint32_t>& place_of);

/// The same with results in place: a temporary that a node reads last becomes one with a temporary
/// that the node fills, where the kernel allows it, nobody else reads it at the same time, and both
/// have as many bytes. In each node as many bytes as possible are saved. Nothing lies in place in
/// guarded kernels, which may leave everything as it was. `place_of` as find_lifetimes left it.
/// Nothing if there is none.
std::optional<Lifetimes> join_in_place(const Program& p, const Timeline& timeline,
                                       const Lifetimes& apart,
                                       const std::vector<uint32_t>& place_of);

/// The most bytes that are in use at one moment of the script's order. They conflict under any
/// order that keeps to the script's, so no plan needs less.
int64_t most_live(const Lifetimes& lifetimes, const Timeline& timeline);
/// The first moment at which they are.
uint32_t fullest_moment(const Lifetimes& lifetimes, const Timeline& timeline);

}  // namespace braid
