#include "frontend/builder_bodies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace braid {

using ir::ValueId;

namespace {

/// A body that becomes no part of the graph, nor do the params that it declared.
void forget(Graph::Impl& g, const BuilderFrame& failed) {
  for (const uint32_t v : failed.params) {
    g.variables[v].gone = true;
    g.param_names.erase(g.variables[v].name);
  }
  g.ended[failed.serial] = {g.serial, std::nullopt, true, {}, "a closure that failed"};
}

/// Ops go into a new body until it is left, or dropped where the closure fails.
class Inside {
 public:
  Inside(Graph::Impl& g, std::string name) : g_(g), scope_(g.scope.size()) {
    BuilderFrame inner(std::move(name), ++g.bodies);
    for (const DimTable::Symbol& s : g.ir.dims.symbols()) {
      inner.ir.dims.symbol(s.name, s.default_value, s.max);
    }
    g.around.push_back(std::move(static_cast<BuilderFrame&>(g)));
    static_cast<BuilderFrame&>(g) = std::move(inner);
  }
  ~Inside() {
    if (left_) return;
    forget(g_, leave());
    g_.scope.resize(scope_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  BuilderFrame leave() {
    left_ = true;
    BuilderFrame inner = std::move(static_cast<BuilderFrame&>(g_));
    static_cast<BuilderFrame&>(g_) = std::move(g_.around.back());
    g_.around.pop_back();
    for (const DimTable::Symbol& s : inner.ir.dims.symbols()) {
      g_.ir.dims.symbol(s.name, s.default_value, s.max);
    }
    return inner;
  }

 private:
  Graph::Impl& g_;
  size_t scope_;
  bool left_ = false;
};

}  // namespace

RegionBuilder::~RegionBuilder() {
  if (finished_) return;
  for (const RanBody& r : ran_) forget(g_, r.frame);
}

ValueId RegionBuilder::scalar(const In& in, DType dtype, std::string_view role,
                              std::string_view advice) {
  const ValueId v = graph_.unwrap(in);
  if (!v.valid()) return {};
  const TensorType t = g_.ir.type(v);
  const bool one = std::all_of(t.shape.begin(), t.shape.end(), [](Dim d) { return d == Dim(1); });
  if (t.dtype == dtype && one) return g_.reshape(v, {}, in.where);
  g_.fail(
      "E0301",
      fmt::format("{}: {} is {} with one element, not {}", what_, role, name_of(dtype), g_.str(t)),
      in.where, {g_.describe(v)}, std::string(one ? advice : ""));
  return {};
}

void RegionBuilder::body(std::string name, const Leading& leading, Role role, const Run& run) {
  const size_t around = g_.around.size();
  Inside inside(g_, std::move(name));
  RanBody ran{BuilderFrame({}, 0), {}, {}, {}, {}, false};
  g_.condition = role == Role::condition;
  std::vector<Tensor> given;
  for (size_t i = 0; i < leading.types.size(); ++i) {
    TensorType type = leading.types[i];
    g_.ir.carry_dims(g_.level(around).ir, type);
    const ValueId v = g_.ir.add(
        {ir::OpKind::input, {}, {}, type, g_.ir.strings.intern(leading.names[i]), g_.loc(where_)});
    g_.written_as[v.index] = i == 0 ? "the number of the iteration" : "the loop";
    ran.leading.push_back(v);
    given.push_back(graph_.wrap(v));
  }
  if (role != Role::side) g_.counter = ran.leading.at(0);
  for (const Tensor& t : run(given)) {
    const ValueId v = graph_.unwrap(In(t, where_));
    ran.results.push_back(v);
    ran.poison = ran.poison || !v.valid();
    ran.described.push_back(v.valid() ? g_.describe(v) : std::string());
  }
  ran.frame = inside.leave();
  g_.ended[ran.frame.serial] = {g_.serial, std::nullopt, false, where_.place,
                                fmt::format("'{}' of the {}", ran.frame.ir.name, what_)};
  for (const ValueId v : ran.results) {
    TensorType t = v.valid() ? ran.frame.ir.type(v) : TensorType{};
    g_.ir.carry_dims(ran.frame.ir, t);
    ran.types.push_back(t);
  }
  ran_.push_back(std::move(ran));
}

bool RegionBuilder::poison() const {
  return std::any_of(ran_.begin(), ran_.end(), [](const RanBody& r) { return r.poison; });
}

void RegionBuilder::fail(std::string message, std::vector<std::string> details,
                         std::string advice) {
  g_.fail("E0308", fmt::format("{}: {}", what_, message), where_, std::move(details),
          std::move(advice));
}

/// What closures declared is the graph's, or goes on to it with the body around.
void RegionBuilder::keep_params() {
  for (const RanBody& r : ran_) {
    for (const uint32_t v : r.frame.params) {
      if (g_.around.empty()) {
        g_.versions_of(g_, v);
      } else {
        g_.params.push_back(v);
      }
    }
  }
}

std::vector<Tensor> RegionBuilder::finish(ir::OpKind kind, std::vector<ValueId> lead,
                                          const std::vector<size_t>& order, ir::Attrs attrs,
                                          size_t results) {
  finished_ = true;
  keep_params();
  const std::vector<Argument> arguments = shared_arguments();
  const auto first = static_cast<uint32_t>(g_.ir.bodies.size());
  for (const size_t i : order) {
    std::vector<ValueId> map;
    ir::Graph body = isolated(ran_[i], arguments, map);
    end(ran_[i], static_cast<uint32_t>(g_.ir.bodies.size()), map);
    g_.ir.bodies.push_back(std::move(body));
  }
  if (auto* branch = std::get_if<ir::BranchAttr>(&attrs)) {
    for (uint32_t i = 0; i < order.size(); ++i) branch->bodies.push_back(first + i);
  } else if (auto* loop = std::get_if<ir::LoopAttr>(&attrs)) {
    loop->body = first;
    if (order.size() > 1) loop->condition = first + 1;
  }
  const size_t before = lead.size();
  for (const Argument& a : arguments) lead.push_back(a.operand);
  const ir::Graph::Added added = g_.ir.try_add({kind,
                                                std::move(attrs),
                                                std::move(lead),
                                                {},
                                                g_.ir.strings.intern(g_.scoped(what_)),
                                                g_.loc(where_)});
  if (!added.error.empty()) {
    g_.ir.bodies.resize(first, ir::Graph());
    g_.fail("E0301", fmt::format("{}: {}", what_, added.error.substr(added.error.find(": ") + 2)),
            where_);
    return std::vector<Tensor>(results, graph_.wrap({}));
  }
  const ir::Op& op = g_.ir.def(added.value);
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Argument& a = arguments[k];
    if (a.state) g_.advance(a.outer, ir::next_version(g_.ir, op, before + k));
  }
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < results; ++i) {
    g_.written_as[added.value.index + i] = what_;
    tensors.push_back(graph_.wrap(ValueId{added.value.index + i}));
  }
  return tensors;
}

void RegionBuilder::end(const RanBody& r, uint32_t index, const std::vector<ValueId>& map) {
  for (const uint32_t t : r.frame.tensors_made) {
    g_.tensors[t].index = map[g_.tensors[t].index].index;
  }
  g_.ended.at(r.frame.serial).index = index;
}

/// By value of one body: whether an op takes it or the closure returned it.
std::vector<bool> RegionBuilder::used(const RanBody& r) {
  std::vector<bool> used(r.frame.ir.values().size());
  for (const ir::Op& op : r.frame.ir.ops()) {
    if (op.kind == ir::OpKind::read) continue;
    for (const ValueId v : op.operands) used[v.index] = true;
  }
  for (const ValueId v : r.results) used[v.index] = true;
  return used;
}

/// What the closures used of outside, in the order of first use.
std::vector<RegionBuilder::Argument> RegionBuilder::shared_arguments() {
  std::vector<Argument> all;
  for (const RanBody& r : ran_) {
    const std::vector<bool> in_use = used(r);
    for (const BuilderFrame::Capture& c : r.frame.captures) {
      bool state = false, needed = in_use[c.inner.index];
      if (c.variable) {
        const BuilderFrame::Versions& v = r.frame.versions.at(c.outer);
        state = v.newest != v.first;
        needed = state || (v.first_read.valid() && in_use[v.first_read.index]);
      }
      if (!needed) continue;
      const auto it = std::find_if(all.begin(), all.end(), [&](const Argument& a) {
        return a.variable == c.variable && a.outer == c.outer;
      });
      if (it == all.end()) {
        all.push_back({c.variable, c.outer, state, {}});
      } else {
        it->state = it->state || state;
      }
    }
  }
  for (Argument& a : all) {
    a.operand = !a.variable ? ValueId{a.outer}
                : a.state   ? g_.versions_of(g_, a.outer).newest
                            : g_.read(a.outer);
  }
  return all;
}

/// The body as the IR wants it: arguments first, nothing else from outside.
ir::Graph RegionBuilder::isolated(const RanBody& r, const std::vector<Argument>& arguments,
                                  std::vector<ValueId>& map) {
  const ir::Graph& raw = r.frame.ir;
  ir::Graph body(raw.name);
  for (const DimTable::Symbol& s : raw.dims.symbols()) {
    body.dims.symbol(s.name, s.default_value, s.max);
  }
  map.resize(raw.values().size());
  std::set<std::string, std::less<>> names;
  for (const ValueId v : r.leading) {
    map[v.index] = body.clone_op(raw, raw.value(v).def, {});
    names.insert(std::string(raw.strings[raw.def(v).name]));
  }
  for (const Argument& a : arguments) {
    const auto it = std::find_if(r.frame.captures.begin(), r.frame.captures.end(),
                                 [&](const BuilderFrame::Capture& c) {
                                   return c.variable == a.variable && c.outer == a.outer;
                                 });
    const ir::Op& outer = g_.ir.def(a.operand);
    std::string name =
        a.variable ? g_.variables[a.outer].name : std::string(g_.ir.strings[outer.name]);
    if (name.empty()) name = "value";
    const std::string stem = name;
    for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}.{}", stem, i);
    ir::Graph::NewOp op{a.state ? ir::OpKind::param : ir::OpKind::input};
    if (a.state) op.attrs = g_.variables[a.outer].attrs;
    op.type = g_.ir.type(a.operand);
    body.carry_dims(g_.ir, *op.type);
    op.name = body.strings.intern(name);
    op.loc = loc_in(body, a.variable ? g_.variables[a.outer].place : g_.ir.place(outer.loc));
    const ValueId v = body.add(std::move(op));
    if (it == r.frame.captures.end()) continue;
    map[it->inner.index] = v;
    if (!a.variable || a.state) continue;
    const BuilderFrame::Versions& versions = r.frame.versions.at(a.outer);
    if (versions.first_read.valid()) map[versions.first_read.index] = v;
  }
  for (uint32_t i = 0; i < raw.ops().size(); ++i) {
    const ir::Op& op = raw.ops()[i];
    const bool local = std::holds_alternative<ir::LocalAttr>(op.attrs);  // the body's own
    if (op.kind == ir::OpKind::input || (op.kind == ir::OpKind::param && !local)) continue;
    if (map[op.result.index].valid()) continue;  // a read that became an argument
    std::vector<ValueId> operands;
    for (const ValueId v : op.operands) operands.push_back(map[v.index]);
    // A read that nothing used, of what is no argument.
    if (op.kind == ir::OpKind::read && !operands[0].valid()) continue;
    const ValueId copy = body.clone_op(raw, ir::OpId{i}, std::move(operands));
    ir::map_results(map, op, copy);
    if (!local) continue;
    const std::string stem(raw.strings[op.name]);
    std::string name = stem;
    for (int k = 1; !names.insert(name).second; ++k) name = fmt::format("{}.{}", stem, k);
    body.op(body.value(copy).def).name = body.strings.intern(name);
  }
  for (size_t i = 0; i < r.results.size(); ++i) {
    body.outputs.push_back({fmt::format("{}", i), map[r.results[i].index], {}});
  }
  return body;
}

}  // namespace braid
