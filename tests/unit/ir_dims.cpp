#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "ir/graph.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::string canonical(DimTable& t, std::string_view text) {
  const auto d = t.parse(text);
  return d ? t.str(*d) : "?";
}

TEST_CASE("polynomials print in one canonical form") {
  DimTable t;
  t.symbol("B");
  t.symbol("T");
  t.symbol("D");
  CHECK(canonical(t, "768") == "768");
  CHECK(canonical(t, "B") == "B");
  CHECK(canonical(t, "D*4") == "4*D");
  CHECK(canonical(t, "1 + T*B") == "B*T + 1");
  CHECK(canonical(t, "B - 1") == "B - 1");
  CHECK(canonical(t, "-1 + B") == "B - 1");
  CHECK(canonical(t, "10 - B") == "-B + 10");
  CHECK(canonical(t, "(B + 1) * (B - 1)") == canonical(t, "B*B - 1"));
  CHECK(canonical(t, "2*(3 + (B))*2") == "4*B + 12");
  CHECK(canonical(t, "B - B") == "0");
  CHECK(canonical(t, "T*D*B") == canonical(t, "B*T*D"));
  CHECK(t.parse("T*B + 1") == t.parse("1 + B*T"));
  CHECK(t.parse("B - B + 5") == Dim(5));
  CHECK(t.parse("0*B") == Dim(0));
}

TEST_CASE("what is no extent is refused") {
  DimTable t;
  for (const char* text : {"", " ", "B +", "* B", "(B", "B)", "2B", "B C", "B/2", "-", "1.5", "-5",
                           "B - B - 1", "9223372036854775808", "B**2", "()", "é"}) {
    CHECK_MESSAGE(!t.parse(text), text);
  }
  CHECK(!t.parse(std::string(100000, '(')));
  CHECK(t.parse(std::string(60, '(') + "7" + std::string(60, ')')) == Dim(7));
  CHECK(t.parse("9223372036854775807") == Dim(kMax));
}

TEST_CASE("arithmetic agrees with evaluation at random points") {
  std::mt19937 random(7);
  DimTable t;
  std::vector<Dim> dims{t.symbol("A"), t.symbol("B"), t.symbol("C"), Dim(0), Dim(1), Dim(3)};
  const auto any = [&] { return dims[random() % dims.size()]; };
  for (int i = 0; i < 2000; ++i) {
    const std::vector<int64_t> at{1 + static_cast<int64_t>(random() % 9),
                                  1 + static_cast<int64_t>(random() % 9),
                                  1 + static_cast<int64_t>(random() % 9)};
    const Dim a = any(), b = any();
    const auto va = t.eval(a, at), vb = t.eval(b, at);
    REQUIRE(va);
    REQUIRE(vb);
    CHECK(t.eval(t.add(a, b), at) == *va + *vb);
    const Dim product = t.mul(a, b);
    CHECK(t.eval(product, at) == *va * *vb);
    CHECK(t.mul(b, a) == product);
    CHECK(t.add(a, b) == t.add(b, a));
    CHECK(t.sub(t.add(a, b), b) == a);
    CHECK(t.parse(t.str(product)) == product);
    if (const auto q = t.div(a, b)) CHECK(t.mul(*q, b) == a);
    if (dims.size() < 60 && t.str(product).size() < 24) {
      dims.push_back(random() % 2 ? product : t.add(a, b));
    }
  }
}

TEST_CASE("division is exact or nothing") {
  DimTable t;
  const Dim b = t.symbol("B"), d = t.symbol("D");
  CHECK(t.div(Dim(12), Dim(4)) == Dim(3));
  CHECK(!t.div(Dim(12), Dim(5)));
  CHECK(!t.div(Dim(12), Dim(0)));
  CHECK(!t.div(b, Dim(0)));
  CHECK(!t.div(Dim(0), Dim(0)));
  CHECK(t.div(Dim(0), b) == Dim(0));
  CHECK(t.div(t.mul(Dim(4), t.mul(b, d)), t.mul(Dim(2), b)) == t.mul(Dim(2), d));
  CHECK(!t.div(b, Dim(2)));
  CHECK(!t.div(b, d));
  CHECK(t.div(*t.parse("6*B*D + 4*B"), *t.parse("2*B")) == *t.parse("3*D + 2"));
  CHECK(!t.div(*t.parse("6*B*D + 3*B"), *t.parse("2*B")));
  CHECK(!t.div(*t.parse("B*D + 1"), b));
  CHECK(t.div(*t.parse("B + 1"), *t.parse("B + 1")) == Dim(1));
}

TEST_CASE("overflow throws, and a small text cannot fill the memory") {
  DimTable t;
  const Dim b = t.symbol("B");
  CHECK_THROWS_AS(t.add(Dim(kMax), Dim(1)), Error);
  CHECK_THROWS_AS(t.mul(Dim(kMax), Dim(2)), Error);
  CHECK_THROWS_AS(t.mul(t.mul(Dim(kMax), b), Dim(2)), Error);
  CHECK_THROWS_AS(t.add(t.mul(Dim(kMax), b), b), Error);
  CHECK_THROWS_AS(t.sub(Dim(3), Dim(4)), Error);
  CHECK(t.sub(Dim(4), Dim(3)) == Dim(1));
  std::string text = "1", power = "B";
  for (int i = 0; i < 40; ++i) {
    text += "*(a" + std::to_string(i) + " + b" + std::to_string(i) + ")";
    power += "*B";
  }
  CHECK_THROWS_AS(t.parse(text), Error);
  CHECK_THROWS_AS(t.parse(power), Error);
  CHECK(!t.eval(t.mul(b, b), std::vector<int64_t>{int64_t{1} << 32}));
  CHECK(!t.eval(t.sub(b, Dim(3)), std::vector<int64_t>{2}));
  CHECK(t.eval(t.sub(b, Dim(3)), std::vector<int64_t>{3}) == 0);
}

TEST_CASE("symbols are declared once and may gain a default and a bound") {
  DimTable t;
  const Dim b = t.symbol("B");
  CHECK(t.symbol("B", 8) == b);
  CHECK(t.symbol("B", {}, 64) == b);
  REQUIRE(t.symbols().size() == 1);
  CHECK(t.symbols()[0].default_value == 8);
  CHECK(t.symbols()[0].max == 64);
}

TEST_CASE("shapes") {
  const Shape s{Dim(2), Dim(0), Dim(5)};
  CHECK(s.rank() == 3);
  CHECK(s.numel() == 0);
  CHECK(Shape{}.numel() == 1);
  CHECK(row_major_strides(std::vector<int64_t>{2, 3, 5}) == std::vector<int64_t>{15, 5, 1});
  CHECK(row_major_strides({}).empty());
  CHECK(to_string(TensorType{DType::bf16, s}) == "bf16[2,0,5]");
  CHECK(to_string(TensorType{DType::b1, {}}) == "b1[]");
  DimTable t;
  const TensorType sym{DType::f32, Shape{t.symbol("B"), Dim(4)}};
  CHECK(!sym.shape.is_static());
  CHECK(to_string(sym, &t) == "f32[B,4]");
  Shape full;
  for (int i = 0; i < kMaxRank; ++i) full.push_back(Dim(1));
  CHECK_THROWS_AS(full.push_back(Dim(1)), InternalError);
}

std::string codes_of_binding(Graph g, const DimTable::Bindings& bindings) {
  try {
    g.bind_dims(bindings);
  } catch (const Error& e) {
    std::string s;
    for (const Diagnostic& d : e.diagnostics()) s += (s.empty() ? "" : " ") + d.code;
    return s;
  }
  return "";
}

constexpr std::string_view kText = R"(bir 1
graph "g" {
  dim B = 8 max 64
  dim T
  %0: f32[B,T] = input "x"
  %1: f32[2*B*T + 1] = constant 1.5
  %2: f32[B*T] = reshape %0
  %3: f32[4] = slice %1 {starts=[3], steps=[2]}
  %4: f32[B*T - 2] = input "z"
  output "y" %3
}
)";

TEST_CASE("bind_dims makes every type static") {
  Graph g = parse(kText);
  g.bind_dims({{"T", 3}});
  for (const Value& v : g.values()) CHECK(v.type.shape.is_static());
  CHECK(to_string(g.values()[0].type) == "f32[8,3]");
  CHECK(to_string(g.values()[1].type) == "f32[49]");
  CHECK(to_string(g.values()[2].type) == "f32[24]");
  CHECK(to_string(g.values()[4].type) == "f32[22]");
  CHECK(to_string(g.literals[0].type) == "f32[49]");
  CHECK(verify(g).empty());
  Graph h = parse(kText);
  h.bind_dims({{"B", 64}, {"T", 1}});
  CHECK(to_string(h.values()[2].type) == "f32[64]");
}

TEST_CASE("bind_dims says what is wrong") {
  const Graph g = parse(kText);
  CHECK(codes_of_binding(g, {}) == "E0602");
  CHECK(codes_of_binding(g, {{"T", 3}, {"b", 3}}) == "E0601");
  CHECK(codes_of_binding(g, {{"B", 65}, {"Q", 1}}) == "E0601 E0603 E0602");
  CHECK(codes_of_binding(g, {{"B", -1}, {"T", 1}}) == "E0604");
  CHECK(codes_of_binding(g, {{"B", 1}, {"T", 1}}) == "E0604");               // B*T - 2
  CHECK(codes_of_binding(g, {{"T", int64_t{1} << 59}}).find("E0604") == 0);  // beyond 2^62 bytes
  CHECK(codes_of_binding(g, {{"T", kMax}}).find("E0604") == 0);
  CHECK(codes_of_binding(g, {{"B", 2}, {"T", 1}}) == "E0301");  // the slice leaves its operand
  CHECK(codes_of_binding(g, {{"B", 5}, {"T", 1}}) == "");
  try {
    Graph copy = g;
    copy.bind_dims({{"Tt", 3}, {"T", 3}});
    FAIL("bound an unknown dim");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].suggestion == "did you mean 'T'?");
  }
}

}  // namespace
}  // namespace braid::ir
