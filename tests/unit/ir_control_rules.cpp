// What is refused of branches, loops, messages and the params that are none of the Store's.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ir/interpret.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"
#include "random_control.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

using V = std::vector<std::string>;

/// "CODE line:column message" of each error; the lines begin with line 1.
V errors(const std::string& lines) {
  V all;
  try {
    parse("bir 2 \ngraph \"g\" {\n" + lines + "\n}\n", "g.bir");
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics()) {
      CHECK(d.place.file == "g.bir");
      all.push_back(d.code + " " + std::to_string(d.place.line - 2) + ":" +
                    std::to_string(d.place.column) + " " + d.message);
    }
  }
  return all;
}
std::string error(const std::string& lines) {
  const V all = errors(lines);
  return all.empty() ? "" : all[0];
}

const std::string kHead = R"(%0: b1[] = input "c"
%1: i32[] = input "i"
%2: f32[4] = input "x"
%3: state f32[4] = param "p"
%4: state f32[4] = param "t" {sort=local}
%5: state b1[] = param "h" {sort=handle}
%6: state i32[16] = param "ring" {sort=ring}
)";  // line 8 follows

/// The error of a branch (on operands and between braces) after the head.
std::string branch(const std::string& results, const std::string& operands,
                   const std::string& bodies, const std::string& attributes = "") {
  return error(kHead + results + " = branch " + operands + attributes + " {\n" + bodies + "\n}");
}
std::string loop(const std::string& results, const std::string& operands,
                 const std::string& bodies) {
  return error(kHead + results + " = loop " + operands + " {\n" + bodies + "\n}");
}
std::string body(const std::string& lines, const std::string& name = "body") {
  return name + " \"b\" {\n" + lines + "\n}\n";
}
const std::string kX = "%0: f32[4] = input \"x\"\n";
const std::string kI = "%0: i32[] = input \"i\"\n";
const std::string kX1 = "%1: f32[4] = input \"x\"\n";

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("branches that are refused") {
  const std::string same = body(kX + "output \"y\" %0");
  CHECK(branch("%7: f32[4]", "%0, %2", same + same) == "");
  CHECK(branch("%7: f32[4]", "%1, %2", same) == "");
  CHECK(branch("%7: f32[4]", "%0, %2", same) ==
        "E0301 8:14 branch: a b1[] selects between two bodies");
  CHECK(branch("%7: f32[4]", "%2, %2", same + same) ==
        "E0301 8:14 branch: what selects must be b1[] or i32[], not f32[4]");
  CHECK(branch("%7: i8[0]", "%1", "") == "E0301 8:13 branch: there are no bodies");
  CHECK(branch("%7: f32[4]", "%0, %2", same + body(kX)) ==
        "E0301 8:14 branch: its bodies give 1 and 0 values");
  has(branch("%7: f32[4]", "%0, %2", same + body(kX + "%1: f32[] = constant 1\noutput \"y\" %1")),
      "the types of result 0 differ: f32[4] and f32[]");
  has(branch("%7: f32[4]", "%0", same + same), "a body's argument 'x' has no operand");
  has(branch("%7: f32[4]", "%0, %2, %2", same + same), "a body has no argument for operand 2");
  has(branch("%7: f32[4]", "%0, %1", same + same),
      "argument 'x' of a body and its operand differ: f32[4] and i32[]");
  has(branch("%7: f32[4], %8: state f32[4]", "%0, %3", same + same),
      "operand 1 is a param, the body's argument 'x' is a value");
  has(branch("%7: f32[4]", "%0, %2",
             same + body("%0: state f32[4] = param \"x\"\n%1: f32[4] = read %0\noutput \"y\" %1")),
      "operand 1 is a value, the body's argument 'x' is a param");
  const std::string local = body("%0: state f32[4] = param \"t\" {sort=local}");
  has(branch("%7: state f32[4]", "%0, %3", local + local),
      "argument 't' is not the sort of param that operand 1 is");
  const std::string runtime = body("%0: i32[] = input \"n\" {scalar=1}\noutput \"y\" %0");
  has(branch("%7: i32[]", "%1, %1", runtime), "argument 'n' of a body cannot be a runtime scalar");
  const std::string store = body(kX + "%1: state f32[4] = param \"q\"\noutput \"y\" %0");
  has(branch("%7: f32[4]", "%0, %2", store + store), "a body's argument 'q' has no operand");
  has(branch("%7: f32[4]", "%0, %2", same + same, " {lowering=unroll}"),
      "the lowering unroll is for loops");
  has(branch("%7: f32[4]", "%0, %2", same + same, " {lowering=fast}"),
      "E0101 8:38 expected lowering to be auto, select, predicate, node, unroll or host");
  CHECK(branch("%7: f32[4]", "%0, %2", same + same, " {graph=false}") ==
        "E0301 8:14 branch is no kernel");
  has(branch("%7: f32[4]", "%3, %2", same + same), "what selects must be");
  CHECK(error("%0: state b1[] = param \"p\"\n%1: i8[0] = branch %0 {\n" + body("") + body("") +
              "}") == "E0301 2:13 branch: a param cannot select: read it");
  has(branch("%7: f32[4]", "%5, %2", same + same), "with a handle it gives no values");
}

TEST_CASE("loops that are refused") {
  const std::string good = body(kI + kX1 + "output \"x\" %1");
  CHECK(loop("%7: f32[4]", "%2 {carried=1, limit=3}", good) == "");
  has(loop("%7: f32[4]", "%2 {carried=1}", good),
      "it needs a condition, a limit, or the state of a flag");
  has(loop("%7: f32[4]", "%2 {carried=1, limit=2147483648}", good),
      "the limit 2147483648 is above");
  has(loop("%7: f32[4]", "%2 {carried=2, limit=3}", good),
      "2 carried values, but 1 operands and 1 outputs of the body");
  has(loop("%7: f32[4]", "%2 {carried=1, limit=3}", body(kX + "output \"x\" %0")),
      "the first argument of a body must be the number of the iteration, i32[]");
  has(loop("%7: f32[4]", "%2 {carried=1, limit=3}", body(kI + kX1 + "output \"x\" %0")),
      "carried value 0 before and after an iteration differ: i32[] and f32[4]");
  const std::string state =
      body(kI + "%1: state f32[4] = param \"p\"\n%2: f32[4] = read %1\noutput \"x\" %2");
  has(loop("%7: f32[4]", "%3 {carried=1, limit=3}", state), "params are not carried");
  const auto with = [&](const std::string& condition) {
    return loop("%7: f32[4]", "%2 {carried=1, limit=3}", good + body(condition, "condition"));
  };
  CHECK(with(kI + kX1 + "%2: b1[] = lt %0, %0\noutput \"more\" %2") == "");
  has(with(kI + kX1 + "output \"more\" %0"), "its condition must give one b1[]");
  has(with(kI + kX1), "its condition must give one b1[]");
  has(with(kI + "%1: b1[] = lt %0, %0\noutput \"more\" %1"),
      "a body has no argument for operand 0");
  const std::string silent = body(kI + "%1: state i32[16] = param \"r\" {sort=ring}\n");
  const std::string asks = kI + "%1: state i32[16] = param \"r\" {sort=ring}\n";
  const std::string truth = "%8: b1[] = lt %0, %0\noutput \"more\" %8";
  CHECK(loop("%7: state i32[16]", "%6 {limit=3}", silent + body(asks + truth, "condition")) == "");
  has(loop("%7: state i32[16]", "%6 {limit=3}",
           silent + body(asks + "%2: state i32[16] = send %1, %0\n" + truth, "condition")),
      "its condition writes a param");
  const std::string row = body(kI + kX1 + "output \"x\" %1\noutput \"row\" %1");
  CHECK(loop("%7: f32[4], %8: f32[3,4]", "%2 {carried=1, limit=3}", row) == "");
  has(loop("%7: f32[4], %8: f32[3,4]", "%2 {carried=1}",
           row + body(kI + kX1 + "%2: b1[] = lt %0, %0\noutput \"more\" %2", "condition")),
      "stacked rows need a limit");
  has(loop("%7: i8[0]", "%2 {limit=3, lowering=select}", body(kI + kX1)),
      "the lowering select is for branches");
  const std::string flag = body("%0: state b1[] = param \"p\"");
  CHECK(error("%0: state b1[] = param \"p\"\n%1: state b1[] = loop %0 {\n" + flag + "}") ==
        "E0301 2:18 loop: its flag must be a local or a handle");
  has(error("%0: state b1[] = param \"h\" {sort=handle}\n%1: b1[] = constant 1\n"
            "%2: state b1[] = assign %0, %1\n%3: i32[], %4: state b1[] = loop %2 {\n" +
            body("%0: state b1[] = param \"h\" {sort=handle}\n%1: i32[] = constant 2\n"
                 "output \"y\" %1") +
            "}"),
      "with a flag it gives no values");
}

TEST_CASE("declared results must be those of the bodies") {
  const std::string same = body(kX + "output \"y\" %0");
  CHECK(branch("%7: f32[4], %8: f32[4]", "%0, %2", same + same) ==
        "E0301 8:26 branch has 1 result, not 2");
  CHECK(branch("%7: f32[3]", "%0, %2", same + same) ==
        "E0301 8:5 the result of branch is f32[4], not f32[3]");
  CHECK(branch("%7: state f32[4]", "%0, %2", same + same) ==
        "E0301 8:5 the result of branch is a tensor, not a state");
  const std::string kept = body("%0: state f32[4] = param \"p\"\n");
  CHECK(branch("%7: state f32[4]", "%0, %3", kept + kept) == "");
  CHECK(branch("%7: f32[4]", "%0, %3", kept + kept) ==
        "E0301 8:5 the result of branch is a state: write 'state' before its type");
  CHECK(branch("%7: i8[0]", "%0, %2", body(kX) + body(kX)) == "");
}

TEST_CASE("errors in bodies have their places, and none follows from another") {
  const V all = errors(kHead +
                       "%7: f32[4] = branch %0, %2 {\n"
                       "  body \"a\" {\n"
                       "    %0: f32[4] = input \"x\"\n"
                       "    %1: f32[4] = exq %0\n"
                       "    output \"y\" %1\n"
                       "  }\n"
                       "  bdy \"b\" {\n"
                       "    %0: f99[4] = input \"x\"\n"
                       "  }\n"
                       "}\n"
                       "%8: f32[4] = exp %7\n"
                       "%9: f32[4] = brnch %0, %2 {axis=1} {\n"
                       "  body \"a\" {\n"
                       "    %0: f99[4] = input \"x\"\n"
                       "  }\n"
                       "}\n"
                       "%10: f32[4] = exp %2 {\n"
                       "  body \"a\" {\n"
                       "  }\n"
                       "}\n"
                       "%11: f32[4] = exp %99\n");
  CHECK(all == V{"E0202 11:18 unknown op 'exq'", "E0101 14:3 expected 'body' or 'condition'",
                 "E0202 19:14 unknown op 'brnch'", "E0101 24:15 exp has no bodies",
                 "E0204 28:19 %99 is used before it is defined"});
  CHECK(error(kHead + "%7: f32[4] = loop %2 {limit=2} {\n" + body(kI) + body(kI) + "}") ==
        "E0101 13:1 a loop has one body");
  CHECK(error(kHead + "%7: f32[4] = loop %2 {limit=2} {\n" + body(kI, "condition") + "}") ==
        "E0101 9:1 a condition follows the body of a loop");
  CHECK(error(kHead + "%7: i8[0] = branch %1 {\nbody {\n}\n}")
            .find("E0101 9:6 expected the body's name") == 0);
  CHECK(error("%0: i8[0] = branch %1 {\nbody \"b\" {") ==
        "E0204 1:20 %1 is used before it is defined");
  CHECK(error("%0: i32[] = constant 1\n%1: i8[0] = branch %0 {\nbody \"b\" {") ==
        "E0101 5:1 expected '}'");
  CHECK(error("%0: i32[] = constant 1\n%1: i8[0] = branch %0 {limit=3} {\n}") ==
        "E0102 2:24 this op has no attribute 'limit'");
  CHECK(error("%0: i32[] = constant 1\n%1: i32[] = loop %0 {limit=B} {\n}").find("E0403 2:28") ==
        0);
  CHECK(error("%0: i32[] = constant 1\n%1: i32[] = loop %0 {carried=-1, limit=2} {\n}") ==
        "E0302 2:30 the number of carried values lies between 0 and 2^32 - 1");
}

TEST_CASE("bodies nest 64 deep, and deeper text is refused without being read") {
  const auto nested = [](int depth) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) {
      open += "%0: i32[] = constant 1\n%1: i8[0] = branch %0 {\nbody \"b\" {\n";
      close += "}\n}\n";
    }
    return open + close;
  };
  CHECK(errors(nested(64)) == V{});
  const Graph g = parse("bir 2\ngraph \"g\" {\n" + nested(64) + "}\n");
  CHECK(print(parse(print(g))) == print(g));
  TensorMap params;
  interpret(g, {}, params);
  CHECK(interpret_bytes(g) > 0);
  CHECK(error(nested(65)) == "E0302 195:10 bodies nest at most 64 deep");
  CHECK(errors(nested(65)).size() == 1);
  CHECK(errors(nested(100'000)).size() == 1);
  Graph deep = g;
  Graph around("around");
  around.bodies.push_back(std::move(deep));
  const ValueId one = around.splat({DType::i32, {}}, 1);
  around.add({OpKind::branch, BranchAttr{{0}}, {one}});
  const auto found = verify(around);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "E0907");
  CHECK(found[0].message == "bodies nest more than 64 deep");
}

TEST_CASE("a body belongs to one op, and its dims are the graph's") {
  Graph g;
  g.bodies.emplace_back("a");
  const ValueId one = g.splat({DType::i32, {}}, 1);
  CHECK(verify(g).at(0).code == "E0907");
  CHECK(g.try_add({OpKind::branch, BranchAttr{{1}}, {one}}).error ==
        "branch: there is no such body");
  g.add({OpKind::branch, BranchAttr{{0}}, {one}});
  CHECK(verify(g).empty());
  Graph twice = g;
  twice.add({OpKind::branch, BranchAttr{{0}}, {one}});
  CHECK(verify(twice).at(0).message == "body 0 belongs to two ops: give each a copy");
  Graph gone = g;
  gone.bodies.clear();
  CHECK(verify(gone).at(0).message == "branch has a body that is not there");
  Graph dims = g;
  dims.bodies[0].dims.symbol("B", 3);
  CHECK(verify(dims).at(0).message == "the dim 'B' of a body is none of the graph's around it");
  dims.add({OpKind::branch, BranchAttr{{0}}, {one}});
  CHECK(dims.dims.symbols().at(0).name == "B");
}

TEST_CASE("a changed op is typed again, its bodies too") {
  const std::string text = "bir 2\ngraph \"g\" {\n" + kHead + "%7: f32[4] = branch %0, %2 {\n" +
                           body(kX + "%1: f32[4] = exp %0\noutput \"y\" %1") +
                           body(kX + "output \"y\" %0") + "}\n}\n";
  const Graph good = parse(text);
  Graph g = good;
  g.bodies[1].value(ValueId{0}).type.dtype = DType::f16;
  CHECK(verify(g).at(0).message.find("argument 'x' of a body and its operand differ") !=
        std::string::npos);
  g = good;
  g.bodies[0].value(ValueId{1}).type.dtype = DType::f16;
  CHECK(verify(g).at(0).code == "E0905");
  CHECK(verify(g).size() == 1);
  g = good;
  g.value(ValueId{7}).type.dtype = DType::f16;
  CHECK(verify(g).at(0).message == "result 0 of branch is f32[4]");
  g = good;
  g.value(ValueId{7}).state = true;
  CHECK(verify(g).at(0).message == "result 0 of branch is f32[4]");
  g = good;
  g.value(ValueId{4}).param = OpId{3};
  CHECK(verify(g).at(0).message == "%4 is a version of another param than it says");
  g = good;
  g.bodies[0].outputs[0].value = ValueId{99};
  CHECK(verify(g).at(0).code == "E0901");
  g = good;
  g.bodies[0].outputs.clear();
  CHECK(verify(g).at(0).message == "branch: its bodies give 0 and 1 values");
}

TEST_CASE("each version is replaced once, by whatever op") {
  const std::string kept = body("%0: state f32[4] = param \"p\"\n");
  const std::string region = "%7: state f32[4] = branch %0, %3 {\n" + kept + kept + "}\n";
  CHECK(error(kHead + region + "%8: state f32[4] = assign %7, %2") == "");
  has(error(kHead + region + "%8: state f32[4] = assign %3, %2"), "E0903 18:1");
  has(error(kHead + "%8: state f32[4] = assign %3, %2\n" + region), "E0903 9:1");
  has(error(kHead + region + "%8: state f32[4] = loop %3 {limit=2} {\n" +
            body(kI + "%1: state f32[4] = param \"p\"") + "}"),
      "E0903 18:1");
  const std::string two = body("%0: state f32[4] = param \"p\"\n%1: state f32[4] = param \"q\"");
  has(error(kHead + "%7: state f32[4], %8: state f32[4] = branch %0, %3, %3 {\n" + two + two + "}"),
      "E0903 8:1");
  has(error(kHead + "%7: state i32[16] = send %6, %2\n%8: state i32[16] = send %6, %2"),
      "E0903 9:1");
  CHECK(error(kHead + region + "%8: f32[4] = read %3") == "");
}

TEST_CASE("what each sort of param is for") {
  CHECK(error(kHead + "%7: b1[] = read %5").find("E0908 8:1 read takes no handle") == 0);
  CHECK(error(kHead + "%7: i32[16] = read %6").find("E0908 8:1 read takes no ring") == 0);
  CHECK(error(kHead + "%7: i32[16] = constant 1\n%8: state i32[16] = assign %6, %7")
            .find("E0908 9:1 assign takes no ring") == 0);
  CHECK(error(kHead + "%7: state b1[] = update %5, %0").find("E0908 8:1 update takes no handle") ==
        0);
  CHECK(error("%0: state i32[16] = param \"p\"\n%1: i32[] = constant 1\n"
              "%2: state i32[16] = send %0, %1")
            .find("E0908 3:1 send takes the ring") == 0);
  CHECK(error(kHead + "%7: state i32[16] = param \"r\" {sort=ring}") ==
        "E0908 8:1 there are two rings");
  CHECK(error("%0: state i32[8] = param \"r\" {sort=ring}") ==
        "E0301 1:20 param: the ring is i32[16]");
  CHECK(error("%0: state f32[] = param \"r\" {sort=handle}") ==
        "E0301 1:19 param: a handle is b1[] or i32[]");
  CHECK(error("%0: state f32[] = param \"r\" {init=ones, sort=local}") ==
        "E0102 1:41 only a param of the Store has init and scale");
  CHECK(error("%0: state f32[] = param \"r\" {sort=local, init=ones}") ==
        "E0102 1:42 this op has no attribute 'init'");
  CHECK(error("%0: state f32[] = param \"r\" {sort=global}") ==
        "E0101 1:35 expected sort to be local, handle or ring");
  const auto send = [&](const std::string& rest) {
    return error(kHead + "%7: state i32[16] = send " + rest);
  };
  CHECK(send("%6, %2, %1, %1 {message=print, text=\"x\"}") == "");
  has(send("%6, %2 {message=check, text=\"finite\"}"), "a check takes the number of elements");
  has(send("%6, %2, %2 {text=\"x\"}"), "must be the number of an iteration");
  has(send("%3, %2 {text=\"x\"}"), "the first operand must be the ring");
  has(send("%6, %2 {message=shout}"), "expected message to be print, item or check");
}

TEST_CASE("a local is assigned before it is read") {
  const std::string t = "%0: state f32[4] = param \"t\" {sort=local}\n";
  const std::string reads = t + "%1: f32[4] = read %0\n";
  const std::string writes = t + "%1: f32[4] = constant 1\n%2: state f32[4] = assign %0, %1\n";
  const std::string nothing = "%7: i8[0] = branch %1 {\n" + body("") + "}\n";
  const auto region = [](const std::string& version, const std::string& a, const std::string& b) {
    return "%9: state f32[4] = branch %0, " + version + " {\n" + body(a) + body(b) + "}\n";
  };
  const std::string read_after = "%10: f32[4] = read %9\n";
  const std::string assigned = "%8: state f32[4] = assign %4, %2\n";
  const char* const kWhy = "needs the value of 't', which nothing has assigned";

  has(error(kHead + nothing + "%8: f32[4] = read %4"), kWhy);
  CHECK(error(kHead + "%8: f32[4] = read %4") == "");  // may be a kernel's body
  CHECK(error(kHead + nothing + assigned + "%9: f32[4] = read %8") == "");
  has(error(kHead + region("%4", reads, writes)), std::string("E0908 11:1 read ") + kWhy);
  CHECK(error(kHead + assigned + region("%8", reads, writes) + read_after) == "");
  CHECK(error(kHead + region("%4", writes, writes) + read_after) == "");
  CHECK(error(kHead + region("%4", t, writes) + read_after) == "");  // who knows
  has(error(kHead + region("%4", t, t) + read_after), std::string("E0908 18:1 read ") + kWhy);
  // A body's own.
  has(error(kHead + "%7: i8[0] = branch %1 {\n" + body(reads) + "}"), kWhy);
  CHECK(error(kHead + "%7: i8[0] = branch %1 {\n" + body(writes + "%3: f32[4] = read %2") + "}") ==
        "");
  // A loop's body runs or does not; in its first iteration it finds what was there before.
  const auto loops = [&](const std::string& version, const std::string& lines) {
    return "%9: state f32[4] = loop " + version + " {limit=2} {\n" + body(lines) + "}\n";
  };
  const std::string t1 = "%0: i32[] = input \"i\"\n%1: state f32[4] = param \"t\" {sort=local}\n";
  const std::string reads1 = t1 + "%2: f32[4] = read %1\n";
  const std::string writes1 = t1 + "%2: f32[4] = constant 1\n%3: state f32[4] = assign %1, %2\n";
  has(error(kHead + loops("%4", reads1)), kWhy);
  CHECK(error(kHead + assigned + loops("%8", reads1)) == "");
  CHECK(error(kHead + loops("%4", writes1) + read_after) == "");
  has(error(kHead + loops("%4", t1) + read_after), kWhy);
  // What decides.
  has(error(kHead + "%7: i8[0] = branch %5 {\n" + body("") + body("") + "}"),
      "branch needs the value of 'h', which nothing has assigned");
  has(error(kHead + "%7: state b1[] = loop %5 {\n" +
            body("%0: state b1[] = param \"h\" {sort=handle}") + "}"),
      "loop needs the value of 'h', which nothing has assigned");
}

TEST_CASE("a local without a value is NaN, or bytes of 0xab") {
  const Graph g = parse(R"(bir 2
graph "g" {
  %0: state f32[2] = param "a" {sort=local}
  %1: state i32[2] = param "b" {sort=local}
  %2: state u8[] = param "c" {sort=local}
  %3: f32[2] = read %0
  %4: i32[2] = read %1
  %5: u8[] = read %2
  output "a" %3
  output "b" %4
  output "c" %5
})");
  TensorMap params;
  const TensorMap out = interpret(g, {}, params);
  CHECK(std::isnan(out.at("a").f.at(1)));
  CHECK(out.at("b").i == std::vector<int64_t>(2, static_cast<int32_t>(0xabababab)));
  CHECK(out.at("c").i == std::vector<int64_t>{0xab});
}

TEST_CASE("steps are counted, so that a loop without an end ends") {
  const Graph g = parse(R"(bir 2
graph "g" {
  %0: i32[] = constant 0
  %1: i32[] = loop %0 {carried=1} {
    body "b" {
      %0: i32[] = input "i"
      %1: i32[] = input "x"
      output "x" %0
    }
    condition "always" {
      %0: i32[] = input "i"
      %1: i32[] = input "x"
      %2: b1[] = eq %0, %0
      output "more" %2
    }
  }
  output "x" %1
})");
  TensorMap params;
  Observed seen;
  seen.steps = 10'000;
  try {
    interpret(g, {}, params, Rounding::wide, {}, &seen);
    FAIL("it has ended");
  } catch (const Error& e) {
    CHECK(e.diagnostics().at(0).code == "E0807");
    CHECK(e.diagnostics().at(0).place.line > 3);
  }
  CHECK(seen.steps == 0);
}

TEST_CASE("bodies count in what the interpreter holds") {
  const auto bytes = [](const std::string& inside) {
    return interpret_bytes(
        parse("bir 2\ngraph \"g\" {\n%0: i32[] = input \"i\"\n%1: f32[100] = "
              "input \"x\"\n%2: f32[100] = branch %0, %1 {\n" +
              body("%0: f32[100] = input \"x\"\n" + inside + "output \"y\" %0") +
              "}\noutput \"y\" %2\n}\n"));
  };
  CHECK(bytes("") == 8 * (1 + 100 + 100));
  CHECK(bytes("%1: f32[1000] = constant 1\n") == 8 * (1 + 100 + 100 + 1000));
}

TEST_CASE("changed text of random graphs is refused with a place, or kept") {
  std::mt19937 random(77);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  size_t accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    test::RandomControlOptions o;
    o.ops = 6;
    o.depth = 2;
    o.symbolic = seed % 2 == 0;
    const std::string text = print(test::random_control(seed, o));
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    for (int change = 0; change < 20; ++change) {
      std::vector<std::string> now = lines;
      const size_t at = 2 + below(now.size() - 2), from = 2 + below(now.size() - 2);
      std::string& line = now[at];
      switch (below(5)) {
        case 0:
          now.erase(now.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 1:
          line = now[from];
          break;
        case 2:
          now.insert(now.begin() + static_cast<std::ptrdiff_t>(at), now[from]);
          break;
        case 3:
          if (!line.empty()) line.erase(below(line.size()), 1);
          break;
        default:
          if (!line.empty()) line[below(line.size())] = "0123456789{}[],%=x"[below(18)];
      }
      std::string changed;
      for (const std::string& l : now) changed += l + "\n";
      try {
        const Graph g = parse(changed);
        ++accepted;
        INFO(changed);
        REQUIRE(verify(g).empty());
        REQUIRE(print(parse(print(g))) == print(g));
      } catch (const Error& e) {
        ++refused;
        for (const Diagnostic& d : e.diagnostics()) REQUIRE(d.place.line > 0);
      }
    }
  }
  CHECK(accepted > 200);
  CHECK(refused > 1000);
}
