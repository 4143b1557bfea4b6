// Branches and loops: runs their closures, each in a body of its own, and makes one op of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/builder_impl.hpp"

namespace braid {
namespace {

using ir::ValueId;

/// A body that becomes no part of the graph, nor do the params that it declared.
void forget(Graph::Impl& g, const Frame& failed) {
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
    Frame inner(std::move(name), ++g.bodies);
    for (const DimTable::Symbol& s : g.ir.dims.symbols()) {
      inner.ir.dims.symbol(s.name, s.default_value, s.max);
    }
    g.around.push_back(std::move(static_cast<Frame&>(g)));
    static_cast<Frame&>(g) = std::move(inner);
  }
  ~Inside() {
    if (left_) return;
    forget(g_, leave());
    g_.scope.resize(scope_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  Frame leave() {
    left_ = true;
    Frame inner = std::move(static_cast<Frame&>(g_));
    static_cast<Frame&>(g_) = std::move(g_.around.back());
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

/// A body after its closure has run, not yet isolated.
struct Ran {
  Frame frame;
  std::vector<ValueId> leading;   // arguments that are no captures: counter and carried values
  std::vector<ValueId> results;   // its own
  std::vector<TensorType> types;  // of the results, in the terms of the graph around
  std::vector<std::string> described;
  bool poison = false;  // a result is none, after an error
};

/// An argument that the bodies share.
struct Argument {
  bool variable;
  uint32_t outer;  // as in Capture
  bool state;
  ValueId operand;
};

class RegionBuilder {
 public:
  RegionBuilder(Graph& graph, std::string_view what, Where where)
      : graph_(graph), g_(graph.impl()), what_(what), where_(std::move(where)) {}
  ~RegionBuilder() {
    if (finished_) return;
    for (const Ran& r : ran_) forget(g_, r.frame);
  }
  RegionBuilder(const RegionBuilder&) = delete;
  RegionBuilder& operator=(const RegionBuilder&) = delete;

  /// A one-element tensor of that dtype as a scalar; invalid after an error.
  ValueId scalar(const In& in, DType dtype, std::string_view role, std::string_view advice) {
    const ValueId v = graph_.unwrap(in);
    if (!v.valid()) return {};
    const TensorType t = g_.ir.type(v);
    const bool one = std::all_of(t.shape.begin(), t.shape.end(), [](Dim d) { return d == Dim(1); });
    if (t.dtype == dtype && one) return g_.reshape(v, {}, in.where);
    g_.fail("E0301",
            fmt::format("{}: {} is {} with one element, not {}", what_, role, name_of(dtype),
                        g_.str(t)),
            in.where, {g_.describe(v)}, std::string(one ? advice : ""));
    return {};
  }

  /// Runs one closure: `run` is given its leading arguments as tensors.
  template <class Run>
  void body(std::string name, const std::vector<TensorType>& leading,
            const std::vector<std::string>& names, bool loop, bool condition, const Run& run) {
    const size_t around = g_.around.size();
    Inside inside(g_, std::move(name));
    Ran ran{Frame({}, 0), {}, {}, {}, {}, false};
    g_.condition = condition;
    std::vector<Tensor> given;
    for (size_t i = 0; i < leading.size(); ++i) {
      TensorType type = leading[i];
      g_.ir.carry_dims(g_.level(around).ir, type);
      const ValueId v = g_.ir.add(
          {ir::OpKind::input, {}, {}, type, g_.ir.strings.intern(names[i]), g_.loc(where_)});
      g_.written_as[v.index] = i == 0 ? "the number of the iteration" : "the loop";
      ran.leading.push_back(v);
      given.push_back(graph_.wrap(v));
    }
    if (loop) g_.counter = ran.leading.at(0);
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

  std::vector<Ran>& ran() { return ran_; }
  bool poison() const {
    return std::any_of(ran_.begin(), ran_.end(), [](const Ran& r) { return r.poison; });
  }
  void fail(std::string message, std::vector<std::string> details, std::string advice) {
    g_.fail("E0308", fmt::format("{}: {}", what_, message), where_, std::move(details),
            std::move(advice));
  }

  /// Makes the op; `order`: of the bodies that ran, as the IR wants them. `lead`: its operands
  /// before the captures. Returns its results that are values.
  std::vector<Tensor> finish(ir::OpKind kind, std::vector<ValueId> lead,
                             const std::vector<size_t>& order, ir::Attrs attrs, size_t results) {
    finished_ = true;
    for (const Ran& r : ran_) {
      for (const uint32_t v : r.frame.params) {
        if (g_.around.empty()) {
          g_.versions_of(g_, v);
        } else {
          g_.params.push_back(v);
        }
      }
    }
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

 private:
  void end(const Ran& r, uint32_t index, const std::vector<ValueId>& map) {
    for (const uint32_t t : r.frame.tensors_made) {
      g_.tensors[t].index = map[g_.tensors[t].index].index;
    }
    g_.ended.at(r.frame.serial).index = index;
  }

  /// By value of one body: whether an op takes it or the closure returned it.
  static std::vector<bool> used(const Ran& r) {
    std::vector<bool> used(r.frame.ir.values().size());
    for (const ir::Op& op : r.frame.ir.ops()) {
      if (op.kind == ir::OpKind::read) continue;
      for (const ValueId v : op.operands) used[v.index] = true;
    }
    for (const ValueId v : r.results) used[v.index] = true;
    return used;
  }

  /// What the closures used of outside, in the order of first use.
  std::vector<Argument> shared_arguments() {
    std::vector<Argument> all;
    for (const Ran& r : ran_) {
      const std::vector<bool> in_use = used(r);
      for (const Frame::Capture& c : r.frame.captures) {
        bool state = false, needed = in_use[c.inner.index];
        if (c.variable) {
          const Frame::Versions& v = r.frame.versions.at(c.outer);
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
  ir::Graph isolated(const Ran& r, const std::vector<Argument>& arguments,
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
      const auto it = std::find_if(
          r.frame.captures.begin(), r.frame.captures.end(),
          [&](const Frame::Capture& c) { return c.variable == a.variable && c.outer == a.outer; });
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
      const Frame::Versions& versions = r.frame.versions.at(a.outer);
      if (versions.first_read.valid()) map[versions.first_read.index] = v;
    }
    for (uint32_t i = 0; i < raw.ops().size(); ++i) {
      const ir::Op& op = raw.ops()[i];
      if (op.kind == ir::OpKind::input || op.kind == ir::OpKind::param) continue;
      if (map[op.result.index].valid()) continue;  // a read that became an argument
      std::vector<ValueId> operands;
      for (const ValueId v : op.operands) operands.push_back(map[v.index]);
      // A read that nothing used, of what is no argument.
      if (op.kind == ir::OpKind::read && !operands[0].valid()) continue;
      ir::map_results(map, op, body.clone_op(raw, ir::OpId{i}, std::move(operands)));
    }
    for (size_t i = 0; i < r.results.size(); ++i) {
      body.outputs.push_back({fmt::format("{}", i), map[r.results[i].index], {}});
    }
    return body;
  }

  Graph& graph_;
  Graph::Impl& g_;
  std::string what_;
  Where where_;
  std::vector<Ran> ran_;
  bool finished_ = false;
};

/// Whether the lowering is one of the op's; an error if not.
bool fits(Graph::Impl& g, std::string_view what, ir::Lowering l,
          std::initializer_list<ir::Lowering> known, const Where& where) {
  if (l == ir::Lowering::automatic || std::find(known.begin(), known.end(), l) != known.end()) {
    return true;
  }
  std::string names = "auto";
  for (const ir::Lowering k : known) names += fmt::format(", {}", name_of(k));
  g.fail("E0303", fmt::format("{}: it cannot become '{}': one of {}", what, name_of(l), names),
         where);
  return false;
}

}  // namespace

std::vector<Tensor> Graph::branch(In selects, std::vector<Side> sides, bool is_if, BranchOpts o) {
  using L = ir::Lowering;
  const char* what = is_if ? "if" : "switch";
  RegionBuilder region(*this, what, selects.where);
  const ValueId selector =
      is_if ? region.scalar(selects, b1, "what decides", "compare it with a number, as in x > 0")
            : region.scalar(selects, i32, "what decides", "cast it to i32");
  bool good = selector.valid() && fits(*impl_, what, o.lowering,
                                       {L::select, L::predicate, L::node, L::host}, selects.where);
  if (sides.empty()) {
    impl_->fail("E0308", "switch: there are no cases", selects.where);
    return {};
  }
  // As they stand in the code: what is true comes first.
  std::vector<size_t> running(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) running[i] = is_if ? sides.size() - 1 - i : i;
  for (size_t i = 0; i < sides.size(); ++i) {
    const std::string name = is_if ? (i == 0 ? "then" : "else") : fmt::format("case{}", i);
    region.body(name, {}, {}, false, false,
                [&](const std::vector<Tensor>&) { return sides[running[i]](); });
  }
  const std::vector<Ran>& ran = region.ran();
  const size_t results = ran[0].results.size();
  for (size_t i = 1; i < ran.size(); ++i) {
    if (ran[i].results.size() != results) {
      region.fail(
          fmt::format("'{}' gives {} and '{}' gives {}: the sides give equally many",
                      ran[0].frame.ir.name, results, ran[i].frame.ir.name, ran[i].results.size()),
          {}, {});
      return std::vector<Tensor>(results, wrap({}));
    }
    for (size_t k = 0; k < results; ++k) {
      if (region.poison() || ran[0].types[k] == ran[i].types[k]) continue;
      region.fail(fmt::format("result {} has two types: {} from '{}' and {} from '{}'", k,
                              impl_->str(ran[0].types[k]), ran[0].frame.ir.name,
                              impl_->str(ran[i].types[k]), ran[i].frame.ir.name),
                  {ran[0].described[k], ran[i].described[k]},
                  "cast, reshape or broadcast one of them");
      good = false;
    }
  }
  if (!good || region.poison()) return std::vector<Tensor>(results, wrap({}));
  return region.finish(ir::OpKind::branch, {selector}, running, ir::BranchAttr{{}, o.lowering},
                       results);
}

std::vector<Tensor> Graph::switch_(In index,
                                   std::vector<std::function<std::vector<Tensor>()>> cases,
                                   BranchOpts o) {
  return branch(std::move(index), std::move(cases), false, o);
}

Tensor Graph::switch_(In index, std::vector<std::function<Tensor()>> cases, BranchOpts o) {
  std::vector<Side> sides;
  for (std::function<Tensor()>& c : cases) sides.push_back(side(std::move(c)));
  std::vector<Tensor> y = branch(std::move(index), std::move(sides), false, o);
  return y.empty() ? wrap({}) : y[0];
}

LoopValues Graph::repeat_body(std::string_view what, const std::optional<DimArg>& limit,
                              std::vector<In> carried, const LoopCondition& condition,
                              const LoopBody& body, LoopOpts o, const Where& w) {
  using L = ir::Lowering;
  RegionBuilder region(*this, what, w);
  bool good = fits(*impl_, what, o.lowering, {L::unroll, L::node, L::host}, w);
  ir::LoopAttr attr;
  attr.carried = static_cast<uint32_t>(carried.size());
  attr.lowering = o.lowering;
  attr.unroll = static_cast<uint32_t>(o.unroll);
  if (o.unroll < 0 || o.unroll > kMaxUnroll) {
    impl_->fail(
        "E0303",
        fmt::format("{}: 'unroll' is from 1 to {}, or 0, not {}", what, kMaxUnroll, o.unroll), w);
    good = false;
  }
  if (limit) {
    const std::optional<Shape> s = impl_->shape_of({*limit}, w);
    if (s) attr.limit = (*s)[0];
    good = good && s;
    if (s && attr.limit->is_const() && attr.limit->value() > INT32_MAX) {
      impl_->fail("E0303", fmt::format("{}: at most {} iterations", what, INT32_MAX), w);
      good = false;
    }
  }
  std::vector<ValueId> operands;
  std::vector<TensorType> types{{i32, {}}};
  std::vector<std::string> names{"i"};
  for (const In& in : carried) {
    const ValueId v = unwrap(in);
    operands.push_back(v);
    good = good && v.valid();
    types.push_back(v.valid() ? impl_->ir.type(v) : TensorType{});
    names.push_back(fmt::format("carried{}", names.size() - 1));
  }
  // Nothing true can be said about bodies whose values have no types.
  if (!good) return {std::vector<Tensor>(carried.size(), wrap({})), {}};

  const auto rest = [](const std::vector<Tensor>& all) {
    return std::vector<Tensor>(all.begin() + 1, all.end());
  };
  if (condition) {
    region.body("condition", types, names, true, true, [&](const std::vector<Tensor>& all) {
      const Tensor asked = condition(all[0], rest(all));
      if (poisoned(asked)) return std::vector<Tensor>{asked};
      return std::vector<Tensor>{wrap(region.scalar(In(asked, w), b1, "what the condition gives",
                                                    "compare it with a number, as in x > 0"))};
    });
  }
  size_t given = 0;
  region.body("body", types, names, true, false, [&](const std::vector<Tensor>& all) {
    LoopValues values = body(all[0], rest(all));
    given = values.carried.size();
    std::vector<Tensor> results = std::move(values.carried);
    results.insert(results.end(), values.stacked.begin(), values.stacked.end());
    return results;
  });
  const Ran& ran = region.ran().back();
  const size_t stacked = ran.results.size() - given;
  const auto give_up = [&] {
    return LoopValues{std::vector<Tensor>(carried.size(), wrap({})),
                      std::vector<Tensor>(stacked, wrap({}))};
  };
  if (given != carried.size()) {
    region.fail(fmt::format("{} carried value{} go into an iteration, but {} come out",
                            carried.size(), carried.size() == 1 ? "" : "s", given),
                {}, "the body returns the next value of each");
    return give_up();
  }
  for (size_t k = 0; k < carried.size(); ++k) {
    if (!ran.results[k].valid() || ran.types[k] == types[k + 1]) continue;
    region.fail(fmt::format("carried value {} is {} before an iteration and {} after it", k,
                            impl_->str(types[k + 1]), impl_->str(ran.types[k])),
                {impl_->describe(operands[k]), ran.described[k]},
                "it keeps its type: cast, reshape or broadcast one of them");
    good = false;
  }
  if (stacked > 0 && !limit) {
    region.fail("stacked rows need a limit, which is their number", {}, {});
    good = false;
  }
  if (!good || region.poison()) return give_up();
  const std::vector<size_t> order = condition ? std::vector<size_t>{1, 0} : std::vector<size_t>{0};
  const std::vector<Tensor> all = region.finish(ir::OpKind::loop, std::move(operands), order,
                                                std::move(attr), carried.size() + stacked);
  return {{all.begin(), all.begin() + static_cast<std::ptrdiff_t>(carried.size())},
          {all.begin() + static_cast<std::ptrdiff_t>(carried.size()), all.end()}};
}

LoopValues Graph::while_(std::vector<In> carried, LoopCondition condition, LoopBody body,
                         WhileOpts o, Where w) {
  return repeat_body("while", o.limit, std::move(carried), condition, body, {o.lowering, o.unroll},
                     w);
}

std::vector<Tensor> Graph::while_(
    std::vector<In> carried, std::function<Tensor(const std::vector<Tensor>&)> condition,
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> body, WhileOpts o, Where w) {
  return repeat_body(
             "while", o.limit, std::move(carried),
             [&](Tensor, const std::vector<Tensor>& c) { return condition(c); },
             [&](Tensor, const std::vector<Tensor>& c) { return LoopValues{body(c), {}}; },
             {o.lowering, o.unroll}, w)
      .carried;
}

Tensor Graph::while_(In carried, std::function<Tensor(Tensor)> condition,
                     std::function<Tensor(Tensor)> body, WhileOpts o, Where w) {
  return repeat_body(
             "while", o.limit, {std::move(carried)},
             [&](Tensor, const std::vector<Tensor>& c) { return condition(c[0]); },
             [&](Tensor, const std::vector<Tensor>& c) { return LoopValues{{body(c[0])}, {}}; },
             {o.lowering, o.unroll}, w)
      .carried.at(0);
}

LoopValues Graph::loop(DimArg n, std::vector<In> carried, LoopBody body, LoopOpts o, Where w) {
  return repeat_body("loop", n, std::move(carried), {}, body, o, w);
}

Tensor Graph::loop(DimArg n, In carried, std::function<Tensor(Tensor, Tensor)> body, LoopOpts o,
                   Where w) {
  return repeat_body(
             "loop", n, {std::move(carried)}, {},
             [&](Tensor i, const std::vector<Tensor>& c) {
               return LoopValues{{body(i, c[0])}, {}};
             },
             o, w)
      .carried.at(0);
}

}  // namespace braid
