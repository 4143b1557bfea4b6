// Typed indices, so that an op cannot be passed for a value.
#pragma once

#include <compare>
#include <cstdint>

namespace braid::ir {

template <class Tag>
struct Id {
  uint32_t index = UINT32_MAX;
  constexpr bool valid() const { return index != UINT32_MAX; }
  constexpr auto operator<=>(const Id&) const = default;
};
using OpId = Id<struct OpTag>;
using ValueId = Id<struct ValueTag>;
using StrId = Id<struct StrTag>;

}  // namespace braid::ir
