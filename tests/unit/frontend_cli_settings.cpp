// The tool as a process: settings from the file, the environment and flags.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli_bench.hpp"

using namespace braid;
using namespace braid::testing;

TEST_CASE("settings: flags beat variables, variables beat the file, the file beats defaults") {
  const Bench b;
  CHECK(b.braid("inspect m.toml").err.empty());  // defaults are no news
  write_text(b.at("s.toml"), text_of(b.at("m.toml")) +
                                 "[compile]\ntarget = \"sm_80\"\n"
                                 "streams = 4\nfuse = false\n");
  Bench::Result r = b.braid("inspect s.toml");
  expect(r, 0);
  CHECK(r.err ==
        "settings: target=sm_80 (s.toml:18:10), streams=4 (s.toml:19:11), fuse=off "
        "(s.toml:20:8)\n");
  CHECK(has(r.out, "target sm_80"));
  const std::string unfused = r.out;
  r = b.braid("inspect s.toml", "BRAID_STREAMS=5 BRAID_FUSE=1 BRAID_MATH=tf32");
  CHECK(r.err ==
        "settings: target=sm_80 (s.toml:18:10), streams=5 (BRAID_STREAMS), math=tf32 "
        "(BRAID_MATH), fuse=on (BRAID_FUSE)\n");
  CHECK(r.out != unfused);
  r = b.braid("inspect s.toml --streams=6 --no-fuse --target sm_90 --math strict --no-reduce",
              "BRAID_STREAMS=5 BRAID_FUSE=1 BRAID_MATH=tf32");
  CHECK(r.err ==
        "settings: target=sm_90 (--target), streams=6 (--streams), math=strict (--math), "
        "fuse=off (--no-fuse), reduce=off (--no-reduce)\n");
  CHECK(b.braid("inspect s.toml --fuse").out != unfused);
  r = b.braid("inspect s.toml --no-fuse --force-lanes");
  CHECK(has(r.err, "fuse=off (--no-fuse), force_lanes=on (--force-lanes)"));
  CHECK(b.braid("inspect s.toml -q").err.empty());
  CHECK(b.braid("inspect m.toml", "BRAID_FUSE=").err.empty());
  CHECK(b.braid("inspect m.toml", "BRAID_FUSE=0").out == b.braid("inspect m.toml --no-fuse").out);
  CHECK(b.braid("opt m.toml", "BRAID_FUSE=0").out == b.braid("opt m.toml --no-fuse").out);
  if (nvrtc_is_there(b)) {
    expect(b.braid("compile s.toml -o s.braid"), 0, "settings: target=sm_80 (s.toml:18:10)");
    CHECK(b.braid("inspect s.braid", "BRAID_FUSE=0").err.empty());  // compiled already
    for (const char* flag :
         {"--no-fuse", "--group", "--on-break=error", "--require-single-graph",
          "--memory-limit=1MiB", "--force-lanes", "--streams 3", "--branches=node", "--loops=host",
          "--host=break", "--unroll=2", "--unroll-limit=9"}) {
      expect(b.braid(fmt::format("inspect s.braid {}", flag)), 2, "s.braid is compiled already");
    }
  }
}

TEST_CASE("settings: a single graph can be required and not required") {
  const Bench b;
  write_text(b.at("h.toml"), R"(format = 1
name = "h"
[inputs]
x = { dtype = "f32", shape = [4] }
[graph]
nodes = [
  { out = "a", op = "exp", in = "x" },
  { out = "b", op = "exp", in = "a", graph = false },
  { out = "y", op = "exp", in = "b" },
]
[outputs]
y = "y"
)");
  const std::string required = "BRAID_REQUIRE_SINGLE_GRAPH=1";
  expect(b.braid("inspect h.toml", required), 1, "error[E0708]: 'h' needs 2 graphs");
  expect(b.braid("inspect h.toml --require-single-graph"), 1, "error[E0708]");
  expect(b.braid("inspect h.toml --no-require-single-graph", required), 0,
         "require_single_graph=off (--no-require-single-graph)");
}

TEST_CASE("settings: programmatic edges and reductions in two steps by file, variable and flag") {
  const Bench b;
  write_text(b.at("two.toml"),
             "format = 1\nname = \"two\"\n[inputs]\nx = { dtype = \"f32\", shape = [1048576] }\n"
             "[graph]\nnodes = [ { out = \"y\", op = \"reduce_sum\", in = [\"x\"] } ]\n"
             "[outputs]\ny = \"y\"\n[compile]\npdl = false\n");
  const std::string edges = "inspect two.toml --show=partitions,edges";
  CHECK(has(b.braid(edges).out, "0 programmatic"));
  CHECK(has(b.braid(edges, "BRAID_PDL=1").out, "1 programmatic"));
  CHECK(has(b.braid(edges + " --no-pdl", "BRAID_PDL=1").out, "0 programmatic"));
  CHECK(has(b.braid(edges).out, "2 ops -> 2 kernels"));
  CHECK(has(b.braid(edges, "BRAID_SPLIT=0").out, "2 ops -> 1 kernel"));
  CHECK(has(b.braid(edges + " --split", "BRAID_SPLIT=0").out, "2 ops -> 2 kernels"));
}

TEST_CASE("settings: what a variable, flag or file cannot hold names it") {
  const Bench b;
  expect(b.braid("check m.toml", "BRAID_STREAMS=0"), 2,
         "BRAID_STREAMS takes a number from 1 to 32, not '0'");
  expect(b.braid("check m.toml", "BRAID_STREAMS=4x"), 2, "BRAID_STREAMS takes a number");
  expect(b.braid("check m.toml", "BRAID_TARGET=sm_91"), 2, "BRAID_TARGET takes sm_80, ");
  expect(b.braid("check m.toml", "BRAID_MATH=fast"), 2,
         "BRAID_MATH takes strict or tf32, not 'fast'");
  expect(b.braid("check m.toml", "BRAID_REUSE=maybe"), 2, "BRAID_REUSE takes 1 or 0, not 'maybe'");
  expect(b.braid("inspect m.toml --target sm_91"), 2, "--target takes sm_80, ");
  expect(b.braid("inspect m.toml --math fast"), 2, "--math");
  // A stronger one is asked first.
  expect(b.braid("inspect m.toml --streams 3", "BRAID_STREAMS=0"), 0);
}

TEST_CASE("settings: a limit on memory in a file takes units") {
  const Bench b;
  const auto with = [&](const std::string& limit) {
    write_text(b.at("l.toml"),
               text_of(b.at("m.toml")) + "\n[compile]\nmemory_limit = " + limit + "\n");
    return b.braid("inspect l.toml");
  };
  Bench::Result r = with("\"64MiB\"");
  expect(r, 0);
  CHECK(has(r.err, "memory_limit=67108864 (l.toml:"));
  expect(with("67108864"), 0, r.err);
  expect(with("\"64MB\""), 1, "'memory_limit' is a number of bytes above 0, not '64MB'\n");
  r = with("0.5");
  expect(r, 1, "error[E0104]");
  CHECK(has(r.err, "as in 1000000, \"64KiB\", \"3MiB\", \"2GiB\""));
}

TEST_CASE("--on-break=warn and E0806 say where") {
  const Bench b;
  std::filesystem::create_directory(b.at("sub"));
  write_text(b.at("sub/h.toml"), R"(format = 1
name = "h"
[inputs]
x = { dtype = "f32", shape = [4] }
[graph]
nodes = [
  { out = "a", op = "exp", in = "x" },
  { out = "h", host = "sample", in = ["a"], results = [{ dtype = "f32", shape = [4] }] },
]
[outputs]
y = "h"
)");
  Bench::Result r = b.braid("inspect sub/h.toml --host=break --on-break=warn");
  expect(r, 0);
  CHECK(has(r.err, "sub/h.toml:8:23: warning[E0707]: 'h (host)' stands outside graphs: "));
  CHECK(has(r.err, "    8 |   { out = \"h\", host = \"sample\""));
  CHECK(has(r.err, "\n1 warning\n"));
  CHECK(!has(r.err, "0 errors"));
  r = b.braid("run sub/h.toml --device sim");
  CHECK(r.code == 1);
  CHECK(has(r.err, "h.toml:8:23"));
  CHECK(has(r.err, "no host function 'sample' is registered"));
  CHECK(has(r.err, "the braid tool has identity and print alone; a program gives its own"));
}

TEST_CASE("--dim of a constant says that it is one") {
  const Bench b;
  std::string text = text_of(b.at("m.toml"));
  text.replace(text.find("[inputs]"), 0, "D = 8\nF = \"4*D\"\n");
  write_text(b.at("d.toml"), text);
  expect(b.braid("check d.toml --dim B=5"), 0);
  const Bench::Result r = b.braid("check d.toml --dim B=5 --dim D=16");
  expect(r, 2, "d.toml:5:1: error[E0601]: --dim D: the model has 'D' as a constant");
  CHECK(has(r.err, "a symbol is D = { default = 16 }"));
  expect(b.braid("inspect d.toml --dim F=16"), 2, "error[E0601]: --dim F");
}

TEST_CASE("a plan that is cut off before its edges does not count them") {
  const Bench b;
  Bench::Result r = b.braid("opt m.toml --no-fuse --until memory");
  expect(r, 0);
  CHECK(has(r.out, "edges not planned yet"));
  CHECK(!has(r.out, "0 edges"));
  CHECK(!has(b.braid("opt m.toml --no-fuse --until edges").out, "not planned"));
  CHECK(!has(b.braid("inspect m.toml --show=all").out, "not planned"));
}

TEST_CASE("the copy of a param's old value is called a copy") {
  const Bench b;
  write_text(b.at("s.toml"), R"(format = 1
[inputs]
x = { dtype = "f32", shape = [64] }
[params]
s = { dtype = "f32", shape = [64] }
[graph]
nodes = [
  { assign = "s", in = "x" },
  { out = "y", op = "add", in = ["s", "x"] },
]
[outputs]
old = "s"
y = "y"
)");
  const std::string out = b.braid("inspect s.toml --no-fuse").out;
  CHECK(!has(out, "(cast)"));
  CHECK((!has(out, "s/old") || has(out, "s/old (copy)")));
}

TEST_CASE("a cache that cannot be written is noted once, and the kernels are there") {
  const Bench b;
  if (!nvrtc_is_there(b)) return;
  write_text(b.at("cache"), "a file where the folder should be");
  Bench::Result r = b.braid("compile m.toml -o m.braid --no-fuse");
  expect(r, 0, "the kernels were not kept: cannot ");
  CHECK(r.err.find("not kept") == r.err.rfind("not kept"));
  expect(b.braid("check m.braid"), 0);
}
