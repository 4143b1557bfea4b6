#include <fmt/format.h>

#include <map>
#include <set>

#include "ir/graph.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g) {}

  std::vector<Diagnostic> run() {
    std::set<std::string_view> inputs, params;
    std::map<uint32_t, uint32_t> next_version;  // by value: the op that replaces it
    for (uint32_t i = 0; i < g_.ops().size(); ++i) {
      const Op& op = g_.ops()[i];
      for (ValueId v : op.operands) {
        if (v.index >= g_.values().size() || g_.value(v).def.index >= i) {
          bad(i, "E0901", "an operand is defined after its use");
        }
      }
      if (op.kind == OpKind::input || op.kind == OpKind::param) {
        const std::string_view name = g_.strings[op.name];
        if (name.empty()) {
          bad(i, "E0902", fmt::format("an {} needs a name", info(op.kind).name));
        } else if (!(op.kind == OpKind::input ? inputs : params).insert(name).second) {
          bad(i, "E0201", fmt::format("there are two {}s named '{}'", info(op.kind).name, name));
        }
      }
      if (op.kind == OpKind::assign || op.kind == OpKind::update) {
        const auto [it, first] = next_version.emplace(op.operands[0].index, i);
        if (!first) {
          bad(i, "E0903", "this version of the param is replaced twice: assign to the newest one");
        }
      }
    }
    std::set<std::string_view> outputs;
    for (const Output& o : g_.outputs) {
      if (o.name.empty()) {
        bad_output(o, "E0902", "an output needs a name");
      } else if (!outputs.insert(o.name).second) {
        bad_output(o, "E0201", fmt::format("there are two outputs named '{}'", o.name));
      }
      if (o.value.index >= g_.values().size()) {
        bad_output(o, "E0901", fmt::format("output '{}' names no value", o.name));
      } else if (g_.value(o.value).state) {
        bad_output(o, "E0904",
                   fmt::format("output '{}' is a param, not its value: read it", o.name));
      }
    }
    return std::move(errors_);
  }

 private:
  void bad(uint32_t op, std::string code, std::string message) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.place = g_.place(g_.ops()[op].loc);
    d.details.push_back(print_op(g_, OpId{op}));
    errors_.push_back(std::move(d));
  }
  void bad_output(const Output& o, std::string code, std::string message) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.place = g_.place(o.loc);
    errors_.push_back(std::move(d));
  }

  const Graph& g_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

std::vector<Diagnostic> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace braid::ir
