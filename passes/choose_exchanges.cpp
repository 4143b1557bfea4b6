// Choose: host functions that graphs have the host run.
//
// By handshake one kernel hands over the arguments, waits and takes the results. By a host node it
// is three: a kernel that hands over, the host node, a kernel that takes. All touch the slot of the
// exchange and the header of the mailbox, which hold no values of the model but are memory to
// whoever orders nodes: of functions with side effects each comes after the one before.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/mailbox.hpp"
#include "passes/chooser.hpp"
#include "passes/cost.hpp"
#include "passes/labels.hpp"

namespace braid {

using ir::OpKind;
using ir::ValueId;

namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// The body of the kernel that takes the results: the host op, of whose operands only the types are
/// needed, which say where the results lie.
ir::Graph fetch_body(const ir::Graph& body) {
  ir::Graph fetch("body");
  for (uint32_t i = 0; i < body.ops().size(); ++i) {
    const ir::Op& op = body.ops()[i];
    if (op.kind != OpKind::host) continue;
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(fetch.splat(body.type(v), 0));
    const ValueId made = fetch.clone_op(body, ir::OpId{i}, std::move(operands));
    for (uint32_t r = 0; r < op.results; ++r) {
      fetch.outputs.push_back({fmt::format("r{}", r), {made.index + r}, {}});
    }
  }
  return fetch;
}

}  // namespace

uint32_t Chooser::mailbox_view(int64_t offset) {
  if (mailbox_ == kNone) {
    mailbox_ = add_buffer("mailbox", Segment::mailbox, kMailboxPart, kNone);
  }
  const auto [at, added] =
      mailbox_views_.try_emplace(offset, static_cast<uint32_t>(p_.views.size()));
  if (added) p_.views.push_back({mailbox_, offset, kMailboxPart, {1}, kNone});
  return at->second;
}

void Chooser::finish_mailbox() {
  if (mailbox_ == kNone) return;
  Buffer& b = p_.buffers[mailbox_];
  b.bytes = mailbox_slot_offset(p_.exchanges.size());
  b.type = {DType::i32, Shape::of(std::vector<int64_t>{b.bytes / 4})};
}

void Chooser::exchange(Frame& f, const Group& group) {
  ensure(f.guarded_by == kNone, "a predicated side calls a host function");
  const ir::Graph& g = f.graph;
  const ir::Op& op = g.op(group.ops[0]);
  const auto& attr = std::get<ir::HostAttr>(op.attrs);
  const std::string function(g.strings[attr.function]);
  const auto index = p_.exchanges.size();
  Exchange& made = p_.exchanges.emplace_back();
  made.function = function;
  made.arguments = operand_types(g, op);
  made.results = result_types(g, op);
  made.pure = attr.pure;
  made.way = attr.way;
  made.op = op_label(g, op);
  made.place = place_label(g, op.loc);
  made.why = std::string(g.strings[attr.why]);

  std::vector<ValueId> sources;
  ir::Graph body = extract_body(g, group, &sources);
  const auto add = [&](std::string_view family, ir::Graph part, bool takes, bool gives) {
    Node n;
    n.kernel = kernels_.of_exchange(family, function, std::move(part), attr.pure);
    n.ops = {op_label(g, op)};
    n.place = place_label(g, op.loc);
    n.level = group.level;
    std::tie(n.earliest, n.latest) = window(f.plan.levels, group);
    const auto argument = [&](uint32_t view, uint32_t value) {
      n.args.push_back(view);
      n.values.push_back(value);
      n.values_before.push_back(kNone);
    };
    for (size_t i = 0; takes && i < sources.size(); ++i) {
      argument(view_of(f, sources[i]), f.ids[sources[i].index]);
    }
    for (size_t i = 0; gives && i < group.outputs.size(); ++i) {
      argument(view_of(f, group.outputs[i]), f.ids[group.outputs[i].index]);
    }
    argument(mailbox_view(mailbox_slot_offset(index)), kNone);
    argument(mailbox_view(0), kNone);
    n.estimate_us = kernels_.estimate_us(n.kernel);
    body_for(f, group.level, false).nodes.push_back(std::move(n));
  };
  if (attr.way == ir::HostWay::handshake) {
    add(kExchangeFamily, std::move(body), true, true);
    return;
  }
  ir::Graph fetch = fetch_body(body);
  body.outputs.clear();
  add(kPostFamily, std::move(body), true, false);
  add(kHostNodeFamily, ir::Graph("body"), false, false);
  add(kFetchFamily, std::move(fetch), false, true);
}

void Chooser::mailbox_slots(uint32_t r, size_t first) {
  if (first == p_.exchanges.size()) return;
  const auto add = [&](std::string name, Role role, int64_t offset) {
    const uint32_t view = mailbox_view(offset);
    Region& region = p_.regions[r];
    region.slots.push_back({std::move(name), role, kMailboxPart});
    region.args.push_back(view);
    region.values.push_back(kNone);
    region.values_before.push_back(kNone);
  };
  const bool pure = std::all_of(p_.exchanges.begin() + static_cast<std::ptrdiff_t>(first),
                                p_.exchanges.end(), [](const Exchange& e) { return e.pure; });
  add("mailbox", pure ? Role::in : Role::inout, 0);
  for (size_t i = first; i < p_.exchanges.size(); ++i) {
    add(fmt::format("exchange{}", i), Role::inout, mailbox_slot_offset(i));
  }
}

}  // namespace braid
