// Random graphs with branches, loops and messages: well formed, kept by the text form, and what
// they give is the same afterwards.
#include <doctest/doctest.h>

#include <bit>
#include <set>
#include <string>

#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "random_control.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

/// Everything a run gives, as one text that tells all bits apart.
std::string run(const Graph& g, uint64_t seed, Rounding rounding, Observed* observed = nullptr) {
  TensorMap inputs, params;
  for (const Op& op : g.ops()) {
    const std::string name(g.strings[op.name]);
    const WideTensor value = widen(random_tensor(g.type(op.result), seed, name));
    if (op.kind == OpKind::input) inputs[name] = value;
    if (std::holds_alternative<ParamAttr>(op.attrs)) params[name] = value;
  }
  Observed seen;
  seen.steps = 2'000'000;
  const TensorMap outputs = interpret(g, inputs, params, rounding, {}, &seen);
  std::string all;
  const auto add = [&](const std::string& name, const WideTensor& t) {
    all += name + " " + to_string(t.type);
    for (double x : t.f) all += " " + std::to_string(std::bit_cast<uint64_t>(x));
    for (int64_t x : t.i) all += " " + std::to_string(x);
    all += "\n";
  };
  for (const auto& [name, t] : outputs) add(name, t);
  for (const auto& [name, t] : params) add(name, t);
  for (const Message& m : seen.messages) {
    all += std::string(name_of(m.kind)) + " " + m.text + " " + m.op + " at";
    for (int64_t i : m.iterations) all += " " + std::to_string(i);
    add(":", m.value);
  }
  if (observed) *observed = std::move(seen);
  return all;
}

test::RandomControlOptions options(uint64_t seed) {
  test::RandomControlOptions o;
  o.lowerings = seed % 2 == 0;
  o.symbolic = seed % 3 == 0;
  return o;
}

}  // namespace

TEST_CASE("2,000 random graphs with control flow survive the round trip and compute the same") {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Graph g = test::random_control(seed, options(seed));
    const std::string text = print(g);
    INFO(seed, "\n", text);
    REQUIRE(verify(g).empty());
    Graph back = parse(text);
    REQUIRE(print(back) == text);
    g.bind_dims({});
    back.bind_dims({});
    REQUIRE(verify(g).empty());
    const Rounding rounding = seed % 5 == 0 ? Rounding::dtype : Rounding::wide;
    REQUIRE(run(g, seed, rounding) == run(back, seed, rounding));
  }
}

TEST_CASE("random graphs with control flow hold what they promise") {
  size_t graphs = 0, branches = 0, loops = 0, rows = 0, endless = 0, messages = 0, deepest = 0;
  size_t empty_bodies = 0, writing_bodies = 0, swaps = 0, floats = 0, unlike = 0;
  std::set<size_t> iterations;
  std::set<int64_t> limits;
  double largest = 0;
  for (uint64_t seed = 5000; seed < 5400; ++seed) {
    Graph g = test::random_control(seed, options(seed));
    g.bind_dims({});
    for_each_graph(g, [&](const Graph& one) {
      ++graphs;
      for (const Op& op : one.ops()) {
        branches += op.kind == OpKind::branch;
        if (const auto* a = std::get_if<LoopAttr>(&op.attrs)) {
          ++loops;
          endless += !a->limit;
          if (a->limit) limits.insert(a->limit->value());
          const Graph& body = one.bodies[a->body];
          rows += body.outputs.size() > a->carried;
          for (uint32_t k = 0; k + 1 < a->carried; ++k) {
            swaps += body.outputs[k].value == body.ops()[k + 2].result &&
                     body.outputs[k + 1].value == body.ops()[k + 1].result;
          }
        }
        for (uint32_t b : bodies_of(op)) {
          const Graph& body = one.bodies[b];
          bool writes = false, empty = true;
          for (const Op& inner : body.ops()) {
            writes |= inner.kind == OpKind::assign || inner.kind == OpKind::update;
            empty &= inner.kind == OpKind::input || inner.kind == OpKind::param;
          }
          empty_bodies += empty;
          writing_bodies += writes;
        }
      }
    });
    Observed seen;
    const std::string once = run(g, seed, Rounding::dtype, &seen);
    unlike += once != run(g, seed + 1, Rounding::dtype);
    messages += seen.messages.size();
    for (const Message& m : seen.messages) {
      iterations.insert(m.iterations.size());
      deepest = std::max(deepest, m.iterations.size());
      for (double x : m.value.f) {
        ++floats;
        largest = std::max(largest, std::abs(x));
      }
    }
  }
  MESSAGE(graphs << " graphs, " << branches << " branches, " << loops << " loops, " << messages
                 << " messages, " << swaps << " swaps, " << empty_bodies << " empty bodies");
  CHECK(branches > 500);
  CHECK(loops > 500);
  CHECK(rows > 200);
  CHECK(endless > 100);
  CHECK(messages > 1000);
  CHECK(deepest == 3);
  CHECK(iterations.size() == 4);
  CHECK(limits.size() == 6);
  CHECK(empty_bodies > 50);
  CHECK(writing_bodies > 200);
  CHECK(swaps > 20);
  CHECK(floats > 1000);
  CHECK(largest <= 6);
  CHECK(unlike > 390);  // inputs matter
}

TEST_CASE("a restricted random graph has neither messages nor loops without a limit") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    test::RandomControlOptions o;
    o.sends = o.endless = o.stores = false;
    o.depth = 1;
    const Graph g = test::random_control(seed, o);
    for_each_graph(g, [&](const Graph& one) {
      for (const Op& op : one.ops()) {
        CHECK(op.kind != OpKind::send);
        CHECK(op.kind != OpKind::param);
        if (const auto* a = std::get_if<LoopAttr>(&op.attrs)) CHECK(a->limit);
      }
      for (const Graph& body : one.bodies) {
        if (&one != &g) FAIL_CHECK("a body in " << body.name);
      }
    });
  }
}
