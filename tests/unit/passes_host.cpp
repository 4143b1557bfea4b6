// How host functions are called: the pass that decides, and what plans make of it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/mailbox.hpp"
#include "ir/text.hpp"
#include "judge_program.hpp"
#include "passes/check.hpp"
#include "passes/cost.hpp"
#include "passes/host.hpp"
#include "passes/order.hpp"
#include "passes/pipeline.hpp"
#include "passes/prices.hpp"
#include "passes_help.hpp"

using namespace braid;
using namespace braid::test;

namespace {

using ir::HostWay;

ir::Graph graph(const std::string& lines) {
  return ir::parse("bir 2\ngraph \"g\" {\n" + lines + "}\n", "g.bir");
}

ir::Graph with_ways(const std::string& lines, const Options& o = {}) {
  ir::Graph g = graph(lines);
  choose_host_ways(g, o);
  REQUIRE(ir::verify(g).empty());
  return g;
}

/// "handshake break", of the graph's own ops in order.
std::string ways(const ir::Graph& g) {
  std::string text;
  for (const ir::Op& op : g.ops()) {
    const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
    if (host) text += fmt::format("{}{}", text.empty() ? "" : " ", ir::name_of(host->way));
  }
  return text;
}
std::string ways(const std::string& lines, const Options& o = {}) {
  return ways(with_ways(lines, o));
}
std::string why(const std::string& lines, const Options& o = {}) {
  const ir::Graph g = with_ways(lines, o);
  for (const ir::Op& op : g.ops()) {
    const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
    if (host) return std::string(g.strings[host->why]);
  }
  return {};
}

Options calling(HostWay way) {
  Options o;
  o.host = way;
  return o;
}

/// A call of so many elements between two kernels.
std::string between(int64_t n, const std::string& attributes = "") {
  return fmt::format(R"(
    %0: f32[{0}] = input "x"
    %1: f32[{0}] = exp %0
    %2: f32[{0}] = host %1 "f" {{function="f"{1}}}
    %3: f32[{0}] = tanh %2
    output "y" %3
  )",
                     n, attributes);
}

/// A loop of ten turns around a call.
std::string in_loop(const std::string& attributes = "", const std::string& of_loop = "") {
  return fmt::format(R"(
    %0: f32[4] = input "x"
    %1: f32[4] = input "w"
    %2: f32[4] = loop %0, %1 "steps" {{carried=1, limit=10{1}}} {{
      body "step" {{
        %0: i32[] = input "i"
        %1: f32[4] = input "x"
        %2: f32[4] = input "w"
        %3: f32[4] = mul %1, %2
        %4: f32[4] = host %3 "ask" {{function="ask"{0}}}
        %5: f32[4] = tanh %4
        output "x" %5
      }}
    }}
    output "y" %2
  )",
                     attributes, of_loop);
}

Program plan(const std::string& lines, const Options& o = {}) {
  Program p = run_passes(graph(lines), o).program;
  CHECK(check(p).empty());
  return p;
}

std::vector<const Kernel*> kernels_of(const Program& p, const Body& b) {
  std::vector<const Kernel*> out;
  for (const Node& n : b.nodes) {
    out.push_back(n.kernel == kNoKernel ? nullptr : &p.kernels[n.kernel]);
  }
  return out;
}

std::string families(const Program& p, const Body& b) {
  std::string text;
  for (const Kernel* k : kernels_of(p, b))
    text += (text.empty() ? "" : " ") + (k ? k->family : "-");
  return text;
}

}  // namespace

TEST_CASE("host: by price a few bytes go by a handshake, many by a break") {
  CHECK(ways(between(4)) == "handshake");
  CHECK(ways(between(1 << 20)) == "break");
  // Where one turns into the other, both cost the same.
  int64_t low = 4, high = 1 << 20;
  while (high - low > 1) {
    const int64_t mid = (low + high) / 2;
    (ways(between(mid)) == "handshake" ? low : high) = mid;
  }
  const ir::Graph g = with_ways(between(low));
  const HostPrices us = price_host_op(g, g.ops()[2], false);
  CHECK(us.handshake == doctest::Approx(us.broken).epsilon(0.001));
  CHECK(us.node > us.handshake);
  CHECK(price_host_op(g, g.ops()[2], true).broken > us.broken + kPrices.host_sync_us);
  CHECK(price_host_op(g, g.ops()[2], true).handshake == us.handshake);

  CHECK(why(between(4)) == "8.4 us against 14.4 us for a break");
  CHECK(why(between(1 << 20)) == "836.8 us against 910.4 us for a handshake");
}

TEST_CASE("host: what is asked for is granted, the op's own way before the options'") {
  for (HostWay way : {HostWay::handshake, HostWay::script, HostWay::node}) {
    const std::string name(ir::name_of(way));
    for (int64_t n : {4, 1 << 20}) {
      CHECK(ways(between(n), calling(way)) == name);
      CHECK(ways(between(n, ", way=" + name)) == name);
      CHECK(ways(between(n, ", way=" + name), calling(HostWay::handshake)) == name);
      CHECK(ways(between(n, ", way=" + name), calling(HostWay::script)) == name);
    }
  }
  CHECK(why(between(4), calling(HostWay::script)) ==
        "asked for: 8.4 us by a handshake, 14.4 us by a break, 39.0 us by a host node");
  // One graph that is asked for holds everything that it can.
  Options one;
  one.require_single_graph = true;
  CHECK(ways(between(1 << 20), one) == "handshake");
  one = {};
  one.on_break = OnBreak::error;
  CHECK(ways(between(1 << 20), one) == "handshake");
  CHECK(ways(between(4, ", way=break"), one) == "break");
}

TEST_CASE("host: a call that no work of the device follows breaks at no price") {
  const std::string begin = R"(
    %0: f32[4] = input "x"
    %1: f32[4] = exp %0
    %2: f32[4] = host %1 "f" {function="f"}
  )";
  CHECK(ways(begin + "output \"y\" %2\n") == "break");
  CHECK(why(begin + "output \"y\" %2\n").find("no work of the GPU comes after it") !=
        std::string::npos);
  CHECK(ways(begin + "output \"y\" %2\n", calling(HostWay::handshake)) == "handshake");
  // A second output of the value, and one under another order of axes, are copied by kernels.
  CHECK(ways(begin + "output \"y\" %2\noutput \"z\" %2\n") == "handshake");
  CHECK(ways(R"(
    %0: f32[2,2] = input "x"
    %1: f32[2,2] = exp %0
    %2: f32[2,2] = host %1 "f" {function="f"}
    %3: f32[2,2] = transpose %2 {axes=[1, 0]}
    output "y" %3
  )") == "handshake");
  CHECK(ways(R"(
    %0: f32[2,2] = input "x"
    %1: f32[2,2] = exp %0
    %2: f32[2,2] = host %1 "f" {function="f"}
    %3: f32[4] = reshape %2
    output "y" %3
  )") == "break");
  // Calls of calls, and nothing else, follow.
  CHECK(ways(begin + R"(
    %3: f32[4] = host %2, %1 "g" {function="g"}
    %4: i8[0] = host %3 "log" {function="log"}
    output "y" %3
  )") == "break break break");
  // State that the device keeps needs the device.
  CHECK(ways(begin + R"(
    %3: state f32[4] = param "p"
    %4: state f32[4] = assign %3, %2
  )") == "handshake");
  // What replaces a version comes after those who read it.
  CHECK(ways(R"(
    %0: f32[4] = input "x"
    %1: state f32[4] = param "p"
    %2: f32[4] = read %1
    %3: i8[0] = host %2 "log" {function="log"}
    %4: f32[4] = exp %0
    %5: state f32[4] = assign %1, %4
  )") == "handshake");
}

TEST_CASE("host: side effects keep their order, so a call before one in the graph is in it") {
  const std::string text = R"(
    %0: f32[4] = input "x"
    %1: f32[4] = exp %0
    %2: i8[0] = host %1 "log" {function="log"}
    %3: f32[4] = host %1 "f" {function="f"}
    %4: f32[4] = tanh %3
    output "y" %4
  )";
  CHECK(ways(text) == "handshake handshake");
  std::string pure = text;
  pure.replace(pure.find("function=\"f\""), 12, "function=\"f\", pure=true");
  CHECK(ways(pure) == "break handshake");
  const Program p = plan(text);
  CHECK(p.graphs == 1);
  CHECK(p.calls.empty());
  const Program q = plan(pure);
  CHECK(q.graphs == 1);
  CHECK(q.calls.size() == 1);
}

TEST_CASE("host: an exchange is one kernel with a slot of the mailbox") {
  const Program p = plan(between(100));
  REQUIRE(p.bodies.size() == 1);
  CHECK(p.graphs == 1);
  CHECK(p.breaks.empty());
  CHECK(families(p, p.bodies[0]) == "row exchange row");
  REQUIRE(p.exchanges.size() == 1);
  const Exchange& e = p.exchanges[0];
  CHECK(e.function == "f");
  CHECK(e.way == HostWay::handshake);
  CHECK(!e.pure);
  CHECK(e.op == "f (host)");
  CHECK(e.place == "g.bir:6:5");
  CHECK(e.arguments == std::vector<TensorType>{Maker::type({100})});
  CHECK(e.results == e.arguments);
  CHECK(e.why == "8.5 us against 14.5 us for a break");
  const auto mailbox = std::find_if(p.buffers.begin(), p.buffers.end(),
                                    [](const Buffer& b) { return b.segment == Segment::mailbox; });
  REQUIRE(mailbox != p.buffers.end());
  CHECK(mailbox->bytes == mailbox_slot_offset(1));
  CHECK(mailbox->type == TensorType{DType::i32, {Dim(32)}});
  const Node& n = p.bodies[0].nodes[1];
  const Kernel& k = p.kernels[n.kernel];
  CHECK(k.exchanges);
  CHECK(extra_arguments(k) == 2);
  CHECK(k.args.size() == 4);
  CHECK(p.views[n.args[2]].offset == mailbox_slot_offset(0));
  CHECK(p.views[n.args[3]].offset == 0);
  CHECK(k.args[3].role == Role::inout);
  CHECK(n.values[3] == UINT32_MAX);
  CHECK(k.in_place.empty());
  CHECK(k.symbol.starts_with("exchange_f_"));
  CHECK(n.estimate_us ==
        doctest::Approx(kPrices.handshake_us + 800 / kPrices.bus_bytes_per_us).epsilon(0.001));
  CHECK(p.modules[k.module].source.find(k.symbol) != std::string::npos);
  // The graph that a .braid file holds is the same.
  CHECK(to_json(read_program(write_program(p)), true) == to_json(p, true));
}

TEST_CASE("host: equal calls share a kernel, each with a slot of its own") {
  const Program p = plan(R"(
    %0: f32[4] = input "x"
    %1: f32[4] = exp %0
    %2: f32[4] = host %1 "a" {function="f", pure=true}
    %3: f32[4] = tanh %2
    %4: f32[4] = host %3 "b" {function="f", pure=true}
    %5: f32[4] = neg %4
    %6: f32[4] = host %5 "c" {function="f"}
    %7: f32[4] = neg %6
    output "y" %7
  )");
  REQUIRE(p.exchanges.size() == 3);
  std::set<uint32_t> kernels;
  std::set<int64_t> slots;
  for (const Node& n : p.bodies[0].nodes) {
    if (!p.kernels[n.kernel].exchanges) continue;
    kernels.insert(n.kernel);
    slots.insert(p.views[n.args[n.args.size() - 2]].offset);
    const bool pure = p.kernels[n.kernel].args.back().role == Role::in;
    CHECK(pure == p.exchanges[slots.size() - 1].pure);
  }
  CHECK(kernels.size() == 2);
  CHECK(slots.size() == 3);
}

TEST_CASE("host: a host node stands between a kernel that hands over and one that takes") {
  const Program p = plan(between(100), calling(HostWay::node));
  CHECK(families(p, p.bodies[0]) == "row post host_node fetch row");
  const std::vector<const Kernel*> k = kernels_of(p, p.bodies[0]);
  CHECK(k[2]->code == Code::host);
  CHECK(k[2]->body.ops().empty());
  CHECK(k[1]->body.outputs.empty());
  CHECK(k[1]->args.size() == 3);
  CHECK(k[3]->args.size() == 3);
  CHECK(p.exchanges[0].way == HostWay::node);
  double us = 0;
  for (size_t n = 1; n < 4; ++n) us += p.bodies[0].nodes[n].estimate_us;
  CHECK(us == doctest::Approx(kPrices.host_node_us + 800 / kPrices.bus_bytes_per_us).epsilon(0.01));
  for (const Module& m : p.modules) CHECK(m.source.find("host_node_") == std::string::npos);
  CHECK(to_json(read_program(write_program(p)), true) == to_json(p, true));
  // No programmatic edge leads into the three or out of them: here that is every edge.
  for (const Kernel& kernel : p.kernels) CHECK(kernel.waits == (kernel.family == "row"));
  REQUIRE(p.bodies[0].edges.size() == 4);
  for (const Edge& e : p.bodies[0].edges) CHECK(e.kind == EdgeKind::full);
}

TEST_CASE("host: calls with side effects are a chain, pure ones run side by side") {
  const auto text = [](const std::string& more) {
    std::string lines = "%0: f32[4] = input \"x\"\n";
    for (int i = 0; i < 4; ++i) {
      lines += fmt::format("%{}: f32[4] = host %0 \"c{}\" {{function=\"f{}\", way=handshake{}}}\n",
                           i + 1, i, i, more);
    }
    return lines +
           "%5: f32[4] = add %1, %2\n%6: f32[4] = add %3, %4\n%7: f32[4] = add %5, %6\n"
           "output \"y\" %7\n";
  };
  const auto ordered = [&](const Program& p) {
    const Relation ended = ended_before(p, p.bodies[0]);
    size_t pairs = 0;
    for (uint32_t a = 0; a < p.bodies[0].nodes.size(); ++a) {
      for (uint32_t b = a + 1; b < p.bodies[0].nodes.size(); ++b) {
        const bool both = p.kernels[p.bodies[0].nodes[a].kernel].exchanges &&
                          p.kernels[p.bodies[0].nodes[b].kernel].exchanges;
        pairs += both && ended(a, b);
      }
    }
    return pairs;
  };
  Options o;
  o.force_lanes = true;
  const Program chain = plan(text(""), o), beside = plan(text(", pure=true"), o);
  CHECK(ordered(chain) == 6);
  CHECK(ordered(beside) == 0);
  CHECK(beside.bodies[0].lanes == 4);
  std::string calls;
  for (const Node& n : chain.bodies[0].nodes) {
    if (chain.kernels[n.kernel].exchanges) calls += n.ops[0] + " ";
  }
  CHECK(calls == "c0 (host) c1 (host) c2 (host) c3 (host) ");
  // Like kernels share launches, but no calls.
  for (const Kernel& k : beside.kernels) CHECK((!k.exchanges || k.parts == 1));
}

TEST_CASE("host: a call outside comes after those with side effects in the graphs before it") {
  const std::string text = R"(
    %0: f32[4] = input "x"
    %1: f32[4] = exp %0
    %2: i8[0] = host %1 "in" {function="f", way=handshake}
    %3: i8[0] = host %0 "out" {function="g", way=break}
    %4: f32[4] = tanh %1
    output "y" %4
  )";
  const Program p = plan(text);
  const auto at = [&](Step::Kind kind) {
    const auto it = std::find_if(p.script.begin(), p.script.end(),
                                 [&](const Step& s) { return s.kind == kind; });
    return it - p.script.begin();
  };
  CHECK(at(Step::Kind::launch) < at(Step::Kind::read));
  std::string pure = text;
  pure.replace(pure.find("function=\"f\""), 12, "function=\"f\", pure=true");
  pure.replace(pure.find("%2: i8[0]"), 9, "%2: f32[4]");
  pure.replace(pure.find("tanh %1"), 7, "tanh %2");
  const Program q = plan(pure);
  CHECK(q.script[0].kind == Step::Kind::read);
}

TEST_CASE("host: a loop with a handshake is a graph, with a break the host drives it") {
  const Program p = plan(in_loop("", ", lowering=node"));
  REQUIRE(p.regions.size() == 1);
  CHECK(p.graphs == 1);
  CHECK(p.regions[0].kind == Region::Kind::node);
  CHECK(p.exchanges.size() >= 1);
  // The node takes the mailbox, so that it keeps its place among calls around it.
  const Region& r = p.regions[0];
  size_t parts = 0;
  for (size_t s = 0; s < r.slots.size(); ++s) {
    if (p.buffers[p.views[r.args[s]].buffer].segment != Segment::mailbox) continue;
    ++parts;
    CHECK(r.slots[s].role == Role::inout);
    CHECK(r.values[s] == UINT32_MAX);
  }
  CHECK(parts == 1 + p.exchanges.size());

  const Program unrolled = plan(in_loop());
  CHECK(unrolled.regions.empty());
  CHECK(unrolled.graphs == 1);
  CHECK(unrolled.exchanges.size() == 10);

  const Program driven = plan(in_loop(", way=break"));
  REQUIRE(driven.regions.size() == 1);
  CHECK(driven.regions[0].kind == Region::Kind::host);
  CHECK(driven.exchanges.empty());
  REQUIRE(driven.breaks.size() == 1);
  CHECK(driven.breaks[0].remedy.find("way = \"handshake\"") != std::string::npos);

  const Program by_host = plan(in_loop("", ", lowering=host"));
  REQUIRE(by_host.regions.size() == 1);
  CHECK(by_host.regions[0].kind == Region::Kind::host);
  CHECK(by_host.exchanges.size() >= 1);
  // No host node in the body of a conditional node.
  const Program asked = plan(in_loop(", way=node", ", lowering=node"));
  CHECK(asked.exchanges[0].way == HostWay::handshake);
  CHECK(asked.exchanges[0].why.find("hold no host nodes") != std::string::npos);
}

TEST_CASE("host: a loop that only the host may end is no graph") {
  const auto way_inside = [](const std::string& lines) {
    std::string text;
    const ir::Graph g = with_ways(lines);
    for (const ir::Graph& body : g.bodies) text += ways(body);
    return text;
  };
  // `carried` is what the body gives for its next turn; the condition asks it.
  const auto loop = [](const std::string& attributes, const std::string& next,
                       const std::string& state = "%3") {
    return fmt::format(R"(
      %0: f32[] = input "x"
      %1: f32[] = input "y"
      %2: state f32[] = param "s"
      %3: f32[], %4: f32[], %5: state f32[] = loop %0, %1, %2 "turns" {{carried=2{}}} {{
        body "body" {{
          %0: i32[] = input "i"
          %1: f32[] = input "x"
          %2: f32[] = input "y"
          %4: state f32[] = param "s"
          %3: f32[] = exp %1
          %5: f32[] = host %2 "ask" {{function="ask"}}
          %6: state f32[] = assign %4, {}
          output "x" {}
          output "y" %5
        }}
        condition "more" {{
          %0: i32[] = input "i"
          %1: f32[] = input "x"
          %2: f32[] = input "y"
          %3: state f32[] = param "s"
          %4: f32[] = read %3
          %5: f32[] = constant 9
          %6: f32[] = add %1, %4
          %7: b1[] = lt %6, %5
          output "more" %7
        }}
      }}
      output "z" %3
      output "a" %4
    )",
                       attributes, state, next);
  };
  CHECK(way_inside(loop("", "%3")) == "handshake");
  CHECK(way_inside(loop("", "%5")) == "break");        // by a carried value
  CHECK(way_inside(loop("", "%2")) == "break");        // by one that the host gave the turn before
  CHECK(way_inside(loop("", "%3", "%5")) == "break");  // by state
  CHECK(way_inside(loop(", limit=9", "%5")) == "handshake");
  std::string reason;
  const ir::Graph g = with_ways(loop("", "%5"));
  for (const ir::Op& op : g.bodies[0].ops()) {
    const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
    if (host) reason = g.bodies[0].strings[host->why];
  }
  CHECK(reason.starts_with("the loop has no limit, and its condition follows"));
}

TEST_CASE("host: branches with calls inside keep their order with calls around them") {
  const std::string text = R"(
    %0: b1[] = input "c"
    %1: f32[4] = input "x"
    %2: f32[4] = host %1 "first" {function="first"}
    %3: f32[4] = branch %0, %1 "pick" {lowering=node} {
      body "else" {
        %0: f32[4] = input "x"
        %1: f32[4] = host %0 "no" {function="no"}
        output "y" %1
      }
      body "then" {
        %0: f32[4] = input "x"
        %1: f32[4] = host %0 "yes" {function="yes"}
        %2: f32[4] = exp %1
        output "y" %2
      }
    }
    %4: f32[4] = host %1 "last" {function="last"}
    %5: f32[4] = add %2, %3
    %6: f32[4] = add %4, %5
    output "y" %6
  )";
  Options o;
  o.force_lanes = true;
  const Program p = plan(text, o);
  CHECK(p.graphs == 1);
  REQUIRE(p.exchanges.size() == 4);
  const Body& b = p.bodies[0];
  std::vector<uint32_t> order;  // nodes that call
  for (uint32_t n = 0; n < b.nodes.size(); ++n) {
    if (b.nodes[n].kernel == kNoKernel || p.kernels[b.nodes[n].kernel].exchanges) {
      order.push_back(n);
    }
  }
  REQUIRE(order.size() == 3);
  CHECK(b.nodes[order[1]].kernel == kNoKernel);
  const Relation ended = ended_before(p, b);
  CHECK(ended(order[0], order[1]));
  CHECK(ended(order[1], order[2]));
}

TEST_CASE("host: breaks say why and how to go without") {
  const Program p = plan(between(4), calling(HostWay::script));
  REQUIRE(p.breaks.size() == 1);
  CHECK(p.breaks[0].reason ==
        "the host function 'f' returns tensors; asked for: 8.4 us by a handshake, 14.4 us by a "
        "break, 39.0 us by a host node");
  CHECK(p.breaks[0].remedy ==
        "let the graph call it: way = \"handshake\" in TOML, .way in C++; that leaves 1 of 2 "
        "graphs");
}
