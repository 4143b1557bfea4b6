#include "ir/verify_locals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/code_op.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

enum class Assigned : uint8_t { no, maybe, yes };

Assigned either(Assigned a, Assigned b) { return a == b ? a : Assigned::maybe; }

using Versions = std::vector<Assigned>;

class Locals {
 public:
  std::vector<Diagnostic> run(const Graph& graph) {
    look(graph, {});
    return std::move(errors_);
  }

 private:
  /// `arguments`: of a body's first ops, in order; what is no version is ignored. Gives the same
  /// for their last versions.
  Versions look(const Graph& g, const Versions& arguments) {
    Versions now(g.values().size(), Assigned::yes);
    std::vector<uint32_t> argument_of(g.values().size(), UINT32_MAX);
    Versions last = arguments;
    for (uint32_t i = 0; i < g.ops().size(); ++i) {
      const Op& op = g.ops()[i];
      if (op.kind == OpKind::param) {
        const bool given = i < arguments.size();
        const bool own = std::holds_alternative<LocalAttr>(op.attrs) ||
                         std::holds_alternative<HandleAttr>(op.attrs);
        now[op.result.index] = given ? arguments[i] : own ? Assigned::no : Assigned::yes;
        if (given) argument_of[op.result.index] = i;
        continue;
      }
      if (is_region(op.kind)) {
        region(g, i, now);
      } else if (op.kind == OpKind::read) {
        needs(g, i, op.operands[0], now);
      } else if (runs_code(op.kind)) {
        for (auto [before, after] : versions_made(g, op)) needs(g, i, before, now);
      } else if (op.kind == OpKind::update && now[op.operands[0].index] != Assigned::yes) {
        now[op.result.index] = Assigned::maybe;
      }
      follow(g, op, now, argument_of, last);
    }
    return last;
  }

  /// Enters what op makes of arguments' versions.
  static void follow(const Graph& g, const Op& op, const Versions& now,
                     std::vector<uint32_t>& argument_of, Versions& last) {
    if (op.kind == OpKind::read) return;
    for (size_t k = first_argument(op); k < op.operands.size(); ++k) {
      const ValueId before = op.operands[k];
      if (!g.value(before).state || argument_of[before.index] == UINT32_MAX) continue;
      const ValueId next = next_version(g, op, k);
      argument_of[next.index] = argument_of[before.index];
      last[argument_of[before.index]] = now[next.index];
    }
  }

  void region(const Graph& g, uint32_t i, Versions& now) {
    const Op& op = g.ops()[i];
    const size_t first = first_argument(op), shift = first_operand_argument(op);
    const auto* loop = std::get_if<LoopAttr>(&op.attrs);
    const bool decided_by_state = loop ? has_flag(*loop) : g.value(op.operands[0]).state;
    if (decided_by_state) needs(g, i, op.operands[0], now);
    Versions arguments(shift, Assigned::yes);
    for (size_t k = first; k < op.operands.size(); ++k) {
      arguments.push_back(now[op.operands[k].index]);
    }
    std::vector<Versions> after;
    for (uint32_t b : bodies_of(op)) after.push_back(look(g.bodies[b], arguments));
    if (loop) after.push_back(arguments);  // no iteration
    for (size_t k = first; k < op.operands.size(); ++k) {
      if (!g.value(op.operands[k]).state) continue;
      const size_t at = k - first + shift;
      Assigned joined = after[0][at];
      for (const Versions& v : after) joined = either(joined, v[at]);
      now[next_version(g, op, k).index] = joined;
    }
  }

  void needs(const Graph& g, uint32_t i, ValueId version, const Versions& now) {
    if (now[version.index] != Assigned::no) return;
    const Op& op = g.ops()[i];
    Diagnostic d;
    d.code = "E0908";
    d.message = fmt::format("{} needs the value of '{}', which nothing has assigned",
                            info(op.kind).name, g.name_of(param_of(g, version)));
    d.place = g.place(op.loc);
    d.details.push_back(print_op(g, OpId{i}));
    errors_.push_back(std::move(d));
  }

  std::vector<Diagnostic> errors_;
};

}  // namespace

std::vector<Diagnostic> verify_locals(const Graph& graph) {
  if (graph.bodies.empty()) return {};
  return Locals().run(graph);
}

}  // namespace braid::ir
