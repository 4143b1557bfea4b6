#define XXH_INLINE_ALL
#include "passes/kernel_table.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "ir/mailbox.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"
#include "passes/body_key.hpp"
#include "passes/cost.hpp"
#include "passes/kernels/family.hpp"
#include "passes/kernels/user.hpp"
#include "passes/labels.hpp"
#include "passes/library_dots.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;

/// A name as part of a C identifier, as far as 32 characters go.
std::string identifier(std::string_view name) {
  std::string text(name.substr(0, 32));
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

/// "_dot_add_relu": the group's ops, each kind once, as far as 32 characters go.
std::string describe(const ir::Graph& graph, const Group& group, std::string_view family) {
  std::string text;
  std::vector<std::string> seen;
  if (const auto* user = std::get_if<ir::KernelAttr>(&graph.op(group.ops[0]).attrs)) {
    return "_" + identifier(graph.strings[user->name]);
  }
  for (OpId id : group.ops) {
    const std::string m = kind_label(graph, graph.op(id));
    if (std::find(seen.begin(), seen.end(), m) != seen.end()) continue;
    seen.push_back(m);
    if (m == family) continue;
    if (text.size() + 1 + m.size() > 32) break;
    text += "_" + m;
  }
  return text;
}

/// What a symbol's hash is made from.
std::string hashed_text(const ir::Graph& body, const Group& group) {
  if (group.family != FamilyId::user) return ir::print(body);
  ir::Graph anywhere = body;
  kernels::drop_folders(anywhere);
  return ir::print(anywhere);
}

/// Leading arguments are the body's inputs and params, the rest its outputs.
std::vector<ArgSlot> slots_of_body(const ir::Graph& body) {
  std::vector<ArgSlot> slots;
  std::map<uint32_t, size_t> slot_of;  // by version
  for (const ir::Op& op : body.ops()) {
    if (op.kind == OpKind::input || op.kind == OpKind::param) {
      slot_of[op.result.index] = slots.size();
      slots.push_back({std::string(body.strings[op.name]),
                       op.kind == OpKind::input ? Role::in : Role::out, body.type(op.result)});
    } else if (op.kind == OpKind::read) {
      const size_t s = slot_of.at(op.operands[0].index);
      slots[s].role = Role::inout;
      slot_of[op.result.index] = s;
    }
    for (auto [before, after] : ir::versions_made(body, op)) {
      const size_t s = slot_of.at(before.index);
      // An update leaves most of the old version in place, which counts as reading it.
      if (op.kind != OpKind::assign) slots[s].role = Role::inout;
      slot_of[after.index] = s;
    }
  }
  for (const ir::Output& o : body.outputs) {
    slots.push_back({o.name, Role::out, body.type(o.value)});
  }
  return slots;
}

struct LibraryUse {
  std::string function;
  int64_t workspace = 0;
};
/// Nothing for a group whose kernel we write.
std::optional<LibraryUse> library_use(const Group& group, const ir::Graph& body, bool guarded,
                                      const Options& options) {
  if (group.family == FamilyId::library) {
    const auto op = std::find_if(body.ops().begin(), body.ops().end(),
                                 [](const ir::Op& o) { return o.kind == OpKind::library; });
    const auto& attr = std::get<ir::LibraryAttr>(op->attrs);
    return LibraryUse{std::string(body.strings[attr.function]), attr.workspace.value()};
  }
  if (group.family != FamilyId::dot || guarded) return {};
  const std::optional<MatmulBody> product = matmul_body(body);
  if (!product || !wants_library(*product, options)) return {};
  return LibraryUse{std::string(kCublasLtMatmul), library_workspace(*product)};
}

TensorType workspace_type(int64_t bytes) {
  return {DType::u8, Shape::of(std::vector<int64_t>{bytes})};
}

}  // namespace

uint32_t KernelTable::of(const ir::Graph& graph, const Group& group, ir::Graph body,
                         const std::optional<Guard>& guard) {
  const std::optional<LibraryUse> library = library_use(group, body, guard.has_value(), options_);
  const std::string_view family = library ? "library" : name_of(group.family);
  std::string key = body_key(body);
  key += family;
  const std::string condition =
      guard ? fmt::format(" guard {} {}", to_string(guard->type), guard->value) : "";
  key += condition;
  const auto [it, added] =
      kernels_.try_emplace(std::move(key), static_cast<uint32_t>(p_.kernels.size()));
  if (!added) return it->second;
  const std::string text = fmt::format("{}\n{}{}", family, hashed_text(body, group), condition);
  Kernel k = costed_kernel(family, std::move(body));
  k.symbol = symbol_of(std::string(family) + describe(graph, group, family),
                       XXH3_64bits(text.data(), text.size()));
  k.args = slots_of_body(k.body);
  if (library) {
    k.code = Code::library;
    k.module = UINT32_MAX;  // none
    k.function = library->function;
    k.workspace = library->workspace;
    if (k.workspace != 0) k.args.push_back({"workspace", Role::out, workspace_type(k.workspace)});
  } else {
    if (group.family == FamilyId::user) kernels::describe_user_kernel(k);
    k.in_place = kernels::family(k.family).in_place(k.body, options_.target);
  }
  estimates_.push_back(braid::estimate_us(k, options_.target));
  if (guard) {
    k.guard = guard->value;
    k.args.push_back({"guard", Role::in, guard->type});
  }
  p_.kernels.push_back(std::move(k));
  return it->second;
}

uint32_t KernelTable::of_exchange(std::string_view family, std::string_view function,
                                  ir::Graph body, bool pure) {
  std::string key = body_key(body);
  key += fmt::format("{} {}", family, pure);
  const auto [it, added] =
      kernels_.try_emplace(std::move(key), static_cast<uint32_t>(p_.kernels.size()));
  if (!added) return it->second;
  const std::string text = fmt::format("{} {}\n{}", family, pure, ir::print(body));
  Kernel k = costed_kernel(family, std::move(body));
  k.symbol = symbol_of(fmt::format("{}_{}", family, identifier(function)),
                       XXH3_64bits(text.data(), text.size()));
  if (family == kHostNodeFamily) k.code = Code::host;
  k.args = slots_of_body(k.body);
  estimates_.push_back(braid::estimate_us(k, options_.target));
  k.exchanges = true;
  k.args.push_back({"slot", Role::inout, kMailboxPart});
  k.args.push_back({"mailbox", pure ? Role::in : Role::inout, kMailboxPart});
  p_.kernels.push_back(std::move(k));
  return it->second;
}

/// Bodies are told apart by their whole text, of which a symbol carries 32 bits of hash.
std::string KernelTable::symbol_of(const std::string& stem, uint64_t hash) {
  std::string symbol = fmt::format("{}_{:08x}", stem, static_cast<uint32_t>(hash));
  while (!symbols_.insert(symbol).second) symbol = fmt::format("{}_{:016x}", stem, hash++);
  return symbol;
}

}  // namespace braid
