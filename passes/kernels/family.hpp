// A kernel family turns the body of a fused group into CUDA C++ text and a launch shape.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "ir/program.hpp"

namespace braid::kernels {

struct Emitted {
  std::string text;  // one extern "C" __global__ function named `symbol`; helpers in prelude()
  LaunchShape launch;
};

/// A kernel that leaves at once, all threads, before it does anything else, unless the b1[] or
/// i32[] that its last argument points to is `value`. It has one part.
struct Guard {
  DType dtype = DType::b1;
  int32_t value = 0;
};

/// How a program uses a kernel, beyond its body.
struct Use {
  uint32_t parts = 1;  // copies of the body side by side, each on arguments of its own
  std::optional<Guard> guard{};
  /// The kernel executes griddepcontrol.wait itself before it touches anything but `fixed`
  /// arguments, and lets those behind a programmatic edge start then. From sm_90 on.
  bool waits = false;
  /// By argument of one part: nothing in the program writes it. Those beyond the end are not.
  std::vector<bool> fixed{};
};

/// What is known of a kernel's launch before its text is written, for the cost model.
struct Work {
  int64_t blocks = 0;
  uint32_t threads = 0;      // of a block
  int64_t shared_bytes = 0;  // of a block
  /// Cycles of an H200 that the kernel takes by itself, beyond what an empty one takes; other
  /// targets count alike.
  double cycles = 0;
  /// Cycles in which it would be done if it shared every SM with others of its kind, so that only
  /// throughput counted: at most `cycles`.
  double busy_cycles = 0;
};

struct Family {
  std::string_view name;
  /// Empty if this family can compute the body; else the reason why not.
  std::string (*refuses)(const ir::Graph& body);
  /// A kernel that computes the body `parts` times side by side; the grid's y axis counts the
  /// parts. Arguments, part after part: one per input and param in op order, then one per output;
  /// at the end the guard's. Each is a pointer, that of a ring to a RingControl, but for a param
  /// with HandleAttr, which is the 64-bit handle itself.
  Emitted (*emit)(const ir::Graph& body, std::string_view symbol, const Target& target,
                  const Use& use);
  /// Which outputs may have the bytes of which inputs, as slots of that order. What is listed here
  /// the text that `emit` writes must bear.
  std::vector<InPlace> (*in_place)(const ir::Graph& body, const Target& target);
  /// How `emit` would launch all parts, at a small part of its cost. Throws what `emit` throws.
  Work (*work)(const ir::Graph& body, const Target& target, uint32_t parts);
};

std::span<const Family> families();
const Family& family(std::string_view name);

/// Device helpers that every module starts with: conversions by PTX, block reductions, the
/// functions that the scalar table's CUDA text calls. Includes no header.
std::string_view prelude();

}  // namespace braid::kernels
