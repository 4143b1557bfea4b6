// Kernels of the user's in the IR: extents that are rounded up, the text form, launches.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>

#include "ir/code_op.hpp"
#include "ir/text.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

const std::string kHead =
    "bir 3\ngraph \"g\" {\n  dim N = 12\n  dim M = 5\n  %0: f32[N] = input \"x\"\n";

std::string model(const std::string& blocks, const std::string& parameters) {
  return kHead +
         "  %1: f32[N] = kernel %0 \"y\" {kernel=\"k\", function=\"k\", file=\"k.cu\", line=7, " +
         "include=[\"a\", \"b c\"], parameters=[" + parameters + "], blocks=" + blocks +
         ", threads=[32, 1, 1], shared=ceil(N, 8)*(M + 1), reference=\"r\", code=\"text\"}\n" +
         "  output \"y\" %1\n}\n";
}

std::string code_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    return e.diagnostics()[0].code;
  }
  return "none";
}

}  // namespace

TEST_CASE("extents: factor * ceil(dividend / divisor)") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto f = static_cast<int64_t>(random() % 9), a = static_cast<int64_t>(random() % 99);
    const auto b = static_cast<int64_t>(1 + random() % 9);
    int64_t blocks = 0;
    while (blocks * b < a) ++blocks;
    CHECK(Extent(Dim(f), Dim(a), Dim(b)).value() == f * blocks);
  }
  CHECK(Extent(Dim(7)).value() == 7);
  CHECK(!Extent(Dim(1), Dim(3), Dim(0)).value());
  CHECK(!Extent(Dim(4), Dim(INT64_MAX), Dim(1)).value());
  DimTable dims;
  const Dim n = dims.symbol("N"), ceil = dims.symbol("ceil");
  CHECK(!Extent(n).value());
  CHECK(to_string(Extent(n), dims) == "N");
  CHECK(to_string(Extent(Dim(1), n, Dim(4)), dims) == "ceil(N, 4)");
  CHECK(to_string(Extent(dims.add(n, Dim(1)), n, n), dims) == "ceil(N, N)*(N + 1)");
  CHECK(to_string(Extent(ceil), dims) == "(ceil)");
}

TEST_CASE("kernels: the text form, and dims that are bound") {
  const std::string text = model("[ceil(N*M + 1, 4), (N + 1)*M, 1]",
                                 "operand 0 \"x\", result 0, extent i64 ceil(N, 5)*(2) \"n\", "
                                 "scalar f32 0.5, scalar i32 -3 \"k\"");
  Graph g = parse(text);
  const std::string printed = print(g);
  CHECK(print(parse(printed)) == printed);
  CHECK(verify(g).empty());
  g.bind_dims({{"N", 13}});
  const auto& a = std::get<KernelAttr>(g.ops().back().attrs);
  CHECK(a.grid[0] == Extent(Dim(17)));  // (13 * 5 + 1) / 4 = 16.5
  CHECK(a.grid[1] == Extent(Dim(70)));
  CHECK(a.shared_bytes == Extent(Dim(12)));
  CHECK(a.parameters[2].extent == Extent(Dim(6)));
  CHECK(g.strings[a.parameters[2].name] == "n");
  CHECK(a.line == 7);
  CHECK(launch_errors(g.dims, a, kMostSharedBytes).empty());
  // A copy into another graph has strings and dims of its own.
  const Graph from = parse(text);
  Graph to("to");
  const ValueId x = to.clone_op(from, OpId{0}, {});
  to.clone_op(from, OpId{1}, {x});
  CHECK(print_op(to, OpId{1}) == print_op(from, OpId{1}));
}

TEST_CASE("kernels: malformed text") {
  const std::string good = "operand 0, result 0";
  CHECK(code_of(model("[1, 1, 1]", good)) == "none");
  CHECK(code_of(model("[ceil(N, 1, 1]", good)) == "E0101");
  CHECK(code_of(model("[ceil(N), 1, 1]", good)) == "E0101");
  CHECK(code_of(model("[ceil(Q, 2), 1, 1]", good)) == "E0403");
  CHECK(code_of(model("[1, 1]", good)) == "E0101");
  CHECK(code_of(model("[1, 1, 1]", "operand 0, result 1")) == "E0301");
  CHECK(code_of(model("[1, 1, 1]", "operand 0, operand 0, result 0")) == "E0301");
  CHECK(code_of(model("[1, 1, 1]", "operand 0")) == "E0301");
  CHECK(code_of(model("[1, 1, 1]", good + ", extent f32 N")) == "E0301");
}

TEST_CASE("kernels: what no device launches") {
  DimTable dims;
  const auto errors = [&](std::array<Extent, 3> grid, std::array<Extent, 3> block, Extent shared) {
    KernelAttr a;
    a.grid = grid;
    a.block = block;
    a.shared_bytes = shared;
    return launch_errors(dims, a, most_shared_bytes("sm_80"));
  };
  const std::array<Extent, 3> one{};
  CHECK(errors(one, {Dim(1024), Dim(1), Dim(1)}, Dim(163 * 1024)).empty());
  CHECK(errors(one, one, Dim(163 * 1024 + 1)).size() == 1);
  CHECK(errors(one, {Dim(32), Dim(33), Dim(1)}, Dim(0)) ==
        std::vector<std::string>{"a block of 1056 threads is more than 1024"});
  CHECK(errors(one, {Dim(1), Dim(1), Dim(65)}, Dim(0)) ==
        std::vector<std::string>{"the block's z is 65, but must be 1 to 64"});
  CHECK(errors({Dim(0), Dim(1), Dim(1)}, one, Dim(0)) ==
        std::vector<std::string>{"the grid's x is 0, but must be 1 to 2147483647"});
  CHECK(errors({Dim(1), Dim(65536), Dim(70000)}, one, Dim(0)).size() == 2);
  CHECK(errors({Extent(Dim(1), Dim(3), Dim(0)), Dim(1), Dim(1)}, one, Dim(0)).size() == 1);
  CHECK(errors({dims.symbol("T"), Dim(1), Dim(1)}, one, Dim(0)).empty());
}

TEST_CASE("kernels: numbers that a parameter does not hold") {
  DimTable dims;
  const auto errors = [&](DType t, int64_t extent) {
    KernelAttr a;
    CodeParameter p;
    p.kind = CodeParameter::Kind::scalar;
    p.dtype = t;
    p.extent = Extent(Dim(extent));
    a.parameters = {p};
    return launch_errors(dims, a, kMostSharedBytes).size();
  };
  CHECK(errors(DType::i32, INT32_MAX) == 0);
  CHECK(errors(DType::i32, int64_t{INT32_MAX} + 1) == 1);
  CHECK(errors(DType::i64, int64_t{1} << 53) == 0);
  CHECK(errors(DType::i64, (int64_t{1} << 53) + 1) == 1);

  const auto refused = [](DType t, double number) {
    Graph g("g");
    const ValueId x =
        g.add({OpKind::input, {}, {}, TensorType{DType::f32, {Dim(4)}}, g.strings.intern("x")});
    KernelAttr a;
    a.function = g.strings.intern("k");
    a.parameters.resize(3);
    a.parameters[1].kind = CodeParameter::Kind::result;
    a.parameters[2].kind = CodeParameter::Kind::scalar;
    a.parameters[2].dtype = t;
    a.parameters[2].number = number;
    return !g.try_add({OpKind::kernel, a, {x}, TensorType{DType::f32, {Dim(4)}}}).error.empty();
  };
  CHECK(!refused(DType::i32, -2147483648.0));
  CHECK(refused(DType::i32, 2147483648.0));
  CHECK(refused(DType::i32, 0.5));
  CHECK(refused(DType::u8, -1));
  CHECK(!refused(DType::f32, 0.5));
  CHECK(refused(DType::f32, std::numeric_limits<double>::infinity()));
  CHECK(refused(DType::f64, std::numeric_limits<double>::quiet_NaN()));
}
