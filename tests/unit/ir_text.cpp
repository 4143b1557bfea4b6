#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "ir/code_op.hpp"
#include "ir/text.hpp"
#include "random_graph.hpp"

namespace braid::ir {
namespace {

std::string in_graph(const std::string& lines) {
  return "bir 1\ngraph \"g\" {\n" + lines + "\n}\n";
}

/// "CODE line:column message (suggestion)" of each error; empty if the text parses.
std::vector<std::string> errors(const std::string& text) {
  std::vector<std::string> all;
  try {
    parse(text, "g.bir");
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics()) {
      CHECK(d.place.file == "g.bir");
      all.push_back(d.code + " " + std::to_string(d.place.line) + ":" +
                    std::to_string(d.place.column) + " " + d.message +
                    (d.suggestion.empty() ? "" : " (" + d.suggestion + ")"));
    }
  }
  return all;
}
std::string error(const std::string& line) {
  const auto all = errors(in_graph(line));
  return all.empty() ? "" : all[0];
}

TEST_CASE("random graphs survive the round trip, with and without places") {
  for (uint64_t seed = 1000; seed < 1500; ++seed) {
    test::RandomGraphOptions o;
    o.places = seed % 2 == 0;
    if (seed % 3 == 0) o.compact = o.code = o.host = 10;
    const Graph g = test::random_graph(seed, o);
    const std::string text = print(g);
    INFO(seed, "\n", text);
    const Graph back = parse(text);
    REQUIRE(print(back) == text);
    // Not only the text: each part is what it was.
    REQUIRE(back.ops().size() == g.ops().size());
    for (uint32_t i = 0; i < g.ops().size(); ++i) {
      const Op &a = g.ops()[i], &b = back.ops()[i];
      REQUIRE(a.kind == b.kind);
      REQUIRE(a.operands == b.operands);
      REQUIRE(g.name_of(OpId{i}) == back.name_of(OpId{i}));
      REQUIRE(a.results == b.results);
      for (uint32_t r = 0; r < a.results; ++r) {
        REQUIRE(g.type(a.result_at(r)) == back.type(b.result_at(r)));
        REQUIRE(g.value(a.result_at(r)).state == back.value(b.result_at(r)).state);
      }
      if (const auto* c = std::get_if<ConstAttr>(&a.attrs)) {
        REQUIRE(g.literals[c->literal] == back.literals[std::get<ConstAttr>(b.attrs).literal]);
      } else if (a.kind != OpKind::param && a.kind != OpKind::host && !runs_code(a.kind)) {
        REQUIRE(a.attrs == b.attrs);  // of strings the text alone tells
      }
    }
    REQUIRE(back.repeats == g.repeats);
  }
}

TEST_CASE("places survive where every op has one") {
  Graph g = test::random_graph(5);
  const StrId file = g.strings.intern("dir with \"quotes\"/m.toml");
  uint32_t line = 1;
  for (Op& op : g.ops()) op.loc = {file, line++, 4, line % 3 ? line + 9 : 0};
  for (Output& o : g.outputs) o.loc = {file, line++, 1, 0};
  const std::string text = print(g, {.places = true});
  CHECK(text.find("loc(\"dir with \\\"quotes\\\"/m.toml\":1:4") != std::string::npos);
  CHECK(print(parse(text), {.places = true}) == text);
}

TEST_CASE("an op without a place gets its own in the text") {
  const Graph g = parse(in_graph("  %0: f32[2] = input \"x\"\n  output \"y\" %0"), "m.bir");
  CHECK(g.place(g.ops()[0].loc).file == "m.bir");
  CHECK(g.ops()[0].loc.line == 3);
  CHECK(g.ops()[0].loc.column == 3);
  CHECK(g.outputs[0].loc.line == 4);
}

TEST_CASE("names of any bytes survive") {
  const std::string names[] = {"a\"b",
                               "back\\slash",
                               "\xce\xb1\xe2\x82\xac\xf0\x9f\x98\x80",
                               "tab\tnew\nline\r",
                               std::string("nul\0nul", 7),
                               "\\x41",
                               "; no comment",
                               "\x7f\xff\xfe",
                               "%3",
                               "{axes=[]}"};
  Graph g(names[0] + names[3]);
  for (const std::string& n : names) {
    const ValueId v =
        g.add({OpKind::input, {}, {}, TensorType{DType::f32, {}}, g.strings.intern(n)});
    g.outputs.push_back({n, v, {}});
    g.repeats.push_back({n, 3});
  }
  const Graph back = parse(print(g));
  CHECK(print(back) == print(g));
  CHECK(back.name == g.name);
  for (size_t i = 0; i < std::size(names); ++i) {
    CHECK(back.name_of(OpId{static_cast<uint32_t>(i)}) == names[i]);
    CHECK(back.outputs[i].name == names[i]);
    CHECK(back.repeats[i].prefix == names[i]);
  }
}

template <class T>
Literal splat_bits(DType t, T bits) {
  Literal l{{t, {}}, true, std::vector<std::byte>(sizeof bits)};
  std::memcpy(l.bytes.data(), &bits, sizeof bits);
  return l;
}

TEST_CASE("float literals keep every bit in few digits") {
  std::mt19937_64 random(11);
  const auto keeps = [](const Literal& l) {
    Graph g;
    const uint32_t index = g.add_literal(l);
    g.add({OpKind::constant, ConstAttr{index}});
    const Graph back = parse(print(g));
    const bool nan = std::isnan(*g.splat_value(ValueId{0}));
    if (nan) return std::isnan(*back.splat_value(ValueId{0}));
    return back.literals[0] == l;
  };
  for (int i = 0; i < 3000; ++i) {
    CHECK(keeps(splat_bits(DType::f32, static_cast<uint32_t>(random()))));
    CHECK(keeps(splat_bits(DType::f64, static_cast<uint64_t>(random()))));
    CHECK(keeps(splat_bits(DType::f16, static_cast<uint16_t>(random()))));
    CHECK(keeps(splat_bits(DType::bf16, static_cast<uint16_t>(random()))));
    CHECK(keeps(splat_bits(DType::f32, static_cast<uint32_t>(random() & 0x007fffff))));
  }
  const auto text = [](DType t, double x) {
    Graph g;
    g.splat({t, {}}, x);
    const std::string op = print_op(g, OpId{0});
    return op.substr(op.rfind(' ') + 1);
  };
  CHECK(text(DType::f32, 0.1) == "0.1");
  CHECK(text(DType::f32, 0.123456789) == "0.12345679");
  CHECK(text(DType::f16, 0.1) == "0.1");
  CHECK(text(DType::bf16, 0.3) == "0.3");
  CHECK(text(DType::f32, 16777216) == "16777216");
  CHECK(text(DType::f64, 1.0 / 3) == "0.3333333333333333");
  CHECK(text(DType::f32, -0.0) == "-0");
  CHECK(text(DType::f32, std::numeric_limits<double>::infinity()) == "inf");
  CHECK(text(DType::f16, -std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(text(DType::f64, std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(text(DType::f64, 1e300) == "1e+300");
}

TEST_CASE("integer literals keep their extremes") {
  const std::pair<const char*, const char*> ends[] = {{"i64", "-9223372036854775808"},
                                                      {"i64", "9223372036854775807"},
                                                      {"i32", "-2147483648"},
                                                      {"i8", "-128"},
                                                      {"u8", "255"},
                                                      {"b1", "1"}};
  for (const auto& [dtype, x] : ends) {
    const std::string text = in_graph(std::string("  %0: ") + dtype + "[3] = constant " + x);
    CHECK(print(parse(text)) == text);
  }
  CHECK(error("%0: i8[3] = constant 128") == "E0107 3:22 128 does not fit i8");
  CHECK(error("%0: u8[] = constant -1") == "E0107 3:21 -1 does not fit u8");
  CHECK(error("%0: b1[] = constant 2") == "E0107 3:21 2 does not fit b1");
  CHECK(error("%0: i32[] = constant 1.5").find("E0101 3:22 expected the value") == 0);
  CHECK(error("%0: i64[] = constant 9223372036854775808").find("E0101") == 0);
}

TEST_CASE("the README's examples are canonical") {
  std::ifstream file(BRAID_SOURCE_DIR "/ir/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  std::vector<Graph> graphs;
  for (size_t at = 0; (at = readme.find("```bir\n", at)) != std::string::npos;) {
    at += 7;
    const std::string text = readme.substr(at, readme.find("```", at) - at);
    graphs.push_back(parse(text));
    CHECK(print(graphs.back()) == text);
  }
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].bodies.size() == 4);
  CHECK(graphs[1].dims.symbols()[0].max == 64);
}

TEST_CASE("spaces, comments, line ends and value numbers do not matter") {
  const std::string text =
      "; a comment\r\n\n bir 1 ; version\ngraph \"g\" { ;{\n\n%7 :f32[ 2 , 3*1 ]= input\"x\"\n"
      "\t%01: f32[6]=reshape %7{}\n output \"y\" %01 loc( \"f\":1:2 )}";
  CHECK(print(parse(text)) ==
        in_graph("  %0: f32[2,3] = input \"x\"\n  %1: f32[6] = reshape %0\n  output \"y\" %1"));
}

TEST_CASE("every op kind and attribute is parsed") {
  const std::string lines = R"(  dim B
  dim T = 3
  dim long_name_2 = 0 max 9223372036854775807
  %0: state f32[4,B] = param "p" {init=ones}
  %1: state f32[B] = param "q" {scale=0.125}
  %2: state bf16[] = param "r"
  %3: f32[4,B] = read %0
  %4: f32[B,B] = dot %3, %3 {ta=true}
  %5: f32[4,4] = dot %3, %3 "s/dot" {tb=true, tf32=true}
  %6: f32[B,B] = transpose %4 {axes=[1, 0]}
  %7: b1[B,B] = le %4, %6
  %8: f32[B,B] = select %7, %4, %6
  %9: i8[B,B] = cast %8
  %10: f32[] = reduce_mul %8 {axes=[0, 1]}
  %11: f32[4,4] = reduce_add %5 {axes=[]}
  %12: i64[2*B + 1,T] = iota {axis=1}
  %13: u8[2,1] = constant hex"00ff"
  %14: f64[B,T] = constant nan
  %15: f32[2,2] = slice %11 {starts=[0, 1], steps=[3, 2]}
  %16: f32[8,4] = concat %11, %5 {axis=0}
  %17: f32[8,B,B] = gather %16, %18 {axis=1})";
  REQUIRE(errors(in_graph(lines)).size() == 1);
  CHECK(errors(in_graph(lines))[0] == "E0204 23:33 %18 is used before it is defined");
  const std::string good = in_graph(
      lines.substr(0, lines.rfind('\n')) + "\n  %17: f32[8,B*T] = input \"x\"" +
      "\n  %18: i32[T] = input \"at\"\n  %19: f32[8,T] = gather %17, %18 {axis=1}" +
      "\n  %20: state f32[4,B] = assign %0, %3 \"next\"" +
      "\n  %21: i32[] = constant -7\n  %22: f32[B] = read %1" +
      "\n  %23: state f32[B] = update %1, %22, %21" +
      "\n  %24: i64[T,3] = input \"rows\"\n  %25: f32[4,T,3] = input \"u\"" +
      "\n  %26: f32[4,B] = scatter_max %3, %24, %25 \"s\" {axis=1}" +
      "\n  %27: f32[T,3,4] = input \"v\"\n  %28: f32[4,4] = scatter %11, %24, %27 {axis=0}" +
      "\n  %29: i64[2*B + 1,T] = add %12, %12\n  %30: f32[2*B + 1,T] = random %12, %29, %12" +
      "\n  output \"y\" %10");
  CHECK(errors(good) == std::vector<std::string>{});
  CHECK(print(parse(good)) == good);
}

TEST_CASE("scatter by what is no combiner, and an attribute that it has not") {
  const std::string head = R"(  %0: f32[4,2] = input "x"
  %1: i32[3] = input "i"
  %2: f32[3,2] = input "u"
)";
  const auto error = [&](const std::string& line) {
    const std::vector<std::string> all = errors(in_graph(head + "  %3: f32[4,2] = " + line));
    return all.empty() ? "" : all[0];
  };
  CHECK(error("scatter_add %0, %1, %2 {axis=0}") == "");
  CHECK(error("scatter_sub %0, %1, %2 {axis=0}").find("scatter_sub cannot combine rows") !=
        std::string::npos);
  CHECK(error("scatter_sum %0, %1, %2").find("E0202") == 0);
  CHECK(error("scatter_add %0, %1, %2 {axes=[0]}").find("E0102") == 0);
  CHECK(error("scatter_add %0, %1, %2 {axis=9}").find("E0302") == 0);
  CHECK(error("scatter_add %0, %1 {axis=0}") != "");
}

TEST_CASE("errors have a place and a remedy") {
  using V = std::vector<std::string>;
  CHECK(error("%0: f32[2] = inptu \"x\"") ==
        "E0202 3:14 unknown op 'inptu' (did you mean 'input'?)");
  CHECK(error("%0: f23[2] = input \"x\"").find("E0205 3:5 unknown dtype 'f23' (did you mean") == 0);
  CHECK(error("dim Batch\n%0: f32[Bacth] = input \"x\"") ==
        "E0403 4:9 no line declares the dim 'Bacth': write 'dim Bacth' (did you mean 'Batch'?)");
  CHECK(error("%0: f32[2] = map %0") == "E0202 3:14 unknown op 'map' (did you mean 'max'?)");
  CHECK(error("%0: f32[2] = neg %0") == "E0204 3:18 %0 is used before it is defined");
  CHECK(error("%0: f32[2] = input \"x\"\n%0: f32[2] = input \"z\"") ==
        "E0201 4:1 %0 is defined twice");
  CHECK(error("dim B\ndim B = 3") == "E0201 4:5 there are two dims named 'B'");
  CHECK(error("dim B = -3") == "E0302 3:9 the default cannot be negative");
  CHECK(error("%0: f32[2] = input \"x\" {axis=1}") == "E0102 3:25 this op has no attribute 'axis'");
  CHECK(error("%0: i32[2] = iota {axis=0, axis=0}") ==
        "E0201 3:28 the attribute 'axis' stands here twice");
  CHECK(error("%0: i32[2] = iota {axis=9}") == "E0302 3:20 an axis lies between 0 and 7");
  CHECK(error("%0: f32[2,2] = input \"x\"\n%1: f32[2,2] = transpose %0 {axes=[1]}") ==
        "E0302 4:35 the list needs one entry per axis of f32[2,2]");
  CHECK(error("%0: f32[2,2] = input \"x\"\n%1: f32[2,3] = dot %0, %0") ==
        "E0301 4:16 dot: the result of f32[2,2], f32[2,2] is f32[2,2], not f32[2,3]");
  CHECK(error("%0: state f32[2] = input \"x\"") ==
        "E0301 3:5 the result of input is a tensor, not a state");
  CHECK(error("%0: f32[2] = param \"x\"") ==
        "E0301 3:5 the result of param is a state: write 'state' before its type");
  CHECK(error("%0: f32[2] = param \"x\" {init=random}") ==
        "E0101 3:30 expected init to be normal, zeros or ones");
  CHECK(error("%0: f32[2] = input \"x") ==
        "E0101 3:20 this string has no closing quote or an unknown escape");
  CHECK(error("%0: f32[2] = input \"x\\q\"").find("E0101 3:20 this string has no closing") == 0);
  CHECK(error("%0: f32[2 = input") == "E0101 3:11 expected ',' or ']'");
  CHECK(error("%0: f32[-2] = input \"x\"").find("is no extent") != std::string::npos);
  CHECK(error("%0: f32[1,1,1,1,1,1,1,1,1] = input \"x\"") ==
        "E0301 3:25 a shape has at most 8 axes");
  CHECK(error("%0 f32[2] = input \"x\"") == "E0101 3:4 expected ':'");
  CHECK(error("%0: f32[2] = input \"x\" extra") == "E0101 3:24 expected the end of the line");
  CHECK(error("f32[2]").find("E0101 3:1 expected '%NUMBER: TYPE = OP', 'output'") == 0);
  CHECK(error("dim B\n%0: f32[9223372036854775807*B*9] = input \"x\"") ==
        "E0604 4:1 an extent overflows 64 bits");
  CHECK(errors("") == V{"E0101 1:1 expected 'bir'"});
  CHECK(errors("bir 4\ngraph \"g\" {\n}\n") ==
        V{"E0105 1:5 this is version 4 of the text form, known are those up to 3"});
  CHECK(errors("bir 0\ngraph \"g\" {\n}\n")[0].find("E0105 1:5 this is version 0") == 0);
  CHECK(errors("bir 1\ngraph \"g\" {\n") == V{"E0101 3:1 expected '}'"});
  CHECK(errors(in_graph("") + "x") == V{"E0101 5:1 nothing may follow the closing '}'"});
}

TEST_CASE("all errors are found, and those that follow from another are not") {
  const auto all =
      errors(in_graph("%0: f23[2] = input \"a\"\n"
                      "%1: f32[2] = neg %0\n"  // of no type that is known: silent
                      "%2: f32[2] = add %0, %1\n"
                      "%3: f32[2] = nge %9\n"
                      "output \"y\" %3\n"
                      "%4: f32[2] = input \"b\"\n"
                      "%5: f32[3] = exp %4\n"
                      "output \"z\" %7"));
  REQUIRE(all.size() == 4);
  CHECK(all[0].find("E0205 3:5") == 0);
  CHECK(all[1].find("E0202 6:14") == 0);
  CHECK(all[2].find("E0301 9:14") == 0);
  CHECK(all[3].find("E0204 10:12") == 0);
}

TEST_CASE("a parsed graph is verified, with places in the text") {
  CHECK(errors(in_graph("%0: f32[2] = input \"x\"\n%1: f32[2] = input \"x\"")) ==
        std::vector<std::string>{"E0201 4:1 there are two inputs named 'x'"});
  CHECK(errors(in_graph("%0: state f32[2] = param \"x\"\noutput \"y\" %0"))[0].find("E0904 4:1") ==
        0);
  CHECK(errors(in_graph("%0: f32[2] = input"))[0].find("E0902 3:1 an input needs a name") == 0);
}

TEST_CASE("a literal's bytes are counted before anything is allocated") {
  CHECK(error("%0: f32[1000000000000000] = constant hex\"00\"") ==
        "E0107 3:41 the literal has 2 hex digits, which is not what f32[1000000000000000] holds");
  for (const char* t : {"f32[9223372036854775807,9223372036854775807]", "f32[2]",
                        "f32[4294967296,4294967296,0,5]"}) {
    CHECK(error(std::string("%0: ") + t + " = constant hex\"0000000\"").find("E0107") == 0);
  }
  CHECK(error("dim B\n%0: u8[B] = constant hex\"00\"").find("E0107") == 0);
  CHECK(error("%0: u8[2] = constant hex\"00fG\"") ==
        "E0107 3:25 a literal's bytes are lower-case hex digits");
  CHECK(error("%0: b1[2] = constant hex\"0002\"") == "E0107 3:25 a byte of b1 is 00 or 01");
  CHECK(error("%0: f32[0] = constant hex\"\"") == "");
  // A splat of any size is one element.
  CHECK(error("%0: f32[1000000000000000] = constant 1") == "");
}

TEST_CASE("no bytes crash the parser") {
  std::mt19937 random(3);
  const std::string base = print(test::random_graph(42), {.places = true});
  const std::string alphabet = "%0123456789:=,.[]{}()\"\\;-+*\n abcdefx\xff\x80 _";
  size_t refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = base;
    const size_t changes = 1 + random() % 4;
    for (size_t k = 0; k < changes; ++k) {
      const size_t at = random() % text.size(), length = random() % 20;
      switch (random() % 5) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text[at] = static_cast<char>(random());
          break;
        case 3:
          text.insert(at, base, random() % base.size(), length);
          break;
        default:
          text[at] = alphabet[random() % alphabet.size()];
      }
    }
    try {
      const Graph g = parse(text);
      REQUIRE(print(parse(print(g))) == print(g));
    } catch (const Error& e) {
      ++refused;
      REQUIRE(!e.diagnostics().empty());
      REQUIRE(e.diagnostics().size() < 1000);
    }
  }
  CHECK(refused > 2000);
  for (const std::string& text :
       {std::string(200000, '('), std::string(200000, '%'),
        "bir 1\ngraph \"g\" {\n" + std::string(200000, '{'),
        in_graph("%0: f32[" + std::string(200000, '(') + "] = input \"x\""),
        in_graph(std::string(200000, 'x')), std::string(1000, '\0')}) {
    CHECK_THROWS_AS(parse(text), Error);
  }
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "dim a" + std::to_string(i) + "\n";
  CHECK(errors(in_graph(many)).size() == 100);
}

}  // namespace
}  // namespace braid::ir
