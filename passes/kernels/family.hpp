// A kernel family turns the body of a fused group into CUDA C++ text and a launch shape.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/graph.hpp"
#include "ir/program.hpp"

namespace braid::kernels {

struct Emitted {
  std::string text;  // one extern "C" __global__ function named `symbol`; helpers in prelude()
  LaunchShape launch;
};

struct Family {
  std::string_view name;
  /// Empty if this family can compute the body; else the reason why not.
  std::string (*refuses)(const ir::Graph& body);
  /// A kernel that computes the body `parts` times side by side, each on arguments of its own; the
  /// grid's y axis counts the parts. Arguments, part after part: one pointer per input and param in
  /// op order, then one per output.
  Emitted (*emit)(const ir::Graph& body, std::string_view symbol, const Target& target,
                  uint32_t parts);
};

std::span<const Family> families();
const Family& family(std::string_view name);

/// Device helpers that every module starts with: conversions by PTX, block reductions, the
/// functions that the scalar table's CUDA text calls. Includes no header.
std::string_view prelude();

}  // namespace braid::kernels
