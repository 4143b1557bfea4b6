// Library ops: calls of functions that enqueue their work on a stream.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "frontend/builder_impl.hpp"

namespace braid {

using ir::ValueId;

std::vector<Tensor> Graph::library(std::string_view function, std::vector<In> arguments,
                                   std::vector<TypeArg> results, LibraryOpts o, Where w) {
  Impl& g = *impl_;
  const std::vector<Tensor> poison(results.size() + o.inout.size(), wrap({}));
  const auto refuse = [&](const char* code, const std::string& why, const std::string& fix) {
    g.fail(code, fmt::format("library function '{}': {}", function, why), w, {}, fix);
    return poison;
  };
  if (function.empty()) {
    return refuse("E0330", "a library op needs the name of its function",
                  "the name that it is registered under, as in library(\"fft\", ..)");
  }
  const std::optional<Shape> bytes = g.shape_of({o.workspace}, w);
  if (!bytes) return poison;
  if ((*bytes)[0].is_const() && (*bytes)[0].value() >= (int64_t{1} << 40)) {
    return refuse("E0332", fmt::format("a workspace of {} bytes", (*bytes)[0].value()),
                  "ask for less than 2^40 bytes");
  }
  ir::LibraryAttr attr{g.ir.strings.intern(function), (*bytes)[0], {}};
  if (!o.reference.empty()) attr.reference = g.ir.strings.intern(o.reference);

  // A param is changed itself; of any other tensor a copy is, in a variable.
  struct Changed {
    ValueId operand;
    std::optional<uint32_t> variable;
  };
  std::vector<ValueId> operands;
  std::vector<Changed> changed;
  for (const In& in : arguments) {
    operands.push_back(unwrap(in));
    if (!operands.back().valid()) return poison;
  }
  for (const In& in : o.inout) {
    const ValueId value = unwrap(in);
    if (!value.valid()) return poison;
    Changed c{value, {}};
    const Tensor* tensor = std::get_if<Tensor>(&in.value);
    if (tensor && g.tensors[tensor->id_].body == Impl::kVariable) {
      c.variable = g.tensors[tensor->id_].index;
      if (!g.may_change("change a param", w)) return poison;
      const bool twice = std::any_of(changed.begin(), changed.end(), [&](const Changed& other) {
        return other.variable == c.variable;
      });
      if (twice) {
        return refuse("E0331",
                      fmt::format("'{}' is to be changed twice", g.variables[*c.variable].name),
                      "name it once in 'inout'");
      }
    }
    changed.push_back(c);
  }
  std::vector<TensorType> types;
  for (const TypeArg& t : results) {
    const std::optional<TensorType> type = g.type_of(t, w);
    if (!type) return poison;
    types.push_back(*type);
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    Changed& c = changed[i];
    if (c.variable) {
      operands.push_back(g.versions_of(g, *c.variable).newest);
      continue;
    }
    std::string name;
    for (int n = 0; name.empty() || g.param_names.contains(name); ++n) {
      name = g.scoped(fmt::format("{}.inout{}.{}", function, i, n));
    }
    g.param_names.insert(name);
    const ValueId local = g.ir.add({ir::OpKind::param,
                                    ir::LocalAttr{},
                                    {},
                                    g.ir.type(c.operand),
                                    g.ir.strings.intern(name),
                                    g.loc(w)});
    operands.push_back(g.emit(ir::OpKind::assign, {}, {local, c.operand}, {}, w, "assign"));
    if (!operands.back().valid()) return poison;
  }
  ir::Graph::NewOp op{ir::OpKind::library, attr, operands};
  if (!types.empty()) {
    op.type = types[0];
    op.more.assign(types.begin() + 1, types.end());
  }
  op.name = g.ir.strings.intern(g.scoped(function));
  op.loc = g.loc(w);
  op.outside = g.outside;
  const ir::Graph::Added added = g.ir.try_add(std::move(op));
  if (!added.error.empty()) {
    return refuse("E0331", added.error, "give it results, or tensors to change in 'inout'");
  }
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < types.size(); ++i) {
    const ValueId v{added.value.index + i};
    g.remember_labels(v, results[i]);
    tensors.push_back(wrap(v));
  }
  for (size_t i = 0; i < changed.size(); ++i) {
    const ValueId next{added.value.index + static_cast<uint32_t>(types.size() + i)};
    if (changed[i].variable) {
      g.advance(*changed[i].variable, next);
      tensors.push_back(wrap(g.read(*changed[i].variable)));
    } else {
      tensors.push_back(wrap(g.emit(ir::OpKind::read, {}, {next}, {}, w, "read")));
    }
  }
  return tensors;
}

}  // namespace braid
