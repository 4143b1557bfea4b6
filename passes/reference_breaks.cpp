#include "passes/reference_breaks.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ir/region.hpp"
#include "passes/free_ops.hpp"
#include "passes/labels.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/// By value: whether tensors decide what it is.
using Data = std::vector<bool>;

/// What tensors decide, of a graph and its bodies. A body is looked at once for what it is given.
class Flow {
 public:
  /// `arguments` by op, for those of a body; all else that comes in are tensors, unless the host
  /// sets it.
  const Data& in(const ir::Graph& graph, const Data& arguments) {
    const auto [it, added] = known_.try_emplace({&graph, arguments});
    if (!added) return it->second;
    Data data(graph.values().size(), false);
    for (uint32_t i = 0; i < graph.ops().size(); ++i) {
      const ir::Op& op = graph.ops()[i];
      bool is = op.kind == OpKind::host;
      if (op.kind == OpKind::input || op.kind == OpKind::param) {
        is =
            i < arguments.size() ? arguments[i] : !std::holds_alternative<ir::ScalarAttr>(op.attrs);
      }
      for (ValueId v : op.operands) is = is || data[v.index];
      for (uint32_t r = 0; r < op.results; ++r) data[op.result_at(r).index] = is;
      if (!ir::bodies_of(op).empty()) results(graph, op, data);
    }
    return it->second = std::move(data);
  }

  /// What the bodies of a branch or loop are given, a loop's after any number of iterations.
  Data arguments(const ir::Graph& graph, const ir::Op& op, const Data& data) {
    const uint32_t lead = ir::first_operand_argument(op);
    Data out(lead, false);
    for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
      out.push_back(data[op.operands[k].index]);
    }
    const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
    if (!loop) return out;
    const ir::Graph& body = graph.bodies[loop->body];
    for (bool grown = true; grown;) {
      grown = false;
      const Data& inside = in(body, out);
      Data next = out;
      for (uint32_t k = 0; k < loop->carried; ++k) {
        if (out[lead + k] || !inside[body.outputs[k].value.index]) continue;
        next[lead + k] = grown = true;
      }
      out = std::move(next);
    }
    return out;
  }

  /// Whether tensors decide which side is taken, or whether there is another iteration.
  bool decide(const ir::Graph& graph, const ir::Op& op, const Data& data) {
    const auto* loop = std::get_if<ir::LoopAttr>(&op.attrs);
    if (!loop) return data[op.operands[0].index];
    if (loop->condition == ir::kNoBody) return false;
    const ir::Graph& condition = graph.bodies[loop->condition];
    return in(condition, arguments(graph, op, data))[condition.outputs[0].value.index];
  }

 private:
  void results(const ir::Graph& graph, const ir::Op& op, Data& data) {
    const Data given = arguments(graph, op, data);
    const bool decides = decide(graph, op, data);
    const bool any = decides || std::find(given.begin(), given.end(), true) != given.end();
    for (uint32_t r = 0; r < op.results; ++r) data[op.result_at(r).index] = any;
    if (decides) return;
    std::vector<uint32_t> bodies = ir::bodies_of(op);
    if (op.kind == OpKind::loop) bodies.resize(1);  // without the condition
    const size_t outputs = graph.bodies[bodies[0]].outputs.size();
    for (uint32_t o = 0; o < outputs; ++o) {
      data[op.result_at(o).index] = std::any_of(bodies.begin(), bodies.end(), [&](uint32_t b) {
        return in(graph.bodies[b], given)[graph.bodies[b].outputs[o].value.index];
      });
    }
  }

  std::map<std::pair<const ir::Graph*, Data>, Data> known_;
};

/// What a way through the program has come to.
struct Count {
  int64_t graphs = 0, breaks = 0, each_iteration = 0;
  bool open = false;  // there is work since the last cut

  void cut() {
    graphs = plus(graphs, open ? 1 : 0);
    breaks = plus(breaks, 1);
    open = false;
  }
  auto rank() const { return std::tuple(each_iteration, plus(graphs, open), breaks); }
  /// Then so many times a piece, which began with what is open here.
  Count then(const Count& piece, int64_t more = 1) const {
    return {plus(graphs, times(piece.graphs, more)), plus(breaks, times(piece.breaks, more)),
            plus(each_iteration, times(piece.each_iteration, more)), piece.open};
  }
};

class Walker {
 public:
  /// Of a body alone; `open`: there is work before it.
  Count walk(const ir::Graph& graph, const Data& arguments, bool open) {
    if (const auto it = known_.find({&graph, open}); it != known_.end()) return it->second;
    const Data data = flow_.in(graph, arguments);
    const bool first = !known_.contains({&graph, !open});
    Count c{0, 0, 0, open};
    for (const ir::Op& op : graph.ops()) {
      const std::optional<BreakRule> rule = rule_of(graph, op, data);
      if (rule && first) {
        where.push_back(
            {*rule, op_label(graph, op), place_label(graph, op.loc), copies_, each_iteration_});
      }
      if (op.kind == OpKind::branch) {
        if (rule) c.cut();
        c = c.then(branch(graph, op, data, c.open));
      } else if (rule == BreakRule::loop) {
        c.open = true;  // the first test is work
        c.cut();
        c.each_iteration = plus(c.each_iteration, iteration(graph, op, data));
      } else if (op.kind == OpKind::loop) {
        c = unrolled(graph, op, data, c);
      } else if (rule) {
        c.cut();
      } else {
        c.open = c.open || is_work(op);
      }
    }
    return known_[{&graph, open}] = c;
  }

  std::vector<ReferenceBreak> where;

 private:
  std::optional<BreakRule> rule_of(const ir::Graph& graph, const ir::Op& op, const Data& data) {
    if (ir::is_region(op.kind)) {
      if (!flow_.decide(graph, op, data)) return std::nullopt;
      return op.kind == OpKind::branch ? BreakRule::branch : BreakRule::loop;
    }
    if (op.kind == OpKind::host || op.outside) return BreakRule::host;
    if (op.kind == OpKind::compact) return BreakRule::size;
    const auto* send = std::get_if<ir::SendAttr>(&op.attrs);
    if (!send) return std::nullopt;
    constexpr std::array kRules{BreakRule::print, BreakRule::item, BreakRule::check};
    return kRules[static_cast<size_t>(send->kind)];
  }

  Count branch(const ir::Graph& graph, const ir::Op& op, const Data& data, bool open) {
    std::optional<Count> most;
    for (uint32_t b : ir::bodies_of(op)) {
      const Count side = walk(graph.bodies[b], flow_.arguments(graph, op, data), open);
      if (!most || most->rank() < side.rank()) most = side;
    }
    return *most;
  }

  /// The body, then the condition.
  Count once(const ir::Graph& graph, const ir::Op& op, const Data& data, bool open) {
    const auto& loop = std::get<ir::LoopAttr>(op.attrs);
    const Data arguments = flow_.arguments(graph, op, data);
    Count c = walk(graph.bodies[loop.body], arguments, open);
    if (loop.condition != ir::kNoBody) {
      c = c.then(walk(graph.bodies[loop.condition], arguments, c.open));
    }
    return c;
  }

  /// The graphs of an iteration of a loop on data, with those of loops in it.
  int64_t iteration(const ir::Graph& graph, const ir::Op& op, const Data& data) {
    const bool outer = std::exchange(each_iteration_, true);
    const Count inside = once(graph, op, data, false);
    each_iteration_ = outer;
    return plus(std::max<int64_t>(plus(inside.graphs, inside.open), 1), inside.each_iteration);
  }

  Count unrolled(const ir::Graph& graph, const ir::Op& op, const Data& data, const Count& c) {
    const auto& loop = std::get<ir::LoopAttr>(op.attrs);
    const int64_t trips = loop.limit ? loop.limit->value() : 1;
    if (trips == 0) return c;
    const int64_t copies = std::exchange(copies_, times(copies_, trips));
    const Count first = c.then(once(graph, op, data, c.open));
    const Count all = first.then(once(graph, op, data, first.open), trips - 1);
    copies_ = copies;
    return trips == 1 ? first : all;
  }

  Flow flow_;
  std::map<std::pair<const ir::Graph*, bool>, Count> known_;  // by body and `open`
  int64_t copies_ = 1;
  bool each_iteration_ = false;
};

}  // namespace

std::string_view text_of(BreakRule rule) {
  constexpr std::array<std::string_view, 7> kTexts{
      "an if on data",       "a while on data",        "a print",       "an item()",
      "a check that raises", "a function of the host", "a size on data"};
  return kTexts[static_cast<size_t>(rule)];
}

ReferenceGraphs reference_breaks(const ir::Graph& graph) {
  Walker walker;
  const Count c = walker.walk(graph, {}, false);
  return {plus(c.graphs, c.open), c.breaks, c.each_iteration, std::move(walker.where)};
}

}  // namespace braid
