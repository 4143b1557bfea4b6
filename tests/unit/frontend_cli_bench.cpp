// `bench` without a GPU: --dry launches in all ways on the simulator, and leaves the times out.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli_bench.hpp"
#include "frontend/npy.hpp"

using namespace braid;
using namespace braid::testing;
using nlohmann::json;

namespace {

json bench_json(const Bench& b, const std::string& words) {
  const Bench::Result r = b.braid("bench " + words + " --dry --json");
  INFO("stderr: ", r.err);
  REQUIRE(r.code == 0);
  return json::parse(r.out);
}

/// A branch that is a conditional node, and a call by a host node.
constexpr const char* kNodes = R"(format = 1
name = "nodes"
[inputs]
x = { dtype = "f32", shape = [4] }
[block.double]
in = ["x"]
out = ["y"]
nodes = [ { out = "y", op = "add", in = ["x", "x"] } ]
[block.keep]
in = ["x"]
out = ["x"]
nodes = []
[graph]
nodes = [
  { out = "sum", op = "reduce_sum", in = ["x"] },
  { out = "yes", op = "gt", in = ["sum"], rhs = 0 },
  { out = "y", if = "yes", then = "double", else = "keep", in = ["x"], lower = "node" },
]
[outputs]
y = "y"
)";

constexpr const char* kHostNode = R"(format = 1
name = "host"
[inputs]
x = { dtype = "f32", shape = [4] }
[graph]
nodes = [
  { out = "h", op = "relu", in = ["x"] },
  { out = "r", host = "identity", in = ["h"], results = [{ dtype = "f32", shape = [4] }], way = "node" },
  { out = "y", op = "neg", in = ["r"] },
]
[outputs]
y = "y"
)";

}  // namespace

TEST_CASE("bench leaves out the kernels one by one where only a graph can hold them") {
  const Bench b;
  const auto left_out = [&](const char* model, const std::string& why) {
    write_text(b.at("n.toml"), model);
    const json j = bench_json(b, "n.toml --fresh 2");
    CHECK(j.at("stream").is_null());
    CHECK(has(j.at("stream_left_out").get<std::string>(), why));
    const Bench::Result r = b.braid("bench n.toml --dry");
    CHECK(r.code == 0);
    CHECK(has(r.out, "stream   left out: "));
    CHECK(has(r.out, why));
    CHECK(has(r.out, "graph  "));
  };
  write_text(b.at("n.toml"), kNodes);
  CHECK(bench_json(b, "n.toml").at("kernels") == 3);  // the conditional node is none
  left_out(kNodes, "y (branch) is a conditional node, n.toml:17:21");
  left_out(kHostNode, "is called by a host node");
  CHECK(!bench_json(b, "m.toml").contains("stream_left_out"));
}

TEST_CASE("bench --fresh gives each launch its own inputs, bound or copied") {
  const Bench b;
  for (int i = 0; i < 3; ++i) {
    write_npy(b.at(fmt::format("x{}.npy", i)),
              random_tensor({DType::f32, {7, 8}}, static_cast<uint64_t>(i), "x"));
  }
  const json j =
      bench_json(b,
                 "m.toml --fresh 3 --input x=@x0.npy --input x=@x1.npy --input x=@x2.npy "
                 "--output y=@y0.npy --output y=@y1.npy --output h=@h0.npy");
  CHECK(j.at("schema") == "braid.bench/1");
  CHECK(j.at("kernels") == 2);
  CHECK(j.at("fresh").at("sets") == 3);
  for (const char* way : {"bind", "copy"}) CHECK(j.at("fresh").at(way).is_null());
  CHECK(j.at("differs") == "");
  for (int i = 0; i < 2; ++i) {
    expect(
        b.braid(fmt::format("run m.toml --device sim --input x=@x{0}.npy --output y=@r{0}.npy", i)),
        0);
    CHECK(read_npy(b.at(fmt::format("y{}.npy", i))).bytes ==
          read_npy(b.at(fmt::format("r{}.npy", i))).bytes);
  }
  CHECK(read_npy(b.at("h0.npy")).type.shape.extents() == std::vector<int64_t>{7, 5});
  CHECK(!bench_json(b, "m.toml").contains("fresh"));
  CHECK(has(b.braid("bench m.toml --dry --fresh 2").out, "\ncopy  "));
}

TEST_CASE("bench measures every way from the same state, and puts it back") {
  const Bench b;
  write_text(b.at("s.toml"), R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[params]
total = { dtype = "f32", shape = [4], init = "zeros" }
[graph]
nodes = [
  { out = "next", op = "add", in = ["x", "total"] },
  { assign = "total", in = ["next"], out = "now" },
]
[outputs]
y = "now"
)");
  for (int i = 0; i < 2; ++i) {
    write_npy(b.at(fmt::format("x{}.npy", i)),
              random_tensor({DType::f32, {4}}, static_cast<uint64_t>(i) + 5, "x"));
  }
  const json j = bench_json(b,
                            "s.toml --fresh 2 --input x=@x0.npy --input x=@x1.npy --output "
                            "y=@y0.npy --output y=@y1.npy");
  CHECK(j.at("differs") == "");
  for (int i = 0; i < 2; ++i) {
    CHECK(read_npy(b.at(fmt::format("y{}.npy", i))).bytes ==
          read_npy(b.at(fmt::format("x{}.npy", i))).bytes);
  }
}

TEST_CASE("bench refuses inputs and outputs that do not fit") {
  const Bench b;
  write_npy(b.at("x.npy"), random_tensor({DType::f32, {4, 8}}, 1, "x"));
  expect(b.braid("bench m.toml --dry --input q=@x.npy"), 2, "--input");
  expect(b.braid("bench m.toml --dry --output q=@x.npy"), 2, "no output 'q'");
  expect(b.braid("bench m.toml --dry --output y=@a.npy --output y=@b.npy"), 2,
         "--output: 2 files of one output, but 1 set of inputs");
  expect(b.braid("bench m.toml --dry --fresh 0"), 2, "--fresh");
  expect(b.braid("bench m.toml --dry --fresh 65"), 2, "--fresh");
  if (!gpu_is_there(b)) expect(b.braid("bench m.toml --fresh 2"), 3, "bench needs a GPU");
}

TEST_CASE("bench --kernels lists each kernel by itself, what costs most first") {
  const Bench b;
  const json j = bench_json(b, "m.toml --kernels");
  const json& kernels = j.at("each_kernel");
  REQUIRE(kernels.size() == 2);
  double before = 1e9;
  for (const json& k : kernels) {
    CHECK(k.at("uses") == 1);
    CHECK(k.at("launches") == 1);
    CHECK(k.at("measured_us").is_null());
    CHECK(!k.contains("left_out"));
    CHECK(k.at("predicted_us") > 0.5);  // of which the edge is half a microsecond
    CHECK(k.at("predicted_us") <= before);
    before = k.at("predicted_us");
  }
  CHECK(kernels[0].at("family") != kernels[1].at("family"));
  CHECK(j.at("differs") == "");
  CHECK(!bench_json(b, "m.toml").contains("each_kernel"));

  const Bench::Result r = b.braid("bench m.toml --kernels --dry");
  CHECK(r.code == 0);
  for (const json& k : kernels) CHECK(has(r.out, "  " + k.at("symbol").get<std::string>() + "  "));
  CHECK(has(r.out, "all, times uses"));
  CHECK(!has(b.braid("bench m.toml --dry").out, "times uses"));
}

TEST_CASE("bench --kernels says which kernels it leaves out, and keeps the state as it was") {
  const Bench b;
  write_text(b.at("n.toml"), kNodes);
  const json nodes = bench_json(b, "n.toml --kernels").at("each_kernel");
  REQUIRE(!nodes.empty());
  CHECK(nodes.back().at("left_out") == "it sets the value of a conditional node");
  CHECK(nodes.back().at("launches") == 0);
  CHECK(has(b.braid("bench n.toml --kernels --dry").out,
            "left out: it sets the value of a conditional node"));

  write_text(b.at("s.toml"), R"(format = 1
[inputs]
x = { dtype = "f32", shape = [4] }
[params]
total = { dtype = "f32", shape = [4], init = "zeros" }
[graph]
nodes = [
  { out = "next", op = "add", in = ["x", "total"] },
  { assign = "total", in = ["next"], out = "now" },
]
[outputs]
y = "now"
)");
  CHECK(bench_json(b, "s.toml --kernels").at("differs") == "");
}
