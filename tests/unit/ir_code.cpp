// Kernels, library calls, compactions and ways of host ops: text form, types, dims, values.
#include <doctest/doctest.h>

#include <random>

#include "ir/code_op.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"

using namespace braid;
using namespace braid::ir;

namespace {

const char* const kText = R"(bir 3
graph "g" {
  dim B = 4 max 64
  %0: f32[B,2] = input "x"
  %1: state f32[B,2] = param "p"
  %2: state i32[3] = param "q"
  %3: f32[B], %4: i32[2*B + 1], %5: state f32[B,2], %6: state i32[3] = kernel %0, %1, %2 "k" {kernel="rope", function="rope<64>", file="a.cu", line=7, include=["inc", "a \"b\""], parameters=[operand 1, result 0, extent i64 2*B, operand 0, result 1, scalar f32 0.5, operand 2], blocks=[B, 1, 2], threads=[64, 1, 1], shared=4*B, reference="ref", code="int x;\x0a"}
  %7: state f32[B,2] = library %5, %0 "l" {function="scale", workspace=16*B, reference="ref2"}
  %8: f32[B] = library %3 {function="sort"}
  %9: b1[B] = input "mask"
  %10: f32[B,2], %11: i32[] = compact %9, %0 "c"
  %12: f32[2] = host %8 {function="h", pure=true, way=handshake, why="1 us < \"2 us\""}
  %13: f32[2] = host %12 {function="h", way=node}
  %14: f32[B,2] = read %7
  %15: i32[3] = read %6
  output "a" %10
  output "n" %11
  output "b" %14
  output "c" %15
  output "d" %13
}
)";

std::string first_error(const std::string& lines) {
  try {
    parse("bir 3\ngraph \"g\" {\n" + lines + "\n}\n", "g.bir");
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics()[0];
    return d.code + " " + d.message;
  }
  return "";
}

}  // namespace

TEST_CASE("kernels, library calls, compactions and ways are printed and parsed") {
  const Graph g = parse(kText);
  CHECK(print(g) == kText);
  const std::string placed = print(g, {.places = true});
  CHECK(print(parse(placed), {.places = true}) == placed);
  const Op& kernel = g.ops()[3];
  CHECK(kernel.results == 4);
  CHECK(value_types(g, kernel).size() == 2);
  const auto made = versions_made(g, kernel);
  REQUIRE(made.size() == 2);
  CHECK(made[0] == std::pair(ValueId{1}, ValueId{5}));
  CHECK(made[1] == std::pair(ValueId{2}, ValueId{6}));
  CHECK(param_of(g, ValueId{7}) == OpId{1});
  CHECK(version_before(g, ValueId{6}) == ValueId{2});
  const auto& attr = std::get<KernelAttr>(kernel.attrs);
  REQUIRE(attr.parameters.size() == 7);
  CHECK(attr.parameters[2].extent);
  CHECK(attr.parameters[5].number == 0.5);
  CHECK(g.strings[attr.code] == "int x;\n");
}

TEST_CASE("a text without them is of an older version") {
  const auto version = [](const std::string& lines) {
    return print(parse("bir 3\ngraph \"g\" {\n  %0: f32[2] = input \"x\"\n" + lines + "}\n"))[4];
  };
  CHECK(version("  %1: f32[2] = host %0 {function=\"h\"}\n") == '1');
  CHECK(version("  %1: f32[2] = host %0 {function=\"h\", way=node}\n") == '3');
  CHECK(version("  %1: f32[2] = library %0 {function=\"h\"}\n") == '3');
  CHECK(version("  %1: b1[2] = gt %0, %0\n  %2: f32[2], %3: i32[] = compact %1, %0\n") == '3');
}

TEST_CASE("extents of their attributes are bound") {
  Graph g = parse(kText);
  g.bind_dims({{"B", 5}});
  CHECK(verify(g).empty());
  const auto& kernel = std::get<KernelAttr>(g.ops()[3].attrs);
  CHECK(kernel.grid[0] == Dim(5));
  CHECK(kernel.grid[2] == Dim(2));
  CHECK(kernel.shared_bytes == Dim(20));
  CHECK(*kernel.parameters[2].extent == Dim(10));
  CHECK(std::get<LibraryAttr>(g.ops()[4].attrs).workspace == Dim(80));
  CHECK(to_string(g.type(ValueId{4})) == "i32[11]");
  CHECK(to_string(g.type(ValueId{10})) == "f32[5,2]");
  CHECK(print(parse(print(g))) == print(g));
}

TEST_CASE("an extent of an attribute that is none is told with its op") {
  Graph g = parse(
      "bir 3\ngraph \"g\" {\n  dim B = 4\n  %0: f32[2] = input \"x\"\n"
      "  %1: f32[2] = library %0 {function=\"f\", workspace=B - 2}\n}\n",
      "g.bir");
  try {
    g.bind_dims({{"B", 1}});
    FAIL("bound a negative extent");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0604");
    CHECK(e.diagnostics()[0].place.line == 5);
  }
}

TEST_CASE("clones into another graph keep results, strings and dims") {
  const Graph from = parse(kText);
  Graph to("g");
  to.strings.intern("shifts all indices");
  to.dims.symbol("other");
  std::vector<ValueId> at(from.values().size());
  for (uint32_t i = 0; i < from.ops().size(); ++i) {
    const Op& op = from.ops()[i];
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(at[v.index]);
    const ValueId first = to.clone_op(from, OpId{i}, std::move(operands));
    for (uint32_t r = 0; r < op.results; ++r) at[op.result.index + r] = {first.index + r};
  }
  for (const Output& o : from.outputs) to.outputs.push_back({o.name, at[o.value.index], {}});
  CHECK(verify(to).empty());
  std::string text = print(to);
  const std::string other = "  dim other\n";
  REQUIRE(text.find(other) != text.npos);
  text.erase(text.find(other), other.size());
  CHECK(text == kText);
}

TEST_CASE("kernels, library calls and compactions that are refused") {
  const std::string x = "%0: f32[4] = input \"x\"\n%1: state f32[4] = param \"p\"\n";
  const auto says = [&](const std::string& line, const std::string& what) {
    const std::string error = first_error(x + line);
    INFO(error);
    CHECK(error.find(what) != error.npos);
  };
  says("%2: f32[4] = library %0", "E0902 a library op needs the name of its function");
  says("%2: f32[4] = library %0 {functio=\"f\"}", "E0102");
  says("%2: f32[4] = kernel %0 {function=\"f\", parameters=[operand 0]}",
       "E0301 kernel: result 0 is no parameter");
  says("%2: f32[4] = kernel %0 {function=\"f\", parameters=[operand 0, result 0, operand 0]}",
       "operand 0 is more than one parameter");
  says("%2: f32[4] = kernel %0 {function=\"f\", parameters=[operand 1, result 0]}",
       "a parameter is operand 1, but there are 1");
  says("%2: f32[4] = kernel %0 {function=\"f\", parameters=[operand 0, result 0, extent f32 4]}",
       "an extent is passed as i32 or i64, not f32");
  says("%2: f32[4] = kernel %0 {function=\"f\", parameters=[pointer 0]}", "E0101");
  says("%2: f32[4] = library %1 {function=\"f\"}", "E0301");  // a version is no value
  says("%2: f32[4], %3: f32[4] = neg %0", "E0301 map has one result");
  const std::string m = "%2: b1[4] = gt %0, %0\n";
  says(m + "%3: f32[4], %4: i64[] = compact %2, %0", "compact has two results, the second i32[]");
  says(m + "%3: f32[4], %4: i32[], %5: i32[] = compact %2, %0", "compact has two results");
  says("%2: f32[4], %3: i32[] = compact %0, %0", "the mask must be b1[n], not f32[4]");
  says(m + "%3: f32[3] = input \"z\"\n%4: f32[3], %5: i32[] = compact %2, %3",
       "a mask b1[4] cannot choose among the rows of f32[3]");
  says(m + "%3: f32[] = constant 1\n%4: f32[], %5: i32[] = compact %2, %3",
       "cannot choose among the rows of f32[]");
  says("%2: f32[4] = host %0 {function=\"f\", way=sometimes}", "E0101");
}

TEST_CASE("a compaction keeps the rows of the mask in order, zeros behind") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const int64_t n = static_cast<int64_t>(random() % 12), inner = random() % 4;
    const DType dtype = std::vector{DType::f32, DType::i64, DType::b1}[random() % 3];
    Graph g("g");
    const ValueId mask =
        g.add({OpKind::input, {}, {}, TensorType{DType::b1, {Dim(n)}}, g.strings.intern("mask")});
    const TensorType type{dtype, {Dim(n), Dim(inner)}};
    const ValueId rows = g.add({OpKind::input, {}, {}, type, g.strings.intern("rows")});
    const ValueId made = g.add({OpKind::compact, {}, {mask, rows}});
    g.outputs = {{"y", made, {}}, {"n", {made.index + 1}, {}}};
    TensorMap inputs, params;
    const WideTensor x = widen(random_tensor(type, random(), "x"));
    WideTensor m{g.type(mask), {}, {}};
    for (int64_t i = 0; i < n; ++i) m.i.push_back(random() % 3 != 0);
    inputs["mask"] = m;
    inputs["rows"] = x;
    const TensorMap out = interpret(g, inputs, params);
    // Element by element: the row of that rank among the chosen ones, if there are so many.
    int64_t count = 0;
    for (int64_t r = 0; r < n; ++r) {
      const auto at = [&](const WideTensor& t, int64_t row, int64_t k) {
        const auto i = static_cast<size_t>(row * inner + k);
        return is_float(dtype) ? t.f[i] : static_cast<double>(t.i[i]);
      };
      int64_t source = -1;
      for (int64_t s = 0, rank = 0; s < n; ++s) {
        if (m.i[static_cast<size_t>(s)] != 0 && rank++ == r) source = s;
      }
      count += source >= 0;
      for (int64_t k = 0; k < inner; ++k) {
        CHECK(at(out.at("y"), r, k) == (source >= 0 ? at(x, source, k) : 0.0));
      }
    }
    CHECK(out.at("n").i == std::vector<int64_t>{count});
  }
}

TEST_CASE("the interpreter runs references, and says which is missing") {
  Graph g = parse(kText);
  g.bind_dims({{"B", 2}});
  TensorMap inputs, params;
  inputs["x"] = {g.type(ValueId{0}), {1, 2, 3, 4}, {}};
  inputs["mask"] = {g.type(ValueId{9}), {}, {0, 1}};
  params["p"] = {g.type(ValueId{1}), {10, 20, 30, 40}, {}};
  params["q"] = {g.type(ValueId{2}), {}, {5, 6, 7}};
  HostFunctions f;
  f["ref"] = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    REQUIRE(in.size() == 3);  // x, p, q -> two values, p, q
    REQUIRE(out.size() == 4);
    for (int64_t i = 0; i < 4; ++i) out[2].set(i, in[0].at(i) + in[1].at(i));
    for (int64_t i = 0; i < 3; ++i) out[3].set_int(i, in[2].int_at(i) * 2);
    for (int64_t i = 0; i < 2; ++i) out[0].set(i, 100.0 + static_cast<double>(i));
  };
  f["ref2"] = [](std::span<const HostTensor> in, std::span<HostTensor> out) {
    REQUIRE(out.size() == 1);
    for (int64_t i = 0; i < 4; ++i) out[0].set(i, in[0].at(i) * 10);
  };
  f["h"] = [](std::span<const HostTensor>, std::span<HostTensor> out) {
    for (int64_t i = 0; i < 2; ++i) out[0].set(i, 1);
  };
  try {
    interpret(g, inputs, params, Rounding::dtype, f);
    FAIL("ran a library call without a reference");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0808");
    CHECK(e.diagnostics()[0].message.find("'sort'") != std::string::npos);
  }
  std::string text = print(g);
  text.replace(text.find("function=\"sort\""), 15, "function=\"sort\", reference=\"h\"");
  g = parse(text);
  const TensorMap out = interpret(g, inputs, params, Rounding::dtype, f);
  CHECK(out.at("b").f == std::vector<double>{110, 220, 330, 440});
  CHECK(out.at("c").i == std::vector<int64_t>{10, 12, 14});
  CHECK(out.at("a").f == std::vector<double>{3, 4, 0, 0});
  CHECK(out.at("n").i == std::vector<int64_t>{1});
  CHECK(params.at("p").f == std::vector<double>{110, 220, 330, 440});
}
