// What a Program calls the ops that it stands for.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace braid {

/// The op's mnemonic; "copy" for a cast to the dtype that its operand has.
std::string kind_label(const ir::Graph& g, const ir::Op& op);
/// "l1/dot" for an op named after its kind, "h (add)" for one with a name of its own.
std::string op_label(const ir::Graph& g, const ir::Op& op);
/// "'h' (add)", or the mnemonic alone where it has no name: within sentences.
std::string quoted_label(const ir::Graph& g, const ir::Op& op);
/// "mlp.toml:12:3", or empty. Without the file's folders: a plan does not depend on where the model
/// lies.
std::string place_label(const ir::Graph& g, const ir::Loc& loc);

}  // namespace braid
