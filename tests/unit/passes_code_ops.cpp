// Kernels, library calls and compactions, which have several results, through passes and files.
#include <doctest/doctest.h>

#include <algorithm>

#include "control_help.hpp"
#include "control_programs.hpp"
#include "ir/program_json.hpp"
#include "passes/control_inline.hpp"
#include "random_graph.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using ir::OpKind;

RandomGraphOptions with_code() {
  RandomGraphOptions o;
  o.compact = o.code = 8;
  return o;
}

}  // namespace

TEST_CASE("simplify keeps what ops with several results compute") {
  size_t kinds[3] = {};
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const ir::Graph g = random_graph(seed, with_code());
    std::vector<std::string> said;
    const HostFunctions functions = host_functions_of(g, said);
    const ir::Graph simple = simplify(g);
    REQUIRE(ir::verify(simple).empty());
    REQUIRE(ir::print(simplify(simple)) == ir::print(simple));
    REQUIRE(run_text(simple, seed, functions) == run_text(g, seed, functions));
    for (const ir::Op& op : simple.ops()) {
      if (op.kind == OpKind::compact) ++kinds[0];
      if (op.kind == OpKind::kernel) ++kinds[1];
      if (op.kind == OpKind::library) ++kinds[2];
    }
  }
  for (size_t n : kinds) CHECK(n > 30);
}

TEST_CASE("equal compactions are one, and an unused one goes") {
  const ir::Graph g = simplify(ir::parse(R"(bir 3
graph "g" {
  %0: b1[4] = input "m"
  %1: f32[4] = input "x"
  %2: f32[4], %3: i32[] = compact %0, %1
  %4: f32[4], %5: i32[] = compact %0, %1
  %6: f32[4], %7: i32[] = compact %0, %2
  output "y" %2
  output "n" %5
}
)"));
  CHECK(std::count_if(g.ops().begin(), g.ops().end(),
                      [](const ir::Op& op) { return op.kind == OpKind::compact; }) == 1);
}

TEST_CASE("bodies with kernels, library calls and compactions are copied whole") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    ir::Graph g = random_graph(seed, with_code());
    // Arguments are the first ops of a body.
    std::vector<uint32_t> order;
    const auto is_argument = [&](uint32_t i) {
      const ir::Op& op = g.ops()[i];
      return op.kind == OpKind::param ||
             (op.kind == OpKind::input && !std::holds_alternative<ir::ScalarAttr>(op.attrs));
    };
    for (uint32_t i = 0; i < g.ops().size(); ++i) order.push_back(i);
    const auto end = std::stable_partition(order.begin(), order.end(), is_argument);
    const auto arguments = static_cast<size_t>(end - order.begin());
    ir::Graph body("body");
    std::vector<ir::ValueId> at(g.values().size());
    for (uint32_t i : order) {
      const ir::Op& op = g.ops()[i];
      std::vector<ir::ValueId> operands;
      for (ir::ValueId v : op.operands) operands.push_back(at[v.index]);
      const ir::ValueId first = body.clone_op(g, {i}, std::move(operands));
      for (uint32_t r = 0; r < op.results; ++r) at[op.result.index + r] = {first.index + r};
    }
    for (const ir::Output& o : g.outputs) body.outputs.push_back({o.name, at[o.value.index], {}});

    Draft draft{ir::Graph("whole")};
    std::vector<ir::ValueId> args;
    for (uint32_t i = 0; i < arguments; ++i) args.push_back(draft.clone(body, {i}, {}));
    const Inliner::Result made = Inliner(body, arguments).into(draft, args);
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      draft.graph.outputs.push_back({body.outputs[i].name, made.outputs[i], {}});
    }
    REQUIRE(ir::verify(draft.graph).empty());
    for (size_t k = 0; k < arguments; ++k) {
      if (body.ops()[k].kind != OpKind::param) continue;
      CHECK(ir::param_of(draft.graph, made.versions[k]) == draft.graph.value(args[k]).def);
    }
    std::vector<std::string> said;
    const HostFunctions functions = host_functions_of(g, said);
    REQUIRE(run_text(draft.graph, seed, functions) == run_text(body, seed, functions));
  }
}

TEST_CASE("files keep what a Program says of code, mailboxes and exchanges") {
  Program p = control_program(1);
  REQUIRE(p.kernels.size() >= 2);
  p.kernels[0].code = Code::user;
  p.kernels[0].function = "rope<64>";
  p.kernels[0].parameters = {{0, DType::i32, 0},
                             {UINT32_MAX, DType::i64, 4294967296.0},
                             {UINT32_MAX, DType::f32, -0.1},
                             {1, DType::i32, 0}};
  p.kernels[1].code = Code::library;
  p.kernels[1].function = std::string(kCublasLtMatmul);
  p.kernels[1].workspace = 1 << 20;
  p.kernels[1].exchanges = true;
  p.modules.push_back(
      {"__global__ void f() {}", "sm_90", {}, "a \"b\".cu", {"include", "\xce\xb1"}});
  p.buffers.push_back({"mailbox", Segment::mailbox, {DType::u8, {Dim(4096)}}, 4096, 0});
  p.exchanges = {{"sample",
                  {{DType::f32, {Dim(3)}}},
                  {{DType::i32, {}}, {DType::b1, {Dim(2)}}},
                  true,
                  ir::HostWay::node,
                  "s (host)",
                  "m.toml:3:4",
                  "4 us against 11 us"},
                 {"log", {}, {}, false, ir::HostWay::handshake, "l (host)", "", ""}};
  const std::vector<std::byte> bytes = write_program(p);
  const Program again = read_program(bytes);
  CHECK(write_program(again) == bytes);
  CHECK(again.kernels[0].code == Code::user);
  CHECK(again.kernels[0].parameters == p.kernels[0].parameters);
  CHECK(again.kernels[1].workspace == 1 << 20);
  CHECK(again.kernels[1].exchanges);
  CHECK(extra_arguments(again.kernels[1]) == 3);
  CHECK(again.modules[0].file == p.modules[0].file);
  CHECK(again.modules[0].include == p.modules[0].include);
  CHECK(again.buffers.back().segment == Segment::mailbox);
  REQUIRE(again.exchanges.size() == 2);
  CHECK(again.exchanges[0].results == p.exchanges[0].results);
  CHECK(again.exchanges[0].way == ir::HostWay::node);
  CHECK(again.exchanges[0].why == p.exchanges[0].why);
  CHECK(again.exchanges[1].pure == false);

  Json j = program_json(p);
  j["kernels"][0]["parameters"][1]["dtype"] = "f128";
  CHECK_THROWS(program_from_json(j));
  j = program_json(control_program(1));
  REQUIRE(j.erase("exchanges") == 1);  // as before 1.4
  CHECK(to_json(program_from_json(j)) == to_json(control_program(1)));
}
