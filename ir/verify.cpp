#include <fmt/format.h>

#include <set>

#include "ir/graph.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g) {}

  std::vector<Diagnostic> run() {
    for (const DimTable::Symbol& d : g_.dims.symbols()) dim(d);
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      if (wired(i)) {
        typed(i);
        named(i);
        newest(i);
      }
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

  /// Ops may have been changed since they were added.
  void typed(uint32_t i) {
    const Op& op = g_.ops()[i];
    const Value& result = g_.value(op.result);
    if (const auto* c = std::get_if<ConstAttr>(&op.attrs); c && !literal(i, *c)) return;
    TypeQuery q{op.kind, op.attrs, {}, {}, result.type, &dims_};
    const auto count = static_cast<int>(op.operands.size());
    const OpInfo& table = info(op.kind);
    bool good =
        count >= table.min_operands && (table.max_operands < 0 || count <= table.max_operands);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Value& v = g_.value(op.operands[k]);
      q.operands.push_back(v.type);
      q.operand_is_state.push_back(v.state);
      good = good && takes_state(op.kind, k).value_or(v.state) == v.state;
    }
    if (!good) return bad_op(i, "E0905", fmt::format("{} has operands of a wrong kind", name(op)));
    if (op.results > 1 && op.kind != OpKind::host) {
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
    if (op.kind != OpKind::assign && op.kind != OpKind::update) return;
    if (!replaced_.insert(op.operands[0]).second) {
      bad_op(i, "E0903", "this version of the param is replaced twice: assign to the newest one");
    }
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

  const Graph& g_;
  DimTable dims_ = g_.dims;  // type rules may add polynomials
  std::set<std::string_view> inputs_, params_, outputs_;
  std::set<ValueId> replaced_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace braid::ir
