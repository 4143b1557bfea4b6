// The kernels of a Program while it is made: each distinct body once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/fuse.hpp"
#include "passes/options.hpp"

namespace braid {

/// A kernel runs only if the flag, a scalar of this type, has this value.
struct Guard {
  TensorType type;
  int32_t value;
};

class KernelTable {
 public:
  KernelTable(Program& p, const Options& o) : p_(p), options_(o) {}

  /// The kernel of a group of `graph` whose body is `body`, guarded if asked; adds it if need be.
  uint32_t of(const ir::Graph& graph, const Group& group, ir::Graph body,
              const std::optional<Guard>& guard);
  /// The kernel of family `family` for a call of a host function by the device: of the slots of
  /// `body`, which names it, and the two of the mailbox. `pure`: it keeps no order.
  uint32_t of_exchange(std::string_view family, std::string_view function, ir::Graph body,
                       bool pure);
  double estimate_us(uint32_t kernel) const { return estimates_[kernel]; }

 private:
  /// `stem` and the hash, or more of it where that is taken.
  std::string symbol_of(const std::string& stem, uint64_t hash);

  Program& p_;
  const Options& options_;
  std::unordered_map<std::string, uint32_t> kernels_;  // by family, body and guard
  std::vector<double> estimates_;                      // by kernel
  std::unordered_set<std::string> symbols_;
};

}  // namespace braid
