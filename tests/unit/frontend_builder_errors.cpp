// Places, names, and what the builder says to mistakes.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "frontend/builder.hpp"

using namespace braid;

namespace {

/// The op that made the newest value.
const ir::Op& newest(const Graph& g) { return g.ir().ops().back(); }

std::string name_of_newest(const Graph& g) { return std::string(g.ir().strings[newest(g).name]); }

/// The one diagnostic that `f` throws.
Diagnostic error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    REQUIRE(e.diagnostics().size() == 1);
    return e.diagnostics()[0];
  }
  FAIL("nothing was thrown");
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every op carries the line that made it") {
  Graph g;
  const uint32_t line = __LINE__;
  const Tensor x = g.input("x", {f32, {4, 8}});
  const Tensor sum_of_two = x + x;
  const Tensor soft = softmax(x);
  const Tensor scaled = 2.0 * x;
  const auto& ops = g.ir().ops();
  std::vector<uint32_t> lines;
  for (const ir::Op& op : ops) {
    CHECK(g.ir().place(op.loc).file == __FILE__);
    if (lines.empty() || lines.back() != op.loc.line) lines.push_back(op.loc.line);
  }
  CHECK(lines == std::vector<uint32_t>{line + 1, line + 2, line + 3, line + 4});
  CHECK(ops[1].loc.column > 1);
  CHECK(sum_of_two.valid());
  CHECK(soft.valid());
  CHECK(scaled.valid());
}

TEST_CASE("scopes and names") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4, 8}});
  {
    const auto outer = g.scope("block3");
    {
      const auto inner = g.scope("mlp");
      const Tensor w = g.param("w1", {f32, {8, 8}});
      CHECK(name_of_newest(g) == "block3/mlp/w1");
      const Tensor y = matmul(x, w);
      CHECK(name_of_newest(g) == "block3/mlp/dot");
      y.named("up");
      CHECK(name_of_newest(g) == "block3/mlp/up");
      CHECK(w.named("other").valid());
    }
    relu(x);
    CHECK(name_of_newest(g) == "block3/relu");
  }
  relu(x);
  CHECK(name_of_newest(g) == "relu");
  std::set<std::string> params;
  for (const ir::Op& op : g.ir().ops()) {
    if (op.kind == ir::OpKind::param) params.insert(std::string(g.ir().strings[op.name]));
  }
  CHECK(params == std::set<std::string>{"block3/mlp/w1"});  // params are bound by name

  g.repeat("block", 4);
  CHECK(g.ir().repeats == std::vector<ir::Repeat>{{"block", 4}});
}

TEST_CASE("type errors show both operands and where they come from") {
  Graph g;
  const Tensor x = g.input("x", {f32, {"B", 256}}), y = g.input("y", {f32, {"C", 256}});
  const uint32_t line = __LINE__ + 1;
  const Diagnostic d = error_of([&] { x + y; });
  CHECK(d.code == "E0301");
  CHECK(d.place.file == __FILE__);
  CHECK(d.place.line == line);
  REQUIRE(d.details.size() == 3);
  CHECK(contains(d.details[0], "'x'  f32[B,256]  from input at "));
  CHECK(contains(d.details[1], "'y'  f32[C,256]  from input at "));
  CHECK(contains(d.details[1], std::to_string(line - 2)));
  CHECK(contains(d.details[2], "B against C"));
}

TEST_CASE("each mistake has its code") {
  Graph g, other;
  const Tensor x = g.input("x", {f32, {4, 8}}), h = g.input("h", {bf16, {4, 8}});
  const Tensor n = g.input("n", {i32, {4, 8}}), b = g.input("b", {b1, {4, 8}});
  const Tensor u = g.input("u", {u8, {4}}), s = g.input("s", {f32, {}});
  const Tensor sym = g.input("sym", {f32, {"B", "T"}}), p = g.param("p", {f32, {4, 8}});
  const Tensor foreign = other.input("x", {f32, {4, 8}});
  const Tensor foreign_param = other.param("p", {f32, {4, 8}});
  const Tensor wide = reshape(g.full({f32, {24}}, 1), {3, 2, 4}),
               wide3 = broadcast_to(x, {3, 4, 8});
  const Tensor head = slice(x, {.stop = 3}), rows = g.input("rows", {f32, {"T", 8}});
  const Tensor more_rows = g.input("more_rows", {f32, {"T + 1", 8}});
  g.output("taken", x);
  g.dim("bounded", 16);
  const double inf = std::numeric_limits<double>::infinity();
  struct Case {
    const char* code;
    const char* says;
    std::function<void()> mistake;
  };
  const Case cases[] = {
      {"E0201", "there is an input or scalar 'x' already", [&] { g.input("x", {f32, {1}}); }},
      {"E0201", "there is a param 'p' already", [&] { g.param("p", {f32, {1}}); }},
      {"E0201", "a param needs a name", [&] { g.param("", {f32, {1}}); }},
      {"E0201", "an input needs a name", [&] { g.input("", {f32, {1}}); }},
      {"E0201", "an output needs a name", [&] { g.output("", x); }},
      {"E0201", "there is an output 'taken' already", [&] { g.output("taken", x); }},
      {"E0301", "dtypes differ", [&] { x + h; }},
      {"E0301", "the number 0.5 cannot be i32", [&] { n * 0.5; }},
      {"E0301", "the number inf cannot be i32", [&] { maximum(n, inf); }},
      {"E0301", "cannot be i32", [&] { n + std::nan(""); }},
      {"E0301", "the number 3000000000 cannot be i32", [&] { n + 3e9; }},
      {"E0301", "the number -1 cannot be u8", [&] { maximum(u, -1.0); }},
      {"E0301", "the number 256 cannot be u8", [&] { minimum(u, 256.0); }},
      {"E0301", "the number 2 cannot be b1", [&] { logical_and(b, 2.0); }},
      {"E0301", "the number 2147483648 cannot be i32", [&] { g.full({i32, {2}}, 0x1p31); }},
      {"E0301", "cannot be i64", [&] { g.full({i64, {2}}, 0x1p63); }},
      {"E0301", "output 'num' is a number", [&] { g.output("num", 1.0); }},
      {"E0301", "add: the shapes do not broadcast", [&] { x + transpose(x, {1, 0}); }},
      {"E0301", "'h'  bf16[4,8]", [&] { concat({x, h}); }},
      {"E0301", "'n'  i32[4,8]", [&] { exp(n); }},
      {"E0301", "'x'  f32[4,8]", [&] { logical_not(x); }},
      {"E0301", "'h'  bf16[4,8]", [&] { gather(x, h); }},
      {"E0301", "'h'  bf16[4,8]", [&] { g.assign(p, h); }},
      {"E0301", "'n'  i32[4,8]", [&] { g.update(p, n, {0.0, 0.0}); }},
      {"E0301", "2 starts, not 1", [&] { g.update(p, x, {0.0}); }},
      {"E0301", "use any or all, or cast first", [&] { sum(b); }},
      {"E0301", "softmax takes a float dtype", [&] { softmax(n); }},
      {"E0301", "mean takes a float dtype", [&] { mean(n); }},
      {"E0301", "inner dimensions differ", [&] { matmul(x, x); }},
      {"E0301", "two axes or more", [&] { matmul(x, s); }},
      {"E0301", "2 vs 3", [&] { matmul(reshape(x, {2, 8, 2}), reshape(wide, {3, 2, 4})); }},
      {"E0301", "'x'  f32[4,8]", [&] { matmul(x, x, {.tb = true, .out = i32}); }},
      {"E0301", "at least as many axes", [&] { broadcast_to(x, {8}); }},
      {"E0301", "'x'  f32[4,8]", [&] { broadcast_to(x, {4, 9}); }},
      {"E0301", "'x'  f32[4,8]", [&] { reshape(x, {4, 9}); }},
      {"E0301", "not a multiple of 0", [&] { reshape(x, {0, -1}); }},
      {"E0301", "at most 8 axes, not 9", [&] { reshape(x, {1, 1, 1, 1, 1, 1, 1, 4, 8}); }},
      {"E0301", "so -1 has no value", [&] { reshape(x, {5, -1}); }},
      {"E0301", "an extent cannot be -2", [&] { g.input("bad", {f32, {-2}}); }},
      {"E0301", "gamma and beta must be f32[8]", [&] { layer_norm(x, x, x); }},
      {"E0301", "layer_norm takes a float dtype", [&] { layer_norm(n, x, x); }},
      {"E0301", "attention takes a float dtype", [&] { attention(x, n, x); }},
      {"E0301", "3 heads do not divide", [&] { attention(x, x, x, {.heads = 3}); }},
      {"E0301", "0 heads do not divide", [&] { attention(x, x, x, {.heads = 0}); }},
      {"E0301", "the last axis, T", [&] { attention(sym, sym, sym); }},
      {"E0301", "need the same rank, 2 to 7", [&] { attention(x, x, wide); }},
      {"E0301", "and v k's shape", [&] { attention(x, x, transpose(x, {1, 0})); }},
      {"E0301", "must be q's, or 1", [&] { attention(reshape(x, {2, 2, 8}), wide3, wide3); }},
      {"E0301", "need the same dtype", [&] { attention(x, x, cast(x, f16)); }},
      {"E0301", "equal or constant lengths",
       [&] { attention(rows, more_rows, more_rows, {.causal = true}); }},
      {"E0301", "the first ones see no key", [&] { attention(x, head, head, {.causal = true}); }},
      {"E0301", "3 kv_heads do not divide 4 heads",
       [&] { attention(x, x, x, {.heads = 4, .kv_heads = 3}); }},
      {"E0301", "the last axis of k and v must be 4, 2 heads of 2",
       [&] { attention(x, x, x, {.heads = 4, .kv_heads = 2}); }},
      {"E0301", "the mask must be b1 or floats that broadcast to f32[2,4,4]",
       [&] { attention(x, x, x, {.heads = 2, .mask = n}); }},
      {"E0301", "'b'  b1[4,8]", [&] { attention(x, x, x, {.heads = 2, .mask = b}); }},
      {"E0301", "scatter: the updates must be f32[4,4,8]", [&] { scatter(x, n, x, {.axis = 1}); }},
      {"E0301", "scatter_or takes an integer dtype or b1",
       [&] { scatter(x, slice(n, {.axis = 1, .stop = 1}), x, {.combine = Fn::or_}); }},
      {"E0301", "scatter_div cannot combine", [&] { scatter(x, n, x, {.combine = Fn::div}); }},
      {"E0301", "random_uniform: the counter must be i64[]",
       [&] { random_uniform(g, "r1", {f32, {2}}, {.counter = s}); }},
      {"E0301", "dropout takes a float dtype", [&] { dropout(g, "r2", n, 0.5); }},
      {"E0301", "'n'  i32[4,8]", [&] { dropout(g, "r3", x, 0.5, {.counter = n}); }},
      {"E0302", "scatter: axis 2 is not in -2 .. 1", [&] { scatter(x, n, x, {.axis = 2}); }},
      {"E0303", "random_normal makes floats, not i32", [&] { random_normal(g, "r4", {i32, {2}}); }},
      {"E0303", "low is not above high",
       [&] { random_uniform(g, "r5", {f32, {2}}, {.low = 2, .high = 1}); }},
      {"E0303", "low and high are finite",
       [&] { random_uniform(g, "r6", {f32, {2}}, {.low = 0, .high = inf}); }},
      {"E0303", "the rate lies between 0 and 1: 1.5 does not", [&] { dropout(g, "r7", x, 1.5); }},
      {"E0303", "p lies between 0 and 1: nan does not",
       [&] { random_bernoulli(g, "r8", {2}, std::nan("")); }},
      {"E0301", "log_softmax takes a float dtype", [&] { log_softmax(n); }},
      {"E0301", "rms_norm: gamma must be f32[8]", [&] { rms_norm(x, x); }},
      {"E0301", "l2_normalize takes a float dtype", [&] { l2_normalize(n); }},
      {"E0301", "labels are i32 or i64", [&] { cross_entropy(x, n); }},
      {"E0301", "labels are i32 or i64", [&] { cross_entropy(x, u); }},
      {"E0301", "'u'  u8[4]", [&] { stack({u, s}); }},
      {"E0301", "axis 1 has the extent 8, not 1", [&] { squeeze(x, {1}); }},
      {"E0301", "at most 8 axes", [&] { unsqueeze(reshape(x, {1, 1, 1, 1, 1, 1, 4, 8}), 0); }},
      {"E0301", "the number 0.5 cannot be i32", [&] { pad(n, {1, 1}, {0, 0}, 0.5); }},
      {"E0302", "a scalar has no last axis", [&] { rms_norm(s, s); }},
      {"E0302", "axis 3 is not in -3 .. 2", [&] { unsqueeze(x, 3); }},
      {"E0302", "axis -4 is not in -3 .. 2", [&] { stack({x, x}, -4); }},
      {"E0302", "need 2 numbers, one for each axis, not 1 and 2", [&] { pad(x, {1}, {0, 0}); }},
      {"E0302", "axes names one axis, or none", [&] { argmax(x, {.axes = {0, 1}}); }},
      {"E0302", "argmin: axis 2 is not in -2 .. 1", [&] { argmin(x, {.axes = {2}}); }},
      {"E0303", "i32 or i64, not f32", [&] { argmax(x, {.dtype = f32}); }},
      {"E0303", "an empty axis", [&] { argmax(slice(x, {.axis = 1, .start = 8})); }},
      {"E0303", "cannot index 4294967296 elements: set the dtype to i64",
       [&] { argmin(g.full({b1, {65536, 65536}}, 1), {.axes = {}}); }},
      {"E0303", "-1 elements cannot be added", [&] { pad(x, {0, 0}, {0, -1}); }},
      {"E0303", "axis 1 has 8 elements, which make no 3 equal parts", [&] { split(x, 3, 1); }},
      {"E0303", "axis 0 has B elements", [&] { split(sym, 2); }},
      {"E0303", "which make no 0 equal parts", [&] { split(x, 0); }},
      {"E0301", "the input's last axis must be a constant", [&] { linear(g, "l", sym, 4); }},
      {"E0301", "linear: the input needs two axes", [&] { linear(g, "l", s, 4); }},
      {"E0302", "axis 2 is not in -2 .. 1", [&] { sum(x, {.axes = {2}}); }},
      {"E0302", "axis -1 is named twice", [&] { sum(x, {.axes = {1, -1}}); }},
      {"E0302", "a scalar has no axis", [&] { softmax(s); }},
      {"E0302", "a scalar has no last axis", [&] { layer_norm(s, s, s); }},
      {"E0302", "slice: axis 2 is not in", [&] { slice(x, {.axis = 2}); }},
      {"E0302", "concat: axis -3 is not in", [&] { concat({x, x}, -3); }},
      {"E0302", "gather: axis 2 is not in", [&] { gather(x, n, 2); }},
      {"E0302", "transpose: axis 2 is not in", [&] { transpose(x, {0, 2}); }},
      {"E0302", "perm must name each", [&] { transpose(x, {0}); }},
      {"E0302", "iota: axis 1 is not in", [&] { g.iota({f32, {3}}, 1); }},
      {"E0302", "perm must name each", [&] { transpose(x, {0, 0}); }},
      {"E0303", "only one extent may be -1", [&] { reshape(x, {-1, -1}); }},
      {"E0303", "the step must be 1 or more", [&] { slice(x, {.step = 0}); }},
      {"E0303", "is symbolic (T)", [&] { slice(sym, {.axis = 1, .start = -1}); }},
      {"E0303", "is symbolic (T)", [&] { slice(sym, {.axis = 1, .step = 2}); }},
      {"E0303", "is symbolic (B)", [&] { slice(sym, {.start = 3, .stop = 2}); }},
      {"E0303", "mean over a symbolic axis", [&] { mean(sym); }},
      {"E0304", "assign: the target is no param", [&] { g.assign(x, x); }},
      {"E0304", "update: the target is no param", [&] { g.update(x, x, {0.0, 0.0}); }},
      {"E0304", "read: the target is no param", [&] { g.read(x); }},
      {"E0305", "different graphs", [&] { x + foreign; }},
      {"E0305", "different graphs", [&] { g.output("y", foreign); }},
      {"E0305", "different graphs", [&] { g.assign(foreign_param, foreign); }},
      {"E0305", "different graphs", [&] { g.assign(foreign_param, 1.5); }},
      {"E0305", "different graphs", [&] { g.assign(p, foreign); }},
      {"E0305", "different graphs", [&] { g.update(p, foreign, {0.0, 0.0}); }},
      {"E0305", "different graphs", [&] { g.update(foreign_param, 1.5, {0.0, 0.0}); }},
      {"E0305", "different graphs", [&] { g.read(foreign_param); }},
      {"E0305", "different graphs", [&] { linear(g, "l", foreign, 4); }},
      {"E0305", "that no graph made", [&] { relu(Tensor()); }},
      {"E0305", "that no graph made", [&] { g.assign(Tensor(), x); }},
      {"E0305", "that no graph made", [&] { g.read(Tensor()); }},
      {"E0305", "at least one operand must be a tensor", [&] { apply(Fn::add, {1.0, 2.0}); }},
      {"E0305", "not a number", [&] { linear(g, "l", 2.0, 4); }},
      {"E0305", "not a number", [&] { layer_norm(x, 1.0, 0.0); }},
      {"E0401", "'4*' is no extent", [&] { g.input("bad2", {f32, {"4*"}}); }},
      {"E0401", "'4*D' is no name", [&] { g.dim("4*D", 8); }},
      {"E0401", "'' is no name", [&] { g.dim("", 8); }},
      {"E0402", "0 <= default <= max", [&] { g.dim("B", 9, 8); }},
      {"E0402", "dim 'T'", [&] { g.dim("T", -1); }},
      {"E0402", "dim 'bounded'", [&] { g.dim("bounded", {}, 15); }},
  };
  for (const Case& c : cases) {
    const Diagnostic d = error_of(c.mistake);
    CAPTURE(c.says);
    CAPTURE(d.message);
    CHECK(d.code == c.code);
    std::string all = d.message;
    for (const std::string& line : d.details) all += "\n" + line;
    CHECK(contains(all, c.says));
    CHECK(d.message.back() != '.');
    if (d.code != "E0305" || !contains(d.message, "no graph")) CHECK(d.place.line != 0);
  }
  // None of them left a mark.
  CHECK(g.input("bad", {f32, {2}}).valid());
  CHECK(p.valid());
  g.output("y", x + 1.0);
  CHECK(ir::verify(g.ir()).empty());
}

TEST_CASE("a matmul that only lacks a transposition says so") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4, 8}}), w = g.input("w", {f32, {16, 8}});
  const Diagnostic d = error_of([&] { matmul(x, w); });
  REQUIRE(d.details.size() == 3);
  CHECK(d.details[2] == "8 vs 16: set tb = true");
}

TEST_CASE("collect mode: one mistake, one error, and uses of its result stay silent") {
  Graph g;
  g.collect_errors(true);
  const Tensor x = g.input("x", {f32, {4, 8}}), y = g.input("y", {f32, {8, 4}});
  const Tensor p = g.param("p", {f32, {4, 8}});
  const Tensor bad = x + y;
  CHECK(g.poisoned(bad));
  CHECK(g.diagnostics().size() == 1);
  CHECK(g.poisoned(bad * 2.0 - x));
  CHECK(g.poisoned(sum(bad)));
  CHECK(g.poisoned(mean(bad)));
  CHECK(g.poisoned(matmul(bad, y)));
  CHECK(g.poisoned(softmax(bad)));
  CHECK(g.poisoned(layer_norm(x, bad, bad)));
  CHECK(g.poisoned(attention(x, bad, x)));
  CHECK(g.poisoned(attention(x, x, x, {.heads = 2, .mask = bad})));
  CHECK(g.poisoned(scatter(x, bad, bad)));
  CHECK(g.poisoned(dropout(g, "drop", bad, 0.5)));
  CHECK(g.poisoned(random_normal(g, "normal", {f32, {2}}, {.counter = bad})));
  CHECK(g.poisoned(log_softmax(bad)));
  CHECK(g.poisoned(rms_norm(x, bad)));
  CHECK(g.poisoned(l2_normalize(bad)));
  CHECK(g.poisoned(cross_entropy(x, bad)));
  CHECK(g.poisoned(cross_entropy(bad, bad)));
  CHECK(g.poisoned(argmax(bad)));
  CHECK(g.poisoned(argmin(bad, {.axes = {}, .keep = true})));
  CHECK(g.poisoned(pad(bad, {1}, {1})));
  CHECK(g.poisoned(stack({x, bad})));
  CHECK(g.poisoned(split(bad, 2)[1]));
  CHECK(g.poisoned(squeeze(bad, {0})));
  CHECK(g.poisoned(unsqueeze(bad, 0)));
  CHECK(g.poisoned(reshape(bad, {-1})));
  CHECK(g.poisoned(transpose(bad, {1, 0})));
  CHECK(g.poisoned(broadcast_to(bad, {4, 4, 8})));
  CHECK(g.poisoned(slice(bad, {})));
  CHECK(g.poisoned(concat({x, bad})));
  CHECK(g.poisoned(gather(bad, x)));
  CHECK(g.poisoned(cast(bad, f16)));
  CHECK(g.poisoned(linear(g, "l", bad, 4)));
  CHECK(g.poisoned(bad.named("n")));
  g.assign(p, bad);
  g.output("bad", bad);
  CHECK(g.diagnostics().size() == 1);

  CHECK(g.poisoned(sum(x, {.axes = {5}})));
  CHECK(g.diagnostics().size() == 2);
  g.diagnostics().clear();
  const Tensor n = g.input("n", {i32, {2, 2}});
  CHECK(g.poisoned(pad(n, {1, 1}, {1, 1}, 0.5)));
  CHECK(g.diagnostics().size() == 1);
  g.diagnostics().clear();
  linear(g, "same", x, 3);
  CHECK(g.poisoned(linear(g, "same", x, 3)));  // one error, not one for w and one for b
  REQUIRE(g.diagnostics().size() == 1);
  CHECK(contains(g.diagnostics()[0].message, "there is a param 'same/w' already"));
  CHECK(g.poisoned(sum(x, {.axes = {5}})));
  CHECK(g.diagnostics().size() == 2);
  CHECK(!g.poisoned(x + 1.0));
  try {
    g.ir();
    FAIL("ir() must throw");
  } catch (const Error& e) {
    CHECK(e.diagnostics().size() == 2);
    CHECK(contains(e.what(), "E0201"));
    CHECK(contains(e.what(), "E0302"));
    CHECK(contains(e.what(), "error: 2 errors, 0 warnings"));
  }
}

TEST_CASE("messages speak of the op that was called, not of those it stands for") {
  Graph g;
  const Tensor x = g.input("x", {f32, {4, 8}}), h = g.input("h", {f16, {4, 8}});
  const Tensor q = g.input("q", {f32, {2, 4, 8}}), k = g.input("k", {f32, {3, 4, 8}});
  const Tensor n = g.input("n", {i32, {4, 8}});
  const auto message = [](const std::function<void()>& f) { return error_of(f).message; };
  CHECK(message([&] { matmul(x, x); }) == "matmul: inner dimensions differ");
  CHECK(contains(message([&] { attention(q, k, k); }), "attention: "));
  CHECK(contains(message([&] { layer_norm(n, x, x); }), "layer_norm takes a float dtype"));
  CHECK(contains(message([&] { sum(g.input("b", {b1, {4}})); }), "sum takes numbers, not b1"));
  // Operands made by composites keep the name of the composite.
  const Diagnostic d = error_of([&] { softmax(x) + h; });
  REQUIRE(d.details.size() == 2);
  CHECK(contains(d.details[0], "  f32[4,8]  from softmax at "));
  CHECK(d.suggestion == "cast the result of softmax to f16, or 'h' to f32");
  CHECK(contains(error_of([&] { matmul(x, transpose(x, {1, 0})) + h; }).details[0], "from matmul"));
}
