#include "passes/control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/region.hpp"
#include "passes/control_messages.hpp"
#include "passes/control_region.hpp"
#include "passes/labels.hpp"
#include "passes/plan.hpp"

namespace braid {
namespace {

using ir::Lowering;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

bool is_ring(const ir::Op& op) { return std::holds_alternative<ir::RingAttr>(op.attrs); }

/// Writes one graph anew without branches and loops of the value form.
class Lowerer {
 public:
  Lowerer(const ir::Graph& graph, const Options& options, std::vector<Dissolved>& dissolved)
      : g_(graph),
        options_(options),
        dissolved_(dissolved),
        out_(graph),
        to_(graph.values().size()),
        used_(graph.values().size(), false) {}

  ir::Graph run() {
    out_.reserve(g_);
    for (const ir::Op& op : g_.ops()) {
      for (ValueId v : op.operands) used_[v.index] = true;
    }
    for (const ir::Output& o : g_.outputs) used_[o.value.index] = true;
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const ir::Op& op = g_.ops()[i];
      if (ir::is_region(op.kind) && !is_lowered(op)) {
        lower(op);
        continue;
      }
      std::vector<ValueId> operands;
      for (ValueId v : op.operands) operands.push_back(to_[v.index]);
      map_results(to_, op, out_.graph.clone_op(g_, OpId{i}, std::move(operands)));
    }
    for (const ir::Output& o : g_.outputs) {
      out_.graph.outputs.push_back({o.name, to_[o.value.index], out_.place(g_, o.loc)});
    }
    return std::move(out_.graph);
  }

 private:
  bool is_lowered(const ir::Op& op) const {
    const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
    return loop ? ir::has_flag(*loop) : g_.value(op.operands[0]).state;
  }

  void lower(const ir::Op& op) {
    ValueRegion region;
    region.name =
        op.name.valid() ? std::string(g_.strings[op.name]) : std::string(ir::info(op.kind).name);
    region.loc = out_.place(g_, op.loc);
    region.lead = ir::first_operand_argument(op);
    const uint32_t first = ir::first_argument(op);
    for (size_t k = first; k < op.operands.size(); ++k) {
      region.args.push_back(to_[op.operands[k].index]);
    }
    for (uint32_t b : ir::bodies_of(op)) {
      region.bodies.push_back(Lowerer(g_.bodies[b], options_, dissolved_).run());
    }
    const size_t outputs = region.bodies[0].outputs.size();
    for (uint32_t o = 0; o < outputs; ++o) {
      region.wanted.push_back(used_[op.result_at(o).index]);
    }
    const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
    if (loop) region.carried = loop->carried;
    out_.stand_for(g_.strings[op.name], region.loc);
    clean_region(out_, region, options_);
    const Lowered made = loop ? lower_loop_op(op, *loop, region) : lower_branch_op(op, region);

    for (uint32_t o = 0; o < outputs; ++o) {
      const uint32_t at = region.output_of[o];
      to_[op.result_at(o).index] = at == ValueRegion::kNone ? region.same[o] : made.outputs[at];
    }
    for (size_t k = first; k < op.operands.size(); ++k) {
      if (!g_.value(op.operands[k]).state) continue;
      const uint32_t at = region.argument_of[k - first];
      to_[ir::next_version(g_, op, k).index] =
          at == ValueRegion::kNone ? to_[op.operands[k].index] : made.versions[at];
    }
    if (ValueId& first_result = to_[op.result.index]; !first_result.valid() && outputs == 0) {
      first_result = out_.graph.splat(g_.type(op.result), 0);  // there is nothing in it
    }
  }

  Lowered lower_branch_op(const ir::Op& op, const ValueRegion& region) {
    const auto& attr = std::get<ir::BranchAttr>(op.attrs);
    ValueId index = to_[op.operands[0].index];
    const auto last = static_cast<int64_t>(region.bodies.size()) - 1;
    const std::optional<double> known = out_.graph.splat_value(index);
    if (known || last == 0) {
      const auto taken =
          known ? std::clamp(static_cast<int64_t>(*known), int64_t{0}, last) : int64_t{0};
      dissolve(op, Lowering::select, 1,
               known ? fmt::format("what selects is always {}", *known) : "there is one body");
      return take_branch(out_, region, static_cast<size_t>(taken));
    }
    const bool two_way = out_.graph.type(index).dtype == DType::b1;
    const Lowering asked = attr.lowering == Lowering::automatic ? options_.branches : attr.lowering;
    const auto [lowering, why] = choose_branch(region, two_way, asked, out_, options_);
    if (!two_way) {
      index = out_.map(Fn::clamp, {index, out_.number(0), out_.number(last)});
    }
    if (lowering == Lowering::select) {
      dissolve(op, Lowering::select, 1, why);
      return select_branch(out_, region, index);
    }
    return keep_branch(out_, region, index, lowering, why);
  }

  Lowered lower_loop_op(const ir::Op& op, const ir::LoopAttr& attr, const ValueRegion& region) {
    std::optional<int64_t> limit;
    if (attr.limit) limit = attr.limit->value();
    const Lowering asked = attr.lowering == Lowering::automatic ? options_.loops : attr.lowering;
    const int64_t copies = attr.unroll != 0 ? attr.unroll : options_.unroll;
    const LoopPlan plan = choose_loop(region, limit, asked, copies, options_);
    if (plan.lowering == Lowering::unroll) {
      dissolve(op, Lowering::unroll, limit.value_or(0), plan.why);
    }
    return lower_loop(out_, region, plan);
  }

  void dissolve(const ir::Op& op, Lowering lowering, int64_t copies, std::string why) {
    dissolved_.push_back(
        {op_label(g_, op), place_label(g_, op.loc), lowering, copies, std::move(why)});
  }

  const ir::Graph& g_;
  const Options& options_;
  std::vector<Dissolved>& dissolved_;
  Draft out_;
  std::vector<ValueId> to_;
  std::vector<bool> used_;
};

}  // namespace

void lower_control(ir::Graph& graph, const Options& options, std::vector<Dissolved>& dissolved) {
  number_sends(graph);
  const auto any = [&](const auto& holds) {
    return std::any_of(graph.ops().begin(), graph.ops().end(), holds);
  };
  const bool regions = any([](const ir::Op& op) { return ir::is_region(op.kind); });
  if (regions) graph = Lowerer(graph, options, dissolved).run();
  // A ring without sends and the handle of a branch that does nothing cannot be planned.
  if (!options.simplify && (regions || any(is_ring))) graph = sweep(graph);
  if (options.simplify && regions) graph = simplify(graph);
  finish_sends(graph);
}

}  // namespace braid
