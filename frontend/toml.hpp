// The TOML reader: a model description becomes calls of the builder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "frontend/builder.hpp"

namespace braid {

/// [compile] settings of the file; flags of the command line override them.
struct TomlCompile {
  std::optional<std::string> target;
  std::optional<int64_t> streams;
};

struct TomlModel {
  std::unique_ptr<Graph> graph;
  TomlCompile compile;
};

/// Reads a model. Throws Error with every mistake of the file: places with carets, both operands'
/// types, "did you mean". `file` is used for places only.
TomlModel read_toml(std::string_view text, std::string_view file);
/// The same from disk; an unreadable file is an Error.
TomlModel load_toml(const std::string& path);

}  // namespace braid
