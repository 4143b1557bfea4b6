#include <fmt/format.h>

#include <iterator>
#include <set>
#include <utility>

#include "ir/code_op.hpp"
#include "ir/graph.hpp"
#include "ir/text.hpp"
#include "ir/verify_locals.hpp"

namespace braid::ir {
namespace {

class Verifier {
 public:
  /// `depth`: 0 for the outermost graph, 1 for its bodies.
  explicit Verifier(const Graph& g, int depth = 0)
      : g_(g),
        depth_(depth),
        owned_(g.bodies.size(), false),
        params_of_(g.values().size(), kNoParam) {}

  std::vector<Diagnostic> run() {
    for (const DimTable::Symbol& d : g_.dims.symbols()) dim(d);
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      if (!wired(i)) continue;
      const bool good = bodies(i) && typed(i);
      named(i);
      newest(i);
      if (good) state(i);
    }
    for (size_t b = 0; b < owned_.size(); ++b) {
      if (!owned_[b]) bad({}, "E0907", fmt::format("body {} belongs to no op", b));
    }
    for (const Output& o : g_.outputs) output(o);
    return std::move(errors_);
  }

 private:
  /// Names must survive the text form, where an extent is read as a sum of products.
  void dim(const DimTable::Symbol& d) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    bool good = !d.name.empty();
    for (size_t i = 0; i < d.name.size(); ++i) {
      const char c = d.name[i];
      good = good && (letter(c) || c == '_' || (i > 0 && c >= '0' && c <= '9'));
    }
    if (!good) {
      bad({}, "E0902",
          fmt::format("'{}' cannot name a dim: letters, digits and _, no digit first", d.name));
    }
  }

  /// Operands and result are values of this graph, operands defined before.
  bool wired(uint32_t i) {
    const Op& op = g_.ops()[i];
    bool defines = op.results > 0;
    for (uint32_t r = 0; defines && r < op.results; ++r) {
      const ValueId v = op.result_at(r);
      defines = v.index < g_.values().size() && g_.value(v).def == OpId{i};
    }
    if (!defines) {
      bad(op.loc, "E0901", fmt::format("op {}, {}, does not define its result", i, name(op)));
      return false;
    }
    for (ValueId v : op.operands) {
      if (v.index >= g_.values().size() || g_.value(v).def.index >= i) {
        bad_op(i, "E0901", "an operand is defined after its use");
        return false;
      }
    }
    return true;
  }

  /// Its bodies are there, its own, and well formed.
  bool bodies(uint32_t i) {
    const Op& op = g_.ops()[i];
    const std::vector<uint32_t> all = bodies_of(op);
    const size_t errors = errors_.size();
    if (!all.empty() && depth_ == kMaxBodyDepth) {
      bad_op(i, "E0907", fmt::format("bodies nest more than {} deep", kMaxBodyDepth));
    }
    for (uint32_t b : all) {
      if (b >= g_.bodies.size()) {
        bad_op(i, "E0907", fmt::format("{} has a body that is not there", name(op)));
      } else if (owned_[b]) {
        bad_op(i, "E0907", fmt::format("body {} belongs to two ops: give each a copy", b));
      } else {
        owned_[b] = true;
        if (depth_ == kMaxBodyDepth) continue;
        std::vector<Diagnostic> inside = Verifier(g_.bodies[b], depth_ + 1).run();
        std::move(inside.begin(), inside.end(), std::back_inserter(errors_));
      }
    }
    return errors_.size() == errors;
  }

  /// Ops may have been changed since they were added.
  bool typed(uint32_t i) {
    const size_t errors = errors_.size();
    check_type(i);
    return errors_.size() == errors;
  }
  void check_type(uint32_t i) {
    const Op& op = g_.ops()[i];
    const Value& result = g_.value(op.result);
    if (const auto* c = std::get_if<ConstAttr>(&op.attrs); c && !literal(i, *c)) return;
    TypeQuery q{op.kind, op.attrs, {}, result.type, &dims_};
    const auto count = static_cast<int>(op.operands.size());
    const OpInfo& table = info(op.kind);
    bool good =
        count >= table.min_operands && (table.max_operands < 0 || count <= table.max_operands);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Value& v = g_.value(op.operands[k]);
      q.operands.push_back(v.type);
      good = good && takes_state(op.kind, k).value_or(v.state) == v.state;
    }
    if (!good) return bad_op(i, "E0905", fmt::format("{} has operands of a wrong kind", name(op)));
    if (is_region(op.kind)) return check_region(i);
    if (runs_code(op.kind)) return check_code(i);
    if (op.results > 1 && !has_more_results(op.kind)) {
      return bad_op(i, "E0905", fmt::format("{} has more than one result", name(op)));
    }
    if (op.outside && !can_stand_outside(op.kind)) {
      return bad_op(
          i, "E0905",
          fmt::format("{} needs no kernel, so it cannot be kept out of graphs", name(op)));
    }
    TypeAnswer answer;
    try {
      answer = table.type_rule(q);
    } catch (const Error& e) {
      answer.error = e.diagnostics().front().message;
    }
    if (!answer.error.empty()) {
      bad_op(i, "E0905", std::move(answer.error));
    } else if (answer.state != result.state || answer.type != result.type) {
      bad_op(i, "E0905",
             fmt::format("{} gives {}{}", name(op), answer.state ? "state " : "",
                         to_string(answer.type, &dims_)));
    }
  }

  void check_code(uint32_t i) {
    const Op& op = g_.ops()[i];
    for (ValueId v : op.operands) {
      if (g_.value(v).state && params_of_[v.index] == kNoParam) return;  // an earlier error's
    }
    same_results(i, code_results(g_, op.kind, op.attrs, op.operands, value_types(g_, op)));
  }

  void check_region(uint32_t i) {
    const Op& op = g_.ops()[i];
    for (ValueId v : op.operands) {
      if (g_.value(v).state && params_of_[v.index] == kNoParam) return;  // an earlier error's
    }
    if (op.outside) return bad_op(i, "E0905", fmt::format("{} is no kernel", name(op)));
    RegionResults want;
    try {
      want = region_results(g_, dims_, op.kind, op.attrs, op.operands);
    } catch (const Error& e) {
      want.error = e.diagnostics().front().message;
    }
    if (want.error.empty() && dims_.symbols().size() > g_.dims.symbols().size()) {
      return bad_op(i, "E0907",
                    fmt::format("the dim '{}' of a body is none of the graph's around it",
                                dims_.symbols().back().name));
    }
    same_results(i, std::move(want));
  }

  void same_results(uint32_t i, RegionResults want) {
    const Op& op = g_.ops()[i];
    if (!want.error.empty()) return bad_op(i, "E0905", std::move(want.error));
    if (op.results != want.types.size()) {
      return bad_op(
          i, "E0905",
          fmt::format("{} gives {} results, not {}", name(op), want.types.size(), op.results));
    }
    for (uint32_t r = 0; r < op.results; ++r) {
      const Value& v = g_.value(op.result_at(r));
      if (v.type == want.types[r] && v.state == want.state[r]) continue;
      bad_op(i, "E0905",
             fmt::format("result {} of {} is {}{}", r, name(op), want.state[r] ? "state " : "",
                         to_string(want.types[r], &dims_)));
    }
  }

  bool literal(uint32_t i, const ConstAttr& c) {
    const TensorType& type = g_.type(g_.ops()[i].result);
    if (c.literal >= g_.literals.size()) {
      bad(g_.ops()[i].loc, "E0906", fmt::format("constant {} has no literal", i));
      return false;
    }
    const Literal& l = g_.literals[c.literal];
    const int64_t bytes = l.splat                  ? size_of(type.dtype)
                          : type.shape.is_static() ? type.bytes()
                                                   : -1;
    if (l.type.dtype != type.dtype || static_cast<int64_t>(l.bytes.size()) != bytes) {
      bad(g_.ops()[i].loc, "E0906",
          fmt::format("constant {} is {}, but its literal has {} bytes of {}", i,
                      to_string(type, &dims_), l.bytes.size(), braid::name_of(l.type.dtype)));
      return false;
    }
    return true;
  }

  void named(uint32_t i) {
    const Op& op = g_.ops()[i];
    if (const auto* host = std::get_if<HostAttr>(&op.attrs);
        host && g_.strings[host->function].empty()) {
      bad_op(i, "E0902", "a host op needs the name of its function: {function=\"name\"}");
    }
    const auto* kernel = std::get_if<KernelAttr>(&op.attrs);
    const auto* library = std::get_if<LibraryAttr>(&op.attrs);
    if ((kernel && g_.strings[kernel->function].empty()) ||
        (library && g_.strings[library->function].empty())) {
      bad_op(
          i, "E0902",
          fmt::format("a {} op needs the name of its function: {{function=\"name\"}}", name(op)));
    }
    if (op.kind != OpKind::input && op.kind != OpKind::param) return;
    const std::string_view text = g_.strings[op.name];
    if (text.empty()) {
      bad_op(i, "E0902",
             fmt::format("{} needs a name", op.kind == OpKind::input ? "an input" : "a param"));
    } else if (!(op.kind == OpKind::input ? inputs_ : params_).insert(text).second) {
      bad_op(i, "E0201", fmt::format("there are two {}s named '{}'", name(op), text));
    }
  }

  /// A version of a param is replaced at most once, so that versions form a chain.
  void newest(uint32_t i) {
    const Op& op = g_.ops()[i];
    if (op.kind == OpKind::read) return;
    for (size_t k = first_argument(op); k < op.operands.size(); ++k) {
      const ValueId v = op.operands[k];
      if (!g_.value(v).state || replaced_.insert(v).second) continue;
      bad_op(i, "E0903", "this version of the param is replaced twice: use the newest one");
    }
  }

  /// What may be done with which sort of param. Enters the params of the versions that op i makes.
  void state(uint32_t i) {
    const Op& op = g_.ops()[i];
    if (op.kind == OpKind::param) return param(i);
    uint32_t next = op.result.index + op.results;
    for (size_t k = op.operands.size(); k-- > first_argument(op) && op.kind != OpKind::read;) {
      if (g_.value(op.operands[k]).state) version(i, --next, params_of_[op.operands[k].index]);
    }
    if (!takes_state(op.kind, 0).value_or(false)) return;
    const uint32_t p = params_of_[op.operands[0].index];
    if (p == kNoParam) return;
    const Attrs& sort = g_.ops()[p].attrs;
    const bool handle = std::holds_alternative<HandleAttr>(sort);
    const bool ring = std::holds_alternative<RingAttr>(sort);
    if (op.kind == OpKind::send && !ring) {
      bad_op(i, "E0908", "send takes the ring: param \"name\" {sort=ring}");
    } else if (op.kind != OpKind::send && ring) {
      bad_op(i, "E0908", fmt::format("{} takes no ring: messages are sent to it", name(op)));
    } else if (op.kind != OpKind::assign && handle) {
      bad_op(i, "E0908",
             fmt::format("{} takes no handle: it is assigned, and decides a branch or a loop",
                         name(op)));
    }
  }

  void version(uint32_t i, uint32_t value, uint32_t param) {
    if (param == kNoParam) return;
    if (g_.values()[value].param == OpId{param}) {
      params_of_[value] = param;
    } else {
      bad_op(i, "E0905", fmt::format("%{} is a version of another param than it says", value));
    }
  }

  void param(uint32_t i) {
    const Op& op = g_.ops()[i];
    version(i, op.result.index, i);
    if (!std::holds_alternative<RingAttr>(op.attrs)) return;
    if (depth_ == 0 && std::exchange(ring_, true)) bad_op(i, "E0908", "there are two rings");
  }

  void output(const Output& o) {
    if (o.name.empty()) {
      bad(o.loc, "E0902", "an output needs a name");
    } else if (!outputs_.insert(o.name).second) {
      bad(o.loc, "E0201", fmt::format("there are two outputs named '{}'", o.name));
    }
    if (o.value.index >= g_.values().size()) {
      bad(o.loc, "E0901", fmt::format("output '{}' names no value", o.name));
    } else if (g_.value(o.value).state) {
      bad(o.loc, "E0904", fmt::format("output '{}' is a param, not its value: read it", o.name));
    }
  }

  static std::string_view name(const Op& op) { return info(op.kind).name; }

  void bad(const Loc& loc, std::string code, std::string message) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.place = g_.place(loc);
    errors_.push_back(std::move(d));
  }
  void bad_op(uint32_t op, std::string code, std::string message) {
    bad(g_.ops()[op].loc, std::move(code), std::move(message));
    errors_.back().details.push_back(print_op(g_, OpId{op}));
  }

  static constexpr uint32_t kNoParam = UINT32_MAX;

  const Graph& g_;
  int depth_;
  std::vector<bool> owned_;          // bodies that an op before this one has
  std::vector<uint32_t> params_of_;  // by value: the op that is its param
  bool ring_ = false;
  DimTable dims_ = g_.dims;  // type rules may add polynomials
  std::set<std::string_view> inputs_, params_, outputs_;
  std::set<ValueId> replaced_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph) {
  std::vector<Diagnostic> errors = Verifier(graph).run();
  return errors.empty() ? verify_locals(graph) : errors;
}

}  // namespace braid::ir
