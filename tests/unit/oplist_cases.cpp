// The op list itself: that it forgets nothing, and that every case means something.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "oplist.hpp"

using namespace braid;

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32,
                             DType::i64, DType::i8,  DType::u8,   DType::b1};
constexpr DType kEverywhere[] = {DType::f32, DType::f16, DType::bf16,
                                 DType::i32, DType::i64, DType::b1};

uint8_t class_of(DType t) { return is_float(t) ? kFloats : is_int(t) ? kInts : kBool; }

std::string name_of(const ir::Graph& g, const ir::Op& op) {
  return std::string(g.strings[op.name]);
}

/// Operands of a select after the condition, of everything else all.
const TensorType& operand_type(const ir::Graph& g, const ir::Op& op) {
  return g.type(op.operands.back());
}

bool starts_with(const std::string& s, std::string_view prefix) { return s.rfind(prefix, 0) == 0; }

bool has_empty(const ir::Graph& g) {
  for (const ir::Value& v : g.values()) {
    if (v.type.shape.numel() == 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the op list covers every op kind, function and dtype") {
  std::set<std::tuple<Fn, DType>> maps, folds;
  std::set<std::tuple<DType, DType>> casts;
  std::set<std::tuple<ir::OpKind, DType>> kinds;
  std::set<std::tuple<ir::ViewKind, DType>> views;
  std::set<std::tuple<DType, bool, bool>> dots;
  std::set<int> ranks;
  std::set<int> full_literals;
  bool empty = false;
  for (const OpCase& c : op_cases(1)) {
    for (const ir::Op& op : c.graph.ops()) {
      const TensorType& type = c.graph.type(op.result);
      kinds.insert({op.kind, type.dtype});
      ranks.insert(type.shape.rank());
      empty |= type.shape.numel() == 0;
      if (const auto* a = std::get_if<ir::MapAttr>(&op.attrs)) {
        maps.insert({a->fn, operand_type(c.graph, op).dtype});
        if (a->fn == Fn::cast) casts.insert({operand_type(c.graph, op).dtype, type.dtype});
      }
      if (const auto* a = std::get_if<ir::ReduceAttr>(&op.attrs)) folds.insert({a->fn, type.dtype});
      if (const auto* a = std::get_if<ir::ViewAttr>(&op.attrs)) views.insert({a->kind, type.dtype});
      if (const auto* a = std::get_if<ir::DotAttr>(&op.attrs)) {
        dots.insert({operand_type(c.graph, op).dtype, a->ta, a->tb});
      }
      if (const auto* a = std::get_if<ir::ConstAttr>(&op.attrs)) {
        full_literals.insert(c.graph.literals[a->literal].splat ? 0 : 1);
      }
    }
  }
  for (const ScalarInfo& f : scalar_functions()) {
    for (DType t : kDTypes) {
      if (!(f.classes & class_of(t))) continue;
      if (f.rule == TypeRule::random && t != DType::i64) continue;
      CAPTURE(f.name);
      CAPTURE(braid::name_of(t));
      CHECK(maps.count({f.fn, t}) == 1);
      if (f.combiner) CHECK(folds.count({f.fn, t}) == 1);
    }
  }
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      if (from == to) continue;  // a cast to the same dtype is no op
      CAPTURE(from);
      CAPTURE(to);
      CHECK(casts.count({static_cast<DType>(from), static_cast<DType>(to)}) == 1);
    }
  }
  for (DType t : kEverywhere) {
    CAPTURE(braid::name_of(t));
    for (const ir::OpInfo& k : ir::op_table()) {
      CAPTURE(k.name);
      if (!in_op_list(k.kind)) continue;
      if (t == DType::b1 && (k.kind == ir::OpKind::dot || k.kind == ir::OpKind::iota)) continue;
      CHECK(kinds.count({k.kind, t}) == 1);
    }
    for (int v = 0; v < 4; ++v) CHECK(views.count({static_cast<ir::ViewKind>(v), t}) == 1);
    if (t == DType::b1) continue;
    for (int flags = 0; flags < 4; ++flags) {
      CHECK(dots.count({t, (flags & 1) != 0, (flags & 2) != 0}) == 1);
    }
  }
  for (int rank = 0; rank <= 5; ++rank) CHECK(ranks.count(rank) == 1);
  CHECK(full_literals == std::set<int>{0, 1});
  CHECK(empty);
}

TEST_CASE("every case of the op list is well formed and runs in both roundings") {
  for (uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    std::set<std::string> names;
    const std::vector<OpCase> cases = op_cases(seed);
    CHECK(cases.size() >= 500);
    CHECK(cases.size() <= 2000);
    for (const OpCase& c : cases) {
      CAPTURE(c.name);
      CHECK(names.insert(c.name).second);
      REQUIRE(verify(c.graph).empty());
      CHECK(!c.graph.outputs.empty());
      ir::TensorMap inputs, params;
      for (const ir::Op& op : c.graph.ops()) {
        const std::string name = name_of(c.graph, op);
        if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) continue;
        (op.kind == ir::OpKind::input ? inputs : params)[name] =
            widen(random_tensor(c.graph.type(op.result), seed, name));
      }
      ir::TensorMap rounded_params = params;
      const ir::TensorMap wide = ir::interpret(c.graph, inputs, params);
      const ir::TensorMap rounded =
          ir::interpret(c.graph, inputs, rounded_params, ir::Rounding::dtype);
      const auto compare = [&](const ir::TensorMap& as, const ir::TensorMap& bs) {
        for (const auto& [name, want] : as) {
          CAPTURE(name);
          const WideTensor& got = bs.at(name);
          const double bound = is_float(want.type.dtype) ? c.tolerance : 0;
          // The tolerance must hold for results that are rounded after every op.
          CHECK(relative_error(narrow(got), want) <= bound);
          // Some are fed infinities, and the least of nothing is one.
          if (starts_with(c.name, "special") || has_empty(c.graph)) continue;
          REQUIRE(
              std::all_of(want.f.begin(), want.f.end(), [](double x) { return std::isfinite(x); }));
        }
      };
      compare(wide, rounded);
      compare(params, rounded_params);
    }
  }
}

TEST_CASE("the op list is the same for the same seed, and another for another") {
  const std::vector<OpCase> a = op_cases(7), b = op_cases(7), c = op_cases(8);
  REQUIRE(a.size() == b.size());
  bool differs = false;
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].tolerance == b[i].tolerance);
    CHECK(print(a[i].graph) == print(b[i].graph));
    differs |= i < c.size() && print(a[i].graph) != print(c[i].graph);
  }
  CHECK(differs);
}
