// The tool as a process, where something is too large, full or interrupted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

#include "cli_bench.hpp"
#include "frontend/npy.hpp"

using namespace braid;
using namespace braid::testing;

namespace {

/// No file that was to be renamed is left, here or in the cache.
void expect_no_temporaries(const Bench& b) {
  for (const auto& e : fs::recursive_directory_iterator(b.folder.path)) {
    CHECK_MESSAGE(e.path().extension() != ".tmp", e.path() << " was left behind");
  }
}

/// A model of many kernels, which takes NVRTC seconds.
std::string slow_model() {
  std::string params, nodes = "[graph]\nnodes = [\n", in = "x";
  for (int i = 0; i < 60; ++i) {
    params += fmt::format("w{} = {{ dtype = \"f32\", shape = [{}, {}] }}\n", i, 100 + i, 101 + i);
    nodes +=
        fmt::format("  {{ out = \"h{}\", op = \"matmul\", in = [\"{}\", \"w{}\"] }},\n", i, in, i);
    in = fmt::format("h{}", i);
  }
  return "format = 1\n[inputs]\nx = { dtype = \"f32\", shape = [7, 100] }\n[params]\n" + params +
         nodes + "]\n[outputs]\ny = \"" + in + "\"\n";
}

}  // namespace

TEST_CASE("dims that are too large, and tensors that do not fit, are 1 and say what is needed") {
  const Bench b;
  std::string text = text_of(b.at("m.toml"));
  text.replace(text.find(", max = 64"), 10, "");
  write_text(b.at("free.toml"), text);
  const std::string most = "9223372036854775807";
  for (const char* command : {"check", "inspect", "run --device sim"}) {
    CAPTURE(command);
    expect(b.braid(fmt::format("{} free.toml --dim B={}", command, most)), 1,
           "error[E0604]: f32[B,8] overflows");
  }
  expect(b.braid("check free.toml --dim B=9223372036854775808"), 2, "--dim takes NAME=NUMBER");
  // 2^55 rows of 32 bytes overflow no count, but no kernel is that large.
  for (const char* command : {"inspect", "run --device sim"}) {
    const Bench::Result r = b.braid(fmt::format("{} free.toml --dim B=36028797018963968", command));
    expect(r, 1, "error[E0705]: ");
    CHECK(has(r.err, "it computes h (dot)"));
  }
  // 2^30 rows with 2^13 columns are as large as it gets: no machine has that much.
  write_text(b.at("large.toml"), R"(format = 1
[inputs]
x = { dtype = "f32", shape = [1073741824, 8192] }
[graph]
nodes = [ { out = "y", op = "reduce_sum", in = ["x"] } ]
[outputs]
y = "y"
)");
  expect(b.braid("inspect large.toml"), 0);
  const Bench::Result r = b.braid("run large.toml --device sim");
  expect(r, 1, "error[E0804]: out of memory on the host: 'model' needs ");
  CHECK(has(r.err, "its largest tensor is 'x', f32[1073741824,8192], of 32 TiB"));
}

TEST_CASE("an extent of 0 is one like any other") {
  const Bench b;
  Bench::Result r = b.braid("run m.toml --device sim --dim B=0 --output y=@y.npy");
  expect(r, 0);
  CHECK(has(r.out, "y f32[0,5]  []"));
  CHECK(read_npy(b.at("y.npy")).type == TensorType{DType::f32, {0, 5}});
}

TEST_CASE("a file that does not fit is 1, and nothing is left of it") {
  const Bench b;
  if (!nvrtc_is_there(b)) return;
  expect(b.braid("compile m.toml -o m.braid"), 0);
  const std::string whole = text_of(b.at("m.braid"));
  REQUIRE(whole.size() > 4096);
  // The shell's limit on the size of files, in blocks.
  expect(b.braid("compile m.toml -o m.braid --no-fuse", "ulimit -f 2;"), 1,
         "cannot write m.braid: File too large");
  CHECK(text_of(b.at("m.braid")) == whole);  // as it was
  expect(b.braid("compile m.toml -o new.braid", "ulimit -f 2;"), 1, "File too large");
  CHECK(!fs::exists(b.at("new.braid")));
  expect_no_temporaries(b);
  expect(b.braid("compile m.toml -o /dev/full"), 1, "cannot write /dev/full: No space left");
  expect(b.braid("inspect m.toml > /dev/full"), 1,
         "cannot write to standard output: No space left");
}

TEST_CASE("Ctrl-C while kernels are compiled is 130, and nothing is left") {
  const Bench b;
  if (!nvrtc_is_there(b)) return;
  write_text(b.at("slow.toml"), slow_model());
  const auto start = std::chrono::steady_clock::now();
  const Bench::Result r = b.braid("compile slow.toml -o slow.braid --no-fuse",
                                  "timeout --preserve-status -s INT 0.7 env");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  INFO("after ", took.count(), " s: ", r.err);
  CHECK(r.code == 130);
  CHECK(has(r.err, "error: interrupted; nothing was written\n"));
  CHECK(!fs::exists(b.at("slow.braid")));
  expect_no_temporaries(b);
  // What was compiled is kept, and the next run goes on from there.
  expect(b.braid("compile m.toml -o m.braid"), 0);
}
