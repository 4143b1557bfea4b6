// The .bir text form: printed and parsed, one op a line, types once at the definition, bodies of
// branches and loops in braces after their op.
// Grammar and example: ir/README.md.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace braid::ir {

/// The newest version. A text says 1 where it has nothing that is newer.
inline constexpr int kBirVersion = 3;

struct PrintOptions {
  bool places = false;  // append `loc("file":line:col)` to each op
};
/// Deterministic; parse(print(g)) prints the same text.
std::string print(const Graph& graph, const PrintOptions& options = {});
/// What the text calls an op: the function of a map ("relu") or reduction ("reduce_add"), the kind
/// of a view, else the kind of op.
std::string mnemonic(const Op& op);
/// In quotes, with what the text form escapes.
std::string quoted(std::string_view s);
/// One op as print() would write it, without bodies, for error messages.
std::string print_op(const Graph& graph, OpId id);

/// Throws Error with every mistake found. `file` is used for places.
Graph parse(std::string_view text, std::string_view file = "<bir>");

}  // namespace braid::ir
