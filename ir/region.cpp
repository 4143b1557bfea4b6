#include "ir/region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace braid::ir {
namespace {

/// Store, local, handle or ring.
size_t sort_of(const Op& param) { return param.attrs.index(); }

/// Checks the bodies of one op against its operands.
class Checker {
 public:
  Checker(const Graph& graph, DimTable& dims, std::string_view what,
          const std::vector<ValueId>& operands)
      : g_(graph), dims_(dims), what_(what), operands_(operands) {}

  RegionResults take() { return std::move(out_); }
  bool good() const { return out_.error.empty(); }
  void refuse(const std::string& why) {
    if (good()) out_.error = fmt::format("{}: {}", what_, why);
  }

  const Graph* body(uint32_t index) {
    if (index >= g_.bodies.size()) {
      refuse("there is no such body");
      return nullptr;
    }
    carry_symbols(dims_, g_.bodies[index].dims);
    return &g_.bodies[index];
  }

  /// Argument `at` of a body stands for operand `k`.
  void argument(const Graph& body, size_t at, size_t k) {
    const Value& outer = g_.value(operands_[k]);
    if (at >= body.ops().size() || !is_argument(body.ops()[at])) {
      return refuse(fmt::format("a body has no argument for operand {}", k));
    }
    const Op& op = body.ops()[at];
    if ((op.kind == OpKind::param) != outer.state) {
      return refuse(fmt::format("operand {} is {}, the body's argument '{}' is {}", k,
                                outer.state ? "a param" : "a value", body.strings[op.name],
                                outer.state ? "a value" : "a param"));
    }
    if (std::holds_alternative<ScalarAttr>(op.attrs)) {
      return refuse(
          fmt::format("argument '{}' of a body cannot be a runtime scalar", body.strings[op.name]));
    }
    if (outer.state && sort_of(op) != sort_of(g_.op(param_of(g_, operands_[k])))) {
      return refuse(fmt::format("argument '{}' is not the sort of param that operand {} is",
                                body.strings[op.name], k));
    }
    same(type_here(body, body.type(op.result)), outer.type,
         fmt::format("argument '{}' of a body and its operand", body.strings[op.name]));
  }

  void no_more_arguments(const Graph& body, size_t count) {
    for (size_t i = count; i < body.ops().size(); ++i) {
      const Op& op = body.ops()[i];
      const bool own = op.kind == OpKind::param && (std::holds_alternative<LocalAttr>(op.attrs) ||
                                                    std::holds_alternative<HandleAttr>(op.attrs));
      if (is_argument(op) && !own) {
        return refuse(fmt::format("a body's argument '{}' has no operand", body.strings[op.name]));
      }
    }
  }

  void same(const TensorType& a, const TensorType& b, const std::string& of) {
    if (a != b) {
      refuse(fmt::format("{} differ: {} and {}", of, to_string(a, &dims_), to_string(b, &dims_)));
    }
  }

  TensorType type_here(const Graph& body, TensorType type) {
    if (type.shape.is_static()) return type;
    for (Dim& d : std::span(&type.shape[0], static_cast<size_t>(type.shape.rank()))) {
      d = carry_dim(dims_, body.dims, d);
    }
    return type;
  }
  TensorType output(const Graph& body, size_t i) {
    const ValueId v = body.outputs[i].value;
    if (v.index >= body.values().size() || body.value(v).state) {
      refuse(fmt::format("output '{}' of a body is no tensor", body.outputs[i].name));
      return {};
    }
    return type_here(body, body.type(v));
  }

  void result(TensorType type) { add(std::move(type), false); }
  void finish(size_t first) {
    for (size_t k = first; k < operands_.size(); ++k) {
      if (g_.value(operands_[k]).state) add(g_.type(operands_[k]), true);
    }
    if (out_.types.empty()) result({DType::i8, {Dim(0)}});
  }

 private:
  static bool is_argument(const Op& op) {
    return op.kind == OpKind::input || op.kind == OpKind::param;
  }
  void add(TensorType type, bool state) {
    out_.types.push_back(std::move(type));
    out_.state.push_back(state);
  }

  const Graph& g_;
  DimTable& dims_;
  std::string_view what_;
  const std::vector<ValueId>& operands_;
  RegionResults out_;
};

const TensorType kCondition{DType::b1, {}};
const TensorType kCounter{DType::i32, {}};

RegionResults branch_results(const Graph& g, DimTable& dims, const BranchAttr& a,
                             const std::vector<ValueId>& operands) {
  Checker check(g, dims, "branch", operands);
  const TensorType& index = g.type(operands[0]);
  if (index != kCondition && index != kCounter) {
    check.refuse(
        fmt::format("what selects must be b1[] or i32[], not {}", to_string(index, &dims)));
  }
  if (a.bodies.empty()) check.refuse("there are no bodies");
  if (index == kCondition && a.bodies.size() != 2) {
    check.refuse("a b1[] selects between two bodies");
  }
  if (a.lowering == Lowering::unroll) check.refuse("the lowering unroll is for loops");
  const bool handle = g.value(operands[0]).state;
  if (handle && !std::holds_alternative<HandleAttr>(g.op(param_of(g, operands[0])).attrs)) {
    check.refuse("a param cannot select: read it");
  }
  for (size_t b = 0; b < a.bodies.size() && check.good(); ++b) {
    const Graph* body = check.body(a.bodies[b]);
    if (!body) break;
    for (size_t k = 1; k < operands.size(); ++k) check.argument(*body, k - 1, k);
    check.no_more_arguments(*body, operands.size() - 1);
    const Graph& first = g.bodies[a.bodies[0]];
    if (body->outputs.size() != first.outputs.size()) {
      check.refuse(fmt::format("its bodies give {} and {} values", first.outputs.size(),
                               body->outputs.size()));
      break;
    }
    for (size_t i = 0; i < body->outputs.size(); ++i) {
      check.same(check.output(first, i), check.output(*body, i),
                 fmt::format("the types of result {}", i));
    }
  }
  if (check.good()) {
    const Graph& first = g.bodies[a.bodies[0]];
    if (handle && !first.outputs.empty()) check.refuse("with a handle it gives no values");
    for (size_t i = 0; i < first.outputs.size(); ++i) check.result(check.output(first, i));
    check.finish(1);
  }
  return check.take();
}

/// The arguments of the body or condition of a loop that is not of the effect form.
void loop_arguments(Checker& check, const Graph& body, size_t operands) {
  if (body.ops().empty() || body.ops()[0].kind != OpKind::input ||
      body.type(body.ops()[0].result) != kCounter) {
    return check.refuse("the first argument of a body must be the number of the iteration, i32[]");
  }
  for (size_t k = 0; k < operands; ++k) check.argument(body, k + 1, k);
  check.no_more_arguments(body, operands + 1);
}

RegionResults loop_results(const Graph& g, DimTable& dims, const LoopAttr& a,
                           const std::vector<ValueId>& operands) {
  Checker check(g, dims, "loop", operands);
  const Graph* body = check.body(a.body);
  if (!body) return check.take();
  if (a.lowering == Lowering::select || a.lowering == Lowering::predicate) {
    check.refuse(fmt::format("the lowering {} is for branches", name_of(a.lowering)));
  }
  if (has_flag(a)) {
    if (operands.empty() || !g.value(operands[0]).state || g.type(operands[0]) != kCondition) {
      check.refuse("it needs a condition, a limit, or the state of a flag");
      return check.take();
    }
    const Attrs& flag = g.op(param_of(g, operands[0])).attrs;
    if (!std::holds_alternative<HandleAttr>(flag) && !std::holds_alternative<LocalAttr>(flag)) {
      check.refuse("its flag must be a local or a handle");
    }
    for (size_t k = 0; k < operands.size(); ++k) check.argument(*body, k, k);
    check.no_more_arguments(*body, operands.size());
    if (!body->outputs.empty() || a.carried != 0) check.refuse("with a flag it gives no values");
    if (check.good()) check.finish(0);
    return check.take();
  }
  if (a.limit && a.limit->is_const() && a.limit->value() > INT32_MAX) {
    check.refuse(fmt::format("the limit {} is above 2^31 - 1", a.limit->value()));
  }
  if (a.carried > operands.size() || a.carried > body->outputs.size()) {
    check.refuse(fmt::format("{} carried values, but {} operands and {} outputs of the body",
                             a.carried, operands.size(), body->outputs.size()));
    return check.take();
  }
  loop_arguments(check, *body, operands.size());
  for (size_t k = 0; k < a.carried && check.good(); ++k) {
    if (g.value(operands[k]).state) check.refuse("params are not carried: they keep their place");
    check.same(check.output(*body, k), g.type(operands[k]),
               fmt::format("carried value {} before and after an iteration", k));
    check.result(g.type(operands[k]));
  }
  if (a.condition != kNoBody && check.good()) {
    const Graph* condition = check.body(a.condition);
    if (!condition) return check.take();
    loop_arguments(check, *condition, operands.size());
    if (condition->outputs.size() != 1 || check.output(*condition, 0) != kCondition) {
      check.refuse("its condition must give one b1[]");
    }
    for (size_t k = 0; k < operands.size() && check.good(); ++k) {
      if (g.value(operands[k]).state && writes_argument(*condition, k + 1)) {
        check.refuse("its condition writes a param");
      }
    }
  }
  for (size_t i = a.carried; i < body->outputs.size() && check.good(); ++i) {
    TensorType row = check.output(*body, i);
    if (!a.limit || row.shape.rank() == kMaxRank) {
      check.refuse(a.limit ? "a stacked row has too many axes" : "stacked rows need a limit");
      break;
    }
    TensorType stacked{row.dtype, {}};
    stacked.shape.push_back(*a.limit);
    for (Dim d : row.shape) stacked.shape.push_back(d);
    check.result(std::move(stacked));
  }
  if (check.good()) check.finish(0);
  return check.take();
}

}  // namespace

uint32_t first_operand_argument(const Op& op) {
  const auto* loop = std::get_if<LoopAttr>(&op.attrs);
  return loop && !has_flag(*loop) ? 1 : 0;
}

std::vector<uint32_t> bodies_of(const Op& op) {
  if (const auto* branch = std::get_if<BranchAttr>(&op.attrs)) return branch->bodies;
  if (const auto* loop = std::get_if<LoopAttr>(&op.attrs)) {
    if (loop->condition == kNoBody) return {loop->body};
    return {loop->body, loop->condition};
  }
  return {};
}

std::optional<bool> takes_state(OpKind kind, size_t k) {
  switch (kind) {
    case OpKind::read:
    case OpKind::assign:
    case OpKind::update:
    case OpKind::send:
      return k == 0;
    case OpKind::branch:
    case OpKind::loop:
    case OpKind::kernel:
    case OpKind::library:
      return std::nullopt;
    default:
      return false;
  }
}

std::optional<ValueId> version_before(const Graph& graph, ValueId version) {
  const Op& op = graph.def(version);
  if (op.kind == OpKind::param) return std::nullopt;
  if (takes_state(op.kind, 0).has_value()) return op.operands[0];
  // State results stand last, in the order of the state operands.
  uint32_t left = op.result.index + op.results - version.index;
  for (size_t k = op.operands.size(); k-- > first_argument(op);) {
    if (graph.value(op.operands[k]).state && --left == 0) return op.operands[k];
  }
  throw InternalError("a version of state without one before");
}

OpId param_of(const Graph& graph, ValueId version) { return graph.value(version).param; }

ValueId next_version(const Graph& graph, const Op& op, size_t k) {
  uint32_t after = 0;
  for (size_t i = k + 1; i < op.operands.size(); ++i) after += graph.value(op.operands[i]).state;
  return ValueId{op.result.index + op.results - 1 - after};
}

std::vector<std::pair<ValueId, ValueId>> versions_made(const Graph& graph, const Op& op) {
  std::vector<std::pair<ValueId, ValueId>> made;
  if (op.kind == OpKind::read) return made;
  for (size_t k = first_argument(op); k < op.operands.size(); ++k) {
    if (graph.value(op.operands[k]).state) {
      made.emplace_back(op.operands[k], next_version(graph, op, k));
    }
  }
  return made;
}

bool writes_argument(const Graph& body, size_t k) {
  ValueId newest = body.ops()[k].result;
  for (size_t i = k + 1; i < body.ops().size(); ++i) {
    const Op& op = body.ops()[i];
    for (size_t o = first_argument(op); o < op.operands.size(); ++o) {
      if (op.operands[o] != newest || op.kind == OpKind::read) continue;
      if (!is_region(op.kind)) return true;
      const size_t at = o - first_argument(op) + first_operand_argument(op);
      for (uint32_t b : bodies_of(op)) {
        if (writes_argument(body.bodies[b], at)) return true;
      }
      newest = next_version(body, op, o);
      break;
    }
  }
  return false;
}

void carry_symbols(DimTable& to, const DimTable& from) {
  if (&to == &from) return;
  for (const DimTable::Symbol& d : from.symbols()) {
    const auto known = std::find_if(to.symbols().begin(), to.symbols().end(),
                                    [&](const DimTable::Symbol& s) { return s.name == d.name; });
    const bool keep = known != to.symbols().end();
    to.symbol(d.name, keep && known->default_value ? std::nullopt : d.default_value,
              keep && known->max ? std::nullopt : d.max);
  }
}

Dim carry_dim(DimTable& to, const DimTable& from, Dim dim) {
  if (dim.is_const() || &to == &from) return dim;
  carry_symbols(to, from);
  const auto moved = to.parse(from.str(dim));
  ensure(moved.has_value(), "a dim does not survive being printed and parsed");
  return *moved;
}

RegionResults region_results(const Graph& graph, DimTable& dims, OpKind kind, const Attrs& attrs,
                             const std::vector<ValueId>& operands) {
  return kind == OpKind::branch ? branch_results(graph, dims, std::get<BranchAttr>(attrs), operands)
                                : loop_results(graph, dims, std::get<LoopAttr>(attrs), operands);
}

}  // namespace braid::ir
