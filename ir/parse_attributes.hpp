// Types and attributes of .bir text, in terms of the graph that is being read.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"
#include "ir/parse_reader.hpp"

namespace braid::ir {

class GraphReader : protected Reader {
 protected:
  using Reader::Reader;

  TensorType type();
  Dim dim();
  /// What follows the "{", and the "}". `poisoned`: some operands are missing, as the lines that
  /// define them are wrong.
  void attributes(Graph::NewOp& op, bool poisoned);

  Graph graph_;

 private:
  void known_dim();
  void attribute(Graph::NewOp& op, const std::string& name, const Place& place, bool poisoned);
  bool region_attribute(Graph::NewOp& op, const std::string& name);
  bool send_attribute(SendAttr& attr, const std::string& name);
  // parse_code.cpp
  bool kernel_attribute(KernelAttr& attr, const std::string& name);
  bool library_attribute(LibraryAttr& attr, const std::string& name);
  CodeParameter parameter();
  Extent extent();
  std::array<Extent, 3> three();
  StrId string_attribute(std::string_view what);
  void sort(Graph::NewOp& op, const Place& place);
  int checked_axis(int64_t axis, const Place& place);
  /// At least 0 and below 2^32.
  uint32_t take_count(std::string_view what);
  /// A list with one entry per axis of the operand.
  Axes per_axis(const Graph::NewOp& op, bool poisoned);
};

}  // namespace braid::ir
