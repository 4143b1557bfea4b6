#include "passes/kernels/family.hpp"

#include <string>

#include "ir/diagnostic.hpp"
#include "passes/kernels/chain.hpp"
#include "passes/kernels/compact.hpp"
#include "passes/kernels/dot.hpp"
#include "passes/kernels/exchange.hpp"
#include "passes/kernels/in_place.hpp"
#include "passes/kernels/row.hpp"
#include "passes/kernels/user.hpp"

namespace braid::kernels {
namespace {

std::vector<InPlace> nothing_in_place(const ir::Graph&, const Target&) { return {}; }

constexpr Family kFamilies[] = {
    {"row", row_refuses, row_emit, in_place_slots, row_work},
    // Blocks read operands while others write, and addends between stores.
    {"dot", dot_refuses, dot_emit, nothing_in_place, dot_work},
    {"chain", chain_refuses, chain_emit, nothing_in_place, chain_work},
    {"exchange", exchange_refuses, exchange_emit, nothing_in_place, exchange_work},
    {"post", exchange_refuses, post_emit, nothing_in_place, exchange_work},
    {"fetch", fetch_refuses, fetch_emit, nothing_in_place, exchange_work},
    // Nobody knows what the code does.
    {"user", user_refuses, user_emit, nothing_in_place, user_work},
    // A block reads rows where another one may have written by then.
    {"compact", compact_refuses, compact_emit, nothing_in_place, compact_work},
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
