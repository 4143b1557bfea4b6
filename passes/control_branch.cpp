// Branches: selected, taken, or kept as an op.
#include <fmt/format.h>

#include <algorithm>

#include "ir/armed_bodies.hpp"
#include "ir/region.hpp"
#include "passes/control_region.hpp"
#include "passes/prices.hpp"

namespace braid {
namespace {

using ir::Lowering;
using ir::OpKind;
using ir::ValueId;

/// The value of those that `index` selects.
ValueId pick(Draft& to, ValueId index, const std::vector<ValueId>& values) {
  ValueId chosen = values[0];
  for (size_t k = 1; k < values.size(); ++k) {
    if (values[k] == chosen) continue;
    const bool truth = to.graph.type(index).dtype == DType::b1;
    const ValueId is = truth ? index : to.map(Fn::eq, {index, to.number(static_cast<int64_t>(k))});
    chosen = to.map(Fn::select, {to.spread(is, to.graph.type(chosen).shape), values[k], chosen});
  }
  return chosen;
}

/// A copy of a body in the effect form: it assigns its outputs to `results` more params.
ir::Graph effect_body(const Draft& outer, const ValueRegion& region, size_t b,
                      const std::vector<std::string>& results) {
  const ir::Graph& body = region.bodies[b];
  Draft to = region.draft(outer, b);
  std::vector<ValueId> args, locals;
  for (size_t k = 0; k < region.args.size(); ++k) {
    const ir::Op& op = body.ops()[k];
    const std::string_view name = body.strings[op.name];
    const TensorType& type = body.type(op.result);
    args.push_back(op.kind == OpKind::param ? to.param(name, type, op.attrs)
                                            : to.input(name, type));
  }
  for (size_t o = 0; o < results.size(); ++o) {
    locals.push_back(to.param(results[o], body.type(body.outputs[o].value), ir::LocalAttr{}));
  }
  const Inliner::Result made = Inliner(body, args.size()).into(to, args);
  for (size_t o = 0; o < results.size(); ++o) {
    to.assign(locals[o], made.outputs[o]);
  }
  return std::move(to.graph);
}

}  // namespace

Lowered take_branch(Draft& to, const ValueRegion& region, size_t taken) {
  const Inliner body(region.bodies[taken], region.arguments());
  Inliner::Result made = body.into(to, region.args);
  return {std::move(made.outputs), std::move(made.versions)};
}

Lowered select_branch(Draft& to, const ValueRegion& region, ValueId index) {
  const size_t count = region.args.size();
  std::vector<ValueId> old(count);
  for (size_t k = 0; k < count; ++k) {
    if (region.written[k]) old[k] = to.read(region.args[k]);
  }
  std::vector<std::vector<ValueId>> outputs(region.bodies[0].outputs.size()), states(count);
  for (const ir::Graph& body : region.bodies) {
    const Inliner inliner(body, count);
    std::vector<ValueId> args = region.args;
    for (size_t k = 0; k < count; ++k) {
      if (!region.written[k]) continue;
      // The side works on a copy of its own; where it only assigns, simplify removes that again.
      args[k] = old[k];
      if (inliner.writes(k)) {
        const std::string name(body.strings[body.ops()[k].name]);
        args[k] = to.assign(to.param(fmt::format("{}/{}", region.name, name), to.graph.type(old[k]),
                                     ir::LocalAttr{}),
                            old[k]);
      }
    }
    const Inliner::Result made = inliner.into(to, args);
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o].push_back(made.outputs[o]);
    for (size_t k = 0; k < count; ++k) {
      if (!region.written[k]) continue;
      states[k].push_back(inliner.writes(k) ? to.read(made.versions[k]) : old[k]);
    }
  }
  Lowered result;
  for (const auto& values : outputs) result.outputs.push_back(pick(to, index, values));
  for (size_t k = 0; k < count; ++k) {
    result.versions.push_back(
        region.written[k] ? to.assign(region.args[k], pick(to, index, states[k])) : ValueId{});
  }
  return result;
}

Lowered keep_branch(Draft& to, const ValueRegion& region, ValueId index, Lowering lowering,
                    std::string_view why) {
  std::vector<ValueId> operands{index};
  operands.insert(operands.end(), region.args.begin(), region.args.end());
  std::vector<std::string> names;
  const ir::Graph& first = region.bodies[0];
  for (const ir::Output& o : first.outputs) {
    names.push_back(fmt::format("{}/{}", region.name, o.name));
    operands.push_back(to.param(names.back(), first.type(o.value), ir::LocalAttr{}));
  }
  if (lowering == Lowering::node) {
    const ValueId handle =
        to.param(fmt::format("{}/handle", region.name), to.graph.type(index), ir::HandleAttr{});
    operands[0] = to.assign(handle, index);
  }
  ir::BranchAttr attr{{}, lowering, to.graph.strings.intern(why)};
  for (size_t b = 0; b < region.bodies.size(); ++b) {
    attr.bodies.push_back(static_cast<uint32_t>(to.graph.bodies.size()));
    to.graph.bodies.push_back(effect_body(to, region, b, names));
  }
  const ValueId made = to.add(OpKind::branch, std::move(attr), operands);
  const ir::Op op = to.graph.def(made);
  Lowered result;
  for (size_t k = 0; k < region.args.size(); ++k) {
    result.versions.push_back(region.written[k] ? ir::next_version(to.graph, op, k + 1)
                                                : ValueId{});
  }
  for (size_t o = 0; o < names.size(); ++o) {
    result.outputs.push_back(to.read(ir::next_version(to.graph, op, region.args.size() + 1 + o)));
  }
  return result;
}

namespace {

/// Kernels that copy state which a selected side updates in part.
double scratch_us(const ValueRegion& region, const Draft& to) {
  double us = 0;
  for (size_t k = 0; k < region.args.size(); ++k) {
    if (!region.written[k]) continue;
    for (const ir::Graph& body : region.bodies) {
      for (const ir::Op& op : body.ops()) {
        if (op.kind != OpKind::update) continue;
        const double bytes = static_cast<double>(to.graph.type(region.args[k]).bytes());
        us += 2 * (kSmallKernelUs + 2 * bytes / kPrices.bytes_per_us);
        break;
      }
    }
  }
  return us;
}

}  // namespace

std::pair<Lowering, std::string> choose_branch(const ValueRegion& region, bool two_way,
                                               Lowering asked, const Draft& to,
                                               const Options& options) {
  std::vector<BodyPrice> sides;
  for (const ir::Graph& body : region.bodies) sides.push_back(price_body(body, options));
  const auto all = [&](bool (BodyPrice::*what)() const) {
    return std::all_of(sides.begin(), sides.end(), [&](const BodyPrice& p) { return (p.*what)(); });
  };
  const bool on_host =
      std::any_of(sides.begin(), sides.end(), [](const BodyPrice& p) { return p.on_host; });
  const auto count = static_cast<double>(sides.size());
  int64_t kernels = 0;
  double select_us = scratch_us(region, to), run_us = 0;
  bool idle = false;  // some side has nothing to run
  for (const BodyPrice& p : sides) {
    select_us += p.us;
    run_us += p.assigned_us() / count;
    kernels += p.assigned_kernels();
    idle = idle || p.assigned_kernels() == 0;
  }
  // Every side is taken as often as the others.
  const double others = static_cast<double>(kernels) * (count - 1) / count;
  const double predicate_us = run_us + others * kLeavingKernelUs;
  // A body that has not run slows the kernels around it, which are taken to be as many as its own.
  const double units = static_cast<double>(kernels) + count;
  const double slows_us =
      units > static_cast<double>(kArmedUnits) ? kArmedUs * static_cast<double>(kernels) : 0;
  const double node_us =
      run_us + slows_us + (idle ? (kPrices.branch_us + kPrices.skipped_us) / 2 : kPrices.branch_us);
  const double host_us = run_us + kHostTurnUs;

  const std::string what = fmt::format("{} kernel{} in all", kernels, kernels == 1 ? "" : "s");
  const bool can_select = all(&BodyPrice::pure), can_predicate = all(&BodyPrice::leaf);
  const bool can_node = !on_host;
  const bool granted = (asked == Lowering::select && can_select) ||
                       (asked == Lowering::predicate && can_predicate) ||
                       (asked == Lowering::node && can_node) || asked == Lowering::host;
  std::string why = what;
  if (can_select) why += fmt::format(", select {:.1f} us", select_us);
  if (can_predicate) why += fmt::format(", predicated {:.1f} us", predicate_us);
  if (can_node) why += fmt::format(", {} {:.1f} us", two_way ? "IF" : "SWITCH", node_us);
  if (!can_node || asked == Lowering::host) why += fmt::format(", by the host {:.1f} us", host_us);
  if (granted) return {asked, "asked for: " + why};
  if (!can_node) return {Lowering::host, "it holds work of the host: " + why};
  Lowering best = Lowering::node;
  double best_us = node_us;
  if (can_predicate && predicate_us <= best_us) {
    best = Lowering::predicate;
    best_us = predicate_us;
  }
  if (can_select && select_us <= best_us) best = Lowering::select;
  return {best, why};
}

}  // namespace braid
