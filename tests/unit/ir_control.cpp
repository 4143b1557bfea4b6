// Branches, loops and messages: their text form, and what the interpreter makes of them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

Graph graph(const std::string& lines) { return parse("bir 2\ngraph \"g\" {\n" + lines + "}\n"); }

WideTensor ints(std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return {{DType::i32, {Dim(n)}}, {}, std::move(values)};
}
WideTensor number(int64_t x) { return {{DType::i32, {}}, {}, {x}}; }
WideTensor flag(bool x) { return {{DType::b1, {}}, {}, {x}}; }

/// Doubles x where c holds, else adds 1 to it, and counts in p how often it was the one or other.
const char* const kBranch = R"(bir 2
graph "g" {
  %0: b1[] = input "c"
  %1: i32[3] = input "x"
  %2: state i32[3] = param "p"
  %3: i32[3], %4: state i32[3] = branch %0, %1, %2 "pick" {lowering=node, why="1 us < \"2 us\""} {
    body "else" {
      %0: i32[3] = input "x"
      %1: state i32[3] = param "p"
      %2: i32[] = constant 1
      %3: i32[3] = broadcast %2 {axes=[]}
      %4: i32[3] = add %0, %3
      output "y" %4
    }
    body "then" {
      %0: i32[3] = input "x"
      %1: state i32[3] = param "p"
      %2: i32[3] = add %0, %0
      %3: i32[3] = read %1
      %4: i32[3] = add %3, %0
      %5: state i32[3] = assign %1, %4
      output "y" %2
    }
  }
  %5: i32[3] = read %4
  %6: i32[3] = sub %3, %5
  output "y" %6
}
)";

/// Fibonacci numbers up to a bound, at most T of them; a message for each.
const char* const kLoop = R"(bir 2
graph "fibonacci" {
  dim T = 8 max 100
  %0: i32[] = constant 0
  %1: i32[] = constant 1
  %2: i32[] = input "bound"
  %3: state i32[16] = param "ring" {sort=ring}
  %4: i32[], %5: i32[], %6: i32[T], %7: state i32[16] = loop %0, %1, %2, %3 "fib" {carried=2, limit=T, lowering=unroll, unroll=2, why="short"} {
    body "next" {
      %0: i32[] = input "i"
      %1: i32[] = input "a"
      %2: i32[] = input "b"
      %3: i32[] = input "bound"
      %4: state i32[16] = param "ring" {sort=ring}
      %5: i32[] = add %1, %2
      %6: state i32[16] = send %4, %5, %0 "say" {message=print, text="a + b", id=3}
      output "a" %2
      output "b" %5
      output "row" %1
    }
    condition "more" {
      %0: i32[] = input "i"
      %1: i32[] = input "a"
      %2: i32[] = input "b"
      %3: i32[] = input "bound"
      %4: state i32[16] = param "ring" {sort=ring}
      %5: b1[] = lt %1, %3
      output "more" %5
    }
  }
  output "a" %4
  output "b" %5
  output "rows" %6
}
)";

}  // namespace

TEST_CASE("bodies are printed and parsed") {
  for (const char* text : {kBranch, kLoop}) {
    const Graph g = parse(text);
    CHECK(print(g) == text);
    CHECK(print(parse(print(g, {.places = true}))) == text);
    CHECK(print(parse(print(g, {.places = true})), {.places = true}) == print(g, {.places = true}));
  }
  const Graph g = parse(kLoop, "m.bir");
  CHECK(print_op(g, OpId{4}).find('\n') == std::string::npos);
  CHECK(g.bodies[0].place(g.bodies[0].ops()[5].loc).line == 15);
  CHECK(g.bodies[0].place(g.bodies[0].outputs[1].loc).file == "m.bir");
}

TEST_CASE("a branch runs the body that is selected, and hands on versions of state") {
  const Graph g = parse(kBranch);
  TensorMap params{{"p", ints({10, 20, 30})}};
  CHECK(interpret(g, {{"c", flag(false)}, {"x", ints({1, 2, 3})}}, params).at("y").i ==
        Ints{2 - 10, 3 - 20, 4 - 30});
  CHECK(params.at("p").i == Ints{10, 20, 30});
  CHECK(interpret(g, {{"c", flag(true)}, {"x", ints({1, 2, 3})}}, params).at("y").i ==
        Ints{2 - 11, 4 - 22, 6 - 33});
  CHECK(params.at("p").i == Ints{11, 22, 33});
}

TEST_CASE("a loop carries values, stacks rows, ends by its condition or its limit, and sends") {
  Graph g = parse(kLoop);
  g.bind_dims({});
  TensorMap params;
  Observed seen;
  const auto run = [&](int64_t bound) {
    seen.messages.clear();
    return interpret(g, {{"bound", number(bound)}}, params, Rounding::wide, {}, &seen);
  };
  TensorMap out = run(4);
  CHECK(out.at("a").i == Ints{5});
  CHECK(out.at("b").i == Ints{8});
  CHECK(out.at("rows").i == Ints{0, 1, 1, 2, 3, 0, 0, 0});
  REQUIRE(seen.messages.size() == 5);
  CHECK(seen.messages[4].text == "a + b");
  CHECK(seen.messages[4].op == "say");
  CHECK(seen.messages[4].id == 3);
  CHECK(seen.messages[4].value.i == Ints{8});
  CHECK(seen.messages[4].iterations == Ints{4});
  out = run(1000);
  CHECK(out.at("a").i == Ints{21});
  CHECK(out.at("rows").i == Ints{0, 1, 1, 2, 3, 5, 8, 13});
  CHECK(seen.messages.size() == 8);
  out = run(0);
  CHECK(out.at("a").i == Ints{0});
  CHECK(out.at("rows").i == Ints(8, 0));
  CHECK(seen.messages.empty());
  CHECK(params.empty());
}

TEST_CASE("an i32 selects the nearest body") {
  const Graph g = graph(R"(
    %0: i32[] = input "i"
    %1: i32[] = branch %0 {
      body "a" {
        %0: i32[] = constant 10
        output "y" %0
      }
      body "b" {
        %0: i32[] = constant 11
        output "y" %0
      }
      body "c" {
        %0: i32[] = constant 12
        output "y" %0
      }
    }
    output "y" %1
  )");
  TensorMap params;
  const int64_t expected[] = {10, 10, 10, 11, 12, 12, 12};
  for (int64_t i = -2; i < 5; ++i) {
    CHECK(interpret(g, {{"i", number(i)}}, params).at("y").i == Ints{expected[i + 2]});
  }
  CHECK(interpret(g, {{"i", number(INT32_MIN)}}, params).at("y").i == Ints{10});
  CHECK(interpret(g, {{"i", number(INT32_MAX)}}, params).at("y").i == Ints{12});
}

TEST_CASE("the effect form: a flag, locals that bodies assign, and a handle that selects") {
  // s += i and a swap of a and b, n times; then what a handle selects.
  const Graph g = graph(R"(
    %0: i32[] = input "n"
    %1: state b1[] = param "flag" {sort=handle}
    %2: state i32[] = param "i" {sort=local}
    %3: state i32[] = param "s" {sort=local}
    %4: i32[] = constant 0
    %5: b1[] = lt %4, %0
    %6: state b1[] = assign %1, %5
    %7: state i32[] = assign %2, %4
    %8: state i32[] = assign %3, %4
    %9: state b1[], %10: state i32[], %11: state i32[] = loop %6, %0, %7, %8 {lowering=node} {
      body "b" {
        %0: state b1[] = param "flag" {sort=handle}
        %1: i32[] = input "n"
        %2: state i32[] = param "i" {sort=local}
        %3: state i32[] = param "s" {sort=local}
        %4: i32[] = read %2
        %5: i32[] = read %3
        %6: i32[] = add %5, %4
        %7: state i32[] = assign %3, %6
        %8: i32[] = constant 1
        %9: i32[] = add %4, %8
        %10: state i32[] = assign %2, %9
        %11: b1[] = lt %9, %1
        %12: state b1[] = assign %0, %11
      }
    }
    %12: i32[] = read %11
    %13: state i32[] = param "which" {sort=handle}
    %14: state i32[] = assign %13, %12
    %15: state i32[] = param "t" {sort=local}
    %16: state i32[] = branch %14, %15 {lowering=node} {
      body "few" {
        %0: state i32[] = param "t" {sort=local}
        %1: i32[] = constant 100
        %2: state i32[] = assign %0, %1
      }
      body "many" {
        %0: state i32[] = param "t" {sort=local}
        %1: i32[] = constant 200
        %2: state i32[] = assign %0, %1
      }
    }
    %17: i32[] = read %16
    output "s" %12
    output "t" %17
  )");
  CHECK(print(parse(print(g))) == print(g));
  TensorMap params;
  for (int64_t n : {0, 1, 2, 5}) {
    const TensorMap out = interpret(g, {{"n", number(n)}}, params);
    CHECK(out.at("s").i == Ints{n * (n - 1) / 2});
    CHECK(out.at("t").i == Ints{n < 2 ? 100 : 200});
  }
  CHECK(params.empty());
}

TEST_CASE("what a kernel's body does to handles, locals and the ring") {
  const Graph g = graph(R"(
    %0: i32[] = input "x"
    %1: state i32[] = param "handle" {sort=handle}
    %2: state i32[] = param "t" {sort=local}
    %3: state i32[16] = param "ring" {sort=ring}
    %4: i32[] = read %2
    %5: i32[] = add %4, %0
    %6: state i32[] = assign %2, %5
    %7: state i32[] = assign %1, %5
    %8: state i32[16] = send %3, %5 {message=check, text="zero", ends_launch=true}
    %9: state i32[16] = send %8, %4, %0, %4 {message=item, text="t"}
  )");
  TensorMap params{{"t", number(4)}};
  Observed seen;
  interpret(g, {{"x", number(3)}}, params, Rounding::wide, {}, &seen);
  CHECK(params.at("t").i == Ints{7});
  CHECK(params.at("handle").i == Ints{7});
  CHECK(params.size() == 2);
  REQUIRE(seen.messages.size() == 2);
  CHECK(seen.messages[0].kind == MessageKind::check);
  CHECK(seen.messages[0].value.i == Ints{7});
  CHECK(seen.messages[1].iterations == Ints{3, 4});
  interpret(g, {{"x", number(-7)}}, params, Rounding::wide, {}, &seen);
  CHECK(params.at("handle").i == Ints{0});
  CHECK(seen.messages.size() == 3);  // the check holds
}
