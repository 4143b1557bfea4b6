#include <doctest/doctest.h>

#include <limits>

#include "ir/graph.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

/// A graph with an input of each type written out, and what try_add answers for an op on them.
struct Rules {
  Graph g;
  int inputs = 0;

  TensorType type(std::string_view text) {
    const size_t open = text.find('[');
    TensorType t{*dtype_from_name(text.substr(0, open)), {}};
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      t.shape.push_back(*g.dims.parse(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return t;
  }
  ValueId in(std::string_view text) {
    const bool state = text.substr(0, 6) == "state ";
    const StrId name = g.strings.intern("v" + std::to_string(inputs++));
    if (!state) return g.add({OpKind::input, {}, {}, type(text), name});
    return g.add({OpKind::param, ParamAttr{}, {}, type(text.substr(6)), name});
  }
  /// The result's type, or the error.
  std::string answer(OpKind kind, Attrs attrs, std::vector<std::string_view> operands,
                     std::string_view declared = {}) {
    Graph::NewOp op{kind, std::move(attrs), {}, {}, {}, {}};
    for (std::string_view t : operands) op.operands.push_back(in(t));
    if (!declared.empty()) op.type = type(declared);
    const Graph::Added added = g.try_add(std::move(op));
    if (!added.error.empty()) return added.error;
    const Value& v = g.value(added.value);
    return (v.state ? "state " : "") + to_string(v.type, &g.dims);
  }
  std::string map(Fn fn, std::vector<std::string_view> operands, std::string_view declared = {}) {
    return answer(OpKind::map, MapAttr{fn}, std::move(operands), declared);
  }
  std::string view(ViewKind kind, Axes a, Axes b, std::string_view operand,
                   std::string_view declared = {}) {
    return answer(OpKind::view, ViewAttr{kind, a, b}, {operand}, declared);
  }
};

TEST_CASE("map: every function accepts its classes and refuses the others") {
  for (const ScalarInfo& f : scalar_functions()) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto t = static_cast<DType>(i);
      Rules r;
      const std::string type = std::string(name_of(t)) + "[2,3]";
      std::vector<std::string_view> operands(static_cast<size_t>(f.arity), type);
      if (f.rule == TypeRule::select) operands[0] = "b1[2,3]";
      const uint8_t c = is_float(t) ? kFloats : is_int(t) ? kInts : kBool;
      const std::string got = r.map(f.fn, operands, f.rule == TypeRule::cast ? "u8[2,3]" : "");
      INFO(f.name, " ", type, " ", got);
      if (f.rule == TypeRule::random) {
        CHECK(got == (t == DType::i64
                          ? "f32[2,3]"
                          : "random takes i64 alone: " + type + ", " + type + ", " + type));
      } else if (f.classes & c) {
        CHECK(got == (f.rule == TypeRule::compare ? "b1[2,3]"
                      : f.rule == TypeRule::cast  ? "u8[2,3]"
                                                  : type));
      } else {
        CHECK(got.find(std::string(f.name) + " takes ") == 0);
        CHECK(got.find(type) != std::string::npos);
      }
      operands.push_back(type);
      CHECK(r.map(f.fn, operands).find("operand") != std::string::npos);
    }
  }
}

TEST_CASE("map: shapes and dtypes must agree") {
  Rules r;
  CHECK(r.map(Fn::add, {"f32[2,3]", "f32[3]"}) == "add: shapes differ: f32[2,3], f32[3]");
  CHECK(r.map(Fn::add, {"f32[2]", "f16[2]"}) == "add: dtypes differ: f32[2], f16[2]");
  CHECK(r.map(Fn::add, {"f32[2]"}) == "add takes 2 operands, not 1");
  CHECK(r.map(Fn::exp, {"i32[2]"}) == "exp takes a float dtype, not i32[2]");
  CHECK(r.map(Fn::and_, {"f32[]", "f32[]"}) ==
        "and takes an integer dtype or b1, not f32[], f32[]");
  CHECK(r.map(Fn::select, {"i32[2]", "f32[2]", "f32[2]"}) ==
        "select: the condition must be b1: i32[2], f32[2], f32[2]");
  CHECK(r.map(Fn::select, {"b1[2]", "f32[2]", "f64[2]"}) ==
        "select: dtypes differ: b1[2], f32[2], f64[2]");
  CHECK(r.map(Fn::select, {"b1[3]", "f32[2]", "f32[2]"}).find("select: shapes differ") == 0);
  CHECK(r.map(Fn::lt, {"bf16[B,0]", "bf16[B,0]"}) == "b1[B,0]");
  CHECK(r.map(Fn::add, {"f32[B]", "f32[T]"}) == "add: shapes differ: f32[B], f32[T]");
  CHECK(r.map(Fn::add, {"f32[B*T]", "f32[T*B]"}) == "f32[B*T]");
  CHECK(r.map(Fn::neg, {"f32[2]"}, "f32[3]") == "neg: the result of f32[2] is f32[2], not f32[3]");
  CHECK(r.map(Fn::cast, {"f32[2]"}) == "cast: the result's dtype is needed");
  CHECK(r.map(Fn::cast, {"f32[2]"}, "i8[3]") == "cast keeps the shape: f32[2] to i8[3]");
  for (int a = 0; a < kNumDTypes; ++a) {
    for (int b = 0; b < kNumDTypes; ++b) {
      const std::string from = std::string(name_of(static_cast<DType>(a))) + "[4]";
      const std::string to = std::string(name_of(static_cast<DType>(b))) + "[4]";
      CHECK(r.map(Fn::cast, {from}, to) == to);
    }
  }
}

TEST_CASE("reduce") {
  Rules r;
  const auto reduce = [&](Fn fn, uint32_t axes, std::string_view t) {
    return r.answer(OpKind::reduce, ReduceAttr{fn, axes}, {t});
  };
  CHECK(reduce(Fn::add, 0b101, "f16[2,3,4]") == "f16[3]");
  CHECK(reduce(Fn::max, 0b111, "i8[2,0,4]") == "i8[]");
  CHECK(reduce(Fn::mul, 0, "f32[2,B]") == "f32[2,B]");
  CHECK(reduce(Fn::or_, 0b10, "b1[2,3]") == "b1[2]");
  CHECK(reduce(Fn::add, 0b10, "b1[2,3]") ==
        "reduce_add takes a float dtype or an integer dtype, not b1[2,3]");
  CHECK(reduce(Fn::xor_, 0b1, "f32[2]") == "reduce_xor takes an integer dtype or b1, not f32[2]");
  CHECK(reduce(Fn::sub, 1, "f32[2]") == "sub cannot drive a reduction");
  CHECK(reduce(Fn::add, 0b100, "f32[2,3]") == "reduce_add: f32[2,3] has no axis 2");
  CHECK(reduce(Fn::add, 1, "f32[]") == "reduce_add: f32[] has no axis 0");
}

TEST_CASE("dot") {
  Rules r;
  const auto dot = [&](std::string_view a, std::string_view b, bool ta = false, bool tb = false,
                       std::string_view declared = {}) {
    return r.answer(OpKind::dot, DotAttr{ta, tb}, {a, b}, declared);
  };
  CHECK(dot("f32[8,768]", "f32[768,32]") == "f32[8,32]");
  CHECK(dot("f32[768,8]", "f32[768,32]", true) == "f32[8,32]");
  CHECK(dot("f32[8,768]", "f32[32,768]", false, true) == "f32[8,32]");
  CHECK(dot("f32[768,8]", "f32[32,768]", true, true) == "f32[8,32]");
  CHECK(dot("bf16[5,B,2,4*D]", "bf16[5,B,D*4,3]") == "bf16[5,B,2,3]");
  CHECK(dot("f32[2,0]", "f32[0,3]") == "f32[2,3]");
  CHECK(dot("f32[8,768]", "f32[3072,768]") ==
        "dot: inner dimensions differ: f32[8,768] x f32[3072,768] (768 vs 3072)");
  CHECK(dot("f32[8,B]", "f32[2*B,3]") ==
        "dot: inner dimensions differ: f32[8,B] x f32[2*B,3] (B vs 2*B)");
  CHECK(dot("f32[3]", "f32[3]") ==
        "dot: both operands need the same rank of 2 or more: f32[3] x f32[3]");
  CHECK(dot("f32[2,3,4]", "f32[4,5]").find("dot: both operands need the same rank") == 0);
  CHECK(dot("f32[2,3,4]", "f32[5,4,6]") == "dot: batch axis 0 differs: f32[2,3,4] x f32[5,4,6]");
  CHECK(dot("f32[2,3]", "f16[3,2]") == "dot: dtypes differ: f32[2,3] x f16[3,2]");
  CHECK(dot("b1[2,3]", "b1[3,2]") == "dot: b1 cannot be multiplied: b1[2,3] x b1[3,2]");
  const auto tf32 = [&](std::string_view a, std::string_view b, std::string_view declared = {}) {
    return r.answer(OpKind::dot, DotAttr{.tf32 = true}, {a, b}, declared);
  };
  CHECK(tf32("f32[2,3]", "f32[3,4]") == "f32[2,4]");
  CHECK(tf32("bf16[2,3]", "bf16[3,4]", "f32[2,4]") ==
        "dot: tf32 rounds f32 operands, and these are not f32: bf16[2,3] x bf16[3,4]");
  // What may be declared beside the operands' dtype.
  for (int i = 0; i < kNumDTypes - 1; ++i) {
    for (int o = 0; o < kNumDTypes; ++o) {
      const auto t = static_cast<DType>(i), out = static_cast<DType>(o);
      const bool good =
          t == out || ((t == DType::f16 || t == DType::bf16) && out == DType::f32) ||
          ((t == DType::i8 || t == DType::u8) && (out == DType::i32 || out == DType::i64)) ||
          (t == DType::i32 && out == DType::i64);
      const std::string a = std::string(name_of(t)) + "[2,2]";
      const std::string to = std::string(name_of(out)) + "[2,2]";
      const std::string got = dot(a, a, false, false, to);
      CHECK_MESSAGE((got == to) == good, got);
      if (!good) CHECK(got == "dot: the result of " + a + ", " + a + " is " + a + ", not " + to);
    }
  }
}

TEST_CASE("reshape") {
  Rules r;
  const auto reshape = [&](std::string_view from, std::string_view to) {
    return r.view(ViewKind::reshape, {}, {}, from, to);
  };
  CHECK(reshape("f32[2,6]", "f32[3,4,1]") == "f32[3,4,1]");
  CHECK(reshape("f32[1]", "f32[]") == "f32[]");
  CHECK(reshape("f32[0,5]", "f32[7,0]") == "f32[7,0]");
  CHECK(reshape("f32[B,T,4*D]", "f32[B*T,D,4]") == "f32[B*T,D,4]");
  CHECK(reshape("f32[B + 1,2]", "f32[2*B + 2]") == "f32[2*B + 2]");
  CHECK(reshape("f32[2,3]", "f32[7]") ==
        "reshape: f32[2,3] and f32[7] differ in their number of elements");
  CHECK(reshape("f32[B,3]", "f32[3*T]").find("differ in their number") != std::string::npos);
  CHECK(reshape("f32[6]", "f16[6]") == "reshape keeps the dtype: f32[6] to f16[6]");
  CHECK(reshape("f32[6]", "") == "reshape: the result's type is needed");
}

TEST_CASE("transpose") {
  Rules r;
  CHECK(r.view(ViewKind::transpose, {2, 0, 1}, {}, "f32[2,3,B]") == "f32[B,2,3]");
  CHECK(r.view(ViewKind::transpose, {}, {}, "i32[]") == "i32[]");
  const std::string no = "transpose: the axes are no permutation of those of f32[2,3]";
  CHECK(r.view(ViewKind::transpose, {0, 0}, {}, "f32[2,3]") == no);
  CHECK(r.view(ViewKind::transpose, {0, 2}, {}, "f32[2,3]") == no);
  CHECK(r.view(ViewKind::transpose, {-1, 0}, {}, "f32[2,3]") == no);
  CHECK(r.view(ViewKind::transpose, {1, 0}, {}, "f32[2,3]", "f32[2,3]") ==
        "transpose: the result of f32[2,3] is f32[3,2], not f32[2,3]");
}

TEST_CASE("broadcast") {
  Rules r;
  const auto broadcast = [&](Axes a, std::string_view from, std::string_view to) {
    return r.view(ViewKind::broadcast, a, {}, from, to);
  };
  CHECK(broadcast({}, "f32[]", "f32[B,3]") == "f32[B,3]");
  CHECK(broadcast({1}, "f32[3]", "f32[2,3]") == "f32[2,3]");
  CHECK(broadcast({0, 1}, "f32[2,1]", "f32[2,9]") == "f32[2,9]");
  CHECK(broadcast({0, 2}, "f32[1,1]", "f32[0,2,5]") == "f32[0,2,5]");
  CHECK(broadcast({0}, "f32[2]", "f32[2,3]") == "f32[2,3]");
  CHECK(broadcast({1}, "f32[2]", "f32[2,3]") ==
        "broadcast: axis 0 of f32[2] does not fit axis 1 of f32[2,3]");
  CHECK(broadcast({0}, "f32[2]", "f32[1]").find("does not fit") != std::string::npos);
  const std::string order =
      "broadcast: the axes of f32[2,3] must go to increasing axes of f32[3,2]";
  CHECK(broadcast({1, 0}, "f32[2,3]", "f32[3,2]") == order);
  CHECK(broadcast({1, 2}, "f32[2,3]", "f32[3,2]") == order);
  CHECK(broadcast({-1, 0}, "f32[2,3]", "f32[3,2]") == order);
  CHECK(broadcast({}, "f32[]", "f16[2]") == "broadcast keeps the dtype: f32[] to f16[2]");
  CHECK(broadcast({}, "f32[]", "") == "broadcast: the result's type is needed");
}

TEST_CASE("slice") {
  Rules r;
  const auto slice = [&](Axes a, Axes b, std::string_view from, std::string_view to) {
    return r.view(ViewKind::slice, a, b, from, to);
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  CHECK(slice({1, 0}, {2, 1}, "f32[6,3]", "f32[3,3]") == "f32[3,3]");
  CHECK(slice({6}, {1}, "f32[6]", "f32[0]") == "f32[0]");
  CHECK(slice({0}, {1}, "f32[B]", "f32[B]") == "f32[B]");
  CHECK(slice({2}, {3}, "f32[B]", "f32[T]") == "f32[T]");  // decided when the dims are bound
  CHECK(slice({1}, {2}, "f32[6]", "f32[4]") ==
        "slice: 4 elements from 1 by 2 leave axis 0 of f32[6]");
  CHECK(slice({0}, {1}, "f32[6]", "f32[7]") ==
        "slice: 7 elements from 0 by 1 leave axis 0 of f32[6]");
  CHECK(slice({7}, {1}, "f32[6]", "f32[0]") ==
        "slice: 0 elements from 7 by 1 leave axis 0 of f32[6]");
  CHECK(slice({kMax}, {1}, "f32[6]", "f32[2]").find("leave axis 0") != std::string::npos);
  CHECK(slice({0}, {kMax}, "f32[6]", "f32[1]") ==
        "slice: the step 9223372036854775807 along axis 0 is above 2^31 - 1");
  CHECK(slice({0}, {0}, "f32[6]", "f32[6]") == "slice: axis 0 needs a start >= 0 and a step >= 1");
  CHECK(slice({-1}, {1}, "f32[6]", "f32[1]").find("a start >= 0") != std::string::npos);
  CHECK(slice({0}, {1}, "f32[6]", "f16[6]") == "slice keeps dtype and rank: f32[6] to f16[6]");
  CHECK(slice({0}, {1}, "f32[6]", "f32[6,1]").find("slice keeps") == 0);
}

TEST_CASE("concat") {
  Rules r;
  const auto concat = [&](int axis, std::vector<std::string_view> in) {
    return r.answer(OpKind::concat, AxisAttr{axis}, std::move(in));
  };
  CHECK(concat(1, {"f32[2,3]", "f32[2,0]", "f32[2,4]"}) == "f32[2,7]");
  CHECK(concat(0, {"i8[5]"}) == "i8[5]");
  CHECK(concat(0, {"f32[B,2]", "f32[3,2]", "f32[B,2]"}) == "f32[2*B + 3,2]");
  CHECK(concat(0, {"f32[2,3]", "f32[2,4]"}) ==
        "concat: operands may differ along axis 0 only: f32[2,3], f32[2,4]");
  CHECK(concat(0, {"f32[2]", "f16[2]"}) == "concat: operands must have one dtype: f32[2], f16[2]");
  CHECK(concat(0, {"f32[2]", "f32[2,1]"}) ==
        "concat: operands must have one rank: f32[2], f32[2,1]");
  CHECK(concat(2, {"f32[2,3]"}) == "concat: f32[2,3] has no axis 2");
  CHECK(concat(0, {"f32[]"}) == "concat: f32[] has no axis 0");
  CHECK(concat(-1, {"f32[2]"}) == "concat: f32[2] has no axis -1");
  CHECK(concat(0, {}) == "concat does not take 0 operands");
}

TEST_CASE("gather") {
  Rules r;
  const auto gather = [&](int axis, std::string_view x, std::string_view at) {
    return r.answer(OpKind::gather, AxisAttr{axis}, {x, at});
  };
  CHECK(gather(0, "f32[50,8]", "i32[B,T]") == "f32[B,T,8]");
  CHECK(gather(1, "b1[2,3,4]", "i64[]") == "b1[2,4]");
  CHECK(gather(0, "f32[0,8]", "i32[0]") == "f32[0,8]");
  CHECK(gather(0, "f32[0,0]", "i32[3]") == "f32[3,0]");
  CHECK(gather(0, "f32[0,8]", "i32[3]") ==
        "gather: axis 0 of f32[0,8] is empty, so no index is in range");
  CHECK(gather(0, "f32[5]", "u8[3]") == "gather: indices are i32 or i64, not u8[3]");
  CHECK(gather(1, "f32[5]", "i32[3]") == "gather: f32[5] has no axis 1");
  CHECK(gather(0, "f32[1,1,1,1,1]", "i32[1,1,1,1,1]").find("gather: the result's rank exceeds 8") ==
        0);
}

TEST_CASE("scatter") {
  Rules r;
  const auto scatter = [&](int axis, std::string_view x, std::string_view at, std::string_view u,
                           std::optional<Fn> fn = {}) {
    return r.answer(OpKind::scatter, ScatterAttr{axis, fn}, {x, at, u});
  };
  CHECK(scatter(0, "f32[50,8]", "i32[B,T]", "f32[B,T,8]") == "f32[50,8]");
  CHECK(scatter(1, "b1[2,N,4]", "i64[]", "b1[2,4]", Fn::xor_) == "b1[2,N,4]");
  CHECK(scatter(0, "f16[0,8]", "i32[3]", "f16[3,8]", Fn::add) == "f16[0,8]");
  CHECK(scatter(0, "f32[5]", "u8[3]", "f32[3]") == "scatter: indices are i32 or i64, not u8[3]");
  CHECK(scatter(1, "f32[5]", "i32[3]", "f32[3]", Fn::max) == "scatter_max: f32[5] has no axis 1");
  CHECK(scatter(-1, "f32[5]", "i32[3]", "f32[3]") == "scatter: f32[5] has no axis -1");
  CHECK(scatter(0, "f32[5]", "i32[3]", "f32[3]", Fn::sub) == "scatter_sub cannot combine rows");
  CHECK(scatter(0, "f32[5]", "i32[3]", "f32[3]", Fn::or_) ==
        "scatter_or takes an integer dtype or b1, not f32[5]");
  CHECK(scatter(0, "f32[5,2]", "i32[3]", "f32[3,3]", Fn::add) ==
        "scatter_add: the updates must be f32[3,2]: f32[5,2], i32[3], f32[3,3]");
  CHECK(scatter(0, "f32[5]", "i32[3]", "f16[3]").find("the updates must be f32[3]") !=
        std::string::npos);
  CHECK(scatter(0, "f32[1,1,1,1,1]", "i32[1,1,1,1,1]", "f32[1]").find("exceeds 8") !=
        std::string::npos);
}

TEST_CASE("state ops") {
  Rules r;
  CHECK(r.answer(OpKind::param, ParamAttr{}, {}, "f16[2]") == "state f16[2]");
  CHECK(r.answer(OpKind::read, {}, {"state f16[2]"}) == "f16[2]");
  CHECK(r.answer(OpKind::assign, {}, {"state f16[2]", "f16[2]"}) == "state f16[2]");
  CHECK(r.answer(OpKind::assign, {}, {"state f16[2]", "f32[2]"}) ==
        "assign: the param is f16[2], the value f32[2]");
  CHECK(r.answer(OpKind::assign, {}, {"state f16[2]", "f16[1]"}) ==
        "assign: the param is f16[2], the value f16[1]");
  CHECK(r.answer(OpKind::assign, {}, {"f16[2]", "f16[2]"}) == "assign: operand 0 must be a param");
  CHECK(r.answer(OpKind::assign, {}, {"state f16[2]", "state f16[2]"}) ==
        "assign: operand 1 is a param, not its value: read it");
  CHECK(r.map(Fn::neg, {"state f32[2]"}) == "map: operand 0 is a param, not its value: read it");

  const auto update = [&](std::vector<std::string_view> in) {
    return r.answer(OpKind::update, {}, std::move(in));
  };
  CHECK(update({"state f32[4,B]", "f32[0,2]", "i32[]", "i64[]"}) == "state f32[4,B]");
  CHECK(update({"state f32[]", "f32[]"}) == "state f32[]");
  CHECK(update({"state f32[4]", "f32[5]", "i32[]"}) ==
        "update: the value is larger than the param along axis 0: f32[5] into f32[4]");
  CHECK(update({"state f32[4]", "f16[2]", "i32[]"}) ==
        "update: the value must be a box of the param's dtype and rank: f16[2] into f32[4]");
  CHECK(update({"state f32[4]", "f32[]", "i32[]"}).find("dtype and rank") != std::string::npos);
  CHECK(update({"state f32[4,4]", "f32[1,1]", "i32[]"}) ==
        "update: a param of rank 2 needs 2 starts, not 1");
  CHECK(update({"state f32[4]", "f32[1]", "i32[1]"}) ==
        "update: a start is an i32 or i64 scalar, not i32[1]");
  CHECK(update({"state f32[4]", "f32[1]", "u8[]"}) ==
        "update: a start is an i32 or i64 scalar, not u8[]");
}

TEST_CASE("sources need a type, and iota an axis and a number") {
  Rules r;
  CHECK(r.answer(OpKind::input, {}, {}) == "input: a type is needed");
  CHECK(r.answer(OpKind::param, ParamAttr{}, {}) == "param: a type is needed");
  CHECK(r.answer(OpKind::iota, AxisAttr{0}, {}) == "iota: a type is needed");
  CHECK(r.answer(OpKind::iota, AxisAttr{1}, {}, "bf16[2,3]") == "bf16[2,3]");
  CHECK(r.answer(OpKind::iota, AxisAttr{2}, {}, "i32[2,3]") == "iota: i32[2,3] has no axis 2");
  CHECK(r.answer(OpKind::iota, AxisAttr{0}, {}, "b1[2]") == "iota: b1 cannot count");
}

TEST_CASE("types of more than 2^62 bytes are refused, whoever makes them") {
  Rules r;
  CHECK(r.answer(OpKind::input, {}, {}, "u8[4611686018427387904]") == "u8[4611686018427387904]");
  CHECK(r.answer(OpKind::input, {}, {}, "u8[4611686018427387905]") ==
        "u8[4611686018427387905] is larger than 2^62 bytes");
  CHECK(r.answer(OpKind::input, {}, {}, "i64[1048576,1048576,1048576]").find("larger than 2^62") !=
        std::string::npos);
  // Strides of an empty tensor must not overflow either.
  CHECK(r.answer(OpKind::input, {}, {}, "u8[0,1099511627776,1099511627776]").find("larger") !=
        std::string::npos);
  CHECK(r.answer(OpKind::input, {}, {}, "u8[0,1099511627776]") == "u8[0,1099511627776]");
  CHECK(r.view(ViewKind::reshape, {}, {}, "u8[4]", "u8[9223372036854775807,9223372036854775807]")
            .find("larger") != std::string::npos);
  CHECK(
      r.view(ViewKind::broadcast, {0}, {}, "f32[4]", "f32[4,4611686018427387904]").find("larger") !=
      std::string::npos);
  CHECK(r.answer(OpKind::dot, DotAttr{}, {"f32[2147483648,1]", "f32[1,2147483648]"}) ==
        "f32[2147483648,2147483648] is larger than 2^62 bytes");
  CHECK(r.answer(OpKind::concat, AxisAttr{0},
                 {"u8[4611686018427387904]", "u8[4611686018427387904]", "u8[1]"})
            .find("overflow") != std::string::npos);
  CHECK(r.answer(OpKind::gather, AxisAttr{0}, {"f32[1,4294967296]", "i32[4294967296]"})
            .find("larger than 2^62") != std::string::npos);
}

TEST_CASE("extents that overflow symbolically are an error of the op") {
  Rules r;
  CHECK(r.answer(OpKind::concat, AxisAttr{0},
                 {"f32[9223372036854775807*B]", "f32[9223372036854775807*B]"}) ==
        "concat: an extent overflows 64 bits");
}

}  // namespace
}  // namespace braid::ir
