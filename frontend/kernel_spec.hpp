// A kernel of the caller's own, as he describes it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace braid {

/// A number, or an extent as it is written: 128, "T", "ceil(T, 4)".
struct LaunchExtent {
  LaunchExtent(int64_t v) : text(std::to_string(v)) {}  // NOLINT: implicit
  LaunchExtent(int v) : text(std::to_string(v)) {}      // NOLINT: implicit
  LaunchExtent(const char* s) : text(s) {}              // NOLINT: implicit
  LaunchExtent(std::string s) : text(std::move(s)) {}   // NOLINT: implicit
  std::string text;
};

/// A __global__ function in CUDA C++, and how it is launched.
struct KernelSpec {
  std::string name;    // in errors and reports
  std::string code{};  // its text, or else ...
  std::string file{};  // ... the file that has it; with a `code`, the file to name in errors
  /// As C++ names it; "rope<64>" for a template. Default: the name.
  std::string function{};
  /// In the order of the function's: "in x: f32[T, 64]" (const float*), "out y: f32[T]" and "inout
  /// c: f32[C, 64]" (float*), "i32 T" and "f32 0.5" (by value). A name that is no dim of the model
  /// stands for the extent that the argument has there. An extent is made of integers, names,
  /// + - * / and parentheses; in numbers and below also ceil(a, b), a / b rounded up.
  std::vector<std::string> parameters{};
  std::vector<LaunchExtent> grid{1}, block{1};  // up to three extents: blocks, threads of a block
  LaunchExtent shared = 0;                      // bytes of dynamic shared memory
  std::vector<std::string> include{};           // folders
  /// A host function that computes the same, for the simulator: it gets the arguments, and fills
  /// the `out` tensors, then the new values of the `inout` ones, in order.
  std::string reference{};
  uint32_t line = 1;  // in `file`, of the first line of `code`
};

}  // namespace braid
