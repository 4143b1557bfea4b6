// Library ops: calls of functions that enqueue their work on a stream.
#include <fmt/format.h>

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

  std::vector<ValueId> operands;
  for (const In& in : arguments) {
    operands.push_back(unwrap(in));
    if (!operands.back().valid()) return poison;
  }
  std::vector<Impl::Changed> changed;
  for (const In& in : o.inout) {
    const ValueId value = unwrap(in);
    if (!value.valid()) return poison;
    const auto c = g.changed(in, value, fmt::format("inout{}", changed.size()), w);
    if (!c) return poison;
    if (const std::string* twice = g.given_before(*c, changed)) {
      return refuse("E0331", fmt::format("'{}' is to be changed twice", *twice),
                    "name it once in 'inout'");
    }
    changed.push_back(*c);
  }
  std::vector<TensorType> types;
  for (const TypeArg& t : results) {
    const std::optional<TensorType> type = g.type_of(t, w);
    if (!type) return poison;
    types.push_back(*type);
  }
  for (const Impl::Changed& c : changed) {
    operands.push_back(g.version_to_change(c, function, w));
    if (!operands.back().valid()) return poison;
  }
  const ir::Graph::Added added =
      g.add_code(ir::OpKind::library, attr, std::move(operands), types, function, w);
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
    tensors.push_back(wrap(g.value_after(changed[i], next, w)));
  }
  return tensors;
}

}  // namespace braid
