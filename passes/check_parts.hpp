// Inside the checker: what its parts share. None of them uses code of the planner.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.hpp"

namespace braid::checking {

inline constexpr uint32_t kNone = UINT32_MAX;
/// A file may be wrong in as many places as it has bytes: after this many findings the proof over
/// the script ends.
inline constexpr size_t kMostFindings = 100;

/// Sentences about what is wrong.
class Findings {
 public:
  template <class... T>
  void add(fmt::format_string<T...> text, T&&... args) {
    all_.push_back(fmt::format(text, std::forward<T>(args)...));
  }
  bool empty() const { return all_.empty(); }
  size_t count() const { return all_.size(); }
  bool full() const { return all_.size() >= kMostFindings; }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

/// "node 3 (row_add_12ab34cd)", "node 3 of graph 2 (region 4)".
std::string node_name(const Program& p, const Body& body, uint32_t node);
/// "buffer 3 'h'".
std::string buffer_name(const Program& p, uint32_t buffer);
/// "call 1 (sample)".
std::string call_name(const Program& p, uint32_t call);

/// "region 2 'gate (branch)'".
std::string region_name(const Program& p, uint32_t region);
/// "side 1 of region 2 'gate (branch)'".
std::string side_name(const Program& p, uint32_t region, uint32_t side);

/// Whether a view shows a part of the mailbox, which holds no values.
inline bool in_mailbox(const Program& p, uint32_t view) {
  return p.buffers[p.views[view].buffer].segment == Segment::mailbox;
}

/// The bytes [lo, hi) of a view. Spaces never overlap: the arena, the constants, and every other
/// buffer by itself.
struct Range {
  int64_t space = 0, lo = 0, hi = 0;
  bool operator==(const Range&) const = default;
};
Range range_of(const Program& p, uint32_t view);
inline constexpr int64_t kArena = -1, kConstants = -2;  // spaces

/// check_kernels.cpp: slots and copies of the body, legal launches, what may be in place.
void check_kernels(const Program& p, Findings& out);
/// check_user.cpp: a kernel of the user's, or one that is none; and in whose modules kernels are.
void check_user_kernel(const Program& p, const Kernel& k, Findings& out);
void check_user_modules(const Program& p, Findings& out);

/// check_shape.cpp: buffers, views, bindings, nodes, edges and calls, each by itself. With nothing
/// found, every index that the other parts follow is in range.
void check_shape(const Program& p, Findings& out);

/// check_regions.cpp: how regions, bodies, nodes and handles belong together; how many nodes may
/// run at once. With nothing found, indices of regions are in range too. Needs check_shape.
void check_regions(const Program& p, Findings& out);

/// check_exchanges.cpp: calls of host functions inside graphs: their kernels, host nodes, the
/// mailbox and who sees it. Needs check_regions.
void check_exchanges(const Program& p, Findings& out);

/// check_script.cpp: each body and call once and complete, runs in order, colours in turn. Needs
/// check_regions.
void check_script(const Program& p, Findings& out);

/// check_flow.cpp: lanes are chains, conflicts are ordered, bytes hold the values that are
/// expected. Needs all of the above.
void check_flow(const Program& p, Findings& out);

}  // namespace braid::checking
