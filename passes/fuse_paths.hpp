// How the index of an op's operand follows from the op's own index, through the views between.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"

namespace braid {

/// What a row group walks. A value of the group is full (one element per element of the domain, in
/// row-major order) or a row (one per element of the axes that are not reduced).
struct Domain {
  struct Axis {
    int64_t extent;
    bool reduced;
    bool operator==(const Axis&) const = default;
  };
  int64_t full = 0;        // elements
  int64_t rows = 0;        // equal to full as long as nothing is reduced
  std::vector<Axis> axes;  // neighbours differ in `reduced`, no extent is 1; empty: not known yet
  Shape shape;             // of the reduction's operand, once known

  bool reduced() const { return !axes.empty(); }
  /// The elements of a row lie side by side.
  bool rows_adjacent() const {
    return axes.size() == 1 || (axes.size() == 2 && axes.back().reduced);
  }
  /// The same rows, whatever the shape.
  bool same_rows(const Domain& o) const { return full == o.full && axes == o.axes; }

  static Domain of(int64_t elements) { return {elements, elements, {}, {}}; }
  /// For a reduction over `axes` (bit i: axis i). Not reduced() if those all have extent 1.
  static Domain of(const Shape& shape, uint32_t axes);
};

/// Answers for one graph, remembered by the form of the path: layers repeat.
class Paths {
 public:
  explicit Paths(const ir::Graph& graph) : graph_(graph) {}

  /// Element i of `v`, in row-major order, is element i of the value it is read from.
  bool is_identity(ir::ValueId v);
  /// Element i of `v`, a full value of `domain`, is the element of i's row of the value it is read
  /// from.
  bool is_row_broadcast(ir::ValueId v, const Domain& domain);

 private:
  bool remembered(ir::ValueId v, const Domain* rows);
  bool evaluate(ir::ValueId v, const Domain* rows) const;

  const ir::Graph& graph_;
  std::unordered_map<std::string, bool> known_;
  std::string key_;
};

}  // namespace braid
