#include <doctest/doctest.h>

#include <algorithm>

#include "control_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using ir::OpKind;

ir::Graph graph(const std::string& lines) {
  return ir::parse("bir 2\ngraph \"g\" {\n" + lines + "}\n");
}

size_t count(const ir::Graph& g, OpKind kind) {
  return static_cast<size_t>(std::count_if(g.ops().begin(), g.ops().end(),
                                           [&](const ir::Op& o) { return o.kind == kind; }));
}

ir::Graph checked(const ir::Graph& g) {
  ir::Graph simple = simplify(g);
  INFO(ir::print(simple));
  CHECK(ir::verify(simple).empty());
  CHECK(ir::print(simplify(simple)) == ir::print(simple));
  for (uint64_t seed : {1, 2, 3}) CHECK(run_text(simple, seed) == run_text(g, seed));
  return simple;
}

/// A branch on "c" with arguments x and the state p; `then` are the lines of its second body.
ir::Graph branch(const std::string& then, const std::string& outputs, const std::string& tail) {
  const std::string head = R"(
        %0: f32[4] = input "x"
        %1: state f32[4] = param "p"
)";
  return graph(R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: state f32[4] = param "p"
    %3: f32[4], %4: state f32[4] = branch %0, %1, %2 "pick" {
      body "else" {)" +
               head + R"(        output "y" %0
      }
      body "then" {)" +
               head + then + outputs + "      }\n    }\n" + tail);
}

}  // namespace

TEST_CASE("simplify works in bodies and keeps their arguments") {
  const ir::Graph g = checked(branch(R"(
        %2: f32[] = constant 1
        %3: f32[4] = broadcast %2 {axes=[]}
        %4: f32[4] = mul %0, %3
        %5: f32[4] = exp %4
        %6: f32[4] = exp %0
        %7: f32[4] = add %5, %6
        %8: f32[4] = sin %7
)",
                                     "output \"y\" %7\n", "output \"y\" %3\n"));
  REQUIRE(count(g, OpKind::branch) == 1);
  const ir::Graph& body = g.bodies[1];
  CHECK(body.ops().size() == 4);  // x, p, exp, add
  CHECK(body.ops()[1].kind == OpKind::param);
}

TEST_CASE("simplify drops branches and loops that nobody needs, and only those") {
  const std::string writes = R"(
        %2: f32[4] = exp %0
        %3: state f32[4] = assign %1, %2
)";
  const std::string y = "output \"y\" %2\n";
  // State that the branch leaves as it is goes past it: also to what reads or assigns it later.
  CHECK(count(checked(branch("%2: f32[4] = exp %0\n", y, "output \"y\" %1\n")), OpKind::branch) ==
        0);
  const ir::Graph past = checked(branch("%2: f32[4] = exp %0\n", y,
                                        "%5: f32[4] = read %4\n"
                                        "%6: state f32[4] = assign %4, %1\n"
                                        "%7: f32[4] = read %6\n"
                                        "output \"y\" %5\n"
                                        "output \"z\" %7\n"));
  CHECK(count(past, OpKind::branch) == 0);
  CHECK(count(past, OpKind::assign) == 1);
  CHECK(count(checked(branch("%2: f32[4] = exp %0\n", y, "output \"y\" %3\n")), OpKind::branch) ==
        1);
  CHECK(count(checked(branch(writes, y, "output \"y\" %1\n")), OpKind::branch) == 1);

  const std::string loop = R"(
    %0: f32[4] = input "x"
    %1: state i32[16] = param "ring" {sort=ring}
    %2: f32[4], %3: state i32[16] = loop %0, %1 "steps" {carried=1, limit=3} {
      body "step" {
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: state i32[16] = param "ring" {sort=ring}
        %3: f32[4] = sin %1
        SEND
        output "x" %3
      }
    }
    output "y" %0
)";
  const auto with = [&](const std::string& line) {
    std::string text = loop;
    return text.replace(text.find("SEND"), 4, line);
  };
  const ir::Graph silent = checked(graph(with("")));
  CHECK(silent.ops().size() == 1);  // nor is there a ring
  CHECK(
      count(checked(graph(with("%4: state i32[16] = send %2, %3, %0 {message=print, text=\"x\"}"))),
            OpKind::loop) == 1);
}

TEST_CASE("simplify keeps host ops with side effects in bodies, and drops pure ones") {
  const auto text = [](const std::string& pure) {
    return branch("%2: f32[4] = host %0 \"ask\" {function=\"ask\"" + pure + "}\n",
                  "output \"y\" %2\n", "output \"y\" %1\n");
  };
  CHECK(count(simplify(text("")), OpKind::branch) == 1);
  CHECK(count(simplify(text(", pure=true")), OpKind::branch) == 0);
}

TEST_CASE("simplify drops variables of the program that nobody reads, not those that bodies give") {
  const ir::Graph g = checked(graph(R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: state f32[4] = param "dead" {sort=local}
    %3: state f32[4] = assign %2, %1
    %4: state f32[4] = param "alive" {sort=local}
    %5: state f32[4] = branch %0, %1, %4 "pick" {lowering=predicate} {
      body "else" {
        %0: f32[4] = input "x"
        %1: state f32[4] = param "y" {sort=local}
        %2: f32[4] = exp %0
        %3: state f32[4] = assign %1, %2
      }
      body "then" {
        %0: f32[4] = input "x"
        %1: state f32[4] = param "y" {sort=local}
        %2: f32[4] = sin %0
        %3: state f32[4] = assign %1, %2
        %4: state f32[4] = param "own" {sort=local}
        %5: state f32[4] = assign %4, %2
      }
    }
    %6: f32[4] = read %5
    output "y" %6
  )"));
  CHECK(count(g, OpKind::param) == 1);
  CHECK(count(g.bodies[1], OpKind::param) == 1);
  CHECK(count(g.bodies[1], OpKind::assign) == 1);
}

TEST_CASE("simplify merges no two branches, nor sends") {
  const ir::Graph g = checked(graph(R"(
    %0: f32[4] = input "x"
    %1: state i32[16] = param "ring" {sort=ring}
    %2: state i32[16] = send %1, %0 {message=print, text="x"}
    %3: state i32[16] = send %2, %0 {message=print, text="x"}
    output "x" %0
  )"));
  CHECK(count(g, OpKind::send) == 2);
}
