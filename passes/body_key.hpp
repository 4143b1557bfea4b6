// Tells kernel bodies apart, faster than their text does.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace braid {

/// Bytes that are equal for two static bodies exactly if ir::print would give the same text but for
/// the names of inputs, params and outputs, which extract_body derives from their order.
std::string body_key(const ir::Graph& body);

}  // namespace braid
