// Inside the runtime: is a Program safe to build from?
#pragma once

#include <fmt/format.h>

#include <utility>

#include "ir/diagnostic.hpp"
#include "ir/program.hpp"

namespace braid::runtime {

/// Throws Error (E0830) unless every index, offset and size that the runtime follows is in range,
/// kernel arguments have their slots' types, and edges go forward. That the plan is right is
/// braid::check's business. O(size of the program).
void check_program(const Program& program);

/// The part of it that concerns regions, once all else was found right: they nest, each has its
/// bodies and scripts for itself, and only kernels for which it was made see a handle.
void check_regions(const Program& program);

/// The part that concerns messages: sends are of the forms that they are said to have, and only
/// kernels that send see the ring.
void check_messages(const Program& program);

/// The part that concerns host functions that graphs call: every exchange has a slot of the mailbox
/// and the nodes of its way, which copy what it says, and nobody else sees the mailbox.
void check_exchanges(const Program& program);

/// Throws the Error if not `ok`.
template <class... Args>
void require(const Program& program, bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (ok) return;
  throw_error("E0830", fmt::format("program '{}' is not well formed: ", program.name) +
                           fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace braid::runtime
