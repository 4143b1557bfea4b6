// How two plans differ.
#pragma once

#include <string>
#include <vector>

#include "ir/program.hpp"

namespace braid::report {

struct Quantity {
  std::string name;  // "kernels"
  double a = 0, b = 0;
  enum class Unit : uint8_t { count, bytes, us } unit = Unit::count;
};

/// Kernels that are known by the ops they stand for; the copies of a repeat are one row.
struct KernelChange {
  enum class Kind : uint8_t { removed, added, changed } kind = Kind::changed;
  std::vector<std::string> ops;
  size_t count = 1;
  std::string what;  // of a change: "stream 0 -> 1, row_exp_1f -> row_exp_2e"; else the kernel
};

struct Diff {
  std::string a, b;  // names of the programs, with their options where these differ
  std::vector<Quantity> quantities;
  std::vector<KernelChange> kernels;
  std::vector<std::string> options_a, options_b;  // "fuse=on": those that differ
  std::vector<std::string> breaks_a, breaks_b;    // ops that stand outside in one alone
  std::vector<std::string> lowered_a, lowered_b;  // "y (branch): IF": those that differ
  /// The plans differ in something that is listed.
  bool different() const;
};

/// Matches nodes by their ops. Names, places and sources of kernels do not count.
Diff diff(const Program& a, const Program& b);

std::string to_text(const Diff& d);
/// JSON with "schema": "braid.diff/1", nothing cut.
std::string to_json(const Diff& d);

}  // namespace braid::report
