// What the fuzz targets share. Each hands arbitrary bytes to one reader: an Error is a good answer,
// and what is accepted must survive being written, read again, and compiled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace braid::fuzz {

/// Ends the process where libFuzzer takes it for a crash.
[[noreturn]] void fail(const std::string& what);

/// The graph is well formed; its text is read back to the same text; and, if it is small, every
/// pass accepts it and the checker its plan. Errors of the user's (a dim without a value) are fine.
void check_graph(const ir::Graph& graph);

/// Writes bytes to a file that lives in memory as long as the process, and gives its path.
const std::string& memory_file(const uint8_t* data, size_t size);

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace braid::fuzz
