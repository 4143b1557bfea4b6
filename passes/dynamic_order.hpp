// A topological order of a graph's ops that takes further edges one at a time and refuses those
// that would close a cycle (Pearce and Kelly, "A dynamic topological sort algorithm").
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

class DynamicOrder {
 public:
  /// Begins with the op order and the data edges.
  explicit DynamicOrder(const ir::Graph& graph);

  /// False, and nothing changed, if `to` already comes before `from` by the edges. Costs the size
  /// of the region between the two, nothing if `from` stands before `to`.
  bool add(ir::OpId from, ir::OpId to);

  bool stands_before(ir::OpId a, ir::OpId b) const { return at_[a.index] < at_[b.index]; }
  /// Whether some edge moved an op.
  bool moved() const { return moved_; }
  std::vector<ir::OpId> ops() const;

 private:
  /// All nodes reached from `start` whose positions lie strictly within the bounds; false if
  /// `stop` is reached.
  template <class Next>
  bool reach(uint32_t start, uint32_t low, uint32_t high, uint32_t stop, Next next,
             std::vector<uint32_t>* found);

  const ir::Graph& graph_;
  std::vector<uint32_t> at_;
  std::vector<std::vector<uint32_t>> after_, before_;  // the edges that were added
  std::vector<std::vector<ir::OpId>> users_;           // by value; made when first needed
  std::vector<bool> seen_;
  bool moved_ = false;
};

}  // namespace braid
