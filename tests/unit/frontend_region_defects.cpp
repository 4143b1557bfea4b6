// Models with control flow and calls of the host that once were planned, run or refused wrongly.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "frontend/compile.hpp"
#include "ir/interpret.hpp"
#include "ir/region.hpp"
#include "ir/text.hpp"
#include "random_control.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

Options checked(Options o = {}) {
  o.verify = true;
  return o;
}

/// Two launches on the simulator, against the interpreter.
void agrees(const ir::Graph& graph, Options options) {
  const Device device = Device::open("sim");
  options.target = device.target();
  ir::Graph g = graph;
  g.bind_dims({});
  std::vector<std::string> said, wanted;
  const HostFunctions reference = control_functions(g, wanted);
  Store store(device);
  Executable e(compile(g, checked(options)), store, control_functions(g, said));
  for (uint64_t launch = 0; launch < 2; ++launch) {
    ir::TensorMap inputs, params;
    for (const Binding& b : e.program().inputs) {
      const HostTensor t = random_tensor(e.program().buffers[b.buffer].type, 17 + launch, b.name);
      e.write(b.name, t);
      inputs[b.name] = widen(t);
    }
    for (const ParamBinding& b : e.program().params) params[b.name] = widen(store.get(b.name));
    const ir::TensorMap outputs = ir::interpret(g, inputs, params, ir::Rounding::wide, reference);
    try {
      e.launch().wait();
    } catch (const Error& error) {
      REQUIRE(error.diagnostics().front().code == "E0860");  // a check that fails ends no work
    }
    for (const auto& [name, want] : outputs) CHECK(relative_error(e.read(name), want) < 1e-4);
    for (const auto& [name, want] : params) CHECK(relative_error(store.get(name), want) < 1e-4);
    CHECK(said == wanted);
  }
}
/// With calls of the host between graphs, and inside.
void agrees(const std::string& text, Options options) {
  for (const ir::HostWay way : {ir::HostWay::script, ir::HostWay::handshake}) {
    options.host = way;
    agrees(ir::parse(text, "model.bir"), options);
  }
}

Options lowered(ir::Lowering branches, ir::Lowering loops) {
  Options o;
  o.branches = branches;
  o.loops = loops;
  return o;
}

}  // namespace

TEST_CASE("the host reads what a predicated branch gives when it is there") {
  const std::string text = R"(bir 2
graph "control" {
  %4: f32[2,4] = input "x4"
  %5: b1[] = input "x5"
  %27: f32[2,4] = tanh %4
  %29: f32[2,4] = branch %5, %27 {
    body "way2" {
      %0: f32[2,4] = input "a0"
      %7: f32[2,4] = constant 0
      output "y0" %7
    }
    body "way1" {
      %0: f32[2,4] = input "a0"
      output "y0" %0
    }
  }
  %30: f32[2,4] = host %29 {function="host511"}
  %31: f32[2,4] = tanh %30
  %37: f32[2,4] = host %29, %31 {function="pure129", pure=true}
  output "y3" %37
})";
  using enum ir::Lowering;
  for (const ir::Lowering how : {select, predicate, node, host}) {
    agrees(text, lowered(how, automatic));
  }
}

TEST_CASE(
    "without simplify, a branch that does nothing and a ring without sends are no part of it") {
  Options options;
  options.simplify = false;
  agrees(std::string(R"(bir 2
graph "control" {
  %4: f32[2,4] = input "x4"
  %5: b1[] = input "x5"
  %9: state i32[16] = param "ring" {sort=ring}
  %6: i8[0] = branch %5, %4 {lowering=node} {
    body "way2" {
      %0: f32[2,4] = input "a0"
      %7: f32[2,4] = tanh %0
    }
    body "way1" {
      %0: f32[2,4] = input "a0"
    }
  }
  %10: f32[2,4] = tanh %4
  output "y" %10
})"),
         options);
}

TEST_CASE("all calls of a function of the host see one state of it") {
  const std::string text = R"(bir 2
graph "control" {
  %4: f32[2,3] = input "x4"
  %15: f32[2,3], %16: f32[2,3], %6: i32[4] = loop %4, %4 {carried=2, limit=4} {
    body "body" {
      %0: i32[] = input "i0"
      %1: f32[2,3] = input "a1"
      %2: f32[2,3] = input "a2"
      %14: f32[2,3], %15: f32[2,3] = host %1 {function="host938"}
      %16: i32[] = host %0 {function="host939"}
      output "y0" %1
      output "y1" %15
      output "y2" %16
    }
  }
  output "y3" %16
  output "y4" %6
})";
  using enum ir::Lowering;
  for (const ir::Lowering how : {unroll, host}) agrees(text, lowered(automatic, how));
}

TEST_CASE("a handle is set in the graph of its conditional node, where a variable waits for both") {
  const std::string text = R"(bir 2
graph "control" {
  %2: i32[] = input "x2"
  %3: i32[4] = input "x3"
  %5: b1[] = input "x5"
  %6: state i32[] = param "p6"
  %7: state f32[4] = param "p7"
  %8: state f32[4] = param "p8"
  %10: b1[], %11: b1[], %12: i32[2,0], %13: b1[2], %14: state i32[], %15: state f32[4], %16: state f32[4] = loop %5, %5, %3, %2, %6, %7, %8 "r10" {carried=2, limit=2} {
    body "body" {
      %0: i32[] = input "i0"
      %1: b1[] = input "a1"
      %2: b1[] = input "a2"
      %3: i32[4] = input "a3"
      %4: i32[] = input "a4"
      %5: state i32[] = param "p5"
      %6: state f32[4] = param "p6"
      %7: state f32[4] = param "p7"
      %10: i32[0] = constant 1
      %14: state f32[4] = branch %0, %0, %2, %2, %6 {
        body "way3" {
          %0: i32[] = input "a0"
          %1: b1[] = input "a1"
          %2: b1[] = input "a2"
          %3: state f32[4] = param "p3"
          %4: f32[2] = constant 1
          %5: state f32[4] = update %3, %4, %0
          %6: i32[3], %7: i32[3], %8: state f32[4] = loop %0, %2, %5 "r4" {limit=3} {
            body "body" {
              %0: i32[] = input "i0"
              %1: i32[] = input "a1"
              %2: b1[] = input "a2"
              %3: state f32[4] = param "p3"
              %6: f32[4] = constant -1
              %7: i32[] = constant 5
              %8: state f32[4] = update %3, %6, %7
              output "y0" %1
              output "y1" %0
            }
          }
        }
        body "way2" {
          %0: i32[] = input "a0"
          %1: b1[] = input "a1"
          %2: b1[] = input "a2"
          %3: state f32[4] = param "p3"
        }
        body "way1" {
          %0: i32[] = input "a0"
          %1: b1[] = input "a1"
          %2: b1[] = input "a2"
          %3: state f32[4] = param "p3"
        }
      }
      %15: state f32[4], %16: state f32[4] = branch %2, %0, %1, %4, %14, %7 {
        body "way2" {
          %0: i32[] = input "a0"
          %1: b1[] = input "a1"
          %2: i32[] = input "a2"
          %3: state f32[4] = param "p3"
          %4: state f32[4] = param "p4"
        }
        body "way1" {
          %0: i32[] = input "a0"
          %1: b1[] = input "a1"
          %2: i32[] = input "a2"
          %3: state f32[4] = param "p3"
          %4: state f32[4] = param "p4"
          %7: f32[4] = constant 1
          %8: state f32[4] = assign %3, %7
        }
      }
      %17: b1[] = and %2, %1
      %18: i32[0] = constant 2
      %19: b1[0] = lt %10, %18
      %20: i32[0] = select %19, %18, %10
      output "y0" %2
      output "y1" %1
      output "y2" %20
      output "y3" %17
    }
  }
  output "y3" %10
})";
  agrees(text, lowered(ir::Lowering::node, ir::Lowering::host));
}

TEST_CASE("loops in loops are not unrolled without end") {
  // 2^19 iterations of one op, which all fit into few kernels.
  std::string text = "%1: f32[4] = tanh %0\noutput \"y\" %1\n", open;
  for (int depth = 0; depth < 19; ++depth) {
    text =
        "%1: f32[4] = loop %0 {carried=1, limit=2} {\nbody \"body\" {\n%9: i32[] = input \"i\"\n"
        "%0: f32[4] = input \"v\"\n" +
        text + "}\n}\noutput \"y\" %1\n";
  }
  const ir::Graph g =
      ir::parse("bir 2\ngraph \"deep\" {\n%0: f32[4] = input \"x\"\n" + text + "}\n", "deep.bir");
  for (const ir::Lowering how : {ir::Lowering::automatic, ir::Lowering::unroll}) {
    const Program p = compile(g, lowered(ir::Lowering::automatic, how));
    size_t ops = 0;
    for (const Kernel& k : p.kernels) ops += k.body.ops().size();
    size_t nodes = 0;
    for (const Body& b : p.bodies) nodes += b.nodes.size();
    CHECK(ops < 100'000);
    CHECK(nodes < 20'000);
    CHECK_FALSE(p.regions.empty());
  }
}

TEST_CASE("a model is something to compute if a body changes a param, or if it sends a message") {
  const std::string changes = R"(bir 2
graph "counts" {
  %0: state i32[] = param "count"
  %1: state i32[] = loop %0 {limit=3} {
    body "body" {
      %0: i32[] = input "i"
      %1: state i32[] = param "count"
      %2: i32[] = read %1
      %3: i32[] = add %2, %0
      %4: state i32[] = assign %1, %3
    }
  }
})";
  const std::string sends = R"(bir 2
graph "says" {
  %0: i32[] = input "x"
  %1: state i32[16] = param "ring" {sort=ring}
  %2: state i32[16] = send %1, %0 "x" {message=print, text="x"}
})";
  agrees(changes, {});
  agrees(sends, {});
}

TEST_CASE("random models with control flow and calls of the host, by all lowerings") {
  const auto all = rounds<uint64_t>(120);
  for (uint64_t seed = 0; seed < all; ++seed) {
    RandomControlOptions random;
    random.hosts = 5;
    random.outside = seed % 3 == 0 ? 8 : 0;
    random.lowerings = seed % 4 == 1;
    using enum ir::Lowering;
    constexpr ir::Lowering kBranches[] = {automatic, select, predicate, node, host};
    constexpr ir::Lowering kLoops[] = {automatic, unroll, node, host};
    Options options = lowered(kBranches[seed % 5], kLoops[seed / 5 % 4]);
    options.simplify = seed % 7 != 3;
    options.fuse = seed % 6 != 5;
    using W = ir::HostWay;
    constexpr W kWays[] = {W::script, W::handshake, W::automatic, W::handshake, W::script, W::node};
    options.host = kWays[seed % 6];
    INFO("seed ", seed);
    agrees(random_control(seed + 40'000, random), options);
  }
}
