#include "passes/labels.hpp"

#include <fmt/format.h>

#include "ir/text.hpp"

namespace braid {

std::string kind_label(const ir::Graph& g, const ir::Op& op) {
  const auto* map = std::get_if<ir::MapAttr>(&op.attrs);
  const bool copy =
      map && map->fn == Fn::cast && g.type(op.operands[0]).dtype == g.type(op.result).dtype;
  return copy ? "copy" : ir::mnemonic(op);
}

std::string quoted_label(const ir::Graph& g, const ir::Op& op) {
  const std::string_view name = g.strings[op.name];
  return name.empty() ? ir::mnemonic(op) : fmt::format("'{}' ({})", name, ir::mnemonic(op));
}

std::string op_label(const ir::Graph& g, const ir::Op& op) {
  const std::string_view name = g.strings[op.name];
  const std::string kind = kind_label(g, op);
  if (name.empty()) return kind;
  const std::string_view last = name.substr(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
  return last == kind ? std::string(name) : fmt::format("{} ({})", name, kind);
}

std::string place_label(const ir::Graph& g, const ir::Loc& loc) {
  if (loc.line == 0) return {};
  std::string_view file = g.strings[loc.file];
  if (const size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}:{}", file, loc.line, loc.column);
}

}  // namespace braid
