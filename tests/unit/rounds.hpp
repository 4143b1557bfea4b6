#pragma once

namespace braid::test {

/// Of `all` rounds of a random test those to go: a sixth under sanitizers. What is computed is
/// proved by other builds; errors of memory show in fewer rounds.
template <typename T>
constexpr T rounds(T all) {
  return BRAID_SANITIZED ? (all + 5) / 6 : all;
}

}  // namespace braid::test
