#pragma once

namespace braid::test {

/// Of `all` rounds of a random test those to go: a third under sanitizers. What is computed is
/// proved by other builds; errors of memory show in fewer rounds.
constexpr int rounds(int all) { return BRAID_SANITIZED ? all / 3 : all; }

}  // namespace braid::test
