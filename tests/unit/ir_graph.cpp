#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "ir/graph.hpp"
#include "ir/text.hpp"
#include "random_graph.hpp"

namespace braid::ir {
namespace {

TensorType f32(std::initializer_list<Dim> dims) { return {DType::f32, Shape(dims)}; }

ValueId input(Graph& g, const std::string& name, const TensorType& t) {
  return g.add({OpKind::input, {}, {}, t, g.strings.intern(name)});
}
ValueId param(Graph& g, const std::string& name, const TensorType& t) {
  return g.add({OpKind::param, ParamAttr{}, {}, t, g.strings.intern(name)});
}

std::string codes(const std::vector<Diagnostic>& ds) {
  std::string s;
  for (const Diagnostic& d : ds) s += (s.empty() ? "" : " ") + d.code;
  return s;
}

TEST_CASE("the op table has one row per kind, in order, and stays small") {
  CHECK(op_table().size() <= 32);
  for (size_t i = 0; i < op_table().size(); ++i) {
    const OpInfo& row = op_table()[i];
    CHECK(static_cast<size_t>(row.kind) == i);
    CHECK(&info(row.kind) == &row);
    CHECK(op_kind_from_name(row.name) == row.kind);
    CHECK((row.type_rule != nullptr));
    CHECK((row.flops != nullptr));
  }
  CHECK(!op_kind_from_name("softmax"));
}

TEST_CASE("dtype names and sizes") {
  const char* names[] = {"f32", "f16", "bf16", "f64", "i32", "i64", "i8", "u8", "b1"};
  const int sizes[] = {4, 2, 2, 8, 4, 8, 1, 1, 1};
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    CHECK(name_of(t) == names[i]);
    CHECK(size_of(t) == sizes[i]);
    CHECK(dtype_from_name(names[i]) == t);
  }
  CHECK(!dtype_from_name("f8"));
  CHECK(!dtype_from_name(""));
}

TEST_CASE("every 16-bit float survives f32 and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<uint16_t>(bits);
    const float half = f16_to_f32(b), brain = bf16_to_f32(b);
    if (half == half) {
      CHECK(f32_to_f16(half) == b);
    } else {
      CHECK((f32_to_f16(half) & 0x7fff) > 0x7c00);
    }
    if (brain == brain) {
      CHECK(f32_to_bf16(brain) == b);
    } else {
      CHECK((f32_to_bf16(brain) & 0x7fff) > 0x7f80);
    }
  }
}

TEST_CASE("tf32 keeps ten bits behind the first, to nearest, halves away from zero") {
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const float y = round_to_tf32(x);
    if (!std::isfinite(x)) {
      CHECK(std::bit_cast<uint32_t>(y) == std::bit_cast<uint32_t>(x));
      continue;
    }
    // std::round takes halves away from zero. Subnormals keep the spacing of the smallest normals.
    const int exponent = std::max(std::ilogb(x == 0 ? 1e-45f : x), -126);
    const double step = std::ldexp(1.0, exponent - 10);
    CHECK(static_cast<double>(y) == static_cast<double>(static_cast<float>(
                                        std::round(static_cast<double>(x) / step) * step)));
  }
  CHECK(round_to_tf32(1.0f + 0x1p-11f) == 1.0f + 0x1p-10f);
  CHECK(round_to_tf32(-1.0f - 0x1p-11f) == -1.0f - 0x1p-10f);
  CHECK(round_to_tf32(1.0f + 0x1.fp-12f) == 1.0f);
  CHECK(std::isinf(round_to_tf32(std::numeric_limits<float>::max())));
}

TEST_CASE("16-bit floats are rounded to the nearest, halves to even") {
  // Between neighbours a and b, what lies nearer to a goes to a; the middle goes to the even one.
  for (uint32_t bits = 0; bits < 0x7bff; bits += 7) {
    const auto a = static_cast<uint16_t>(bits), b = static_cast<uint16_t>(bits + 1);
    const double low = double{f16_to_f32(a)}, high = double{f16_to_f32(b)};
    const double middle = (low + high) / 2, ulp = high - low;
    CHECK(f64_to_f16(middle) == (a % 2 == 0 ? a : b));
    CHECK(f64_to_f16(middle - ulp * 1e-9) == a);
    CHECK(f64_to_f16(middle + ulp * 1e-9) == b);
    CHECK(f64_to_f16(-middle) == ((a % 2 == 0 ? a : b) | 0x8000));
  }
  for (uint32_t bits = 0; bits < 0x7f7f; bits += 7) {
    const auto a = static_cast<uint16_t>(bits), b = static_cast<uint16_t>(bits + 1);
    const double low = double{bf16_to_f32(a)}, high = double{bf16_to_f32(b)};
    const double middle = (low + high) / 2, ulp = high - low;
    CHECK(f64_to_bf16(middle) == (a % 2 == 0 ? a : b));
    CHECK(f64_to_bf16(middle - ulp * 1e-9) == a);
    CHECK(f64_to_bf16(middle + ulp * 1e-9) == b);
  }
  CHECK(f64_to_f16(65504) == 0x7bff);
  CHECK(f64_to_f16(65519.999) == 0x7bff);
  CHECK(f64_to_f16(65520) == 0x7c00);
  CHECK(f64_to_f16(-1e300) == 0xfc00);
  CHECK(f64_to_f16(0x1p-25) == 0);
  CHECK(f64_to_f16(0x1.00001p-25) == 1);
  CHECK(f64_to_f16(-0.0) == 0x8000);
  CHECK(f64_to_bf16(std::numeric_limits<double>::infinity()) == 0x7f80);
}

TEST_CASE("strings are interned and survive a copy of their owner") {
  Strings a;
  const StrId x = a.intern("x"), y = a.intern("a much longer name that is stored elsewhere");
  CHECK(a.intern("x") == x);
  CHECK(x != y);
  Strings b = a;
  a = Strings();
  CHECK(b[x] == "x");
  CHECK(b.intern("a much longer name that is stored elsewhere") == y);
  CHECK(b.intern("new").index == 2);
  Strings c = std::move(b);
  CHECK(c.intern("x") == x);
  CHECK(c[StrId{}].empty());
  c = *&c;
  CHECK(c[y].size() == 43);
}

TEST_CASE("try_add refuses and leaves the graph as it was") {
  Graph g;
  const ValueId x = input(g, "x", f32({2, 3}));
  const auto error = [&](Graph::NewOp op) { return g.try_add(std::move(op)).error; };
  CHECK(error({OpKind::read, {}, {}}) == "read does not take 0 operands");
  CHECK(error({OpKind::dot, DotAttr{}, {x}}) == "dot does not take 1 operand");
  CHECK(error({OpKind::read, {}, {x}}) == "read: operand 0 must be a param");
  CHECK(error({OpKind::map, MapAttr{Fn::neg}, {ValueId{9}}}) ==
        "map: operand 0 is no value of this graph");
  CHECK(error({OpKind::constant, ConstAttr{3}, {}, f32({2})}) ==
        "constant: there is no such literal");
  CHECK(g.ops().size() == 1);
  CHECK(g.values().size() == 1);
  CHECK_THROWS_AS(g.add({OpKind::read, {}, {x}}), InternalError);
}

TEST_CASE("a constant has its literal's type") {
  Graph g;
  const uint32_t literal = g.add_literal({f32({2}), true, std::vector<std::byte>(4)});
  CHECK(g.type(g.add({OpKind::constant, ConstAttr{literal}})) == f32({2}));
  CHECK(g.try_add({OpKind::constant, ConstAttr{literal}, {}, TensorType{DType::i32, {}}}).error ==
        "constant: a literal of f32[2] cannot be i32[]");
}

TEST_CASE("splat constants have a value, also through views") {
  Graph g;
  for (const double x : {0.25, -3.0, 117.0}) {
    for (const DType t :
         {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::i8}) {
      const ValueId v = g.splat({t, Shape{Dim(2), Dim(3)}}, x);
      const double expected = is_float(t) ? x : std::trunc(x);
      CHECK(g.splat_value(v) == expected);
      ViewAttr a{ViewKind::broadcast, {0, 2}, {}};
      const ValueId wide =
          g.add({OpKind::view, a, {v}, TensorType{t, Shape{Dim(2), Dim(5), Dim(3)}}});
      CHECK(g.splat_value(wide) == expected);
    }
  }
  CHECK(!g.splat_value(input(g, "x", f32({2}))));
  const uint32_t full = g.add_literal({f32({2}), false, std::vector<std::byte>(8)});
  CHECK(!g.splat_value(g.add({OpKind::constant, ConstAttr{full}})));
}

TEST_CASE("users lists each user once, in order") {
  Graph g;
  const ValueId x = input(g, "x", f32({2}));
  const ValueId twice = g.add({OpKind::map, MapAttr{Fn::add}, {x, x}});
  const ValueId mixed = g.add({OpKind::map, MapAttr{Fn::mul}, {x, twice}});
  const auto users = g.users();
  CHECK(users[x.index] == std::vector<OpId>{OpId{1}, OpId{2}});
  CHECK(users[twice.index] == std::vector<OpId>{OpId{2}});
  CHECK(users[mixed.index].empty());
}

TEST_CASE("clone_op carries names, places, literals and symbols over") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::RandomGraphOptions options;
    if (seed % 2 == 1) options.compact = options.code = options.host = 10;
    const Graph from = test::random_graph(seed, options);
    Graph to(from.name);
    to.strings.intern("shifts all indices");
    to.add_literal({f32({}), true, std::vector<std::byte>(4)});
    for (uint32_t i = 0; i < from.ops().size(); ++i) {
      to.clone_op(from, OpId{i}, from.ops()[i].operands);
    }
    for (Output o : from.outputs) {
      if (o.loc.line != 0) o.loc.file = to.strings.intern(from.strings[o.loc.file]);
      to.outputs.push_back(o);
    }
    to.repeats = from.repeats;
    REQUIRE(print(to, {.places = true}) == print(from, {.places = true}));
  }
  Graph from;
  from.dims.symbol("T", {}, 7);
  from.dims.symbol("B", 4, 16);
  const Dim n = *from.dims.parse("2*B*T + 1");
  input(from, "x", f32({n, 3}));
  Graph to;
  to.dims.symbol("other");
  const ValueId x = to.clone_op(from, OpId{0}, {});
  CHECK(to.dims.str(to.type(x).shape[0]) == from.dims.str(n));
  REQUIRE(to.dims.symbols().size() == 3);
  CHECK(to.dims.symbols()[2].name == "B");
  CHECK(to.dims.symbols()[2].default_value == 4);
  CHECK(to.dims.symbols()[1].max == 7);
}

TEST_CASE("verify accepts random graphs and their copies") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    test::RandomGraphOptions o;
    if (seed % 3 == 1) o.compact = o.code = o.host = 10;
    const Graph g = test::random_graph(seed, o);
    REQUIRE_MESSAGE(verify(g).empty(), render(verify(g)));
    const Graph copy = g;
    REQUIRE(print(copy) == print(g));
  }
}

TEST_CASE("verify finds what add cannot see") {
  Graph g;
  const ValueId x = input(g, "x", f32({2}));
  const ValueId p = param(g, "p", f32({2}));
  const ValueId y = g.add({OpKind::map, MapAttr{Fn::neg}, {x}});
  g.outputs.push_back({"y", y, {}});
  REQUIRE(verify(g).empty());

  SUBCASE("an operand after its use") {
    g.op(OpId{2}).operands[0] = y;
    CHECK(codes(verify(g)) == "E0901");
    CHECK(verify(g)[0].details[0].find("neg %2") != std::string::npos);
    g.op(OpId{2}).operands[0] = ValueId{77};
    CHECK(codes(verify(g)) == "E0901");
  }
  SUBCASE("a result that another op defines") {
    g.op(OpId{2}).result = x;
    CHECK(codes(verify(g)) == "E0901");
  }
  SUBCASE("two of one name") {
    input(g, "x", f32({}));
    param(g, "p", f32({}));
    param(g, "x", f32({}));  // inputs and params are named apart
    g.outputs.push_back({"y", x, {}});
    CHECK(codes(verify(g)) == "E0201 E0201 E0201");
  }
  SUBCASE("no name") {
    g.add({OpKind::input, {}, {}, f32({})});
    param(g, "", f32({}));
    g.outputs.push_back({"", x, {}});
    g.dims.symbol("2B");
    g.dims.symbol("a b");
    CHECK(codes(verify(g)) == "E0902 E0902 E0902 E0902 E0902");
  }
  SUBCASE("a version replaced twice") {
    g.add({OpKind::assign, {}, {p, x}});
    CHECK(verify(g).empty());
    g.add({OpKind::update, {}, {p, x, g.splat({DType::i32, {}}, 0)}});
    CHECK(codes(verify(g)) == "E0903");
  }
  SUBCASE("outputs of states and of nothing") {
    g.outputs.push_back({"p", p, {}});
    g.outputs.push_back({"q", ValueId{}, {}});
    CHECK(codes(verify(g)) == "E0904 E0901");
  }
  SUBCASE("a type changed behind the rule's back") {
    g.value(y).type = f32({3});
    CHECK(codes(verify(g)) == "E0905");
    CHECK(verify(g)[0].message == "neg: the result of f32[2] is f32[2], not f32[3]");
  }
  SUBCASE("an operand that became a state") {
    g.op(OpId{2}).operands[0] = p;
    CHECK(codes(verify(g)) == "E0905");
  }
  SUBCASE("a literal of another size") {
    const ValueId c = g.splat(f32({5}), 2);
    const uint32_t literal = std::get<ConstAttr>(g.def(c).attrs).literal;
    g.literals[literal].bytes.push_back({});
    CHECK(codes(verify(g)) == "E0906");
    std::get<ConstAttr>(g.op(g.value(c).def).attrs).literal = 99;
    CHECK(codes(verify(g)) == "E0906");
  }
}

TEST_CASE("flops") {
  Graph g;
  const auto flops = [&](ValueId v) { return info(g.def(v).kind).flops(g, g.def(v)); };
  const ValueId a = input(g, "a", f32({3, 5, 7})), b = input(g, "b", f32({3, 11, 7}));
  CHECK(flops(g.add({OpKind::dot, DotAttr{false, true}, {a, b}})) == 2 * 3 * 5 * 11 * 7);
  CHECK(flops(g.add({OpKind::map, MapAttr{Fn::tanh}, {a}})) == 105 * braid::info(Fn::tanh).cost);
  CHECK(flops(g.add({OpKind::reduce, ReduceAttr{Fn::add, 2}, {a}})) == 105);
  CHECK(flops(a) == 0);
  // Sizes that no machine holds do not overflow.
  const int64_t n = int64_t{1} << 29;
  const ValueId big = input(g, "big", f32({n, n}));
  CHECK(flops(g.add({OpKind::dot, DotAttr{}, {big, big}})) == std::numeric_limits<int64_t>::max());
}

TEST_CASE("a graph of 100,000 ops is built and verified quickly") {
  const auto begin = std::chrono::steady_clock::now();
  Graph g;
  ValueId v = input(g, "x", f32({128, 256}));
  const ValueId w = v;
  for (int i = 0; i < 100000; ++i) {
    v = g.add({OpKind::map, MapAttr{i % 2 ? Fn::add : Fn::max}, {v, w}});
  }
  const auto built = std::chrono::steady_clock::now();
  g.outputs.push_back({"y", v, {}});
  CHECK(verify(g).empty());
  const auto verified = std::chrono::steady_clock::now();
  const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
  MESSAGE("add: " << ms(built - begin) << " ms, verify: " << ms(verified - built) << " ms");
  CHECK(ms(verified - begin) < 5000);  // about 100; wide, for sanitizers and busy machines
}

}  // namespace
}  // namespace braid::ir
