// Choose: one Node per group, one Kernel per distinct body, a Buffer per value in memory, a Region
// per branch and loop.
// needs: fusion. breaks: nothing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "ir/region.hpp"
#include "passes/chooser.hpp"
#include "passes/free_ops.hpp"
#include "passes/host.hpp"
#include "passes/labels.hpp"
#include "passes/script.hpp"

namespace braid {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

namespace {
constexpr uint32_t kNone = UINT32_MAX;
}

std::pair<uint32_t, uint32_t> window(const Levels& levels, const Group& group) {
  uint32_t earliest = 0, latest = kNone;
  for (OpId id : group.ops) {
    earliest = std::max(earliest, levels.earliest[id.index]);
    latest = std::min(latest, levels.latest[id.index]);
  }
  return {earliest, latest};
}

void Chooser::run() {
  c_.program = Program{};
  p_.name = c_.graph.name;
  p_.target = options_.target;
  p_.options = to_string(options_);
  p_.dims = c_.dims;
  p_.repeats = c_.graph.repeats;
  p_.source_ops = c_.source_ops;
  p_.graphs = c_.levels.graphs;
  p_.runs = c_.levels.runs;
  p_.dissolved = c_.dissolved;
  messages(c_.graph);
  Frame f = open(c_.graph, c_);
  interface(f);
  work(f);
  // A graph without work is a program that does nothing: one empty launch.
  if (f.order.empty()) {
    p_.graphs = p_.runs = 1;
    p_.bodies.emplace_back();
    f.order.push_back({Step::Kind::launch, 0});
  }
  p_.script = write_script(p_, f.order);
  finish_mailbox();
  addressable();
  for (ParamBinding& b : p_.params) {
    b.last_value = f.ids[f.newest[b.first_value].index];
    b.written = b.last_value != b.first_value;
  }
}

Chooser::Frame Chooser::open(const ir::Graph& graph, const PlannedGraph& plan) {
  const size_t values = graph.values().size();
  Frame f{.graph = graph, .plan = plan};
  f.ids.resize(values);
  std::iota(f.ids.begin(), f.ids.end(), next_id_);
  next_id_ += static_cast<uint32_t>(values);
  f.buffers.assign(values, kNone);
  f.views.assign(values, kNone);
  f.newest.resize(values);
  f.params.resize(values);
  return f;
}

void Chooser::messages(const ir::Graph& graph) {
  ir::for_each_graph(graph, [&](const ir::Graph& g) {
    for (const ir::Op& op : g.ops()) {
      const auto* send = std::get_if<ir::SendAttr>(&op.attrs);
      if (!send) continue;
      if (p_.messages.size() <= send->id) p_.messages.resize(send->id + 1);
      p_.messages[send->id] = {send->kind,
                               std::string(g.strings[send->text]),
                               g.type(op.operands[1]),
                               static_cast<uint32_t>(op.operands.size() - 2),
                               op_label(g, op),
                               place_label(g, op.loc)};
    }
  });
}

/// What follows adds up buffers: together they must stay below 2^62 bytes, as each does.
void Chooser::addressable() const {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t total = 0;
  for (const Buffer& b : p_.buffers) {
    const int64_t padded = (b.bytes + 255) / 256 * 256;
    if (padded <= kMost - total) {
      total += padded;
      continue;
    }
    std::vector<const Buffer*> largest;
    for (const Buffer& other : p_.buffers) largest.push_back(&other);
    std::stable_sort(largest.begin(), largest.end(),
                     [](const Buffer* x, const Buffer* y) { return x->bytes > y->bytes; });
    Diagnostic d;
    d.code = "E0705";
    d.message = "the model's tensors take more than 2^62 bytes together";
    for (size_t i = 0; i < largest.size() && i < 3; ++i) {
      d.details.push_back(fmt::format("{} {}: {}, {} bytes", name_of(largest[i]->segment),
                                      largest[i]->name, to_string(largest[i]->type),
                                      largest[i]->bytes));
    }
    d.suggestion = "make their extents smaller";
    throw Error(std::move(d));
  }
}

uint32_t Chooser::add_buffer(std::string name, Segment segment, const TensorType& type,
                             uint32_t region) {
  p_.buffers.push_back({std::move(name), segment, type, type.bytes(), 0, region});
  return static_cast<uint32_t>(p_.buffers.size() - 1);
}

/// Inputs, params and outputs in the graph's order.
void Chooser::interface(Frame& f) {
  const ir::Graph& g = f.graph;
  for (const ir::Op& op : g.ops()) {
    const std::string name(g.strings[op.name]);
    const uint32_t v = op.result.index;
    if (const auto* scalar = std::get_if<ir::ScalarAttr>(&op.attrs)) {
      const uint32_t b = add_buffer(name, Segment::scalar, g.type(op.result), kNone);
      p_.buffers[b].offset = p_.scalar_bytes;
      p_.scalar_bytes += kScalarAlignment;
      f.buffers[v] = b;
      p_.scalars.push_back({name, b, f.ids[v], scalar->value});
    } else if (op.kind == OpKind::input) {
      f.buffers[v] = add_buffer(name, Segment::input, g.type(op.result), kNone);
      p_.inputs.push_back({name, f.buffers[v], f.ids[v]});
    } else if (const auto* param = std::get_if<ir::ParamAttr>(&op.attrs)) {
      f.buffers[v] = add_buffer(name, Segment::param, g.type(op.result), kNone);
      p_.params.push_back({name, f.buffers[v], param->init, param->scale, false, f.ids[v], 0});
    }
  }
  for (const ir::Output& o : g.outputs) {
    const ValueId root = memory_root(g, o.value);
    const bool read = g.def(root).kind == OpKind::read;
    const ValueId version = read ? g.def(root).operands[0] : root;
    const ValueId home = read ? g.op(ir::param_of(g, version)).result : root;
    ensure(f.buffers[home.index] == kNone, "an output without memory of its own");
    const uint32_t b = add_buffer(o.name, Segment::output, g.type(o.value), kNone);
    f.buffers[home.index] = b;
    p_.outputs.push_back({o.name, b, f.ids[version.index]});
  }
  place_state(f);
}

/// Every version lives in its param's one buffer.
void Chooser::place_state(Frame& f) {
  const ir::Graph& g = f.graph;
  const auto version = [&](ValueId v, ValueId of) {
    f.params[v.index] = of;
    f.newest[of.index] = v;
    f.buffers[v.index] = f.buffers[of.index];
  };
  for (const ir::Op& op : g.ops()) {
    if (op.kind == OpKind::param) {
      uint32_t& b = f.buffers[op.result.index];
      const std::string name(g.strings[op.name]);
      const Segment segment = std::holds_alternative<ir::HandleAttr>(op.attrs) ? Segment::handle
                              : std::holds_alternative<ir::RingAttr>(op.attrs) ? Segment::ring
                                                                               : Segment::temp;
      // A variable and a handle hold nothing at first.
      if (b == kNone) {
        b = add_buffer(name, segment, g.type(op.result), f.region);
        if (segment != Segment::ring) f.ids[op.result.index] = kNone;
      } else if (std::holds_alternative<ir::LocalAttr>(op.attrs) && f.region == kNone &&
                 f.guarded_by == kNone) {
        f.ids[op.result.index] = kNone;
      }
      version(op.result, op.result);
    }
    for (auto [before, after] : ir::versions_made(g, op)) version(after, f.params[before.index]);
  }
}

void Chooser::work(Frame& f) {
  for (const Group& group : f.plan.fusion.groups) {
    if (group.family == FamilyId::host) {
      f.order.push_back({Step::Kind::call, call(f, group)});
    } else if (group.family == FamilyId::region) {
      region(f, group);
    } else if (group.family == FamilyId::exchange) {
      exchange(f, group);
    } else {
      kernel(f, group);
    }
  }
}

Body& Chooser::body_for(Frame& f, uint32_t run, bool outside) {
  if (!f.order.empty() && f.order.back().kind == Step::Kind::launch) {
    Body& last = p_.bodies[f.order.back().index];
    if (last.run == run && last.stream == outside) return last;
  }
  f.order.push_back({Step::Kind::launch, static_cast<uint32_t>(p_.bodies.size())});
  Body& body = p_.bodies.emplace_back();
  body.run = run;
  body.stream = outside;
  body.region = f.region;
  body.branch = f.branch;
  return body;
}

void Chooser::kernel(Frame& f, const Group& group) {
  Node made = node(f, group);
  body_for(f, group.level, f.graph.op(group.ops[0]).outside).nodes.push_back(std::move(made));
}

uint32_t Chooser::call(Frame& f, const Group& group) {
  const ir::Op& op = f.graph.op(group.ops[0]);
  Call call;
  call.function = std::string(f.graph.strings[std::get<ir::HostAttr>(op.attrs).function]);
  call.op = op_label(f.graph, op);
  call.place = place_label(f.graph, op.loc);
  call.copies_us = price_host_op(f.graph, op, false).copies;
  call.level = group.level;
  std::tie(call.earliest, call.latest) = window(f.plan.levels, group);
  for (ValueId v : op.operands) {
    const auto [view, value] = in_memory(f, v);
    call.args.push_back(view);
    call.values.push_back(value);
  }
  for (ValueId v : group.outputs) {
    call.results.push_back(view_of(f, v));
    call.result_values.push_back(f.ids[v.index]);
  }
  p_.calls.push_back(std::move(call));
  return static_cast<uint32_t>(p_.calls.size() - 1);
}

std::pair<uint32_t, uint32_t> Chooser::in_memory(Frame& f, ValueId v) {
  // Through reshapes and the read of a param to what lies in memory, under the value's type.
  ValueId root = memory_root(f.graph, v);
  if (f.graph.def(root).kind == OpKind::read) root = f.graph.def(root).operands[0];
  const uint32_t seen = view_as(f, root, f.graph.type(v));
  return {seen, f.ids[root.index]};
}

/// The buffer of a value in memory, made on first use for constants and temporaries.
uint32_t Chooser::buffer_of(Frame& f, ValueId v) {
  uint32_t& b = f.buffers[v.index];
  if (b != kNone) return b;
  const ir::Op& op = f.graph.def(v);
  const std::string label = op_label(f.graph, op);
  if (op.kind == OpKind::constant) {
    const ir::Literal& l = f.graph.literals[std::get<ir::ConstAttr>(op.attrs).literal];
    b = add_buffer(label, Segment::constant, f.graph.type(v), kNone);
    p_.constants.resize((p_.constants.size() + 255) / 256 * 256);
    p_.buffers[b].offset = static_cast<int64_t>(p_.constants.size());
    p_.constants.insert(p_.constants.end(), l.bytes.begin(), l.bytes.end());
  } else {
    b = add_buffer(label, Segment::temp, f.graph.type(v), f.region);
  }
  return b;
}

uint32_t Chooser::view_of(Frame& f, ValueId v) {
  const uint32_t buffer = buffer_of(f, v);
  uint32_t& view = f.views[v.index];
  if (view == kNone) {
    view = static_cast<uint32_t>(p_.views.size());
    const TensorType& type = f.graph.type(v);
    p_.views.push_back({buffer, 0, type, row_major_strides(type.shape.extents()), f.ids[v.index]});
  }
  return view;
}

uint32_t Chooser::view_as(Frame& f, ValueId v, const TensorType& type) {
  const uint32_t plain = view_of(f, v);
  if (p_.views[plain].type == type) return plain;
  p_.views.push_back(p_.views[plain]);
  p_.views.back().type = type;
  p_.views.back().strides = row_major_strides(type.shape.extents());
  return static_cast<uint32_t>(p_.views.size() - 1);
}

Node Chooser::node(Frame& f, const Group& group) {
  const ir::Graph& g = f.graph;
  std::vector<ValueId> sources;
  ir::Graph body = extract_body(g, group, &sources);
  Node n;
  // What each param that the group writes holds afterwards.
  std::map<ValueId, ValueId> after;
  for (ValueId v : sources) {
    if (g.value(v).state) after[v] = v;
  }
  for (OpId id : group.ops) {
    const ir::Op& op = g.op(id);
    n.ops.push_back(op_label(g, op));
    for (auto [taken, made] : ir::versions_made(g, op)) {
      for (auto& [before, newest] : after) {
        if (newest == taken) newest = made;
      }
    }
  }
  const bool guarded = f.guarded_by != kNone;
  std::optional<Guard> guard;
  if (guarded) guard = {p_.views[f.flag].type, static_cast<int32_t>(f.side)};
  n.kernel = kernels_.of(g, group, std::move(body), guard);
  n.level = group.level;
  std::tie(n.earliest, n.latest) = window(f.plan.levels, group);
  n.place = place_label(g, g.op(group.ops.back()).loc);
  const std::vector<ArgSlot>& slots = p_.kernels[n.kernel].args;
  const auto add = [&](uint32_t view, uint32_t value, uint32_t before) {
    n.args.push_back(view);
    n.values.push_back(value);
    n.values_before.push_back(before);
  };
  for (size_t s = 0; s < sources.size(); ++s) {
    const ValueId v = sources[s];
    const ValueId held = slots[s].role == Role::in ? v : after.at(v);
    add(view_of(f, held), f.ids[held.index], slots[s].role == Role::inout ? f.ids[v.index] : kNone);
  }
  for (ValueId v : group.outputs) {
    if (!g.value(v).state) add(view_of(f, v), f.ids[v.index], kNone);
  }
  if (const Kernel& k = p_.kernels[n.kernel]; k.workspace != 0) {
    const uint32_t buffer =
        add_buffer(n.ops.back() + " workspace", Segment::temp, k.args.back().type, f.region);
    p_.views.push_back({buffer, 0, k.args.back().type, {1}, next_id_});
    add(static_cast<uint32_t>(p_.views.size() - 1), next_id_++, kNone);
  }
  if (guarded) {
    n.region = f.guarded_by;
    n.branch = f.side;
    add(f.flag, f.flag_value, kNone);
  }
  n.estimate_us = kernels_.estimate_us(n.kernel);
  return n;
}

void choose_kernels(Compilation& c, const Options& o) { Chooser(c, o).run(); }

}  // namespace braid
