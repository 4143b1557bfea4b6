// How the builder speaks of ops, values and shapes: in the words of whoever wrote the model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "frontend/builder_impl.hpp"
#include "ir/text.hpp"

namespace braid {
namespace {

/// The builder's names for ops that the IR calls otherwise.
std::string written(std::string_view op) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"dot", "matmul"},     {"reduce_add", "sum"},         {"reduce_mul", "prod"},
      {"reduce_max", "max"}, {"reduce_min", "min"},         {"reduce_or", "any"},
      {"reduce_and", "all"}, {"broadcast", "broadcast_to"},
  };
  for (const auto& [ir, ours] : kNames) {
    if (op == ir) return std::string(ours);
  }
  return std::string(op);
}

/// The op that a message begins with: "matmul: ..", "exp takes ..". Empty if it begins otherwise.
std::string_view leading_op(std::string_view message) {
  size_t end = 0;
  while (end < message.size() &&
         (std::islower(static_cast<unsigned char>(message[end])) ||
          std::isdigit(static_cast<unsigned char>(message[end])) || message[end] == '_')) {
    ++end;
  }
  for (const std::string_view next : {": ", " takes ", " keeps ", " over ", " cannot "}) {
    if (end > 0 && message.substr(end, next.size()) == next) return message.substr(0, end);
  }
  return {};
}

/// What the extent is with the defaults of its symbols; nothing if one of them has none.
std::optional<int64_t> usual_value(const DimTable& dims, Dim d) {
  if (d.is_const()) return d.value();
  const auto with = [&](int64_t missing) {
    std::vector<int64_t> values;
    for (const DimTable::Symbol& s : dims.symbols()) {
      values.push_back(s.default_value.value_or(missing));
    }
    return dims.eval(d, values);
  };
  const std::optional<int64_t> a = with(2), b = with(3);
  return a == b ? a : std::nullopt;
}

/// The param whose version `v` is or reads; nothing for any other value.
std::optional<ir::ValueId> version_of(const ir::Graph& g, ir::ValueId v) {
  if (g.def(v).kind == ir::OpKind::read) v = g.def(v).operands[0];
  if (!g.value(v).state) return std::nullopt;
  return g.op(ir::param_of(g, v)).result;
}

bool is_toml(const std::string& file) {
  constexpr std::string_view kEnd = ".toml";
  return file == "<stdin>" || (file.size() >= kEnd.size() &&
                               file.compare(file.size() - kEnd.size(), kEnd.size(), kEnd) == 0);
}

}  // namespace

void Graph::Impl::fail(std::string code, std::string message, const Where& where,
                       std::vector<std::string> details, std::string suggestion,
                       std::vector<Diagnostic> notes) {
  if (const std::string_view op = leading_op(message); !op.empty()) {
    message = (call.empty() ? written(op) : call) + message.substr(op.size());
  }
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.place = where.place;
  d.details = std::move(details);
  d.suggestion = std::move(suggestion);
  d.notes = std::move(notes);
  if (!collect) throw Error(std::move(d));
  diagnostics.push_back(std::move(d));
}

std::optional<ir::ValueId> Graph::Impl::param_of(ir::ValueId v) const { return version_of(ir, v); }

std::string Graph::Impl::describe(ir::ValueId v) const {
  // People know what they wrote, not the argument that stands for it in a body.
  size_t at = around.size();
  for (auto it = level(at).origin.find(v.index); it != level(at).origin.end();
       it = level(at).origin.find(v.index)) {
    v = it->second;
    --at;
  }
  return describe(level(at), v);
}

std::string Graph::Impl::describe(const BuilderFrame& frame, ir::ValueId v) const {
  const ir::Graph& graph = frame.ir;
  const ir::Op& op = graph.def(v);
  const TensorType& type = graph.type(v);
  const auto labels = frame.spelled.find(version_of(graph, v).value_or(v).index);
  std::string shape;
  bool named = false;
  for (int i = 0; i < type.shape.rank(); ++i) {
    const Dim d = type.shape[i];
    const std::optional<int64_t> value = usual_value(graph.dims, d);
    std::string name = d.is_const() ? std::string() : graph.dims.str(d);
    if (labels != frame.spelled.end() && !labels->second[static_cast<size_t>(i)].empty()) {
      name = labels->second[static_cast<size_t>(i)];
    } else if (const auto it = dim_names.find(value.value_or(-1));
               d.is_const() && it != dim_names.end()) {
      name = it->second;
    }
    std::string text = name;
    if (value) text += fmt::format("{}{}", name.empty() ? "" : "=", *value);
    named = named || (value && !name.empty());
    shape += (shape.empty() ? "" : "\n") + text;
  }
  for (size_t at = 0; (at = shape.find('\n', at)) != std::string::npos;) {
    shape.replace(at, 1, named ? ", " : ",");
  }
  const auto call_of = frame.written_as.find(v.index);
  // People know the param, not its read.
  const std::string kind = std::holds_alternative<ir::ScalarAttr>(op.attrs) ? "scalar"
                           : op.kind == ir::OpKind::read                    ? "param"
                           : call_of != frame.written_as.end()              ? call_of->second
                                                               : written(ir::mnemonic(op));
  const Place place = graph.place(op.loc);
  const std::string_view name = graph.strings[op.name];
  if (const std::optional<double> number = graph.splat_value(v);
      number && op.kind == ir::OpKind::constant &&
      name.substr(name.rfind('/') + 1) == kNumberName) {
    return fmt::format("{}  {}[{}]", *number, name_of(type.dtype), shape);
  }
  std::string s = fmt::format("'{}'  {}[{}]  from {}", graph.strings[op.name], name_of(type.dtype),
                              shape, kind);
  if (place.known()) s += fmt::format(" at {}:{}:{}", place.file, place.line, place.column);
  return s;
}

ir::ValueId Graph::Impl::before_broadcast(ir::ValueId v, const ir::Loc& loc) const {
  const ir::Op& op = ir.def(v);
  const auto* view = std::get_if<ir::ViewAttr>(&op.attrs);
  const bool here = op.loc.file == loc.file && op.loc.line == loc.line &&
                    op.loc.column == loc.column && loc.file.valid();
  return view && view->kind == ir::ViewKind::broadcast && here ? op.operands[0] : v;
}

std::string Graph::Impl::count(const Shape& shape) {
  Dim n(1);
  for (Dim d : shape) n = ir.dims.mul(n, d);
  return ir.dims.str(n);
}

void Graph::Impl::remember_labels(ir::ValueId v, const TypeArg& type) {
  std::vector<std::string> labels;
  for (const DimArg& d : type.shape) labels.push_back(d.label);
  if (v.valid()) spelled[v.index] = std::move(labels);
}

std::string Graph::Impl::dtype_advice(std::span<const ir::ValueId> operands,
                                      std::string_view error) const {
  const auto has = [&](std::string_view part) { return error.find(part) != std::string::npos; };
  const auto name = [&](ir::ValueId v) -> std::string {
    const std::string_view full = ir.strings[ir.def(v).name];
    const std::string op = ir::mnemonic(ir.def(v));
    if (full.substr(full.rfind('/') + 1) != op) return fmt::format("'{}'", full);
    const auto call_of = written_as.find(v.index);  // nobody named it
    return "the result of " + (call_of == written_as.end() ? written(op) : call_of->second);
  };
  const auto dtype = [&](ir::ValueId v) { return ir.type(v).dtype; };
  if (has("takes a float dtype, not")) return fmt::format("cast {} to f32", name(operands[0]));
  if (has("indices are i32 or i64") && operands.size() == 2) {
    return fmt::format("cast {} to i32", name(operands[1]));
  }
  if (!has("dtypes differ")) return {};
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    const ir::ValueId a = operands[i], b = operands[i + 1];
    // A select's condition may differ.
    if (dtype(a) == dtype(b) || dtype(a) == DType::b1) continue;
    return fmt::format("cast {} to {}, or {} to {}", name(a), name_of(dtype(b)), name(b),
                       name_of(dtype(a)));
  }
  return {};
}

std::string Graph::Impl::broadcast_advice(std::span<const ir::ValueId> operands,
                                          const Where& where) const {
  const std::string rule = "axes align at the last one, and one of extent 1 stretches";
  if (operands.size() != 2) return rule;
  ir::ValueId small = operands[0], large = operands[1];
  if (ir.type(small).shape.rank() > ir.type(large).shape.rank()) std::swap(small, large);
  const Shape &s = ir.type(small).shape, &l = ir.type(large).shape;
  const std::string_view name = ir.strings[ir.def(small).name];
  if (s.rank() == 2 && s[0] == l[l.rank() - 1] && s[1] == l[l.rank() - 2]) {
    return fmt::format("transpose '{}' first", name);
  }
  // Do its axes fit others than the last, as a vector per row where one per column was meant?
  int at = l.rank() - s.rank() - 1;
  while (at >= 0 && !std::equal(s.begin(), s.end(), l.begin() + at)) --at;
  if (s.rank() == 0 || at < 0) return rule;
  Shape stretched = s;
  while (stretched.rank() < l.rank() - at) stretched.push_back(Dim(1));
  return fmt::format("{}: reshape '{}' to {}", rule, name,
                     declaration({stretched.begin(), stretched.end()}, where));
}

std::string Graph::Impl::declaration(std::span<const Dim> shape, const Where& where) const {
  std::vector<std::string> dims;
  for (Dim d : shape) {
    std::string name = d.is_const() ? std::string() : ir.dims.str(d);
    if (const auto it = dim_names.find(d.is_const() ? d.value() : -1); it != dim_names.end()) {
      name = it->second;
    }
    dims.push_back(name.empty() ? std::to_string(d.value()) : "\"" + name + "\"");
  }
  const bool toml = is_toml(where.place.file);
  return fmt::format("{}{}{}", toml ? "[" : "{", fmt::join(dims, ", "), toml ? "]" : "}");
}

}  // namespace braid
