// Host functions inside graphs: asked for in C++, model files and on the command line, run on the
// simulator, and what reports say of them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli_bench.hpp"
#include "frontend/compile.hpp"
#include "frontend/report/diff.hpp"
#include "frontend/report/html.hpp"
#include "frontend/report/report.hpp"
#include "frontend/toml.hpp"
#include "ir/interpret.hpp"
#include "passes/check.hpp"
#include "runtime/device.hpp"

namespace braid {
namespace {

using ir::HostWay;
using testing::Bench;
using testing::expect;
using testing::has;
using testing::write_text;

/// Calls in a chain, in a loop, of no arguments and no results, with a view, a scalar and a param
/// as arguments.
void build_model(Graph& g, HostWay way) {
  const TypeArg rows{f32, {4, 8}};
  const Tensor x = g.input("x", rows), k = g.scalar("k", f32, 1.5);
  const Tensor p = g.param("p", rows);
  const Tensor h = relu(linear(g, "l", x, 8));
  const auto r = g.host("mix", {transpose(h, {1, 0}), k, p, h}, {rows, {i32, {3}}}, {.way = way});
  g.host("see", {r[1]}, {}, {.way = way});
  const auto three = g.host("three", {}, {rows}, {.pure = true, .way = way});
  const Tensor looped = g.loop(3, r[0], [&](Tensor i, Tensor v) {
    return tanh(g.host("step", {v, i}, {rows}, {.way = way})[0]);
  });
  g.assign(p, looped * 0.5);
  g.output("y", looped + three[0]);
  g.output("n", r[1] + 1.0);
}

HostFunctions functions(std::vector<double>& said) {
  const auto at = [](const HostTensor& t, int64_t e) { return t.at(e % t.numel()); };
  return {{"mix",
           [at](std::span<const HostTensor> in, std::span<HostTensor> out) {
             for (int64_t e = 0; e < out[0].numel(); ++e) {
               out[0].set(e, at(in[0], e) * at(in[1], 0) + at(in[2], e) - 0.5 * at(in[3], e));
             }
             for (int64_t e = 0; e < 3; ++e) out[1].set_int(e, 7 * e + (at(in[0], 0) > 0.1));
           }},
          {"see", [&](std::span<const HostTensor> in,
                      std::span<HostTensor>) { said.push_back(double(in[0].int_at(2))); }},
          {"three",
           [](std::span<const HostTensor>, std::span<HostTensor> out) {
             for (int64_t e = 0; e < out[0].numel(); ++e) out[0].set(e, 3);
           }},
          {"step", [&](std::span<const HostTensor> in, std::span<HostTensor> out) {
             said.push_back(double(in[1].int_at(0)));
             for (int64_t e = 0; e < out[0].numel(); ++e) {
               out[0].set(e, 0.3 * in[0].at(e) + double(in[1].int_at(0)));
             }
           }}};
}

Options with(HostWay way, ir::Lowering loops = ir::Lowering::automatic) {
  Options o;
  o.host = way;
  o.loops = loops;
  o.verify = true;
  return o;
}

std::string text_of(const Program& p) {
  return report::to_text(report::make_report(p), p, report::sections_from("partitions,breaks"));
}

constexpr const char* kModel = R"(format = 1
name = "calls"
[inputs]
x = {{ dtype = "f32", shape = [4] }}
[graph]
nodes = [
  {{ out = "a", op = "exp", in = "x" }},
  {{ out = "h", host = "identity", in = ["a"], results = [{{ dtype = "f32", shape = [4] }}]{} }},
  {{ out = "y", op = "tanh", in = "h" }},
]
[outputs]
y = "y"
)";

}  // namespace

TEST_CASE("host ways: every way gives what the interpreter gives, in the same order of calls") {
  using L = ir::Lowering;
  size_t inside = 0, nodes = 0, outside = 0, conditional = 0;
  for (HostWay own : {HostWay::automatic, HostWay::handshake, HostWay::script, HostWay::node}) {
    for (HostWay all : {HostWay::automatic, HostWay::handshake, HostWay::script, HostWay::node}) {
      if (own != HostWay::automatic && all != HostWay::automatic) continue;
      for (L loops : {L::unroll, L::node, L::host}) {
        CAPTURE(ir::name_of(own));
        CAPTURE(ir::name_of(all));
        CAPTURE(ir::name_of(loops));
        Graph g("ways");
        build_model(g, own);
        const Program p = compile(g, with(all, loops));
        REQUIRE(check(p).empty());
        outside += p.calls.size();
        for (const Exchange& e : p.exchanges) ++(e.way == HostWay::node ? nodes : inside);
        for (const Region& r : p.regions) {
          conditional += r.kind == Region::Kind::node && !p.exchanges.empty();
        }
        std::vector<double> said, wanted;
        Store store(Device::open("sim"));
        Executable e(p, store, functions(said));
        const HostFunctions reference = functions(wanted);
        for (uint64_t launch = 0; launch < 3; ++launch) {
          const HostTensor x = random_tensor({f32, {Dim(4), Dim(8)}}, 30 + launch, "x");
          ir::TensorMap params;
          for (const ParamBinding& b : p.params) params[b.name] = widen(store.get(b.name));
          HostTensor k(TensorType{f32, {}});
          k.set(0, 1.5);
          e.poison();
          const auto got = e.run({{"x", x}});
          const auto expected = ir::interpret(g.ir(), {{"x", widen(x)}, {"k", widen(k)}}, params,
                                              ir::Rounding::wide, reference);
          for (const auto& [name, want] : expected)
            CHECK(relative_error(got.at(name), want) < 1e-5);
          CHECK(relative_error(store.get("p"), params.at("p")) < 1e-5);
        }
        CHECK(said == wanted);
        CHECK(said.size() == 3 * 4);
      }
    }
  }
  CHECK(inside > 20);
  CHECK(nodes > 5);
  CHECK(outside > 10);
  CHECK(conditional >= 3);
}

TEST_CASE("host ways: a model file asks for one") {
  const auto way = [](const std::string& text) {
    const TomlModel m = read_toml(fmt::format(kModel, text), "m.toml");
    const Program p = compile(m.graph->ir());
    return p.exchanges.empty() ? HostWay::script : p.exchanges[0].way;
  };
  CHECK(way("") == HostWay::handshake);
  CHECK(way(", way = \"auto\"") == HostWay::handshake);
  CHECK(way(", way = \"handshake\"") == HostWay::handshake);
  CHECK(way(", way = \"break\"") == HostWay::script);
  CHECK(way(", way = \"node\"") == HostWay::node);
  const auto wrong = [](const std::string& text) {
    try {
      read_toml(fmt::format(kModel, text), "m.toml");
    } catch (const Error& e) {
      const Diagnostic& d = e.diagnostics().at(0);
      return fmt::format("{} {}:{} {}; {}", d.code, d.place.line, d.place.column, d.message,
                         d.suggestion);
    }
    return std::string("none");
  };
  CHECK(wrong(", way = \"handshak\"") ==
        "E0107 8:97 'way' of a host node is auto, handshake, break or node, not 'handshak'; did "
        "you mean 'handshake'?");
  CHECK(has(wrong(", way = 3"), "E0104 8:97"));
  CHECK(has(wrong(", wya = \"node\""), "E0102"));
}

TEST_CASE("host ways: flags, variables and files set the default") {
  const Bench b;
  write_text(b.at("h.toml"), fmt::format(kModel, ""));
  write_text(b.at("f.toml"), fmt::format(kModel, "") + "[compile]\nhost = \"node\"\n");
  write_text(b.at("own.toml"), fmt::format(kModel, ", way = \"handshake\""));
  const auto out = [&](const std::string& words, const std::string& variables = "") {
    const Bench::Result r = b.braid(words, variables);
    CHECK(r.code == 0);
    return r.out;
  };
  CHECK(has(out("inspect h.toml"), "1 graph, 1 host call inside"));
  CHECK(has(out("inspect h.toml"), "x0 identity  g0.n1  handshake"));
  CHECK(has(out("inspect h.toml --host=break"), "2 graphs, 1 host call "));
  CHECK(has(out("inspect h.toml --host=node"), "x0 identity  g0.n1 .. g0.n3  node"));
  CHECK(has(out("inspect h.toml", "BRAID_HOST=break"), "2 graphs, 1 host call "));
  CHECK(has(out("inspect f.toml"), "g0.n1 .. g0.n3  node"));
  CHECK(has(out("inspect f.toml --host=handshake"), "x0 identity  g0.n1  handshake"));
  CHECK(has(out("inspect own.toml --host=break"), "1 graph, 1 host call inside"));
  expect(b.braid("inspect h.toml --host=graph"), 2, "--host");
  expect(b.braid("inspect h.toml", "BRAID_HOST=script"), 2,
         "BRAID_HOST takes auto, handshake, break, node, not 'script'");
  const std::string way = "'host' is auto, handshake, break or node, not 'breaks'";
  write_text(b.at("w.toml"), fmt::format(kModel, "") + "[compile]\nhost = \"breaks\"\n");
  expect(b.braid("inspect w.toml"), 1, way);
  // The same numbers, whichever way.
  const std::string numbers = out("run h.toml --device sim");
  for (const char* host : {"break", "node", "handshake"}) {
    CHECK(out(fmt::format("run h.toml --device sim --host={}", host)) == numbers);
  }
  expect(b.braid("inspect h.toml --format=cpp"), 1, "E0879");
  const std::string why = out("explain h h.toml");
  CHECK(has(why, "waits for, the host function 'identity' (x0)"));
  CHECK(has(why, "why so: 8.4 us against 14.4 us for a break"));
  CHECK(has(out("explain h h.toml --host=break"),
            "fix: let the graph call it: way = \"handshake\" in TOML, .way in C++"));
}

TEST_CASE("host ways: reports say what is called, how and why") {
  Graph g("ways");
  build_model(g, HostWay::automatic);
  const Program p = compile(g, with(HostWay::automatic, ir::Lowering::node));
  const std::string text = text_of(p);
  CAPTURE(text);
  CHECK(has(text, "host calls inside"));
  CHECK(has(text, "x0 mix"));
  CHECK(has(text, " us against "));
  CHECK(has(text, "by handshake: a kernel of one block"));
  CHECK(has(text, "; the host functions come on top"));
  CHECK(has(text, "called inside the graph by a handshake: "));
  const report::Report r = report::make_report(p);
  REQUIRE(r.exchanges.size() == p.exchanges.size());
  for (const report::ExchangeRow& x : r.exchanges) {
    CHECK(x.where.starts_with("g"));
    CHECK(x.us >= 4);
  }
  const auto json =
      nlohmann::json::parse(report::to_json(r, p, report::sections_from("partitions,breaks")));
  CHECK(json["partitions"]["exchanges"].size() == p.exchanges.size());
  CHECK(json["partitions"]["exchanges"][0]["way"] == "handshake");
  CHECK(has(to_html(p), "\"exchanges\":[{\"function\":\"mix\""));
  CHECK(has(to_dot(p), "calls mix by a handshake"));
  CHECK(has(to_text(p), "host functions that graphs call\n  x0  mix"));
  // No dotted line of values leads from mailbox to mailbox.
  CHECK(!has(to_dot(p), "label=\"mailbox\", style=dotted"));

  const Program q = compile(g, with(HostWay::script, ir::Lowering::node));
  const report::Diff d = report::diff(p, q);
  const auto inside = std::find_if(d.quantities.begin(), d.quantities.end(), [](const auto& of) {
    return of.name == "host calls inside graphs";
  });
  REQUIRE(inside != d.quantities.end());
  CHECK(inside->a == static_cast<double>(p.exchanges.size()));
  CHECK(inside->b == 0);
  CHECK(std::find(d.lowered_a.begin(), d.lowered_a.end(), "mix (host): handshake") !=
        d.lowered_a.end());
}

}  // namespace braid
