// The op list of the simulator and GPU tests leaves nothing out, and the interpreter runs all of
// it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "frontend/builder.hpp"
#include "oplist.hpp"

using namespace braid;

namespace {

using Names = std::set<std::string>;
/// In scalar functions and reductions every dtype, in the other ops these.
constexpr DType kDTypes[] = {f32, f16, bf16, i32, i64, b1};

/// What the graph's ops are, each as one word: "gelu bf16", "cast f32 i8", "slice b1", "gather i32
/// by i64", "dot f16 to f32 ta".
void collect(const ir::Graph& g, Names& into) {
  for (const ir::Op& op : g.ops()) {
    const auto dtype = [&](size_t i) { return name_of(g.type(op.operands[i]).dtype); };
    const std::string_view result = name_of(g.type(op.result).dtype);
    const std::string_view kind = ir::info(op.kind).name;
    switch (op.kind) {
      case ir::OpKind::map: {
        const ScalarInfo& f = info(std::get<ir::MapAttr>(op.attrs).fn);
        if (f.rule == TypeRule::cast) {
          into.insert(fmt::format("cast {} {}", dtype(0), result));
        } else {
          into.insert(fmt::format("{} {}", f.name, dtype(op.operands.size() - 1)));
        }
        break;
      }
      case ir::OpKind::reduce:
        into.insert(
            fmt::format("reduce_{} {}", info(std::get<ir::ReduceAttr>(op.attrs).fn).name, result));
        break;
      case ir::OpKind::dot: {
        const auto& a = std::get<ir::DotAttr>(op.attrs);
        into.insert(fmt::format("dot {} to {}", dtype(0), result));
        into.insert(fmt::format("dot {} {}{}", dtype(0), int{a.ta}, int{a.tb}));
        break;
      }
      case ir::OpKind::view:
        into.insert(
            fmt::format("{} {}", ir::name_of(std::get<ir::ViewAttr>(op.attrs).kind), result));
        break;
      case ir::OpKind::gather:
        into.insert(fmt::format("gather {} by {}", result, dtype(1)));
        break;
      case ir::OpKind::scatter: {
        const std::optional<Fn> fn = std::get<ir::ScatterAttr>(op.attrs).fn;
        into.insert(fmt::format("scatter_{} {}", fn ? info(*fn).name : "set", result));
        into.insert(fmt::format("scatter {} by {}", result, dtype(1)));
        break;
      }
      case ir::OpKind::update:
        for (size_t i = 2; i < op.operands.size(); ++i) {
          into.insert(fmt::format("update {} by {}", result, dtype(i)));
        }
        break;
      case ir::OpKind::constant: {
        const bool splat = g.literals[std::get<ir::ConstAttr>(op.attrs).literal].splat;
        into.insert(fmt::format("constant {}", splat ? "splat" : "full"));
        break;
      }
      default:
        into.insert(fmt::format("{} {}", kind, result));
    }
  }
}

/// Whether the type rules take the op on f32[4] and the like, one operand per dtype.
bool allowed(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<DType>& operands,
             const Shape& shape, std::optional<TensorType> type = {}) {
  ir::Graph g;
  std::vector<ir::ValueId> values;
  for (DType t : operands) {
    const ir::StrId name = g.strings.intern(fmt::format("x{}", values.size()));
    values.push_back(g.add({ir::OpKind::input, {}, {}, TensorType{t, shape}, name, {}}));
  }
  return g.try_add({kind, attrs, values, std::move(type), {}, {}}).error.empty();
}

/// What the type rules allow, in the words of collect().
Names everything() {
  Names all{"constant splat", "constant full"};
  const Shape row{4}, square{4, 4};
  for (const ScalarInfo& f : scalar_functions()) {
    for (int number = 0; number < kNumDTypes; ++number) {
      const auto t = static_cast<DType>(number);
      if (f.rule == TypeRule::cast) continue;
      std::vector<DType> operands(static_cast<size_t>(f.arity), t);
      if (f.rule == TypeRule::select) operands[0] = b1;
      if (allowed(ir::OpKind::map, ir::MapAttr{f.fn}, operands, row)) {
        all.insert(fmt::format("{} {}", f.name, name_of(t)));
      }
      if (allowed(ir::OpKind::reduce, ir::ReduceAttr{f.fn, 1}, {t}, row)) {
        all.insert(fmt::format("reduce_{} {}", f.name, name_of(t)));
        all.insert(fmt::format("scatter_{} {}", f.name, name_of(t)));
      }
    }
  }
  for (int i = 0; i < kNumDTypes; ++i) {
    for (int j = 0; j < kNumDTypes; ++j) {
      const auto from = static_cast<DType>(i), to = static_cast<DType>(j);
      if (from == to) continue;  // the builder makes no op for it
      if (allowed(ir::OpKind::map, ir::MapAttr{Fn::cast}, {from}, row, TensorType{to, row})) {
        all.insert(fmt::format("cast {} {}", name_of(from), name_of(to)));
      }
    }
  }
  for (DType t : kDTypes) {
    const std::string_view name = name_of(t);
    all.insert(fmt::format("scatter_set {}", name));
    for (const char* kind : {"input", "param", "read", "assign", "reshape", "transpose",
                             "broadcast", "slice", "concat"}) {
      all.insert(fmt::format("{} {}", kind, name));
    }
    for (DType index : {i32, i64}) {
      all.insert(fmt::format("gather {} by {}", name, name_of(index)));
      all.insert(fmt::format("scatter {} by {}", name, name_of(index)));
      all.insert(fmt::format("update {} by {}", name, name_of(index)));
    }
    if (allowed(ir::OpKind::iota, ir::AxisAttr{0}, {}, row, TensorType{t, row})) {
      all.insert(fmt::format("iota {}", name));
    }
    for (DType to : kDTypes) {
      if (!allowed(ir::OpKind::dot, ir::DotAttr{}, {t, t}, square, TensorType{to, square}))
        continue;
      all.insert(fmt::format("dot {} to {}", name, name_of(to)));
      for (const char* flags : {"00", "01", "10", "11"}) {
        all.insert(fmt::format("dot {} {}", name, flags));
      }
    }
  }
  return all;
}

Names without(const Names& a, const Names& b) {
  Names rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
  return rest;
}

std::string joined(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

}  // namespace

TEST_CASE("the op list has every op, function and dtype that the type rules allow") {
  const Names all = everything();
  for (uint64_t seed : {1, 2}) {
    Names covered, kinds;
    for (const OpCase& c : op_cases(seed)) {
      collect(c.graph, covered);
      for (const ir::Op& op : c.graph.ops()) kinds.insert(std::string(ir::info(op.kind).name));
    }
    CHECK(joined(without(all, covered)) == "");
    for (const ir::OpInfo& info : ir::op_table()) {
      if (in_op_list(info.kind)) CHECK(kinds.contains(std::string(info.name)));
    }
  }
  // The words are what they should be, and enough of them.
  CHECK(all.size() > 450);
  for (const char* word :
       {"gelu bf16", "mod i64", "reduce_xor b1", "cast u8 f16", "dot bf16 to f32", "select b1",
        "lt f16", "iota i64", "update b1 by i64", "random i64", "scatter_max bf16",
        "scatter_set b1", "scatter i32 by i64", "clamp f64", "pow i8", "reduce_and u8"}) {
    CAPTURE(word);
    CHECK(all.contains(word));
  }
  for (const char* word :
       {"exp i32", "add b1", "and f32", "reduce_add b1", "dot b1 to b1", "dot f32 to f16",
        "reduce_sub f32", "iota b1", "lt b1", "random i32", "scatter_or f32"}) {
    CAPTURE(word);
    CHECK(!all.contains(word));
  }
}

TEST_CASE("a case that is taken out of the op list is missed") {
  const Names all = everything();
  for (const auto& [part, word] :
       std::vector<std::pair<std::string, std::string>>{{"tanh_bf16", "tanh bf16"},
                                                        {"mod_i64", "mod i64"},
                                                        {"cast_b1_f64", "cast b1 f64"},
                                                        {"erf_f64", "erf f64"}}) {
    Names covered;
    for (const OpCase& c : op_cases(1)) {
      // gelu_tanh_bf16 is another function.
      const auto has = [&](const std::string& text) {
        return c.name.find(text) != std::string::npos;
      };
      if (!has(part) || has("gelu")) collect(c.graph, covered);
    }
    CHECK(joined(without(all, covered)) == word);
  }
}
