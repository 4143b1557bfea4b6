#include "ir/interpret_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/host_lookup.hpp"
#include "ir/interpret_ops.hpp"
#include "ir/region.hpp"

namespace braid::ir {
namespace {

TensorRef share(WideTensor t) { return std::make_shared<const WideTensor>(std::move(t)); }

WideTensor filled(const TensorType& type, double x, int64_t i) {
  const auto n = static_cast<size_t>(type.shape.numel());
  WideTensor t{type, {}, {}};
  if (is_float(type.dtype)) {
    t.f.assign(n, x);
  } else {
    t.i.assign(n, i);
  }
  return t;
}

/// What a param of the graph's own holds before the first assign.
WideTensor undefined(const Op& param, const TensorType& type) {
  if (!std::holds_alternative<LocalAttr>(param.attrs)) return filled(type, 0, 0);
  if (type.dtype == DType::b1) return filled(type, 0, 1);
  HostTensor one(TensorType{type.dtype, {}});
  std::fill(one.bytes.begin(), one.bytes.end(), std::byte{0xab});
  return filled(type, std::numeric_limits<double>::quiet_NaN(),
                is_float(type.dtype) ? 0 : one.int_at(0));
}

TensorRef counter(int64_t i) { return share({{DType::i32, {}}, {}, {static_cast<int32_t>(i)}}); }

/// Row i of `rows`.
void put_row(WideTensor& rows, int64_t i, const WideTensor& row) {
  std::copy(row.f.begin(), row.f.end(), rows.f.begin() + i * std::ssize(row.f));
  std::copy(row.i.begin(), row.i.end(), rows.i.begin() + i * std::ssize(row.i));
}

int64_t wide_bytes(const TensorType& type) {
  int64_t bytes;
  return __builtin_mul_overflow(type.shape.numel(), int64_t{8}, &bytes) ? INT64_MAX : bytes;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph) : g_(graph), last_use_(graph.values().size(), 0) {
  last_.resize(graph.ops().size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    for (ValueId v : op.operands) last_use_[v.index] = i;
    for (uint32_t r = 0; r < op.results; ++r) {
      const Value& v = graph.value(op.result_at(r));
      if (v.state) last_[v.param.index] = op.result_at(r);
    }
  }
  for (const Output& o : graph.outputs) last_use_[o.value.index] = UINT32_MAX;
  for (ValueId v : last_) {
    if (v.valid()) last_use_[v.index] = UINT32_MAX;
  }
  bodies_.reserve(graph.bodies.size());
  for (const Graph& body : graph.bodies) bodies_.emplace_back(body);
}

Evaluator::Results Evaluator::run(std::vector<TensorRef> arguments, const Run& run) const {
  Values values(g_.values().size());
  for (uint32_t i = 0; i < g_.ops().size(); ++i) {
    const Op& op = g_.ops()[i];
    step(op, run);
    TensorRef& result = values[op.result.index];
    switch (op.kind) {
      case OpKind::input:
      case OpKind::param:
        if (i < arguments.size()) result = std::move(arguments[i]);
        ensure(result || op.kind == OpKind::param, "a body's input without an argument");
        if (!result) result = share(undefined(op, g_.type(op.result)));
        break;
      case OpKind::host:
        call(op, values, run);
        break;
      case OpKind::kernel:
      case OpKind::library:
        code(op, values, run);
        break;
      case OpKind::compact:
        compact(op, values);
        break;
      case OpKind::branch:
        branch(op, values, run);
        break;
      case OpKind::loop:
        if (has_flag(std::get<LoopAttr>(op.attrs))) {
          loop_by_flag(op, values, run);
        } else {
          loop(op, values, run);
        }
        break;
      default:
        result = evaluate(op, values, run);
    }
    for (ValueId v : op.operands) {
      if (last_use_[v.index] == i) values[v.index].reset();
    }
  }
  Results results;
  for (const Output& o : g_.outputs) results.outputs.push_back(values[o.value.index]);
  results.versions.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (last_[i].valid()) results.versions[i] = values[last_[i].index];
  }
  return results;
}

void Evaluator::step(const Op& op, const Run& run) const {
  if (!run.observed || run.observed->steps-- != 0) return;
  run.observed->steps = 0;
  Diagnostic d;
  d.code = "E0807";
  d.message = "the interpreter made as many steps as it may, and a loop has not ended";
  d.place = g_.place(op.loc);
  throw Error(std::move(d));
}

TensorRef Evaluator::evaluate(const Op& op, const Values& values, const Run& run) const {
  const auto in = [&](size_t k) -> const WideTensor& { return *values[op.operands[k].index]; };
  switch (op.kind) {
    case OpKind::read:
      return values[op.operands[0].index];
    case OpKind::assign:
      return values[op.operands[1].index];
    case OpKind::update: {
      std::vector<int64_t> starts;
      for (size_t k = 2; k < op.operands.size(); ++k) starts.push_back(in(k).i[0]);
      return share(interpret_update(in(0), in(1), std::move(starts)));
    }
    case OpKind::send:
      send(op, values, run);
      return values[op.operands[0].index];
    default:
      break;
  }
  WideTensor result = compute(op, values, run);
  if (run.rounding == Rounding::dtype) round_to_dtype(result);
  return share(std::move(result));
}

WideTensor Evaluator::compute(const Op& op, const Values& values, const Run& run) const {
  const TensorType& type = g_.type(op.result);
  const auto in = [&](size_t k) -> const WideTensor& { return *values[op.operands[k].index]; };
  const auto all = [&] {
    std::vector<const WideTensor*> operands;
    for (size_t k = 0; k < op.operands.size(); ++k) operands.push_back(&in(k));
    return operands;
  };
  switch (op.kind) {
    case OpKind::constant: {
      const Literal& l = g_.literals[std::get<ConstAttr>(op.attrs).literal];
      return interpret_literal(l.type == type ? l : Literal{type, l.splat, l.bytes});
    }
    case OpKind::iota:
      return interpret_iota(type, std::get<AxisAttr>(op.attrs).axis);
    case OpKind::map:
      return interpret_map(std::get<MapAttr>(op.attrs).fn, all(), type);
    case OpKind::reduce: {
      const auto& a = std::get<ReduceAttr>(op.attrs);
      return interpret_reduce(a.fn, in(0), a.axes, type);
    }
    case OpKind::dot: {
      const auto& a = std::get<DotAttr>(op.attrs);
      if (!a.tf32 || run.rounding == Rounding::wide) return interpret_dot(in(0), in(1), a, type);
      return interpret_dot(rounded_to_tf32(in(0)), rounded_to_tf32(in(1)), a, type);
    }
    case OpKind::view:
      return interpret_view(in(0), std::get<ViewAttr>(op.attrs), type);
    case OpKind::concat:
      return interpret_concat(all(), std::get<AxisAttr>(op.attrs).axis, type);
    case OpKind::gather:
      return interpret_gather(in(0), in(1), std::get<AxisAttr>(op.attrs).axis, type);
    case OpKind::scatter:
      return interpret_scatter(in(0), in(1), in(2), std::get<ScatterAttr>(op.attrs));
    default:
      throw InternalError("an op kind without evaluation");
  }
}

void Evaluator::call(const Op& op, Values& values, const Run& run) const {
  call(op, g_.strings[std::get<HostAttr>(op.attrs).function], values, run);
}

void Evaluator::call(const Op& op, std::string_view function, Values& values,
                     const Run& run) const {
  std::vector<HostTensor> given, results;
  for (ValueId v : op.operands) given.push_back(narrow(*values[v.index]));
  for (uint32_t r = 0; r < op.results; ++r) results.emplace_back(g_.type(op.result_at(r)));
  find_host_function(run.functions, function, g_.place(op.loc))(given, results);
  for (uint32_t r = 0; r < op.results; ++r) {
    values[op.result_at(r).index] = share(widen(results[r]));
  }
}

void Evaluator::code(const Op& op, Values& values, const Run& run) const {
  const auto* kernel = std::get_if<KernelAttr>(&op.attrs);
  const auto* library = std::get_if<LibraryAttr>(&op.attrs);
  const std::string_view reference = g_.strings[kernel ? kernel->reference : library->reference];
  if (!reference.empty()) return call(op, reference, values, run);
  Diagnostic d;
  d.code = "E0808";
  d.message = fmt::format("{} '{}' has no reference function, so only a GPU can compute it",
                          kernel ? "kernel" : "library function",
                          g_.strings[kernel ? kernel->name : library->function]);
  d.suggestion = "name a host function that computes the same as its reference";
  d.place = g_.place(op.loc);
  throw Error(std::move(d));
}

void Evaluator::compact(const Op& op, Values& values) const {
  auto [rows, count] =
      interpret_compact(*values[op.operands[0].index], *values[op.operands[1].index]);
  values[op.result.index] = share(std::move(rows));
  values[op.result_at(1).index] = share(std::move(count));
}

void Evaluator::send(const Op& op, const Values& values, const Run& run) const {
  if (!run.observed) return;
  const auto& a = std::get<SendAttr>(op.attrs);
  const WideTensor& value = *values[op.operands[1].index];
  if (a.kind == MessageKind::check && value.i[0] == 0) return;
  Message m{a.kind,
            std::string(g_.strings[a.text]),
            std::string(g_.strings[op.name]),
            g_.place(op.loc),
            a.id,
            value,
            {}};
  for (size_t k = 2; k < op.operands.size(); ++k) {
    m.iterations.push_back(values[op.operands[k].index]->i[0]);
  }
  run.observed->messages.push_back(std::move(m));
}

std::vector<TensorRef> Evaluator::arguments(const Op& op, size_t first, const Values& values) {
  std::vector<TensorRef> all;
  for (size_t k = first; k < op.operands.size(); ++k) all.push_back(values[op.operands[k].index]);
  return all;
}

void Evaluator::finish(const Op& op, std::vector<TensorRef> given,
                       const std::vector<TensorRef>& last, size_t shift, Values& values) const {
  for (size_t k = first_argument(op); k < op.operands.size(); ++k) {
    if (!g_.value(op.operands[k]).state) continue;
    given.push_back(last[k - first_argument(op) + shift]);
  }
  if (given.empty()) given.push_back(share({g_.type(op.result), {}, {}}));
  for (uint32_t r = 0; r < op.results; ++r) {
    values[op.result_at(r).index] = std::move(given[r]);
  }
}

void Evaluator::branch(const Op& op, Values& values, const Run& run) const {
  const std::vector<uint32_t>& bodies = std::get<BranchAttr>(op.attrs).bodies;
  const int64_t index = std::clamp<int64_t>(values[op.operands[0].index]->i[0], 0,
                                            static_cast<int64_t>(bodies.size()) - 1);
  Results r = bodies_[bodies[static_cast<size_t>(index)]].run(arguments(op, 1, values), run);
  finish(op, std::move(r.outputs), r.versions, 0, values);
}

void Evaluator::loop(const Op& op, Values& values, const Run& run) const {
  const auto& a = std::get<LoopAttr>(op.attrs);
  const Evaluator& body = bodies_[a.body];
  std::vector<WideTensor> rows;
  for (size_t r = a.carried; r < body.g_.outputs.size(); ++r) {
    rows.push_back(filled(g_.type(op.result_at(static_cast<uint32_t>(r))), 0, 0));
  }
  // The counter, then the operands.
  std::vector<TensorRef> now = arguments(op, 0, values);
  now.insert(now.begin(), nullptr);
  const int64_t limit = a.limit ? a.limit->value() : INT64_MAX;
  for (int64_t i = 0; i < limit; ++i) {
    step(op, run);
    now[0] = counter(i);
    if (a.condition != kNoBody) {
      if (bodies_[a.condition].run(now, run).outputs[0]->i[0] == 0) break;
    }
    Results r = body.run(now, run);
    for (size_t k = 0; k < a.carried; ++k) now[1 + k] = std::move(r.outputs[k]);
    for (size_t k = 0; k < rows.size(); ++k) put_row(rows[k], i, *r.outputs[a.carried + k]);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (g_.value(op.operands[k]).state) now[1 + k] = std::move(r.versions[1 + k]);
    }
  }
  std::vector<TensorRef> given(now.begin() + 1, now.begin() + 1 + a.carried);
  for (WideTensor& t : rows) given.push_back(share(std::move(t)));
  finish(op, std::move(given), now, 1, values);
}

void Evaluator::loop_by_flag(const Op& op, Values& values, const Run& run) const {
  std::vector<TensorRef> now = arguments(op, 0, values);
  while (now[0]->i[0] != 0) {
    step(op, run);
    Results r = bodies_[std::get<LoopAttr>(op.attrs).body].run(now, run);
    for (size_t k = 0; k < now.size(); ++k) {
      if (r.versions[k]) now[k] = std::move(r.versions[k]);
    }
  }
  finish(op, {}, now, 0, values);
}

int64_t bytes_besides(const Graph& graph, size_t arguments) {
  std::vector<size_t> last_use(graph.values().size(), SIZE_MAX);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (ValueId v : graph.ops()[i].operands) last_use[v.index] = i;
  }
  for (const Output& o : graph.outputs) last_use[o.value.index] = SIZE_MAX;
  int64_t held = 0, most = 0;
  const auto add = [](int64_t& to, int64_t bytes) {
    if (__builtin_add_overflow(to, bytes, &to)) to = INT64_MAX;
    return to != INT64_MAX;
  };
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (i < arguments) {
      last_use[op.result.index] = SIZE_MAX;
      continue;
    }
    for (uint32_t r = 0; r < op.results; ++r) {
      if (!add(held, wide_bytes(graph.type(op.result_at(r))))) return INT64_MAX;
    }
    int64_t inside = 0;
    for (uint32_t b : bodies_of(op)) {
      inside =
          std::max(inside, bytes_besides(graph.bodies[b], op.operands.size() - first_argument(op) +
                                                              first_operand_argument(op)));
    }
    if (!add(inside, held)) return INT64_MAX;
    most = std::max(most, inside);
    for (ValueId v : op.operands) {
      if (last_use[v.index] != i) continue;
      held -= wide_bytes(graph.type(v));
      last_use[v.index] = SIZE_MAX;  // an operand may stand twice
    }
  }
  return most;
}

}  // namespace braid::ir
