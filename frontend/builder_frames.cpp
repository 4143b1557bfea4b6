// What tensors stand for, in the graph and in the bodies of closures.
//
// While a closure runs, its ops go into a body of their own (BuilderFrame), and a Tensor's number
// leads to a body and a value of it. A value of a body around the present one becomes an argument
// of each body between them. Params are variables: every body has versions of its own, which begin
// with what stands outside; leaving a body (builder_regions.cpp) tells whether it made new ones.
#include <fmt/format.h>

#include "frontend/builder_impl.hpp"

namespace braid {

using ir::ValueId;

namespace {

ir::Loc carried_loc(ir::Graph& to, const ir::Graph& from, ir::Loc loc) {
  if (loc.file.valid()) loc.file = to.strings.intern(from.strings[loc.file]);
  return loc;
}

/// An input of `inner` for the value, until the body is left.
ValueId argument(BuilderFrame& inner, const BuilderFrame& outside, ValueId v) {
  const auto [it, added] = inner.captured.emplace(v.index, ValueId{});
  if (!added) return it->second;
  TensorType type = outside.ir.type(v);
  inner.ir.carry_dims(outside.ir, type);
  const ir::Op& op = outside.ir.def(v);
  const ir::StrId name = inner.ir.strings.intern(outside.ir.strings[op.name]);
  it->second = inner.ir.add(
      {ir::OpKind::input, {}, {}, type, name, carried_loc(inner.ir, outside.ir, op.loc)});
  inner.captures.push_back({false, v.index, it->second});
  inner.origin[it->second.index] = v;
  return it->second;
}

/// The variable of a tensor that is a param itself; an error for any other.
std::optional<uint32_t> variable_of(Graph& g, Tensor t, Graph::Impl::Made made, std::string_view op,
                                    const Where& w) {
  Graph::Impl& impl = g.impl();
  if (made.body == Graph::Impl::kVariable) {
    if (!impl.variables[made.index].gone) return made.index;
    impl.value_of(made, w);
    return std::nullopt;
  }
  const ValueId v = g.unwrap(In(t, w));
  if (v.valid()) {
    impl.fail("E0304", fmt::format("{}: the target is no param", op), w, {impl.describe(v)});
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> Graph::Impl::level_of(uint32_t of) const {
  for (size_t i = around.size() + 1; i-- > 0;) {
    if (level(i).serial == of) return i;
  }
  return std::nullopt;
}

ValueId Graph::Impl::capture(size_t from, ValueId v) {
  for (; from < around.size(); ++from) v = argument(level(from + 1), level(from), v);
  return v;
}

ValueId Graph::Impl::value_of(Made made, const Where& where) {
  if (made.body == kVariable && !variables[made.index].gone) return read(made.index);
  if (made.body == serial) return ValueId{made.index};
  const std::optional<size_t> from = level_of(made.body);
  if (from) return capture(*from, ValueId{made.index});

  Diagnostic note;
  note.severity = Severity::note;
  std::vector<std::string> details;
  if (made.body == kVariable) {
    if (collect) return {};
    note.place = variables[made.index].place;
    note.message =
        fmt::format("'{}' was declared here, in a closure that failed", variables[made.index].name);
  } else {
    // From the nearest body that still runs down to the one that made it.
    std::vector<uint32_t> path;
    const Ended* end = &ended.at(made.body);
    note.place = end->place;
    note.message = fmt::format("it was made in {} here", end->of);
    bool there = true, failed = false;
    uint32_t parent = made.body;
    for (auto it = ended.find(parent); it != ended.end(); it = ended.find(parent)) {
      there = there && it->second.index.has_value();
      failed = failed || it->second.failed;
      path.push_back(it->second.index.value_or(0));
      parent = it->second.parent;
    }
    const std::optional<size_t> root = level_of(parent);
    if (failed && collect) return {};  // the mistake that ended it was reported
    if (there && root) {
      const ir::Graph* g = &level(*root).ir;
      while (!path.empty()) {
        g = &g->bodies[path.back()];
        path.pop_back();
      }
      const ir::Op& op = g->def(ValueId{made.index});
      details.push_back(fmt::format("'{}'  {}", g->strings[op.name],
                                    to_string(g->type(ValueId{made.index}), &g->dims)));
      const Place place = g->place(op.loc);
      if (place.known()) {
        details.back() += fmt::format("  made at {}:{}:{}", place.file, place.line, place.column);
      }
    }
  }
  fail("E0307", "this tensor ended with the closure that made it", where, std::move(details),
       "return it from there, and use what the branch or loop gives", {std::move(note)});
  return {};
}

BuilderFrame::Versions& Graph::Impl::versions_of(BuilderFrame& frame, uint32_t variable) {
  if (const auto it = frame.versions.find(variable); it != frame.versions.end()) return it->second;
  const Variable& x = variables[variable];
  TensorType type = x.type;
  if (&frame != &level(0)) frame.ir.carry_dims(level(0).ir, type);
  const ValueId v = frame.ir.add({ir::OpKind::param,
                                  x.attrs,
                                  {},
                                  type,
                                  frame.ir.strings.intern(x.name),
                                  loc_in(frame.ir, x.place)});
  frame.spelled[v.index] = x.labels;
  if (&frame != &level(0)) frame.captures.push_back({true, variable, v});
  return frame.versions[variable] = {v, v, {}, {}};
}

ValueId Graph::Impl::read(uint32_t variable) {
  BuilderFrame::Versions& p = versions_of(*this, variable);
  if (!p.read.valid()) {
    const ir::Op op = ir.def(p.first);
    p.read = ir.add({ir::OpKind::read, {}, {p.newest}, {}, op.name, op.loc});
    if (p.newest == p.first) p.first_read = p.read;
  }
  return p.read;
}

void Graph::Impl::advance(uint32_t variable, ValueId next) {
  BuilderFrame::Versions& p = versions_of(*this, variable);
  p.newest = next;
  p.read = {};
}

bool Graph::Impl::may_change(std::string_view what, const Where& where) {
  for (size_t i = 0; i <= around.size(); ++i) {
    if (!level(i).condition) continue;
    fail("E0309", fmt::format("a loop's condition cannot {}", what), where, {},
         "it is asked before each iteration and only looks: do it in the body");
    return false;
  }
  return true;
}

bool Graph::Impl::may_declare(std::string_view what, const Where& where) {
  if (around.empty()) return true;
  fail("E0309", fmt::format("{} cannot stand in a branch or loop", what), where, {},
       what == "an output" ? "return the tensor from the closure, and name the result"
                           : "declare it outside: closures may use it");
  return false;
}

Tensor Graph::wrap(ValueId v) {
  if (!v.valid()) return Tensor(this, UINT32_MAX);
  const auto id = static_cast<uint32_t>(impl_->tensors.size());
  impl_->tensors.push_back({impl_->serial, v.index});
  if (!impl_->around.empty()) impl_->tensors_made.push_back(id);
  return Tensor(this, id);
}

ValueId Graph::unwrap(const In& in) {
  const Tensor* t = std::get_if<Tensor>(&in.value);
  if (!t) throw_misuse("an operand must be a tensor, not a number", in.where);
  if (!t->valid()) throw_misuse(kNoGraph, in.where);
  if (&t->graph() != this) throw_misuse(kTwoGraphs, in.where);
  if (poisoned(*t)) return {};
  return impl_->value_of(impl_->tensors[t->id_], in.where);
}

TensorType Tensor::type() const {
  if (graph_ == nullptr || graph_->poisoned(*this)) return {};
  Graph::Impl& g = graph_->impl();
  const Graph::Impl::Made made = g.tensors[id_];
  const bool variable = made.body == Graph::Impl::kVariable;
  const std::optional<size_t> from = variable ? 0 : g.level_of(made.body);
  if (!from) return {};  // whoever uses it is told
  const ir::Graph& home = g.level(*from).ir;
  TensorType t = variable ? g.variables[made.index].type : home.type(ValueId{made.index});
  if (*from != g.around.size()) g.ir.carry_dims(home, t);
  return t;
}

Tensor Tensor::named(std::string_view name) const {
  if (!graph_ || graph_->poisoned(*this)) return *this;
  Graph::Impl& g = graph_->impl();
  const Graph::Impl::Made made = g.tensors[id_];
  const std::optional<size_t> from =
      made.body == Graph::Impl::kVariable ? std::nullopt : g.level_of(made.body);
  if (!from) return *this;
  ir::Graph& home = g.level(*from).ir;
  ir::Op& op = home.op(home.value(ValueId{made.index}).def);
  // Inputs and params are bound by their names.
  if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) {
    op.name = home.strings.intern(g.scoped(name));
  }
  return *this;
}

const ir::Graph& Graph::ir() const {
  if (!impl_->around.empty()) {
    throw_misuse("a graph is not whole while the closure of a branch or loop runs", {});
  }
  if (!impl_->diagnostics.empty()) throw Error(impl_->diagnostics);
  return impl_->ir;
}

Tensor Graph::param(std::string_view name, TypeArg type, ParamOpts o, Where w) {
  const std::string full = impl_->scoped(name);
  if (name.empty()) {
    impl_->fail("E0201", "a param needs a name", w);
    return wrap({});
  }
  if (impl_->param_names.contains(full)) {
    impl_->fail("E0201", fmt::format("there is a param '{}' already", full), w);
    return wrap({});
  }
  const std::optional<TensorType> t = impl_->type_of(type, w);
  if (!t) return wrap({});
  const ir::ParamAttr attr{o.init, o.scale};
  const ValueId v = impl_->emit(ir::OpKind::param, attr, {}, t, w, name);
  if (!v.valid()) return wrap({});
  impl_->param_names.insert(full);
  impl_->name_ring();
  impl_->remember_labels(v, type);
  const auto variable = static_cast<uint32_t>(impl_->variables.size());
  TensorType outer = *t;
  impl_->level(0).ir.carry_dims(impl_->ir, outer);
  impl_->variables.push_back({full, outer, attr, w.place, impl_->spelled[v.index]});
  impl_->versions[variable] = {v, v, {}, {}};
  if (!impl_->around.empty()) {
    impl_->params.push_back(variable);
    impl_->captures.push_back({true, variable, v});
  }
  const auto id = static_cast<uint32_t>(impl_->tensors.size());
  impl_->tensors.push_back({Impl::kVariable, variable});
  return Tensor(this, id);
}

void Graph::assign(Tensor param, In value) {
  if (!param.valid()) throw_misuse(kNoGraph, value.where);
  if (&param.graph() != this) throw_misuse(kTwoGraphs, value.where);
  if (poisoned(param)) return;
  const auto p = variable_of(*this, param, impl_->tensors[param.id_], "assign", value.where);
  if (!p || !impl_->may_change("change a param", value.where)) return;
  ValueId v;
  if (const double* number = std::get_if<double>(&value.value)) {
    v = impl_->number(*number, param.dtype(), param.type().shape, value.where);
  } else {
    v = unwrap(value);
  }
  const ValueId now = impl_->versions_of(*impl_, *p).newest;
  const ValueId next = impl_->emit(ir::OpKind::assign, {}, {now, v}, {}, value.where, "assign");
  if (next.valid()) impl_->advance(*p, next);
}

void Graph::update(Tensor param, In value, std::vector<In> starts) {
  if (!param.valid()) throw_misuse(kNoGraph, value.where);
  if (&param.graph() != this) throw_misuse(kTwoGraphs, value.where);
  if (poisoned(param)) return;
  const auto p = variable_of(*this, param, impl_->tensors[param.id_], "update", value.where);
  if (!p || !impl_->may_change("change a param", value.where)) return;
  const auto operand = [&](const In& in, DType dtype, const Shape& shape) {
    const double* number = std::get_if<double>(&in.value);
    return number ? impl_->number(*number, dtype, shape, in.where) : unwrap(in);
  };
  Shape one;
  for (int i = 0; i < param.rank(); ++i) one.push_back(Dim(1));
  std::vector<ValueId> operands{impl_->versions_of(*impl_, *p).newest,
                                operand(value, param.dtype(), one)};
  for (const In& start : starts) operands.push_back(operand(start, DType::i64, {}));
  const ValueId next =
      impl_->emit(ir::OpKind::update, {}, std::move(operands), {}, value.where, "update");
  if (next.valid()) impl_->advance(*p, next);
}

Tensor Graph::read(Tensor param, Where w) {
  if (!param.valid()) throw_misuse(kNoGraph, w);
  if (&param.graph() != this) throw_misuse(kTwoGraphs, w);
  if (poisoned(param)) return wrap({});
  if (!variable_of(*this, param, impl_->tensors[param.id_], "read", w)) return wrap({});
  return wrap(unwrap(In(param, std::move(w))));
}

}  // namespace braid
