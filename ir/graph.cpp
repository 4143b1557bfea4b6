#include "ir/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/code_op.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::ir {

StrId Strings::intern(std::string_view s) {
  if (const auto it = index_.find(s); it != index_.end()) return StrId{it->second};
  const auto id = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(s);
  index_.emplace(texts_.back(), id);
  return StrId{id};
}

Strings& Strings::operator=(const Strings& o) {
  if (this == &o) return *this;
  texts_ = o.texts_;
  index_.clear();
  for (uint32_t i = 0; i < texts_.size(); ++i) index_.emplace(texts_[i], i);
  return *this;
}

namespace {

/// Whether strides and sizes of a static type stay below 2^62 bytes, also where an extent of 0
/// makes it empty; symbolic types are checked when bound.
bool size_fits(const TensorType& t) {
  int64_t bytes = size_of(t.dtype);
  for (Dim d : t.shape) {
    if (!d.is_const()) return true;
    if (d.value() != 0 && __builtin_mul_overflow(bytes, d.value(), &bytes)) return false;
  }
  return bytes <= int64_t{1} << 62;
}

std::string too_large(const TensorType& t, const DimTable& dims) {
  return fmt::format("{} is larger than 2^62 bytes", to_string(t, &dims));
}

}  // namespace

bool can_stand_outside(OpKind kind) {
  return kind != OpKind::input && kind != OpKind::param && kind != OpKind::host &&
         kind != OpKind::branch && kind != OpKind::loop && kind != OpKind::send && !info(kind).free;
}

Graph::Added Graph::try_add(NewOp op) {
  const OpInfo& table = info(op.kind);
  const auto count = static_cast<int>(op.operands.size());
  if (count < table.min_operands || (table.max_operands >= 0 && count > table.max_operands)) {
    return {{},
            fmt::format("{} does not take {} operand{}", table.name, count, count == 1 ? "" : "s")};
  }
  if (op.kind == OpKind::constant) {
    const uint32_t index = std::get<ConstAttr>(op.attrs).literal;
    if (index >= literals.size()) return {{}, "constant: there is no such literal"};
    const TensorType& literal = literals[index].type;
    if (!op.type) op.type = literal;
    if (op.type->dtype != literal.dtype) {
      return {{},
              fmt::format("constant: a literal of {} cannot be {}", to_string(literal, &dims),
                          to_string(*op.type, &dims))};
    }
  }
  if (op.type && !size_fits(*op.type)) return {{}, too_large(*op.type, dims)};
  TypeQuery q{op.kind, op.attrs, {}, op.type, &dims};
  q.operands.reserve(op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].index >= values_.size()) {
      return {{}, fmt::format("{}: operand {} is no value of this graph", table.name, i)};
    }
    const Value& v = value(op.operands[i]);
    q.operands.push_back(v.type);
    if (takes_state(op.kind, i).value_or(v.state) != v.state) {
      return {{},
              v.state
                  ? fmt::format("{}: operand {} is a param, not its value: read it", table.name, i)
                  : fmt::format("{}: operand {} must be a param", table.name, i)};
    }
  }
  if (is_region(op.kind)) return add_region(std::move(op));
  if (runs_code(op.kind)) return add_code(std::move(op));
  TypeAnswer answer;
  try {
    answer = table.type_rule(q);
  } catch (const Error& e) {  // arithmetic on symbolic extents
    return {{}, fmt::format("{}: {}", table.name, e.diagnostics().front().message)};
  }
  if (!answer.error.empty()) return {{}, std::move(answer.error)};
  if (!size_fits(answer.type)) return {{}, too_large(answer.type, dims)};
  if (op.kind == OpKind::compact) {
    const std::vector<TensorType> counted{{DType::i32, {}}};
    if (op.more.empty()) op.more = counted;
    if (op.more != counted) return {{}, "compact has two results, the second i32[]"};
  }
  if (!op.more.empty() && !has_more_results(op.kind)) {
    return {{}, fmt::format("{} has one result", table.name)};
  }
  if (op.outside && !can_stand_outside(op.kind)) {
    return {{}, fmt::format("{} needs no kernel, so it cannot be kept out of graphs", table.name)};
  }
  for (const TensorType& t : op.more) {
    if (!size_fits(t)) return {{}, too_large(t, dims)};
  }
  const ValueId result{static_cast<uint32_t>(values_.size())};
  const OpId id{static_cast<uint32_t>(ops_.size())};
  OpId param;
  if (answer.state) param = op.kind == OpKind::param ? id : value(op.operands[0]).param;
  values_.push_back({id, answer.type, answer.state, param});
  for (TensorType& t : op.more) values_.push_back({id, std::move(t)});
  ops_.push_back({op.kind, std::move(op.attrs), std::move(op.operands), result, op.name, op.loc,
                  static_cast<uint32_t>(1 + op.more.size()), op.outside});
  return {result, {}};
}

Graph::Added Graph::add_region(NewOp op) {
  if (op.outside) return {{}, fmt::format("{} is no kernel", info(op.kind).name)};
  RegionResults results = region_results(*this, op.kind, op.attrs, op.operands);
  return add_results(std::move(op), std::move(results));
}

Graph::Added Graph::add_code(NewOp op) {
  std::vector<TensorType> values;
  if (op.type) values.push_back(*op.type);
  values.insert(values.end(), op.more.begin(), op.more.end());
  RegionResults results = code_results(*this, op.kind, op.attrs, op.operands, values);
  return add_results(std::move(op), std::move(results));
}

Graph::Added Graph::add_results(NewOp op, RegionResults results) {
  if (!results.error.empty()) return {{}, std::move(results.error)};
  for (const TensorType& t : results.types) {
    if (!size_fits(t)) return {{}, too_large(t, dims)};
  }
  const ValueId first{static_cast<uint32_t>(values_.size())};
  const OpId id{static_cast<uint32_t>(ops_.size())};
  std::vector<OpId> params;
  for (size_t k = op.kind == OpKind::branch ? 1 : 0; k < op.operands.size(); ++k) {
    if (value(op.operands[k]).state) params.push_back(value(op.operands[k]).param);
  }
  const size_t values = results.types.size() - params.size();
  for (size_t i = 0; i < results.types.size(); ++i) {
    const bool state = results.state[i];
    values_.push_back({id, results.types[i], state, state ? params[i - values] : OpId{}});
  }
  ops_.push_back({op.kind, std::move(op.attrs), std::move(op.operands), first, op.name, op.loc,
                  static_cast<uint32_t>(results.types.size()), op.outside});
  return {first, {}};
}

ValueId Graph::add(NewOp op) {
  Added added = try_add(std::move(op));
  if (!added.error.empty()) throw InternalError(added.error);
  return added.value;
}

uint32_t Graph::add_literal(Literal literal) {
  literals.push_back(std::move(literal));
  return static_cast<uint32_t>(literals.size() - 1);
}

ValueId Graph::splat(TensorType type, double x, StrId op_name, Loc loc) {
  HostTensor one(TensorType{type.dtype, {}});
  one.set(0, x);
  const uint32_t literal = add_literal({type, true, std::move(one.bytes)});
  return add({OpKind::constant, ConstAttr{literal}, {}, type, op_name, loc});
}

std::optional<double> Graph::splat_value(ValueId v) const {
  const Op* op = &def(v);
  while (op->kind == OpKind::view) op = &def(op->operands[0]);
  if (op->kind != OpKind::constant) return std::nullopt;
  const Literal& l = literals[std::get<ConstAttr>(op->attrs).literal];
  if (!l.splat) return std::nullopt;
  HostTensor one(TensorType{l.type.dtype, {}});
  one.bytes = l.bytes;
  return one.at(0);
}

std::vector<std::vector<OpId>> Graph::users() const {
  std::vector<std::vector<OpId>> users(values_.size());
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    for (ValueId v : ops_[i].operands) {
      std::vector<OpId>& u = users[v.index];
      if (u.empty() || u.back() != OpId{i}) u.push_back(OpId{i});
    }
  }
  return users;
}

Place Graph::place(const Loc& loc) const {
  return {std::string(strings[loc.file]), loc.line, loc.column, loc.end_column};
}

Dim Graph::carry_dim(const Graph& from, Dim dim) {
  return &from == this ? dim : ir::carry_dim(dims, from.dims, dim);
}

void Graph::carry_dims(const Graph& from, TensorType& type) {
  if (type.shape.is_static()) return;
  for (Dim& d : std::span(&type.shape[0], static_cast<size_t>(type.shape.rank()))) {
    d = carry_dim(from, d);
  }
}

void Graph::NewOp::take_types(const Graph& from, const Op& op) {
  more = runs_code(op.kind) ? value_types(from, op) : result_types(from, op);
  type.reset();
  if (more.empty()) return;
  type = std::move(more.front());
  more.erase(more.begin());
}

std::vector<TensorType> operand_types(const Graph& graph, const Op& op) {
  std::vector<TensorType> types;
  for (ValueId v : op.operands) types.push_back(graph.type(v));
  return types;
}

std::vector<TensorType> result_types(const Graph& graph, const Op& op) {
  std::vector<TensorType> types;
  for (uint32_t r = 0; r < op.results; ++r) types.push_back(graph.type(op.result_at(r)));
  return types;
}

ValueId Graph::clone_op(const Graph& from, OpId id, std::vector<ValueId> operands) {
  const Op& op = from.op(id);
  NewOp copy{op.kind, op.attrs, std::move(operands), {}, {}, op.loc, {}, op.outside};
  copy.take_types(from, op);
  if (op.name.valid()) copy.name = strings.intern(from.strings[op.name]);
  if (op.loc.file.valid()) copy.loc.file = strings.intern(from.strings[op.loc.file]);
  const auto clone_body = [&](uint32_t& body) {
    if (body == kNoBody) return;
    Graph one = from.bodies[body];
    body = static_cast<uint32_t>(bodies.size());
    bodies.push_back(std::move(one));
  };
  if (auto* branch = std::get_if<BranchAttr>(&copy.attrs)) {
    for (uint32_t& body : branch->bodies) clone_body(body);
    if (branch->why.valid()) branch->why = strings.intern(from.strings[branch->why]);
    return add(std::move(copy));
  }
  if (auto* loop = std::get_if<LoopAttr>(&copy.attrs)) {
    if (loop->limit) loop->limit = carry_dim(from, *loop->limit);
    clone_body(loop->body);
    clone_body(loop->condition);
    if (loop->why.valid()) loop->why = strings.intern(from.strings[loop->why]);
    return add(std::move(copy));
  }
  if (&from != this) {
    replace_extents(copy.attrs, [&](Dim d) { return carry_dim(from, d); });
    replace_strings(copy.attrs, [&](StrId s) { return strings.intern(from.strings[s]); });
    if (copy.type) carry_dims(from, *copy.type);
    for (TensorType& t : copy.more) carry_dims(from, t);
  }
  if (auto* host = std::get_if<HostAttr>(&copy.attrs)) {
    host->function = strings.intern(from.strings[host->function]);
    if (host->why.valid()) host->why = strings.intern(from.strings[host->why]);
  }
  if (auto* send = std::get_if<SendAttr>(&copy.attrs)) {
    send->text = strings.intern(from.strings[send->text]);
  }
  if (const ConstAttr* c = std::get_if<ConstAttr>(&op.attrs)) {
    Literal l = from.literals[c->literal];
    l.type = *copy.type;
    copy.attrs = ConstAttr{add_literal(std::move(l))};
  }
  return add(std::move(copy));
}

void Graph::bind_dims(const DimTable::Bindings& bindings) {
  std::vector<Diagnostic> errors;
  const auto fail = [&](std::string code, std::string message, std::string hint = {}) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.suggestion = std::move(hint);
    errors.push_back(std::move(d));
  };
  const std::vector<DimTable::Symbol>& symbols = dims.symbols();
  std::vector<std::optional<int64_t>> given(symbols.size());
  for (const auto& [dim, size] : bindings) {
    const auto it = std::find_if(symbols.begin(), symbols.end(),
                                 [&, n = &dim](const DimTable::Symbol& s) { return s.name == *n; });
    if (it == symbols.end()) {
      std::vector<std::string> known;
      for (const auto& s : symbols) known.push_back(s.name);
      fail("E0601", fmt::format("the model has no dim '{}'", dim), suggest(dim, known));
    } else {
      given[static_cast<size_t>(it - symbols.begin())] = size;
    }
  }
  std::vector<int64_t> values(symbols.size(), 1);
  for (size_t i = 0; i < symbols.size(); ++i) {
    const std::optional<int64_t> v = given[i] ? given[i] : symbols[i].default_value;
    if (!v) {
      fail("E0602",
           fmt::format("dim '{0}' has no value: give one with --dim {0}=N", symbols[i].name));
    } else if (*v < 0) {
      fail("E0604", fmt::format("dim '{}' is {}, which is negative", symbols[i].name, *v));
    } else if (symbols[i].max && *v > *symbols[i].max) {
      fail("E0603", fmt::format("dim '{}' is {}, above its maximum {}", symbols[i].name, *v,
                                *symbols[i].max));
    } else {
      values[i] = *v;
    }
  }
  if (!errors.empty()) throw Error(std::move(errors));

  const auto bind = [&](TensorType& t, const Op* at) {
    const TensorType before = t;
    bool good = true;
    for (int i = 0; i < t.shape.rank(); ++i) {
      const auto n = dims.eval(t.shape[i], values);
      good = good && n.has_value();
      t.shape[i] = Dim(n.value_or(1));
    }
    if (good && size_fits(t)) return;
    fail("E0604",
         fmt::format("{} overflows or is negative with these dims", to_string(before, &dims)));
    if (at) errors.back().place = place(at->loc);
  };
  for (Value& v : values_) bind(v.type, &ops_[v.def.index]);
  for (Literal& l : literals) bind(l.type, nullptr);
  for (Op& op : ops_) {
    replace_extents(op.attrs, [&](Dim d) {
      const auto n = dims.eval(d, values);
      if (n) return Dim(*n);
      fail("E0604", fmt::format("{} overflows or is negative with these dims", dims.str(d)));
      errors.back().place = place(op.loc);
      return Dim(1);
    });
    auto* loop = std::get_if<LoopAttr>(&op.attrs);
    if (!loop || !loop->limit) continue;
    const auto limit = dims.eval(*loop->limit, values);
    if (limit && *limit <= INT32_MAX) {
      loop->limit = Dim(*limit);
    } else {
      fail("E0604", fmt::format("a loop's limit, {}, overflows or is negative with these dims",
                                dims.str(*loop->limit)));
      errors.back().place = place(op.loc);
    }
  }
  if (!errors.empty()) throw Error(std::move(errors));
  for (Graph& body : bodies) {
    DimTable::Bindings known;
    for (const DimTable::Symbol& s : body.dims.symbols()) {
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (symbols[i].name == s.name) known.emplace_back(s.name, values[i]);
      }
    }
    body.bind_dims(known);
  }
  // What was undecided with symbols is decided now: slices, for one.
  for (const Op& op : ops_) {
    if (is_region(op.kind) || runs_code(op.kind)) continue;
    TypeQuery q{op.kind, op.attrs, {}, value(op.result).type, &dims};
    for (ValueId v : op.operands) q.operands.push_back(type(v));
    const TypeAnswer answer = info(op.kind).type_rule(q);
    if (answer.error.empty()) continue;
    fail("E0301", answer.error + " (with these dims)");
    errors.back().place = place(op.loc);
  }
  if (!errors.empty()) throw Error(std::move(errors));
}

}  // namespace braid::ir
