#include "passes/control_price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/code_op.hpp"
#include "passes/chains.hpp"
#include "passes/control_inline.hpp"
#include "passes/cost.hpp"
#include "passes/free_ops.hpp"
#include "passes/fuse.hpp"
#include "passes/home.hpp"
#include "passes/levels.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

/// Assumed where an inner loop's count is not known any more.
constexpr int64_t kInnerTrips = 16;

class Pricer {
 public:
  Pricer(const ir::Graph& body, const Options& options)
      : body_(body), options_(options), plain_(body), to_(body.values().size()) {}

  BodyPrice run() {
    plain_.reserve(body_);
    price_.ops = static_cast<int64_t>(body_.ops().size());
    for (uint32_t i = 0; i < body_.ops().size(); ++i) copy(i);
    outputs();
    count();
    return price_;
  }

 private:
  /// Branches, loops and sends become uses of their operands; all state that of a Store.
  void copy(uint32_t i) {
    const ir::Op& op = body_.ops()[i];
    price_.on_host |= op.outside;
    switch (op.kind) {
      case OpKind::param:
        to_[op.result.index] =
            plain_.graph.add({op.kind,
                              ir::ParamAttr{},
                              {},
                              body_.type(op.result),
                              plain_.graph.strings.intern(body_.strings[op.name])});
        return;
      case OpKind::send:
        price_.sends = true;
        price_.kernels += 1;
        price_.us += kSmallKernelUs;
        wanted_.push_back(op.operands[1]);
        to_[op.result.index] = to_[op.operands[0].index];
        return;
      case OpKind::branch:
      case OpKind::loop:
        region(op);
        return;
      case OpKind::host:
        price_.host_ops += 1;
        // Inside a graph it is a kernel, which is counted with the others.
        if (colour_of(op) == Colour::graph) break;
        price_.on_host = true;
        price_.us += kHostTurnUs;
        break;
      case OpKind::kernel:
      case OpKind::library:
        price_.apart = true;
        break;
      default:
        break;
    }
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(to_[v.index]);
    map_results(to_, op, plain_.graph.clone_op(body_, OpId{i}, std::move(operands)));
  }

  void region(const ir::Op& op) {
    price_.regions = true;
    int64_t kernels = 0;
    double all_us = 0, most_us = 0;
    for (uint32_t b : ir::bodies_of(op)) {
      const BodyPrice inner = price_body(body_.bodies[b], options_);
      kernels += inner.kernels;
      all_us += inner.us;
      most_us = std::max(most_us, inner.us);
      price_.host_ops += inner.host_ops;
      price_.ops += inner.ops;
      price_.on_host |= inner.on_host;
    }
    const auto* branch = std::get_if<ir::BranchAttr>(&op.attrs);
    const ir::Lowering lowering =
        branch ? branch->lowering : std::get<ir::LoopAttr>(op.attrs).lowering;
    price_.on_host |= lowering == ir::Lowering::host;
    price_.kernels += kernels + (lowering == ir::Lowering::node ? 1 : 0);
    const double turn_us = lowering == ir::Lowering::host ? kHostTurnUs
                           : branch                       ? kPrices.branch_us
                                                          : kPrices.while_us;
    if (lowering == ir::Lowering::predicate) {
      price_.us += all_us;
    } else {
      price_.us += (branch ? 1.0 : kInnerTrips) * (turn_us + most_us);
    }
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const ValueId v = op.operands[k];
      if (!body_.value(v).state) {
        wanted_.push_back(v);
      } else if (k >= ir::first_argument(op)) {
        const ValueId next = ir::next_version(body_, op, k);
        to_[next.index] = plain_.param("after", body_.type(v), ir::ParamAttr{});
      }
    }
    for (uint32_t r = 0; r < op.results; ++r) {
      ValueId& to = to_[op.result.index + r];
      if (!to.valid()) to = plain_.input("result", body_.type(op.result_at(r)));
    }
  }

  /// What is made by work and must be in memory; what is only handed on is counted.
  void outputs() {
    for (const ir::Output& o : body_.outputs) {
      const ir::OpKind root = body_.def(memory_root(body_, o.value)).kind;
      if (!is_work(body_.def(memory_root(body_, o.value))) && root != OpKind::view) {
        price_.copies += 1;
      }
      wanted_.push_back(o.value);
    }
    std::vector<bool> taken(plain_.graph.values().size(), false);
    for (ValueId v : wanted_) {
      const ValueId root = memory_root(plain_.graph, to_[v.index]);
      const ir::Op& op = plain_.graph.def(root);
      if ((!is_work(op) && op.kind != OpKind::view) || taken[root.index]) continue;
      taken[root.index] = true;
      plain_.graph.outputs.push_back({fmt::format("o{}", plain_.graph.outputs.size()), root, {}});
    }
  }

  void count() {
    ir::Graph& g = plain_.graph;
    const HomePlan homes = plan_homes(g);
    const Levels levels = assign_levels(g, homes);
    Fusion fusion = fuse(g, homes, levels, options_.fuse);
    if (options_.fuse && options_.chain) join_chains(g, homes, options_, fusion);
    for (const Group& group : fusion.groups) {
      if (group.family == FamilyId::host) continue;
      const Kernel k = costed_kernel(name_of(group.family), extract_body(g, group, nullptr));
      price_.kernels += 1;
      price_.us += estimate_us(k, options_.target) + kPrices.chain_edge_us;
    }
  }

  const ir::Graph& body_;
  const Options& options_;
  Draft plain_;
  std::vector<ValueId> to_;
  std::vector<ValueId> wanted_;
  BodyPrice price_;
};

}  // namespace

double BodyPrice::assigned_us() const { return us + static_cast<double>(copies) * kSmallKernelUs; }

BodyPrice price_body(const ir::Graph& body, const Options& options) {
  return Pricer(body, options).run();
}

std::string to_string(const BodyPrice& p) {
  return fmt::format("{} kernel{}, {:.1f} us", p.kernels, p.kernels == 1 ? "" : "s", p.us);
}

}  // namespace braid
