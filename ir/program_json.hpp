// Program as JSON: one schema for `inspect --format=program` and for the header of a .braid file.
#pragma once

#include "ir/json_fields.hpp"
#include "ir/program.hpp"

namespace braid {

/// Everything but sources, images and constants.
Json program_json(const Program& p);
/// The inverse. Throws std::runtime_error (or a JSON exception) naming what is wrong; checks types
/// and enumerations, not indices: check() does that.
Program program_from_json(const Json& j);

}  // namespace braid
