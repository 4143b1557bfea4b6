#include "passes/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/region.hpp"
#include "passes/free_ops.hpp"
#include "passes/levels.hpp"
#include "passes/prices.hpp"

namespace braid {
namespace {

using ir::HostWay;
using ir::OpKind;
using ir::ValueId;

bool calls_host(const ir::Graph& graph, const ir::Op& op) {
  if (op.kind == OpKind::host) return true;
  for (uint32_t b : ir::bodies_of(op)) {
    const ir::Graph& body = graph.bodies[b];
    for (const ir::Op& inner : body.ops()) {
      if (calls_host(body, inner)) return true;
    }
  }
  return false;
}

/// By value of a body: whether it follows from what the host gives, or from an argument that does.
std::vector<bool> follows_from_host(const ir::Graph& body, const std::vector<bool>& arguments) {
  std::vector<bool> follows(body.values().size(), false);
  for (size_t i = 0; i < body.ops().size(); ++i) {
    const ir::Op& op = body.ops()[i];
    bool from = i < arguments.size() ? arguments[i] : calls_host(body, op);
    for (ValueId v : op.operands) from = from || follows[v.index];
    for (uint32_t r = 0; r < op.results; ++r) follows[op.result.index + r] = from;
  }
  return follows;
}

/// Whether only what the host gives may end a loop: it has no limit, and its condition follows from
/// that.
bool host_ends(const ir::Graph& g, const ir::Op& op) {
  const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
  if (!loop || loop->limit || loop->condition == ir::kNoBody) return false;
  const ir::Graph &body = g.bodies[loop->body], &condition = g.bodies[loop->condition];
  const size_t first = ir::first_operand_argument(op);
  std::vector<bool> arguments(op.operands.size() + first, false);
  // The argument that each version is of, and the last version of each argument.
  std::vector<size_t> argument(body.values().size(), SIZE_MAX);
  std::vector<ValueId> last(arguments.size());
  for (size_t k = first; k < arguments.size(); ++k) {
    last[k] = body.ops()[k].result;
    argument[last[k].index] = k;
  }
  for (const ir::Op& inner : body.ops()) {
    for (auto [before, after] : ir::versions_made(body, inner)) {
      const size_t k = argument[after.index] = argument[before.index];
      if (k != SIZE_MAX) last[k] = after;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<bool> follows = follows_from_host(body, arguments);
    for (size_t k = first; k < arguments.size(); ++k) {
      const bool carried = k - first < loop->carried;
      const ValueId next = carried ? body.outputs[k - first].value : last[k];
      if (arguments[k] || !follows[next.index]) continue;
      arguments[k] = changed = true;
    }
  }
  return follows_from_host(condition, arguments)[condition.outputs[0].value.index];
}

/// The ways of the host ops of one graph.
class Ways {
 public:
  Ways(ir::Graph& graph, const Options& options, bool in_body, bool endless)
      : g_(graph),
        options_(options),
        in_body_(in_body),
        endless_(endless),
        needed_(graph.values().size(), false),
        written_(graph.values().size(), false) {}

  /// From the last op to the first, so that what comes after each is known.
  void run() {
    for (const ir::Op& op : g_.ops()) {
      for (auto [before, after] : ir::versions_made(g_, op)) written_[before.index] = true;
    }
    outputs();
    for (size_t i = g_.ops().size(); i-- > 0;) {
      ir::Op& op = g_.ops()[i];
      if (op.kind == OpKind::host) choose(op);
      pass_on(op);
    }
  }

 private:
  /// Where an output has no memory of its own a kernel copies it.
  void outputs() {
    std::vector<bool> taken(g_.values().size(), false);
    for (const ir::Output& o : g_.outputs) {
      const ValueId root = memory_root(g_, o.value);
      if (taken[root.index] || !may_be_output(g_, root)) needed_[o.value.index] = true;
      taken[root.index] = true;
    }
  }

  void choose(ir::Op& op) {
    auto& attr = std::get<ir::HostAttr>(op.attrs);
    const HostPrices us = price_host_op(g_, op, in_body_);
    const HostWay asked = attr.way != HostWay::automatic ? attr.way : options_.host;
    std::string why;
    if (endless_) {
      attr.way = HostWay::script;
      why = fmt::format(
          "the loop has no limit, and its condition follows from what the host gives: a graph "
          "would go on with a failed function's zeros and might not end; with a limit {:.1f} us by "
          "a handshake against {:.1f} us",
          us.handshake, us.broken);
    } else if (asked == HostWay::node && in_body_) {
      attr.way = HostWay::handshake;
      why = fmt::format(
          "bodies of conditional nodes hold no host nodes; {:.1f} us against {:.1f} us for a break",
          us.handshake, us.broken);
    } else if (asked != HostWay::automatic) {
      attr.way = asked;
      why = fmt::format("asked for: {:.1f} us by a handshake, {:.1f} us by a break", us.handshake,
                        us.broken);
      if (!in_body_) why += fmt::format(", {:.1f} us by a host node", us.node);
    } else if (one_graph()) {
      attr.way = HostWay::handshake;
      why = fmt::format("one graph is asked for; {:.1f} us, a break {:.1f} us", us.handshake,
                        us.broken);
    } else if (!in_body_ && ends_the_graph(op)) {
      attr.way = HostWay::script;
      why = "no work of the GPU comes after it, so it ends no graph early";
    } else if (us.handshake <= us.broken) {
      attr.way = HostWay::handshake;
      why = fmt::format("{:.1f} us against {:.1f} us for a break", us.handshake, us.broken);
    } else {
      attr.way = HostWay::script;
      why = fmt::format("{:.1f} us against {:.1f} us for a handshake", us.broken, us.handshake);
    }
    attr.why = g_.strings.intern(why);
  }

  bool one_graph() const {
    return options_.require_single_graph || options_.on_break == OnBreak::error;
  }

  /// Whether nothing that a graph holds must come after the op.
  bool ends_the_graph(const ir::Op& op) const {
    if (acts_on_host(g_, op) && order_needed_) return false;
    for (uint32_t r = 0; r < op.results; ++r) {
      if (needed_[op.result_at(r).index]) return false;
    }
    // Whatever replaces a version that it reads comes after it.
    for (ValueId v : op.operands) {
      while (g_.def(v).kind == OpKind::view || g_.def(v).kind == OpKind::read) {
        v = g_.def(v).operands[0];
      }
      if (written_[v.index]) return false;
    }
    return true;
  }

  /// What the op says of those before it.
  void pass_on(const ir::Op& op) {
    const bool view = op.kind == OpKind::view || op.kind == OpKind::read;
    // Branches and loops may become part of a graph, whatever they hold.
    const bool device = ir::is_region(op.kind) || (is_work(op) && colour_of(op) == Colour::graph);
    for (ValueId v : op.operands) {
      // The host takes memory: views other than reshapes are copied for it.
      const bool copied =
          op.kind == OpKind::host && g_.def(memory_root(g_, v)).kind == OpKind::view;
      if (view ? needed_[op.result.index] : device || copied) needed_[v.index] = true;
    }
    if (acts_on_host(g_, op)) order_needed_ = device;
  }

  ir::Graph& g_;
  const Options& options_;
  const bool in_body_;
  const bool endless_;         // in a loop that only the host ends
  std::vector<bool> needed_;   // by value: by work of the device
  std::vector<bool> written_;  // by version: another one replaces it
  bool order_needed_ = false;  // the next op that acts on the host is part of a graph
};

}  // namespace

HostPrices price_host_op(const ir::Graph& graph, const ir::Op& op, bool in_body) {
  const auto bytes_of = [](const std::vector<TensorType>& types) {
    double bytes = 0;
    for (const TensorType& t : types) bytes += static_cast<double>(t.bytes());
    return bytes;
  };
  const double taken = bytes_of(operand_types(graph, op)),
               given = bytes_of(result_types(graph, op));
  const Prices& p = kPrices;
  const double bus_us = (taken + given) / p.bus_bytes_per_us;
  const double first = std::min(taken + given, p.dma_first_bytes);
  const double copies_us = (taken > 0 ? p.dma_us : 0) + (given > 0 ? p.dma_us : 0) +
                           first / p.dma_bytes_per_us + (taken + given - first) / p.dma_rest_per_us;
  const double turn_us = p.host_sync_us + p.graph_launch_us;
  return {p.handshake_us + bus_us, turn_us + copies_us + (in_body ? turn_us : 0),
          p.host_node_us + bus_us, copies_us};
}

void choose_host_ways(ir::Graph& graph, const Options& options) {
  const auto on = [&](ir::Graph& g, bool in_body, bool endless, const auto& self) -> void {
    Ways(g, options, in_body, endless).run();
    for (const ir::Op& op : g.ops()) {
      if (!calls_host(g, op)) continue;
      const bool endless_inside = endless || host_ends(g, op);
      for (uint32_t b : ir::bodies_of(op)) self(g.bodies[b], true, endless_inside, self);
    }
  };
  on(graph, false, false, on);
}

}  // namespace braid
