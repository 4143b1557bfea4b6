// The TOML reader: a model description becomes calls of the builder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/builder.hpp"
#include "frontend/weights.hpp"

namespace braid {

/// [compile] settings of the file, which the environment and flags override (see Options).
struct TomlCompile {
  std::optional<std::string> target;
  std::optional<std::string> math;  // "strict" or "tf32"
  std::optional<std::string> dots;  // "auto", "braid" or "cublaslt"
  std::optional<int64_t> streams;
  std::optional<std::string> on_break;         // "allow", "warn" or "error"
  std::optional<int64_t> memory_limit;         // bytes
  std::optional<std::string> branches, loops;  // names of lowerings
  std::optional<std::string> host;             // name of a HostWay
  std::optional<int64_t> unroll, unroll_limit;
  std::optional<bool> fuse, chain, group, reuse, reduce, split, pdl, simplify, require_single_graph;
  std::map<std::string, Place, std::less<>> places;  // of the values
};

struct TomlModel {
  std::unique_ptr<Graph> graph;
  TomlCompile compile;
  std::map<std::string, Place> constant_dims{};  // those of [dims] that take no value from outside
  std::optional<WeightsFrom> weights{};  // [weights]; the path as this process would open it
  std::vector<Diagnostic> warnings{};    // of severity warning, in the order of the file
};

/// Dtypes for names of [dtypes], in place of the file's: {"T", bf16}.
using TomlDTypes = std::vector<std::pair<std::string, DType>>;

/// Reads a model. Throws Error with every mistake of the file: places with carets, both operands'
/// types, "did you mean". `file` is used for places, and the path of [weights] counts from it.
TomlModel read_toml(std::string_view text, std::string_view file, const TomlDTypes& dtypes = {});
/// The same from disk; an unreadable file is an Error.
TomlModel load_toml(const std::string& path, const TomlDTypes& dtypes = {});

}  // namespace braid
