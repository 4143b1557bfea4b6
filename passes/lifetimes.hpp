// When temporaries are in use, over the whole script.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "passes/order.hpp"

namespace braid {

/// The moments of a script, numbered in its order: every node of a body that it launches, and every
/// copy between host and device. All of it goes to one stream, so what a step enqueues comes after
/// everything that earlier steps enqueued; inside a body data and lanes decide, not shared bytes.
class Timeline {
 public:
  /// Each body stands in the script at most once.
  explicit Timeline(const Program& p);

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
    for (uint32_t s = 0; s < p.script.size(); ++s) {
      const Step& step = p.script[s];
      if (const Body* body = bodies_[s]) {
        for (uint32_t n = 0; n < body->nodes.size(); ++n) {
          prefetch_args(*body, n);
          for (uint32_t view : body->nodes[n].args) visit(begin_[s] + n, ranges_[view]);
        }
      } else if (step.kind == Step::Kind::read) {
        for (uint32_t view : p.calls[step.index].args) visit(begin_[s], ranges_[view]);
      } else if (step.kind == Step::Kind::write) {
        for (uint32_t view : p.calls[step.index].results) visit(begin_[s], ranges_[view]);
      }
    }
  }
  /// The node of a moment; null for a copy.
  const Node* node(uint32_t moment) const {
    const uint32_t s = step_[moment];
    return bodies_[s] ? &bodies_[s]->nodes[moment - begin_[s]] : nullptr;
  }

 private:
  std::vector<uint32_t> step_, lane_;  // by moment
  // By step: its first moment, and for a launch the body and its order.
  std::vector<uint32_t> begin_;
  std::vector<const Body*> bodies_;
  std::vector<std::optional<Clocks>> clocks_;
  std::vector<Range> ranges_;  // by view
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

struct Lifetimes {
  std::vector<Temp> temps;        // by `first`
  std::vector<uint32_t> temp_of;  // by buffer; UINT32_MAX for what takes no bytes of the arena
};

Lifetimes find_lifetimes(const Program& p, const Timeline& timeline);

/// The same with results in place: a temporary that a node reads last becomes one with a temporary
/// that the node fills, where the kernel allows it, nobody else reads it at the same time, and both
/// have as many bytes. In each node as many bytes as possible are saved.
/// Nothing if there is none.
std::optional<Lifetimes> join_in_place(const Program& p, const Timeline& timeline,
                                       const Lifetimes& apart);

/// The most bytes that are in use at one moment of the script's order. They conflict under any
/// order that keeps to the script's, so no plan needs less.
int64_t most_live(const Lifetimes& lifetimes, const Timeline& timeline);
/// The first moment at which they are.
uint32_t fullest_moment(const Lifetimes& lifetimes, const Timeline& timeline);

}  // namespace braid
