// [dtypes]: names for dtypes, one model for several precisions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/toml.hpp"

using namespace braid;

namespace {

std::string model(std::string_view dtypes) {
  return fmt::format(R"(format = 1
[dtypes]
{}
[inputs]
x = {{ dtype = "T", shape = [4, 8] }}
[params]
w = {{ dtype = "T", shape = [8, 8] }}
[block.b]
in = ["h"]
out = ["o"]
params.g = {{ dtype = "T", shape = [8] }}
nodes = [
  {{ out = "m", op = "mul", in = ["h", "g"] }},
  {{ out = "i", op = "full", dtype = "T", shape = [], value = 2 }},
  {{ out = "o", op = "add", in = ["m", "i"] }},
]
[graph]
nodes = [
  {{ out = "m", op = "matmul", in = ["x", "w"], out_dtype = "Acc" }},
  {{ out = "c", op = "cast", in = "m", dtype = "T" }},
  {{ out = "y", block = "b", in = ["c"] }},
]
[outputs]
y = "y"
)",
                     dtypes);
}

DType dtype_of(const ir::Graph& g, std::string_view name) {
  for (const ir::Op& op : g.ops()) {
    if (g.strings[op.name] == name) return g.type(op.result).dtype;
  }
  FAIL("no op " << name);
  return f32;
}

Diagnostic error_of(const std::string& text, const TomlDTypes& given) {
  try {
    read_toml(text, "m.toml", given);
  } catch (const Error& e) {
    return e.diagnostics()[0];
  }
  return {};
}

}  // namespace

TEST_CASE("[dtypes] names stand wherever a dtype does, and callers may replace them") {
  const std::string text = model("T = \"f16\"\nAcc = \"f32\"");
  const TomlModel plain = read_toml(text, "m.toml");
  const ir::Graph& g = plain.graph->ir();
  for (const char* name : {"x", "w", "y/g", "y/i", "y/o"}) CHECK(dtype_of(g, name) == f16);
  CHECK(dtype_of(g, "m") == f32);
  const TomlModel other = read_toml(text, "m.toml", {{"T", bf16}});
  for (const char* name : {"x", "w", "y/g", "y/i", "y/o"}) {
    CHECK(dtype_of(other.graph->ir(), name) == bf16);
  }
  CHECK(dtype_of(other.graph->ir(), "m") == f32);
  CHECK(dtype_of(read_toml(text, "m.toml", {{"T", f32}, {"Acc", f32}}).graph->ir(), "x") == f32);
}

TEST_CASE("[dtypes] a name that the model lacks is E0605") {
  const std::string text = model("T = \"f16\"\nAcc = \"f32\"");
  Diagnostic d = error_of(text, {{"Ac", f32}});
  CHECK(d.code == "E0605");
  CHECK(d.message == "the model has no dtype 'Ac'");
  CHECK(d.suggestion == "did you mean 'Acc'?");
  d = error_of("format = 1", {{"T", f32}});
  CHECK(d.code == "E0605");
  CHECK(d.suggestion.find("[dtypes]") != std::string::npos);
}
