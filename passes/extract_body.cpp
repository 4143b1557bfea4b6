#include <fmt/format.h>

#include <algorithm>

#include "ir/code_op.hpp"
#include "passes/free_ops.hpp"
#include "passes/fuse.hpp"

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

class Extractor {
 public:
  Extractor(const ir::Graph& graph, const Group& group) : graph_(graph), group_(group) {
    for (OpId id : group.ops) {
      const ir::Op& op = graph.op(id);
      for (uint32_t r = 0; r < op.results; ++r) made_here_.push_back(op.result_at(r));
    }
    std::sort(made_here_.begin(), made_here_.end());
  }

  ir::Graph run(std::vector<ValueId>* sources) {
    body_.reserve(2 * group_.ops.size() + 4);  // with arguments and free ops
    for (OpId id : group_.ops) {
      for (auto [before, after] : ir::versions_made(graph_, graph_.op(id))) {
        written_.push_back(before);
      }
    }
    for (OpId id : group_.ops) {
      for (ValueId v : graph_.op(id).operands) find_arguments(v);
    }
    for (OpId id : group_.ops) {
      const ir::Op& op = graph_.op(id);
      std::vector<ValueId> operands;
      for (ValueId v : op.operands) operands.push_back(here(v));
      const ValueId made = add_once(op, std::move(operands));
      for (uint32_t r = 0; r < op.results; ++r) to_[op.result.index + r] = {made.index + r};
    }
    size_t count = 0;
    for (ValueId v : group_.outputs) {
      if (graph_.value(v).state) continue;
      body_.outputs.push_back({fmt::format("r{}", count++), to_.at(v.index), {}});
    }
    if (sources) *sources = std::move(sources_);
    return std::move(body_);
  }

 private:
  static bool contains(const std::vector<ValueId>& values, ValueId v) {
    return std::find(values.begin(), values.end(), v) != values.end();
  }

  /// Adds the input or param that `v` is read from, if it is read from memory.
  void find_arguments(ValueId v) {
    while (!std::binary_search(made_here_.begin(), made_here_.end(), v)) {
      const ir::Op& op = graph_.def(v);
      if (op.kind != OpKind::view && op.kind != OpKind::read) break;
      v = op.operands[0];
    }
    if (std::binary_search(made_here_.begin(), made_here_.end(), v) || is_inline(graph_, v) ||
        to_.contains(v.index)) {
      return;
    }
    const bool in_place = contains(written_, v);
    const std::string name =
        in_place ? fmt::format("s{}", params_++) : fmt::format("a{}", inputs_++);
    ir::Graph::NewOp op{OpKind::input, {}, {}, graph_.type(v), body_.strings.intern(name)};
    if (in_place) {
      op.kind = OpKind::param;
      const ir::Attrs& attrs = graph_.op(ir::param_of(graph_, v)).attrs;
      // Memory is memory to a kernel; handles and the ring are not.
      const bool other = std::holds_alternative<ir::HandleAttr>(attrs) ||
                         std::holds_alternative<ir::RingAttr>(attrs);
      op.attrs = other ? attrs : ir::Attrs(ir::ParamAttr{});
    }
    to_[v.index] = body_.add(std::move(op));
    sources_.push_back(v);
  }

  /// The body's value for `v`, adding free ops where they are first needed.
  ValueId here(ValueId v) {
    const ir::Op& op = graph_.def(v);
    // A version that the group does not write is an input, and its read is that input.
    if (op.kind == OpKind::read && !contains(written_, op.operands[0])) {
      return to_.at(op.operands[0].index);
    }
    if (const auto found = to_.find(v.index); found != to_.end()) return found->second;
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(here(operand));
    return to_[v.index] = add_once(op, std::move(operands));
  }

  /// Maps and views that recompute made for several uses are one again inside a kernel.
  ValueId add_once(const ir::Op& op, std::vector<ValueId> operands) {
    if (op.kind != OpKind::map && op.kind != OpKind::view) return add(op, std::move(operands));
    for (ValueId other : made_from_[operands[0].index]) {
      const ir::Op& made = body_.def(other);
      if (made.kind == op.kind && made.attrs == op.attrs && made.operands == operands &&
          body_.type(other) == graph_.type(op.result)) {
        return other;
      }
    }
    const uint32_t from = operands[0].index;
    const ValueId made = add(op, std::move(operands));
    made_from_[from].push_back(made);
    return made;
  }

  ValueId add(const ir::Op& op, std::vector<ValueId> operands) {
    ir::Attrs attrs = op.attrs;
    if (const auto* constant = std::get_if<ir::ConstAttr>(&op.attrs)) {
      attrs = ir::ConstAttr{body_.add_literal(graph_.literals[constant->literal])};
    }
    if (auto* send = std::get_if<ir::SendAttr>(&attrs)) send->text = {};
    const auto carry = [&](ir::StrId s) { return body_.strings.intern(graph_.strings[s]); };
    if (auto* host = std::get_if<ir::HostAttr>(&attrs)) {
      host->function = carry(host->function);
      host->why = {};
    }
    ir::replace_strings(attrs, carry);
    ir::Graph::NewOp copy{op.kind, std::move(attrs), std::move(operands)};
    copy.take_types(graph_, op);
    return body_.add(std::move(copy));
  }

  const ir::Graph& graph_;
  const Group& group_;
  std::vector<ValueId> made_here_;  // sorted
  std::vector<ValueId> written_;    // versions that the group replaces
  ir::Graph body_{"body"};
  std::map<uint32_t, ValueId> to_;
  std::map<uint32_t, std::vector<ValueId>> made_from_;  // by first operand: maps and views of it
  std::vector<ValueId> sources_;
  int inputs_ = 0, params_ = 0;
};

}  // namespace

ir::Graph extract_body(const ir::Graph& graph, const Group& group, std::vector<ValueId>* sources) {
  return Extractor(graph, group).run(sources);
}

}  // namespace braid
