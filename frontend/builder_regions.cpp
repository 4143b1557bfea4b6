// Branches and loops of the builder: what closures give is checked, and made one op.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/builder_bodies.hpp"

namespace braid {

using ir::ValueId;

namespace {

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
    region.body(name, {}, RegionBuilder::Role::side,
                [&](const std::vector<Tensor>&) { return sides[running[i]](); });
  }
  const std::vector<RanBody>& ran = region.ran();
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
  RegionBuilder::Leading leading{{{i32, {}}}, {"i"}};
  std::vector<TensorType>& types = leading.types;
  for (const In& in : carried) {
    const ValueId v = unwrap(in);
    operands.push_back(v);
    good = good && v.valid();
    types.push_back(v.valid() ? impl_->ir.type(v) : TensorType{});
    leading.names.push_back(fmt::format("carried{}", leading.names.size() - 1));
  }
  // Nothing true can be said about bodies whose values have no types.
  if (!good) return {std::vector<Tensor>(carried.size(), wrap({})), {}};

  const auto rest = [](const std::vector<Tensor>& all) {
    return std::vector<Tensor>(all.begin() + 1, all.end());
  };
  if (condition) {
    region.body("condition", leading, RegionBuilder::Role::condition,
                [&](const std::vector<Tensor>& all) {
                  const Tensor asked = condition(all[0], rest(all));
                  if (poisoned(asked)) return std::vector<Tensor>{asked};
                  return std::vector<Tensor>{
                      wrap(region.scalar(In(asked, w), b1, "what the condition gives",
                                         "compare it with a number, as in x > 0"))};
                });
  }
  size_t given = 0;
  region.body("body", leading, RegionBuilder::Role::iteration, [&](const std::vector<Tensor>& all) {
    LoopValues values = body(all[0], rest(all));
    given = values.carried.size();
    std::vector<Tensor> results = std::move(values.carried);
    results.insert(results.end(), values.stacked.begin(), values.stacked.end());
    return results;
  });
  const RanBody& ran = region.ran().back();
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
