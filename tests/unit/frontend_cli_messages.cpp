// The tool as a process: branches, loops and messages.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli_bench.hpp"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr const char* kModel = R"(format = 1
name = "loops"
[inputs]
x = { dtype = "f32", shape = [4] }
[block.turn]
in    = ["x"]
out   = ["y"]
nodes = [
  { out = "h", op = "mul", in = ["x", 0.5] },
  { out = "y", op = "add", in = ["h", 1] },
  { print = "y", label = "now" },
]
[block.keep]
in    = ["x"]
out   = ["x"]
nodes = []
[graph]
nodes = [
  { out = "s", op = "reduce_sum", in = ["x"] },
  { out = "yes", op = "lt", in = ["s", 1e9] },
  { out = "a", if = "yes", then = "turn", else = "keep", in = ["x"] },
  { out = "y", loop = 3, body = "turn", in = ["a"] },
  { check = "range", in = ["y"], high = 1000, label = "small" },
]
[outputs]
y = "y"
)";

}  // namespace

TEST_CASE("run: messages are shown, counted or neither") {
  const Bench b;
  write_text(b.at("l.toml"), kModel);
  Bench::Result r = b.braid("run l.toml --device sim --steps 2");
  expect(r, 0);
  CHECK(has(r.err, "now f32[4] = ["));
  CHECK(has(r.err, "l.toml:11:13  launch 0\n"));
  CHECK(has(r.err, "l.toml:11:13  launch 0, iteration 2\n"));
  CHECK(has(r.err, "l.toml:11:13  launch 1, iteration 0\n"));
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 8);
  const std::string out = r.out;
  r = b.braid("run l.toml --device sim --steps 2 --messages=count");
  expect(r, 0);
  CHECK(has(r.err, "8 messages from launches"));
  CHECK(!has(r.err, "now f32"));
  CHECK(r.out == out);
  r = b.braid("run l.toml --device sim --messages=off");
  CHECK(!has(r.err, "message"));
  r = b.braid("run l.toml --device sim --diagnostics=json");
  CHECK(has(r.err, "\"severity\":\"note\""));
  expect(b.braid("run l.toml --device sim --messages=some"), 2);
}

TEST_CASE("run: a check that fails fails the launch, after what was sent before it") {
  const Bench b;
  std::string model = kModel;
  model.replace(model.find("high = 1000"), 11, "high = -5");
  write_text(b.at("l.toml"), model);
  const Bench::Result r = b.braid("run l.toml --device sim");
  expect(r, 1, "E0860");
  CHECK(has(r.err, "l.toml:23:13"));
  CHECK(has(r.err, "iteration 2\n"));
}

TEST_CASE("settings: how branches and loops are carried out") {
  const Bench b;
  write_text(b.at("l.toml"), std::string(kModel) +
                                 "[compile]\nbranches = \"node\"\nunroll = 2\nunroll_limit = 64\n");
  Bench::Result r = b.braid("inspect l.toml", "BRAID_LOOPS=node");
  expect(r, 0);
  CHECK(
      r.err ==
      "settings: branches=node (l.toml:28:12), loops=node (BRAID_LOOPS), unroll=2 (l.toml:29:10), "
      "unroll_limit=64 (l.toml:30:16)\n");
  r = b.braid("inspect l.toml --branches=select --loops=host --unroll=1 --unroll-limit=0");
  CHECK(r.err ==
        "settings: branches=select (--branches), loops=host (--loops), unroll=1 (--unroll), "
        "unroll_limit=0 (--unroll-limit)\n");
  expect(b.braid("inspect l.toml --branches=unroll"), 2);
  expect(b.braid("inspect l.toml", "BRAID_LOOPS=select"), 2,
         "BRAID_LOOPS takes auto, unroll, node, host, not 'select'");
  expect(b.braid("inspect l.toml", "BRAID_UNROLL=0"), 2, "BRAID_UNROLL takes a number from 1");
  const std::string expected = b.braid("run l.toml --device sim").out;
  CHECK(!expected.empty());
  for (const char* how : {"--branches=select --loops=unroll", "--branches=predicate --loops=node",
                          "--branches=node --loops=host", "--branches=host --loops=auto"}) {
    CHECK(b.braid(fmt::format("run l.toml --device sim --verify {}", how)).out == expected);
  }
}

TEST_CASE("a .bir with branches, loops and messages is a model like any other") {
  const Bench b;
  write_text(b.at("l.toml"), kModel);
  const Bench::Result text = b.braid("opt l.toml --until bind");
  expect(text, 0);
  write_text(b.at("l.bir"), text.out);
  expect(b.braid("check l.bir"), 0);
  CHECK(b.braid("run l.bir --device sim").out == b.braid("run l.toml --device sim").out);
  CHECK(has(b.braid("run l.bir --device sim").err, "now f32[4] = ["));
}
