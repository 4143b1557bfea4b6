// Choose: branches and loops.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/region.hpp"
#include "passes/chooser.hpp"
#include "passes/labels.hpp"
#include "passes/script.hpp"

namespace braid {

using ir::OpKind;
using ir::ValueId;

namespace {

constexpr uint32_t kNone = UINT32_MAX;

Region::Kind kind_of(ir::Lowering lowering) {
  switch (lowering) {
    case ir::Lowering::node:
      return Region::Kind::node;
    case ir::Lowering::predicate:
      return Region::Kind::predicate;
    case ir::Lowering::host:
      return Region::Kind::host;
    default:
      throw InternalError("a branch or loop without a lowering: the control pass gives it one");
  }
}

}  // namespace

void Chooser::region(Frame& f, const Group& group) {
  const ir::Op& op = f.graph.op(group.ops[0]);
  ensure(f.guarded_by == kNone, "a predicated side holds a branch or a loop");
  const auto r = static_cast<uint32_t>(p_.regions.size());
  const size_t first_buffer = p_.buffers.size(), first_exchange = p_.exchanges.size();
  p_.regions.emplace_back();
  describe(f, op, r);
  const Region::Kind kind = p_.regions[r].kind;
  const std::vector<uint32_t> bodies = ir::bodies_of(op);
  if (kind == Region::Kind::node) {
    body_for(f, group.level, false);  // it stands before the sides
    for (uint32_t s = 0; s < bodies.size(); ++s) {
      p_.regions[r].bodies.push_back(static_cast<uint32_t>(p_.bodies.size()));
      Body& body = p_.bodies.emplace_back();
      body.region = r;
      body.branch = s;
    }
  }
  for (uint32_t s = 0; s < bodies.size(); ++s) {
    Frame inner = side(f, op, r, s);
    if (kind == Region::Kind::predicate) {
      for (const Group& one : inner.plan.fusion.groups) {
        Node made = node(inner, one);
        made.level = group.level;
        std::tie(made.earliest, made.latest) = window(f.plan.levels, group);
        body_for(f, group.level, false).nodes.push_back(std::move(made));
      }
    } else if (kind == Region::Kind::node) {
      inner.order.push_back({Step::Kind::launch, p_.regions[r].bodies[s]});
      work(inner);
      ensure(inner.order.size() == 1, "the body of a conditional node is one graph");
    } else {
      work(inner);
      p_.regions[r].scripts.push_back(write_script(p_, inner.order));
    }
    size_t state = 0;
    for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
      if (!f.graph.value(op.operands[k]).state) continue;
      const ValueId a = inner.graph.ops()[k - ir::first_argument(op)].result;
      Region::State& of = p_.regions[r].states[state++];
      of.entry.push_back(inner.ids[a.index]);
      of.exit.push_back(inner.ids[inner.newest[a.index].index]);
    }
  }
  if (kind == Region::Kind::predicate) return;
  accesses(f, op, r);
  mailbox_slots(r, first_exchange);
  add_slab(f, r, first_buffer);
  if (kind == Region::Kind::host) {
    f.order.push_back({Step::Kind::region, r});
    return;
  }
  Node made;
  made.kernel = kNoKernel;
  made.region = r;
  made.args = p_.regions[r].args;
  made.values = p_.regions[r].values;
  made.values_before = p_.regions[r].values_before;
  made.ops = {p_.regions[r].op};
  made.place = p_.regions[r].place;
  made.level = group.level;
  std::tie(made.earliest, made.latest) = window(f.plan.levels, group);
  body_for(f, group.level, false).nodes.push_back(std::move(made));
}

/// What is known of the region before its sides.
void Chooser::describe(Frame& f, const ir::Op& op, uint32_t r) {
  Region made;
  const auto* branch = std::get_if<ir::BranchAttr>(&op.attrs);
  const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
  made.kind = kind_of(branch ? branch->lowering : loop->lowering);
  made.loop = loop != nullptr;
  made.region = f.region;
  made.branch = f.branch;
  made.sides = branch ? static_cast<uint32_t>(branch->bodies.size()) : 1;
  if (loop) made.unrolled = std::max(loop->unroll, 1u);
  made.why = std::string(f.graph.strings[branch ? branch->why : loop->why]);
  const bool state = f.graph.value(op.operands[0]).state;
  made.flag = state ? view_of(f, op.operands[0]) : in_memory(f, op.operands[0]).first;
  made.op = op_label(f.graph, op);
  made.place = place_label(f.graph, op.loc);
  for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
    const ValueId v = op.operands[k];
    if (!f.graph.value(v).state) continue;
    const ValueId after = ir::next_version(f.graph, op, k);
    made.states.push_back({view_of(f, after), f.ids[v.index], f.ids[after.index], {}, {}});
  }
  p_.regions[r] = std::move(made);
}

Chooser::Frame Chooser::side(Frame& f, const ir::Op& op, uint32_t r, uint32_t index) {
  const uint32_t body = ir::bodies_of(op)[index];
  Frame s = open(f.graph.bodies[body], f.plan.bodies[body]);
  if (p_.regions[r].kind == Region::Kind::predicate) {
    s.region = f.region;
    s.branch = f.branch;
    s.guarded_by = r;
    s.side = index;
    s.flag = p_.regions[r].flag;
    s.flag_value = p_.views[s.flag].value;
  } else {
    s.region = r;
    s.branch = index;
  }
  const uint32_t first = ir::first_argument(op);
  for (size_t k = first; k < op.operands.size(); ++k) {
    const ValueId v = op.operands[k];
    const uint32_t a = s.graph.ops()[k - first].result.index;
    if (f.graph.value(v).state) {
      s.buffers[a] = f.buffers[v.index];
      // A loop's second iteration finds another version than its first one.
      if (op.kind == OpKind::branch || f.ids[v.index] == kNone) s.ids[a] = f.ids[v.index];
    } else {
      std::tie(s.views[a], s.ids[a]) = in_memory(f, v);
      s.buffers[a] = p_.views[s.views[a]].buffer;
    }
  }
  place_state(s);
  return s;
}

/// What the region reads and writes around it follows from its operands: nothing else goes in.
void Chooser::accesses(Frame& f, const ir::Op& op, uint32_t r) {
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const ValueId v = op.operands[k];
    const TensorType& type = f.graph.type(v);
    uint32_t view, value, before = kNone;
    Role role = Role::in;
    if (!f.graph.value(v).state) {
      std::tie(view, value) = in_memory(f, v);
    } else if (k < ir::first_argument(op)) {
      view = view_of(f, v);
      value = f.ids[v.index];
    } else {
      const ValueId after = ir::next_version(f.graph, op, k);
      view = view_of(f, after);
      value = f.ids[after.index];
      before = f.ids[v.index];
      role = before == kNone ? Role::out : Role::inout;
    }
    Region& region = p_.regions[r];
    region.slots.push_back({fmt::format("a{}", k), role, type});
    region.args.push_back(view);
    region.values.push_back(value);
    region.values_before.push_back(before);
  }
}

void Chooser::add_slab(Frame& f, uint32_t r, size_t first_buffer) {
  const auto first = p_.buffers.begin() + static_cast<std::ptrdiff_t>(first_buffer);
  const bool any = std::any_of(first, p_.buffers.end(), [&](const Buffer& b) {
    return b.region == r && b.segment == Segment::temp;
  });
  if (!any) return;
  const TensorType type{DType::i8, {Dim(0)}};  // the memory pass finds the size
  const uint32_t slab =
      add_buffer(fmt::format("slab of {}", p_.regions[r].op), Segment::temp, type, f.region);
  const uint32_t value = next_id_++;
  p_.views.push_back({slab, 0, type, row_major_strides(type.shape.extents()), value});
  Region& region = p_.regions[r];
  region.slab = slab;
  region.slots.push_back({"slab", Role::out, type});
  region.args.push_back(static_cast<uint32_t>(p_.views.size() - 1));
  region.values.push_back(value);
  region.values_before.push_back(kNone);
}

}  // namespace braid
