// Warnings of model files: E0507, a param's old value read by mistake, and E0508, what nothing
// uses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli_bench.hpp"
#include "frontend/toml.hpp"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr const char* kDecoder = R"(format = 1
[inputs]
row = { dtype = "f32", shape = [1, 8] }
[scalars]
pos = { dtype = "i32" }
[params]
cache = { dtype = "f32", shape = [16, 8], init = "zeros" }
[graph]
nodes = [
)";

/// "line:col code" of each warning of a decoder's nodes.
std::vector<std::string> warnings(const std::string& text) {
  std::vector<std::string> found;
  for (const Diagnostic& d : read_toml(text, "m.toml").warnings) {
    CHECK(d.severity == Severity::warning);
    CHECK(!d.suggestion.empty());
    found.push_back(fmt::format("{}:{} {}", d.place.line, d.place.column, d.code));
  }
  return found;
}

std::vector<std::string> of_nodes(const std::string& nodes,
                                  const std::string& outputs = "y = \"y\"") {
  return warnings(kDecoder + nodes + "]\n[outputs]\n" + outputs + "\n");
}

using List = std::vector<std::string>;

}  // namespace

TEST_CASE("warnings: the old value of a cache that is updated") {
  const std::string update = R"(  { update = "cache", in = ["row"], at = ["pos", 0] },)"
                             "\n";
  const std::string named = R"(  { update = "cache", in = ["row"], at = ["pos", 0], out = "now" },)"
                            "\n";
  const std::string old = R"(  { out = "y", op = "matmul", in = ["row", "cache"], tb = true },)"
                          "\n";
  CHECK(of_nodes(update + old) == List{"11:44 E0507"});
  CHECK(of_nodes(old + update) == List{"10:44 E0507"});  // the order means nothing
  CHECK(of_nodes(named + old) == List{"11:44 E0507"});
  CHECK(of_nodes(named + R"(  { out = "y", op = "matmul", in = ["row", "now"], tb = true },)") ==
        List{});
  CHECK(of_nodes(named + R"(  { out = "y", op = "add", in = ["cache", "now"] },)") == List{});
  CHECK(of_nodes(update, "y = \"cache\"") == List{"13:5 E0507"});
  // What the new value is made of is the old one by necessity.
  CHECK(of_nodes(R"(  { out = "first", op = "slice", in = "cache", stop = 1 },
  { out = "next", op = "add", in = ["first", "row"] },
  { update = "cache", in = ["next"], at = ["pos", 0] },
)",
                 "y = \"next\"") == List{});

  const std::vector<Diagnostic> ds =
      read_toml(kDecoder + update + old + "]\n[outputs]\ny = \"y\"\n", "m.toml").warnings;
  REQUIRE(ds.size() == 1);
  CHECK(has(ds[0].message, "'cache' from before the update"));
  CHECK(has(ds[0].suggestion, "out = \"cache_now\""));
  REQUIRE(ds[0].notes.size() == 1);
  CHECK(ds[0].notes[0].place.line == 10);
}

TEST_CASE("warnings: assigning is a trap only where the new value is nowhere else") {
  const std::string scattered =
      R"(  { out = "next", op = "concat", in = ["row", "tail"] },
  { out = "tail", op = "slice", in = "cache", stop = 15 },
  { assign = "cache", in = ["next"] },
)";
  const auto with = [&](const std::string& name) {
    return of_nodes(
        scattered + "  { out = \"y\", op = \"matmul\", in = [\"row\", \"" + name +
            "\"], tb = true },\n  { out = \"u\", op = \"cast\", in = \"pos\", dtype = \"f32\" },\n",
        "y = \"y\"\nu = \"u\"");
  };
  CHECK(with("cache") == List{"13:44 E0507"});
  CHECK(with("next") == List{});
  // A counter: the number before is what is meant.
  const std::string counter = R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[params]
count = { dtype = "f32", shape = [], init = "zeros" }
before = { dtype = "f32", shape = [4], init = "zeros" }
[graph]
nodes = [
  { out = "next", op = "add", in = ["count", 1] },
  { assign = "count", in = "next" },
  { out = "d", op = "sub", in = ["x", "before"] },
  { assign = "before", in = "x" },
  { out = "y", op = "mul", in = ["d", "count"] },
]
[outputs]
y = "y"
)";
  CHECK(warnings(counter) == List{});
}

TEST_CASE("warnings: what nothing uses") {
  CHECK(warnings(R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
x2 = { dtype = "f32", shape = [4] }
[scalars]
gain = { dtype = "f32" }
[params]
w = { dtype = "f32", shape = [4] }
[block.b]
in = ["a", "z"]
out = ["c"]
params.v = { dtype = "f32", shape = [4] }
params.s = { dtype = "f32", shape = [4] }
nodes = [
  { out = "c", op = "relu", in = "a" },
  { out = "e", op = "exp", in = "a" },
  { assign = "s", in = "a" },
]
[block.stateless]
in = ["a"]
out = ["c"]
nodes = [ { out = "c", op = "relu", in = "a" } ]
[block.never]
in = ["a"]
out = ["c"]
nodes = [ { out = "c", block = "b", in = ["a", "a"] } ]
[graph]
nodes = [
  { out = "y", op = "exp", in = "x" },
  { out = "dead", op = "relu", in = "y" },
  { out = "stateful", block = "b", in = ["x", "x"] },
  { out = "idle", block = "stateless", in = ["x"] },
]
[outputs]
y = "y"
)") == List{"4:1 E0508", "6:1 E0508", "8:1 E0508", "10:12 E0508", "12:8 E0508", "16:11 E0508",
            "23:8 E0508", "30:11 E0508", "32:11 E0508"});
}

TEST_CASE("warnings: a pure host function needs a use, another does not") {
  CHECK(warnings(R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[graph]
nodes = [
  { out = "y", op = "exp", in = "x" },
  { out = "a", host = "f", in = ["x"], pure = true, results = [{ dtype = "f32", shape = [4] }] },
  { out = "b", host = "f", in = ["x"], results = [{ dtype = "f32", shape = [4] }] },
]
[outputs]
y = "y"
)") == List{"7:11 E0508"});
}

TEST_CASE("warnings go to stderr, are counted, and change neither result nor exit code") {
  const Bench b;
  const std::string clean = b.braid("run m.toml --device sim").out;
  std::string text = text_of(b.at("m.toml"));
  text.replace(text.find("w ="), 0, "unused = { dtype = \"f32\", shape = [2] }\n");
  text.replace(text.find("[params]"), 0, "k = { dtype = \"f32\", shape = [2] }\n");
  write_text(b.at("w.toml"), text);
  for (const char* command : {"check", "inspect", "opt", "run --device sim"}) {
    const Bench::Result r = b.braid(std::string(command) + " w.toml");
    expect(r, 0);
    CHECK(has(r.err, "w.toml:7:1: warning[E0508]: nothing uses the input 'k'\n"));
    CHECK(has(r.err, "w.toml:9:1: warning[E0508]: nothing uses the param 'unused'\n"));
    CHECK(has(r.err, "\n2 warnings\n"));
    CHECK(!has(r.out, "warning"));
  }
  CHECK(b.braid("run w.toml --device sim").out == clean);
  const std::string json = b.braid("check w.toml --diagnostics=json").err;
  CHECK(has(json, R"("line":7,"col":1,)"));
  CHECK(has(json, R"("severity":"warning","code":"E0508")"));
  for (const char* example : {"mlp", "mlp_bf16", "encoder", "towers"}) {
    const std::string path = fmt::format(BRAID_SOURCE_DIR "/examples/{}.toml", example);
    CHECK_MESSAGE(load_toml(path).warnings.empty(), example);
  }
}
