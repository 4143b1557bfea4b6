#include "passes/fuse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>
#include <utility>

#include "passes/free_ops.hpp"
#include "passes/fuse_greedy.hpp"
#include "passes/library_dots.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

/// The groups that are not empty, each after those it depends on, otherwise by their last ops. No
/// group depends on one of a later level, so that they come by level.
std::vector<uint32_t> order_groups(const ir::Graph& graph, const FuseFacts& facts,
                                   const GrownGroups& grown) {
  const size_t n = grown.groups.size();
  std::vector<std::vector<uint32_t>> after(n);
  std::vector<uint32_t> waiting(n, 0);
  const auto edge = [&](uint32_t from, uint32_t to) {
    if (from == kNone || from == to) return;
    if (!after[from].empty() && after[from].back() == to) return;
    after[from].push_back(to);
    ++waiting[to];
  };
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const uint32_t to = grown.group_of[i];
    if (to == kNone) continue;
    for (ValueId v : graph.ops()[i].operands) {
      edge(grown.group_of[graph.value(facts.source[v.index]).def.index], to);
    }
    for (OpId from : facts.before[i]) edge(grown.group_of[from.index], to);
  }
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // level, last op, group
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto make_ready = [&](uint32_t g) {
    ready.emplace(grown.groups[g].level, grown.groups[g].ops.back().index, g);
  };
  size_t present = 0;
  for (uint32_t g = 0; g < n; ++g) {
    if (grown.groups[g].ops.empty()) continue;
    ++present;
    if (waiting[g] == 0) make_ready(g);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t g = std::get<2>(ready.top());
    ready.pop();
    order.push_back(g);
    for (uint32_t to : after[g]) {
      if (--waiting[to] == 0) make_ready(to);
    }
  }
  ensure(order.size() == present, "fuse: groups depend on each other in a circle");
  return order;
}

void find_outputs(const ir::Graph& graph, const FuseFacts& facts, Fusion& fusion) {
  std::vector<bool> in_memory = facts.is_output;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    if (fusion.group_of[i] == kNone) continue;
    const ir::Op& op = graph.ops()[i];
    for (uint32_t r = 0; r < op.results; ++r) {
      if (graph.value(op.result_at(r)).state) in_memory[op.result.index + r] = true;
    }
    for (ValueId v : op.operands) {
      const ValueId source = facts.source[v.index];
      if (fusion.group_of[graph.value(source).def.index] != fusion.group_of[i]) {
        in_memory[source.index] = true;
      }
    }
  }
  for (Group& group : fusion.groups) {
    group.outputs.clear();
    for (OpId id : group.ops) {
      const ir::Op& op = graph.op(id);
      // Only what is written by index can be left out.
      const bool all = group.family != FamilyId::row && group.family != FamilyId::dot &&
                       group.family != FamilyId::chain;
      for (uint32_t r = 0; r < op.results; ++r) {
        const ValueId v = op.result_at(r);
        if (in_memory[v.index] || all) group.outputs.push_back(v);
      }
    }
  }
}

}  // namespace

std::string_view name_of(FamilyId f) {
  constexpr std::array<std::string_view, 9> kNames{
      "row", "dot", "host", "region", "exchange", "user", "library", "compact", "chain"};
  return kNames[static_cast<size_t>(f)];
}

FamilyId family_of(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::host:
      return colour_of(op) == Colour::host ? FamilyId::host : FamilyId::exchange;
    case OpKind::branch:
    case OpKind::loop:
      return FamilyId::region;
    case OpKind::kernel:
      return FamilyId::user;
    case OpKind::library:
      return FamilyId::library;
    case OpKind::compact:
      return FamilyId::compact;
    case OpKind::dot:
      return FamilyId::dot;
    default:
      return FamilyId::row;
  }
}

Fusion fuse(const ir::Graph& graph, const HomePlan& homes, const Levels& levels, bool fuse_on) {
  return fuse_around(graph, homes, levels, fuse_on, {});
}

Fusion fuse_around(const ir::Graph& graph, const HomePlan& homes, const Levels& levels,
                   bool fuse_on, const LibraryGroups& given) {
  const FuseFacts facts = fuse_facts(graph, homes);
  GrownGroups grown = grow_groups(graph, facts, levels, fuse_on, given);
  for (Group& group : grown.groups) std::sort(group.ops.begin(), group.ops.end());
  return arrange_groups(graph, facts, std::move(grown));
}

Fusion arrange_groups(const ir::Graph& graph, const FuseFacts& facts, GrownGroups grown) {
  Fusion fusion;
  for (uint32_t g : order_groups(graph, facts, grown)) {
    fusion.groups.push_back(std::move(grown.groups[g]));
  }
  fusion.group_of.assign(graph.ops().size(), kNone);
  for (uint32_t g = 0; g < fusion.groups.size(); ++g) {
    for (OpId id : fusion.groups[g].ops) fusion.group_of[id.index] = g;
  }
  find_outputs(graph, facts, fusion);
  return fusion;
}

std::string Fusion::print(const ir::Graph& graph) const {
  std::string text =
      fmt::format("fusion: {} group{}\n", groups.size(), groups.size() == 1 ? "" : "s");
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    text += fmt::format("group {} {} level {}\n", g, name_of(group.family), group.level);
    for (OpId id : group.ops) {
      const ir::Op& op = graph.op(id);
      const auto* map = std::get_if<ir::MapAttr>(&op.attrs);
      const auto* reduce = std::get_if<ir::ReduceAttr>(&op.attrs);
      const auto* scatter = std::get_if<ir::ScatterAttr>(&op.attrs);
      text += fmt::format("  op {}: {}", id.index, ir::info(op.kind).name);
      if (scatter && scatter->fn) text += fmt::format(" {}", info(*scatter->fn).name);
      if (map) text += fmt::format(" {}", info(map->fn).name);
      if (reduce) text += fmt::format(" {}", info(reduce->fn).name);
      if (!graph.name_of(id).empty()) text += fmt::format(" {}", graph.name_of(id));
      if (std::find(group.outputs.begin(), group.outputs.end(), op.result) != group.outputs.end()) {
        text += fmt::format(" -> {}", to_string(graph.type(op.result), &graph.dims));
      }
      text += '\n';
    }
  }
  return text;
}

}  // namespace braid
