#include <doctest/doctest.h>

#include <algorithm>

#include "control_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using ir::Lowering;
using ir::OpKind;

ir::Graph graph(const std::string& lines) {
  return ir::parse("bir 2\ngraph \"g\" {\n" + lines + "}\n");
}

size_t count(const ir::Graph& g, OpKind kind) {
  return static_cast<size_t>(std::count_if(g.ops().begin(), g.ops().end(),
                                           [&](const ir::Op& o) { return o.kind == kind; }));
}

const ir::Op& the(const ir::Graph& g, OpKind kind) {
  REQUIRE(count(g, kind) == 1);
  return *std::find_if(g.ops().begin(), g.ops().end(),
                       [&](const ir::Op& o) { return o.kind == kind; });
}

struct Made {
  ir::Graph graph;
  std::vector<Dissolved> dissolved;
};

/// Simplifies and lowers, and checks that the graph is sound and computes what it did.
Made lowered(const ir::Graph& g, const Options& options = {}) {
  Made made{simplify(g), {}};
  lower_control(made.graph, options, made.dissolved);
  INFO(ir::print(made.graph));
  CHECK(ir::verify(made.graph).empty());
  for (uint64_t seed : {1, 2, 3}) CHECK(run_text(made.graph, seed) == run_text(g, seed));
  return made;
}

Options with_branches(Lowering l) {
  Options o;
  o.branches = l;
  return o;
}
Options with_loops(Lowering l, int unroll = 0) {
  Options o;
  o.loops = l;
  o.unroll = unroll;
  return o;
}

/// y = c ? exp(x) * w : x, p += 1 where c holds; x also comes out as it is on both sides.
ir::Graph one_branch(const std::string& attributes = "") {
  return graph(R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: state f32[4] = param "w"
    %3: state i32[] = param "p"
    %4: f32[4], %5: f32[4], %6: state f32[4], %7: state i32[] = branch %0, %1, %2, %3 "pick" )" +
               attributes + R"({
      body "else" {
        %0: f32[4] = input "x"
        %1: state f32[4] = param "w"
        %2: state i32[] = param "p"
        output "y" %0
        output "z" %0
      }
      body "then" {
        %0: f32[4] = input "x"
        %1: state f32[4] = param "w"
        %2: state i32[] = param "p"
        %3: f32[4] = exp %0
        %4: f32[4] = read %1
        %5: f32[4] = mul %3, %4
        %6: i32[] = read %2
        %7: i32[] = constant 1
        %8: i32[] = add %6, %7
        %9: state i32[] = assign %2, %8
        output "y" %5
        output "z" %0
      }
    }
    output "y" %4
    output "z" %5
)");
}

/// x, n = x * c + i, n + 1 while n < bound, at most `limit` times, with rows of x.
ir::Graph one_loop(const std::string& limit, bool condition) {
  std::string text = R"(
    %0: f32[4] = input "x"
    %1: i32[] = input "n"
    %2: f32[4] = input "c"
    %3: i32[] = constant 3
    %4: f32[4], %5: i32[])";
  const bool rows = !limit.empty();
  const std::string body_head = R"(
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: i32[] = input "n"
        %3: f32[4] = input "c"
        %4: i32[] = input "three"
)";
  if (rows) text += ", %6: f32[" + limit + ",4]";
  text += R"( = loop %0, %1, %2, %3 "steps" {carried=2)" + (rows ? ", limit=" + limit : "") +
          R"(} {
      body "step" {)" +
          body_head + R"(
        %5: f32[4] = mul %1, %3
        %6: f32[] = cast %0
        %7: f32[4] = broadcast %6 {axes=[]}
        %8: f32[4] = add %5, %7
        %9: i32[] = constant 1
        %10: i32[] = add %2, %9
        output "x" %8
        output "n" %10
)" + (rows ? "        output \"row\" %8\n" : "") +
          "      }\n";
  if (condition) {
    text += "      condition \"more\" {" + body_head + R"(
        %5: b1[] = lt %2, %4
        output "more" %5
      }
)";
  }
  text += "    }\n    output \"x\" %4\n    output \"n\" %5\n";
  if (rows) text += "    output \"rows\" %6\n";
  return graph(text);
}

}  // namespace

TEST_CASE("control: a small branch is selected") {
  const Made made = lowered(one_branch());
  CHECK(count(made.graph, OpKind::branch) == 0);
  CHECK(count(made.graph, OpKind::assign) == 1);
  REQUIRE(made.dissolved.size() == 1);
  CHECK(made.dissolved[0].op == "pick (branch)");
  CHECK(made.dissolved[0].lowering == Lowering::select);
  CHECK(made.dissolved[0].why.find("select") != std::string::npos);
  // What is the same on both sides needs no select, and variables of the pass are gone.
  CHECK(count(made.graph, OpKind::param) == 2);
  const ir::Graph& g = made.graph;
  CHECK(g.def(g.outputs[1].value).kind == OpKind::input);
}

TEST_CASE("control: a branch asked to be predicates, a node, or driven by the host") {
  for (Lowering how : {Lowering::predicate, Lowering::node, Lowering::host}) {
    const Made made = lowered(one_branch(), with_branches(how));
    const ir::Graph& g = made.graph;
    const ir::Op& op = the(g, OpKind::branch);
    const auto& attr = std::get<ir::BranchAttr>(op.attrs);
    CHECK(attr.lowering == how);
    CHECK(g.strings[attr.why].substr(0, 9) == "asked for");
    CHECK(made.dissolved.empty());
    // x, w's value, p, and a variable for y.
    REQUIRE(op.operands.size() == 5);
    const ir::Value& first = g.value(op.operands[0]);
    CHECK(first.state == (how == Lowering::node));
    if (first.state) {
      CHECK(std::holds_alternative<ir::HandleAttr>(g.op(first.param).attrs));
      CHECK(g.def(op.operands[0]).kind == OpKind::assign);
    }
    size_t states = 0;
    for (size_t k = 1; k < 5; ++k) states += g.value(op.operands[k]).state;
    CHECK(states == 2);
    for (uint32_t b : attr.bodies) {
      CHECK(g.bodies[b].outputs.empty());
      CHECK(count(g.bodies[b], OpKind::read) <= 1);  // of p
    }
    CHECK(g.def(g.outputs[0].value).kind == OpKind::read);
    CHECK(g.def(g.outputs[1].value).kind == OpKind::input);
  }
  // The op's own wish goes before the option.
  const Made own = lowered(one_branch("{lowering=host} "), with_branches(Lowering::select));
  CHECK(std::get<ir::BranchAttr>(the(own.graph, OpKind::branch).attrs).lowering == Lowering::host);
}

TEST_CASE("control: a branch whose index is known is the body that it takes") {
  for (const char* index : {"-3", "0", "1", "2", "7"}) {
    const Made made = lowered(graph(std::string(R"(
      %0: f32[4] = input "x"
      %1: i32[] = constant )") + index +
                                    R"(
      %2: f32[4] = branch %1, %0 {
        body "a" {
          %0: f32[4] = input "x"
          %1: f32[4] = exp %0
          output "y" %1
        }
        body "b" {
          %0: f32[4] = input "x"
          %1: f32[4] = sin %0
          output "y" %1
        }
        body "c" {
          %0: f32[4] = input "x"
          %1: f32[4] = cos %0
          output "y" %1
        }
      }
      output "y" %2
    )"));
    CHECK(made.graph.ops().size() == 2);
    REQUIRE(made.dissolved.size() == 1);
    CHECK(made.dissolved[0].why.find("always") != std::string::npos);
  }
}

TEST_CASE("control: a side that updates a part of state works on a copy when it is selected") {
  const Made made = lowered(graph(R"(
    %0: i32[] = input "which"
    %1: f32[2] = input "box"
    %2: state f32[6] = param "p"
    %3: state f32[6] = branch %0, %1, %2 "pick" {
      body "write" {
        %0: f32[2] = input "box"
        %1: state f32[6] = param "p"
        %2: i32[] = constant 3
        %3: state f32[6] = update %1, %0, %2
        %4: state f32[6] = update %3, %0, %2
      }
      body "leave" {
        %0: f32[2] = input "box"
        %1: state f32[6] = param "p"
      }
      body "double" {
        %0: f32[2] = input "box"
        %1: state f32[6] = param "p"
        %2: f32[6] = read %1
        %3: f32[6] = add %2, %2
        %4: state f32[6] = assign %1, %3
      }
    }
    %4: f32[6] = read %3
    output "p" %4
  )"),
                            with_branches(Lowering::select));
  CHECK(count(made.graph, OpKind::branch) == 0);
  CHECK(count(made.graph, OpKind::param) == 2);  // p, and the copy
}

TEST_CASE("control: what cannot be selected or predicated is what the price says") {
  const std::string text = R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: state i32[16] = param "ring" {sort=ring}
    %3: f32[4], %4: state i32[16] = branch %0, %1, %2 "pick" {
      body "else" {
        %0: f32[4] = input "x"
        %1: state i32[16] = param "ring" {sort=ring}
        output "y" %0
      }
      body "then" {
        %0: f32[4] = input "x"
        %1: state i32[16] = param "ring" {sort=ring}
        %2: f32[4] = exp %0
        %3: state i32[16] = send %1, %2 "say" {message=print, text="y"}
        output "y" %2
      }
    }
    output "y" %3
)";
  const Made sends = lowered(graph(text), with_branches(Lowering::select));
  CHECK(std::get<ir::BranchAttr>(the(sends.graph, OpKind::branch).attrs).lowering ==
        Lowering::predicate);
  std::string host = text;
  host.replace(host.find("exp %0"), 6, "exp %0 {graph=false}");
  for (Lowering asked : {Lowering::automatic, Lowering::predicate, Lowering::node}) {
    const Made made = lowered(graph(host), with_branches(asked));
    CHECK(std::get<ir::BranchAttr>(the(made.graph, OpKind::branch).attrs).lowering ==
          Lowering::host);
  }
}

/// The branch that has so many products on one side and nothing on the other.
ir::BranchAttr one_sided(int products, std::string& why) {
  std::string body = R"(
        %0: f32[32,32] = input "x"
)";
  int v = 0;
  for (; v < products; ++v) {
    body += "        %" + std::to_string(v + 1) + ": f32[32,32] = dot %" + std::to_string(v) +
            ", %" + std::to_string(v) + "\n";
  }
  Options o;
  o.chain = false;
  const Made made = lowered(graph(R"(
    %0: b1[] = input "c"
    %1: f32[32,32] = input "x"
    %2: f32[32,32] = mul %1, %1
    %3: f32[32,32] = branch %0, %2 "pick" {
      body "else" {
        %0: f32[32,32] = input "x"
        output "y" %0
      }
      body "then" {)" + body + "        output \"y\" %" +
                                  std::to_string(v) + R"(
      }
    }
    output "y" %3
)"),
                            o);
  const ir::Op& op = the(made.graph, OpKind::branch);
  const auto& branch = std::get<ir::BranchAttr>(op.attrs);
  why = made.graph.strings[branch.why];
  return branch;
}

TEST_CASE("control: many kernels behind a condition are a node") {
  std::string why;
  CHECK(one_sided(100, why).lowering == Lowering::node);
  CHECK(why.find("101 kernels in all") == 0);
  // An IF of 30 would slow the kernels around it by more than it saves.
  CHECK(one_sided(30, why).lowering == Lowering::predicate);
  CHECK(why.find("31 kernels in all") == 0);
}

TEST_CASE("control: loops of known length are unrolled, whatever that length") {
  for (const char* limit : {"0", "1", "2", "7", "64", "65", "100"}) {
    const Made made = lowered(one_loop(limit, false));
    CHECK(count(made.graph, OpKind::loop) == 0);
    REQUIRE(made.dissolved.size() == 1);
    CHECK(made.dissolved[0].lowering == Lowering::unroll);
    CHECK(made.dissolved[0].copies == std::stoi(limit));
    CHECK(count(made.graph, OpKind::param) == (std::stoi(limit) > 64 ? 1 : 0));
  }
}

TEST_CASE("control: a WHILE runs copies of the body, and what is left over goes before it") {
  for (int copies : {1, 2, 3, 5, 7, 9}) {
    for (Lowering how : {Lowering::node, Lowering::host}) {
      const Made made = lowered(one_loop("7", false), with_loops(how, copies));
      const ir::Graph& g = made.graph;
      const ir::Op& op = the(g, OpKind::loop);
      const auto& attr = std::get<ir::LoopAttr>(op.attrs);
      CHECK(ir::has_flag(attr));
      CHECK(attr.lowering == how);
      CHECK(attr.unroll == static_cast<uint32_t>(std::min(copies, 7)));
      CHECK(std::holds_alternative<ir::HandleAttr>(g.op(g.value(op.operands[0]).param).attrs) ==
            (how == Lowering::node));
      // The three is no operand: it is in the body. The flag, x, n, the rows, i, c.
      CHECK(op.operands.size() == 6);
      CHECK(g.bodies[attr.body].outputs.empty());
      // The rows of all copies at once: all there are, or a block.
      CHECK(count(g.bodies[attr.body], OpKind::update) == (copies < 7 ? 1 : 0));
    }
  }
}

TEST_CASE("control: a WHILE with a condition leaves early, by predicates") {
  for (const char* limit : {"", "4", "1", "0"}) {
    for (int copies : {0, 1, 2, 3, 8}) {
      for (Lowering how : {Lowering::node, Lowering::host, Lowering::unroll}) {
        const Made made = lowered(one_loop(limit, true), with_loops(how, copies));
        const bool known = std::string(limit) == "0";
        const bool unrolled = known || (how == Lowering::unroll && *limit != 0);
        CHECK(count(made.graph, OpKind::loop) == (unrolled ? 0 : 1));
        if (unrolled) {
          CHECK(count(made.graph, OpKind::branch) == (known ? 0 : std::stoul(limit)));
        } else {
          const auto& attr = std::get<ir::LoopAttr>(the(made.graph, OpKind::loop).attrs);
          CHECK(count(made.graph.bodies[attr.body], OpKind::branch) == attr.unroll - 1);
        }
      }
    }
  }
  // Few iterations of few kernels need no WHILE.
  CHECK(count(lowered(one_loop("2", true)).graph, OpKind::loop) == 0);
}

TEST_CASE("control: captured numbers and views are computed in bodies, tables outside") {
  const Made made = lowered(graph(R"(
    %0: f32[4] = input "x"
    %1: f32[] = constant 2
    %2: f32[4] = broadcast %1 {axes=[]}
    %3: i32[4] = iota {axis=0}
    %4: f32[2,2] = input "m"
    %5: f32[2,2] = transpose %4 {axes=[1, 0]}
    %6: f32[4] = input "unused"
    %7: f32[4] = loop %0, %2, %3, %5, %5, %6 "steps" {carried=1, limit=9, lowering=node} {
      body "step" {
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: f32[4] = input "two"
        %3: i32[4] = input "iota"
        %4: f32[2,2] = input "m"
        %5: f32[2,2] = input "same"
        %6: f32[4] = input "unused"
        %7: f32[2,2] = add %4, %5
        %8: f32[4] = reshape %7
        %9: f32[4] = cast %3
        %10: f32[4] = mul %1, %2
        %11: f32[4] = add %10, %9
        %12: f32[4] = min %11, %8
        %13: f32[4] = constant hex"0000803f000000400000404000008040"
        %14: f32[4] = add %12, %13
        output "x" %14
      }
    }
    output "y" %7
  )"),
                            with_loops(Lowering::node, 2));
  const ir::Graph& g = made.graph;
  const ir::Op& op = the(g, OpKind::loop);
  // The flag, x, i, m itself, the table.
  REQUIRE(op.operands.size() == 5);
  CHECK(g.name_of(g.value(op.operands[3]).def) == "m");
  CHECK(g.def(op.operands[4]).kind == OpKind::constant);
  CHECK(count(g.bodies[std::get<ir::LoopAttr>(op.attrs).body], OpKind::iota) == 1);
}

TEST_CASE("control: a carried value that never changes is captured, and swaps are right") {
  const std::string text = R"(
    %0: f32[4] = input "a"
    %1: f32[4] = input "b"
    %2: f32[4] = input "c"
    %3: f32[4], %4: f32[4], %5: f32[4] = loop %0, %1, %2 "swaps" {carried=3, limit=5} {
      body "swap" {
        %0: i32[] = input "i"
        %1: f32[4] = input "a"
        %2: f32[4] = input "b"
        %3: f32[4] = input "c"
        %4: f32[4] = add %2, %3
        output "a" %4
        output "b" %1
        output "c" %3
      }
    }
    output "a" %3
    output "b" %4
    output "c" %5
)";
  for (int copies : {1, 2}) {
    const Made made = lowered(graph(text), with_loops(Lowering::node, copies));
    const ir::Graph& g = made.graph;
    CHECK(the(g, OpKind::loop).operands.size() == 5);  // the flag, a, b, i, c
    CHECK(g.def(g.outputs[2].value).kind == OpKind::input);
  }
  CHECK(count(lowered(graph(text)).graph, OpKind::map) == 5);
}

TEST_CASE("control: sends are numbered, and the last op on the ring ends the launch") {
  const std::string head = R"(
    %0: f32[4] = input "x"
    %1: state i32[16] = param "ring" {sort=ring}
    %2: state i32[16] = send %1, %0 "first" {message=print, text="x"}
    %3: f32[4], %4: state i32[16] = loop %0, %2 "steps" {carried=1, limit=3} {
      body "step" {
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: state i32[16] = param "ring" {sort=ring}
        %3: f32[4] = sin %1
        %4: state i32[16] = send %2, %3, %0 "inner" {message=item, text="y"}
        output "x" %3
      }
    }
    output "y" %3
)";
  const auto sends = [](const ir::Graph& graph) {
    std::vector<ir::SendAttr> all;
    ir::for_each_graph(graph, [&](const ir::Graph& g) {
      for (const ir::Op& op : g.ops()) {
        if (const auto* s = std::get_if<ir::SendAttr>(&op.attrs)) all.push_back(*s);
      }
    });
    return all;
  };
  const std::vector<ir::SendAttr> unrolled = sends(lowered(graph(head)).graph);
  REQUIRE(unrolled.size() == 4);
  CHECK(unrolled[0].id == 0);
  for (size_t i = 1; i < 4; ++i) CHECK(unrolled[i].id == 1);
  for (size_t i = 0; i < 4; ++i) CHECK(unrolled[i].ends_launch == (i == 3));

  const Made kept = lowered(graph(head), with_loops(Lowering::node, 2));
  const std::vector<ir::SendAttr> all = sends(kept.graph);
  const auto ending =
      std::count_if(all.begin(), all.end(), [](const ir::SendAttr& s) { return s.ends_launch; });
  CHECK(ending == 1);
  const auto& last = std::get<ir::SendAttr>(kept.graph.ops().back().attrs);
  CHECK(last.ends_launch);
  CHECK(last.kind == ir::MessageKind::check);
  CHECK(last.id == 2);

  // A graph that sends nothing needs no end.
  CHECK(sends(lowered(one_branch()).graph).empty());
}

TEST_CASE("control: a loop around a loop: the inner one unrolled, the outer one a WHILE") {
  Options options;
  options.unroll_limit = 16;
  const Made made = lowered(graph(R"(
    %0: f32[8] = input "x"
    %1: f32[8] = loop %0 "outer" {carried=1, limit=50} {
      body "out" {
        %0: i32[] = input "i"
        %1: f32[8] = input "x"
        %2: f32[8] = loop %1 "inner" {carried=1, limit=3} {
          body "in" {
            %0: i32[] = input "j"
            %1: f32[8] = input "x"
            %2: f32[] = reduce_add %1 {axes=[0]}
            %3: f32[8] = broadcast %2 {axes=[]}
            %4: f32[8] = sin %3
            %5: f32[8] = sub %1, %4
            output "x" %5
          }
        }
        output "x" %2
      }
    }
    output "y" %1
  )"),
                            options);
  REQUIRE(made.dissolved.size() == 1);
  CHECK(made.dissolved[0].op == "inner (loop)");
  const auto& attr = std::get<ir::LoopAttr>(the(made.graph, OpKind::loop).attrs);
  CHECK(attr.lowering == Lowering::node);
  CHECK(50 % attr.unroll == 0);
  CHECK(made.graph.strings[attr.why].find("WHILE") != std::string::npos);
  CHECK(made.graph.bodies[attr.body].bodies.empty());
}

TEST_CASE("control: a host op inside makes the host drive everything around it") {
  std::vector<std::string> said;
  const ir::Graph g = graph(R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: f32[4] = loop %1, %0 "steps" {carried=1, limit=3} {
      body "step" {
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: b1[] = input "c"
        %3: f32[4] = branch %2, %1 "pick" {
          body "else" {
            %0: f32[4] = input "x"
            output "y" %0
          }
          body "then" {
            %0: f32[4] = input "x"
            %1: f32[4] = host %0 "ask" {function="ask"}
            output "y" %1
          }
        }
        output "x" %3
      }
    }
    output "y" %2
  )");
  ir::Graph made = simplify(g);
  std::vector<Dissolved> dissolved;
  lower_control(made, Options{}, dissolved);
  CHECK(ir::verify(made).empty());
  const auto& loop = std::get<ir::LoopAttr>(the(made, OpKind::loop).attrs);
  CHECK(loop.lowering == Lowering::host);
  CHECK(std::get<ir::BranchAttr>(the(made.bodies[loop.body], OpKind::branch).attrs).lowering ==
        Lowering::host);
  const HostFunctions functions{
      {"ask", [](std::span<const HostTensor> in, std::span<HostTensor> out) {
         for (int64_t i = 0; i < 4; ++i) out[0].set(i, in[0].at(3 - i) * 2);
       }}};
  for (uint64_t seed : {1, 2, 3, 4}) {
    CHECK(run_text(made, seed, functions) == run_text(g, seed, functions));
  }
}
