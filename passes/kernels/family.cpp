#include "passes/kernels/family.hpp"

#include <string>

#include "ir/diagnostic.hpp"
#include "passes/kernels/compact.hpp"
#include "passes/kernels/dot.hpp"
#include "passes/kernels/in_place.hpp"
#include "passes/kernels/row.hpp"

namespace braid::kernels {
namespace {

constexpr Family kFamilies[] = {
    {"row", row_refuses, row_emit, in_place_slots, row_work},
    // Blocks read operands while others write, and addends between stores: nothing.
    {"dot", dot_refuses, dot_emit,
     [](const ir::Graph&, const Target&) { return std::vector<InPlace>(); }, dot_work},
    // A block reads rows that another one has written over by then: nothing.
    {"compact", compact_refuses, compact_emit,
     [](const ir::Graph&, const Target&) { return std::vector<InPlace>(); }, compact_work},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& family(std::string_view name) {
  for (const Family& f : kFamilies) {
    if (f.name == name) return f;
  }
  throw InternalError("there is no kernel family " + std::string(name));
}

}  // namespace braid::kernels
