// Loops: copies of the body in a row, or an op that runs while its flag holds true.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ir/region.hpp"
#include "passes/control_region.hpp"

namespace braid {
namespace {

using ir::Lowering;
using ir::OpKind;
using ir::ValueId;

/// Where a loop stands in some graph: the number of the iteration, and what the bodies' arguments
/// hold. Numbers are known while a loop is unrolled.
struct Turn {
  ValueId i;
  std::vector<ValueId> args;  // values and versions, as ValueRegion::args
};

/// Variables that hold a Turn between graphs: versions in the graph that is being made.
struct Variables {
  std::vector<ValueId> carried, stacks;
  ValueId counter;
  ValueId more;  // of a guarded copy: whether there is another
};

class LoopLowerer {
 public:
  LoopLowerer(Draft& to, const ValueRegion& region, const LoopPlan& plan)
      : to_(to),
        r_(region),
        plan_(plan),
        body_(region.bodies[0], region.arguments()),
        rows_(region.bodies[0].outputs.size() - region.carried) {
    if (region.bodies.size() > 1) condition_.emplace(region.bodies[1], region.arguments());
    counts_ = plan.limit || rows_ > 0 || body_.used()[0] || (condition_ && condition_->used()[0]);
  }

  Lowered run() {
    turn_.args = r_.args;
    turn_.i = to_.number(0);
    if (plan_.limit == 0) return without_turns();
    if (plan_.lowering != Lowering::unroll) return keep();
    return condition_ ? guard_all() : unroll();
  }

 private:
  TensorType row_type(size_t row) const {
    const ir::Graph& body = r_.bodies[0];
    return body.type(body.outputs[r_.carried + row].value);
  }
  TensorType stack_type(size_t row) const {
    const TensorType of = row_type(row);
    TensorType type{of.dtype, {}};
    type.shape.push_back(Dim(*plan_.limit));
    for (Dim d : of.shape) type.shape.push_back(d);
    return type;
  }
  std::string name(std::string_view part) const { return fmt::format("{}/{}", r_.name, part); }
  std::string name_of(size_t output) const { return name(r_.bodies[0].outputs[output].name); }

  /// One run of the body; returns the rows.
  std::vector<ValueId> step(Draft& to, Turn& turn) const {
    const Inliner::Result made = body_.into(to, arguments(turn));
    for (size_t k = 0; k < r_.args.size(); ++k) {
      if (k < r_.carried) turn.args[k] = made.outputs[k];
      if (r_.written[k]) turn.args[k] = made.versions[k + 1];
    }
    return {made.outputs.begin() + static_cast<std::ptrdiff_t>(r_.carried), made.outputs.end()};
  }

  std::vector<ValueId> arguments(const Turn& turn) const {
    std::vector<ValueId> args{turn.i};
    args.insert(args.end(), turn.args.begin(), turn.args.end());
    return args;
  }

  /// Whether there is another iteration, number turn.i.
  ValueId more(Draft& to, const Turn& turn) const {
    ValueId below;
    if (plan_.limit) below = to.map(Fn::lt, {turn.i, to.number(*plan_.limit)});
    if (!condition_) return below;
    const ValueId holds = condition_->into(to, arguments(turn)).outputs[0];
    return below.valid() ? to.map(Fn::and_, {holds, below}) : holds;
  }

  Lowered without_turns() const {
    Lowered done = result(turn_);
    for (size_t row = 0; row < rows_; ++row) {
      done.outputs.push_back(to_.graph.splat(stack_type(row), 0));
    }
    return done;
  }

  Lowered result(const Turn& turn) const {
    Lowered done;
    for (size_t k = 0; k < r_.args.size(); ++k) {
      if (k < r_.carried) done.outputs.push_back(turn.args[k]);
      done.versions.push_back(r_.written[k] ? turn.args[k] : ValueId{});
    }
    return done;
  }

  // ---- copies in a row

  Lowered unroll() {
    std::vector<ValueId> numbers;
    for (int64_t i = 0; i < *plan_.limit; ++i) numbers.push_back(to_.number(i));
    const std::vector<std::vector<ValueId>> rows = steps(to_, turn_, numbers);
    Lowered done = result(turn_);
    if (*plan_.limit <= kControlLimits.most_concat) {
      for (const auto& stack : rows) done.outputs.push_back(joined(to_, stack));
    } else {
      std::vector<ValueId> stacks = new_stacks(to_);
      stack(to_, stacks, rows, numbers);
      for (ValueId version : stacks) done.outputs.push_back(to_.read(version));
    }
    return done;
  }

  /// An iteration of each number; the rows of each stack.
  std::vector<std::vector<ValueId>> steps(Draft& to, Turn& turn,
                                          const std::vector<ValueId>& numbers) const {
    std::vector<std::vector<ValueId>> rows(rows_);
    for (ValueId i : numbers) {
      turn.i = i;
      const std::vector<ValueId> made = step(to, turn);
      for (size_t s = 0; s < rows_; ++s) rows[s].push_back(made[s]);
    }
    return rows;
  }

  /// Rows as one tensor.
  static ValueId joined(Draft& to, std::span<const ValueId> rows) {
    std::vector<ValueId> parts;
    for (ValueId row : rows) parts.push_back(to.as_row(row));
    return parts.size() == 1 ? parts[0] : to.add(OpKind::concat, ir::AxisAttr{0}, parts);
  }

  /// Writes rows at indices that follow one another, a block of them at a time.
  static void stack(Draft& to, std::vector<ValueId>& stacks,
                    const std::vector<std::vector<ValueId>>& rows,
                    const std::vector<ValueId>& numbers) {
    const auto most = static_cast<size_t>(kControlLimits.most_concat);
    for (size_t s = 0; s < stacks.size(); ++s) {
      const std::span<const ValueId> all = rows[s];
      for (size_t at = 0; at < all.size(); at += most) {
        const ValueId block = joined(to, all.subspan(at, std::min(most, all.size() - at)));
        stacks[s] = to.update_rows(stacks[s], block, numbers[at]);
      }
    }
  }

  /// Variables for the rows, which hold zeros.
  std::vector<ValueId> new_stacks(Draft& to) const {
    std::vector<ValueId> stacks;
    for (size_t s = 0; s < rows_; ++s) {
      const TensorType type = stack_type(s);
      const ValueId param = to.param(name_of(r_.carried + s), type, ir::LocalAttr{});
      stacks.push_back(to.assign(param, to.graph.splat(type, 0)));
    }
    return stacks;
  }

  // ---- what graphs hand to each other

  /// Makes the variables and assigns them the present turn.
  Variables new_variables() {
    Variables v;
    for (size_t k = 0; k < r_.carried; ++k) {
      const TensorType& type = to_.graph.type(turn_.args[k]);
      v.carried.push_back(to_.assign(to_.param(name_of(k), type, ir::LocalAttr{}), turn_.args[k]));
    }
    if (counts_) {
      v.counter =
          to_.assign(to_.param(name("i"), TensorType{DType::i32, {}}, ir::LocalAttr{}), turn_.i);
    }
    return v;
  }

  static void push(std::vector<ValueId>& operands, const Variables& v) {
    operands.insert(operands.end(), v.carried.begin(), v.carried.end());
    operands.insert(operands.end(), v.stacks.begin(), v.stacks.end());
    if (v.counter.valid()) operands.push_back(v.counter);
  }

  /// The arguments of a body that takes variables, captured values and state: as params and inputs.
  Variables arguments_here(Draft& to, Turn& turn, bool tells = false) const {
    const ir::Graph& body = r_.bodies[0];
    Variables v;
    turn.args.assign(r_.args.size(), {});
    for (size_t k = 0; k < r_.carried; ++k) {
      const TensorType& type = to_.graph.type(r_.args[k]);
      v.carried.push_back(to.param(body.outputs[k].name, type, ir::LocalAttr{}));
    }
    for (size_t s = 0; s < rows_; ++s) {
      v.stacks.push_back(
          to.param(body.outputs[r_.carried + s].name, stack_type(s), ir::LocalAttr{}));
    }
    if (counts_) v.counter = to.param("i", TensorType{DType::i32, {}}, ir::LocalAttr{});
    for (size_t k = r_.carried; k < r_.args.size(); ++k) {
      const ir::Op& op = body.ops()[k + 1];
      const std::string_view arg = body.strings[op.name];
      const TensorType& type = body.type(op.result);
      turn.args[k] = r_.written[k] ? to.param(arg, type, op.attrs) : to.input(arg, type);
    }
    if (tells) v.more = to.param("more", TensorType{DType::b1, {}}, ir::LocalAttr{});
    if (counts_) turn.i = to.read(v.counter);
    for (size_t k = 0; k < r_.carried; ++k) turn.args[k] = to.read(v.carried[k]);
    return v;
  }

  void store(Draft& to, Variables& v, const Turn& turn) const {
    for (size_t k = 0; k < r_.carried; ++k) v.carried[k] = to.assign(v.carried[k], turn.args[k]);
    if (counts_) v.counter = to.assign(v.counter, turn.i);
  }

  static ValueId after(Draft& to, ValueId i, int64_t n) {
    return i.valid() ? to.map(Fn::add, {i, to.number(n)}) : i;
  }

  void take_versions(const Draft& to, const ir::Op& op, size_t first, Variables& v,
                     Turn& turn) const {
    size_t k = first;
    const auto next = [&](ValueId& version) { version = ir::next_version(to.graph, op, k++); };
    for (ValueId& version : v.carried) next(version);
    for (ValueId& version : v.stacks) next(version);
    if (v.counter.valid()) next(v.counter);
    for (size_t a = r_.carried; a < r_.args.size(); ++a, ++k) {
      if (r_.written[a]) turn.args[a] = ir::next_version(to.graph, op, k);
    }
  }

  // ---- copies behind predicates

  /// `count` copies, each behind a predicate of its own, the first behind `flag`. Afterwards v and
  /// the versions in turn.args are the newest. Returns the flag after the last.
  ValueId guarded(Draft& to, Variables& v, Turn& turn, ValueId flag, int64_t count,
                  bool last_flag) const {
    const TensorType truth{DType::b1, {}};
    std::vector<ValueId> flags;
    for (int64_t c = 0; c < count - (last_flag ? 0 : 1); ++c) {
      flags.push_back(to.assign(to.param(name("more"), truth, ir::LocalAttr{}), to.truth(false)));
    }
    const ir::Graph run = guarded_body(true), skip = guarded_body(false);
    const ir::Graph last = last_flag ? ir::Graph() : guarded_body(true, false);
    const ir::Graph last_skip = last_flag ? ir::Graph() : guarded_body(false, false);
    for (int64_t c = 0; c < count; ++c) {
      const bool tells = c < static_cast<int64_t>(flags.size());
      std::vector<ValueId> operands{flag};
      push(operands, v);
      operands.insert(operands.end(), turn.args.begin() + static_cast<std::ptrdiff_t>(r_.carried),
                      turn.args.end());
      if (tells) operands.push_back(flags[static_cast<size_t>(c)]);
      const auto first = static_cast<uint32_t>(to.graph.bodies.size());
      to.graph.bodies.push_back(tells ? skip : last_skip);
      to.graph.bodies.push_back(tells ? run : last);
      const ValueId made =
          to.add(OpKind::branch,
                 ir::BranchAttr{
                     {first, first + 1}, Lowering::predicate, to.graph.strings.intern(plan_.why)},
                 operands);
      const ir::Op op = to.graph.def(made);
      if (tells) flag = to.read(ir::next_version(to.graph, op, operands.size() - 1));
      take_versions(to, op, 1, v, turn);
    }
    return flag;
  }

  /// A side of such a branch: one iteration, which then says whether there is another; or nothing.
  ir::Graph guarded_body(bool runs, bool tells = true) const {
    Draft to = r_.draft(to_, 0);
    Turn turn;
    Variables v = arguments_here(to, turn, tells);
    if (!runs) return std::move(to.graph);
    const std::vector<ValueId> numbers{turn.i};
    stack(to, v.stacks, steps(to, turn, numbers), numbers);
    turn.i = after(to, turn.i, 1);
    store(to, v, turn);
    if (tells) to.assign(v.more, more(to, turn));
    return std::move(to.graph);
  }

  Lowered guard_all() {
    const ValueId flag = condition_->into(to_, arguments(turn_)).outputs[0];
    Variables v = new_variables();
    v.stacks = new_stacks(to_);
    guarded(to_, v, turn_, flag, *plan_.limit, false);
    return finish(v);
  }

  Lowered finish(const Variables& v) {
    for (size_t k = 0; k < r_.carried; ++k) turn_.args[k] = to_.read(v.carried[k]);
    Lowered done = result(turn_);
    for (ValueId version : v.stacks) done.outputs.push_back(to_.read(version));
    return done;
  }

  // ---- an op of the effect form

  Lowered keep() {
    std::vector<ValueId> stacks = new_stacks(to_);
    // Without a condition every run of the op has all its copies: what is left over goes first.
    const int64_t first = condition_ ? 0 : *plan_.limit % plan_.copies;
    std::vector<ValueId> numbers;
    for (int64_t i = 0; i < first; ++i) numbers.push_back(to_.number(i));
    stack(to_, stacks, steps(to_, turn_, numbers), numbers);
    turn_.i = to_.number(first);
    const ValueId begins =
        condition_ ? condition_->into(to_, arguments(turn_)).outputs[0] : to_.truth(true);
    Variables v = new_variables();
    v.stacks = std::move(stacks);
    const bool node = plan_.lowering == Lowering::node;
    const ir::Attrs sort = node ? ir::Attrs(ir::HandleAttr{}) : ir::Attrs(ir::LocalAttr{});
    const TensorType truth{DType::b1, {}};
    std::vector<ValueId> operands{
        to_.assign(to_.param(name(node ? "handle" : "more"), truth, sort), begins)};
    push(operands, v);
    operands.insert(operands.end(), turn_.args.begin() + static_cast<std::ptrdiff_t>(r_.carried),
                    turn_.args.end());
    ir::LoopAttr attr;
    attr.body = static_cast<uint32_t>(to_.graph.bodies.size());
    attr.lowering = plan_.lowering;
    attr.unroll = static_cast<uint32_t>(plan_.copies);
    attr.why = to_.graph.strings.intern(plan_.why);
    to_.graph.bodies.push_back(loop_body(sort));
    const ValueId made = to_.add(OpKind::loop, attr, operands);
    const ir::Op op = to_.graph.def(made);
    take_versions(to_, op, 1, v, turn_);
    return finish(v);
  }

  ir::Graph loop_body(const ir::Attrs& sort) const {
    Draft to = r_.draft(to_, 0);
    const ValueId flag = to.param("more", TensorType{DType::b1, {}}, sort);
    Turn turn;
    Variables v = arguments_here(to, turn);
    const ValueId begin = turn.i;
    const int64_t in_a_row = condition_ ? 1 : plan_.copies;
    std::vector<ValueId> numbers{begin};
    if (in_a_row > 1) {
      numbers = to.numbers_from(begin, in_a_row);
      numbers[0] = begin;
    }
    stack(to, v.stacks, steps(to, turn, numbers), numbers);
    turn.i = after(to, begin, in_a_row);
    store(to, v, turn);
    ValueId again = more(to, turn);
    if (condition_ && plan_.copies > 1) {
      again = guarded(to, v, turn, again, plan_.copies - 1, true);
    }
    to.assign(flag, again);
    return std::move(to.graph);
  }

  Draft& to_;
  const ValueRegion& r_;
  const LoopPlan& plan_;
  Inliner body_;
  std::optional<Inliner> condition_;
  size_t rows_;
  bool counts_ = false;
  Turn turn_;
};

}  // namespace

Lowered lower_loop(Draft& to, const ValueRegion& region, const LoopPlan& plan) {
  return LoopLowerer(to, region, plan).run();
}

LoopPlan choose_loop(const ValueRegion& region, std::optional<int64_t> limit, Lowering asked,
                     int64_t copies, const Options& options) {
  const ControlLimits& limits = kControlLimits;
  const bool condition = region.bodies.size() > 1;
  BodyPrice body = price_body(region.bodies[0], options);
  bool on_host = body.on_host, leaf = body.leaf();
  if (condition) {
    const BodyPrice asks = price_body(region.bodies[1], options);
    body.kernels += asks.kernels;
    body.us += asks.us;
    body.ops += asks.ops;
    on_host |= asks.on_host;
    leaf &= asks.leaf();
  }
  const int64_t kernels = std::max<int64_t>(body.assigned_kernels(), 1);
  const double us = std::max(body.assigned_us(), kPrices.chain_edge_us);
  // Copies of an iteration that so many kernels and ops allow.
  const auto allow = [&](int64_t most_kernels, int64_t most_ops) {
    return std::min(most_kernels / kernels, most_ops / std::max<int64_t>(body.ops, 1));
  };

  LoopPlan plan;
  plan.limit = limit;
  const std::string each =
      fmt::format("{} kernel{}, {:.1f} us an iteration", kernels, kernels == 1 ? "" : "s", us);
  const std::string trips = limit ? fmt::format("{} iterations", *limit) : "an unknown number";
  const std::string what =
      fmt::format("{}{} of {}", condition && limit ? "at most " : "", trips, each);
  const bool can_unroll =
      limit && (!condition || leaf) &&
      (*limit <= 1 || *limit <= allow(limits.most_unrolled, limits.most_unrolled_ops));
  // Copies that leave at once must not cost more than two turns of a WHILE.
  const auto most = condition ? static_cast<int64_t>(2 * kPrices.while_us / kLeavingKernelUs)
                              : options.unroll_limit;
  const bool small = limit && (*limit <= 1 || *limit <= allow(most, limits.most_ops));
  if (limit == 0 ||
      (can_unroll && (asked == Lowering::unroll ||
                      (asked == Lowering::automatic && small && (!on_host || *limit <= 1))))) {
    plan.lowering = Lowering::unroll;
    plan.why = fmt::format("{}{}", asked == Lowering::unroll ? "asked for: " : "", what);
    if (!condition) plan.why += fmt::format(": unrolled up to {} kernels", options.unroll_limit);
    return plan;
  }
  plan.lowering = on_host || asked == Lowering::host ? Lowering::host : Lowering::node;
  const double turn_us = plan.lowering == Lowering::host ? kHostTurnUs : kPrices.while_us;
  const bool by_price = copies == 0;
  if (by_price) {
    const double enough = turn_us / (limits.while_share * us);
    copies = std::max<int64_t>(1, static_cast<int64_t>(std::min(enough, 1e6)) + 1);
    if (enough <= 1) copies = 1;
    if (condition) {
      const auto expected =
          static_cast<double>(std::min(limit.value_or(limits.trips), limits.trips));
      const double best =
          std::sqrt(2 * turn_us * expected / (kLeavingKernelUs * static_cast<double>(kernels)));
      copies = std::min(copies, std::max<int64_t>(1, static_cast<int64_t>(best)));
    }
  }
  const int64_t allowed = allow(limits.most_kernels, limits.most_ops);
  copies = std::min(copies, std::max<int64_t>(1, allowed));
  if (limit) copies = std::min(copies, *limit);
  if ((condition && !leaf) || on_host) copies = 1;
  plan.copies = copies;
  if (by_price && !condition && copies > 1) {  // a few more, where that leaves less over
    const int64_t last = std::min({2 * copies - 1, allowed, *limit});
    for (int64_t c = copies + 1; c <= last; ++c) {
      if (*limit % c < *limit % plan.copies) plan.copies = c;
    }
  }
  plan.why = fmt::format("{}{}: {} {:.1f} us, {} cop{} in each run",
                         asked == plan.lowering ? "asked for: " : "", what,
                         plan.lowering == Lowering::host ? "a turn by the host" : "a turn of WHILE",
                         turn_us, plan.copies, plan.copies == 1 ? "y" : "ies");
  return plan;
}

}  // namespace braid
