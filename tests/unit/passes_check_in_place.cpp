// What a kernel may write over its operand: the checker's rule against runs of the bodies.
#include <doctest/doctest.h>

#include <set>

#include "check_programs.hpp"
#include "ir/text.hpp"
#include "passes/check.hpp"
#include "passes/pipeline.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// Whether the body, run with another element of input slot `in`, shows that no output can be in
/// its place: a change elsewhere than at that element's index. A body that reduces may change the
/// element's row, one that does not nothing else. Where updates put an element says nothing.
bool seen_elsewhere(const Kernel& k, size_t in, std::mt19937& random) {
  const ir::TensorMap inputs = random_tensors(k.body, OpKind::input, random());
  const ir::TensorMap params = random_tensors(k.body, OpKind::param, random());
  const auto run = [&](const ir::TensorMap& with) {
    ir::TensorMap state = params;
    ir::TensorMap all = ir::interpret(k.body, with, state, ir::Rounding::dtype);
    all.merge(state);
    return all;
  };
  const auto element = [](const WideTensor& t, size_t i) {
    return t.f.empty() ? static_cast<double>(t.i[i]) : t.f[i];
  };
  const ir::TensorMap before = run(inputs);
  size_t rows = 0;  // of a body that reduces
  for (const ir::Op& op : k.body.ops()) {
    if (op.kind == OpKind::reduce) rows = static_cast<size_t>(k.body.type(op.result).shape.numel());
  }
  std::set<std::string> updated;
  for (const ir::Op& op : k.body.ops()) {
    if (op.kind != OpKind::update) continue;
    ir::ValueId v = op.result;
    while (k.body.def(v).kind != OpKind::param) v = k.body.def(v).operands[0];
    updated.emplace(k.body.name_of(k.body.value(v).def));
  }
  const size_t n = static_cast<size_t>(k.args[in].type.shape.numel());
  for (int trial = 0; trial < 6; ++trial) {
    const size_t j = below(random, n);
    ir::TensorMap other = inputs;
    WideTensor& t = other.at(k.args[in].name);
    if (t.f.empty()) {
      t.i[j] = t.type.dtype == DType::b1 ? 1 - t.i[j] : t.i[j] + 1;
    } else {
      t.f[j] += trial % 2 ? 1.0 : -2.0;
    }
    for (const auto& [name, now] : run(other)) {
      if (updated.count(name)) continue;
      const size_t size = static_cast<size_t>(now.type.shape.numel());
      for (size_t i = 0; i < size; ++i) {
        const double x = element(now, i), y = element(before.at(name), i);
        if (x == y || (x != x && y != y)) continue;
        const bool own = size == n && i == j;
        const bool row = rows > 0 && (size == n || size == rows) && n % rows == 0 &&
                         i / (size / rows) == j / (n / rows);
        if (!own && !row) return true;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("in place: pairs of slots that a run of the body refutes are refused") {
  std::mt19937 random(73);
  size_t refuted = 0, accepted = 0;
  for (Program& p : compiled_programs()) {
    for (size_t i = 0; i < p.kernels.size(); ++i) {
      const Kernel original = p.kernels[i];
      const std::vector<ArgSlot>& args = original.args;
      for (uint32_t out = 0; out < args.size(); ++out) {
        for (uint32_t in = 0; in < args.size(); ++in) {
          const int64_t n = args[in].type.shape.numel();
          if (args[in].role != Role::in || args[out].role != Role::out || n == 0) continue;
          if (args[out].type.shape.numel() != n || !args[out].name.starts_with("r")) continue;
          p.kernels[i].in_place = {{out, in}};
          const bool right = check(p).empty();
          if (original.exchanges) {  // it may have nothing in place
            CHECK(!right);
            continue;
          }
          const bool wrong = seen_elsewhere(original, in, random);
          CHECK_MESSAGE(!(right && wrong), original.symbol, ": ", out, " in place of ", in, "\n",
                        ir::print(original.body));
          refuted += wrong;
          accepted += right;
        }
      }
      p.kernels[i] = original;
    }
  }
  CHECK(refuted >= 20);
  CHECK(accepted > 50);
}

TEST_CASE("in place: a kernel may also put what it makes into a box of a param") {
  const auto findings = [](const std::string& box) {
    const Program p = run_passes(ir::parse(R"(bir 1
graph "g" {
  %0: f32[3] = input "x"
  %1: state f32[8] = param "p"
  %2: i32[1] = input "at"
  %3: i32[] = reshape %2
  %4: f32[3] = add %0, %0
)" + box + "  output \"y\" %4\n}\n"),
                                 {}, "source")
                          .program;
    bool claims = false;
    for (const Kernel& k : p.kernels) claims = claims || !k.in_place.empty();
    CHECK(claims);
    return check(p);
  };
  CHECK(findings("  %5: state f32[8] = update %1, %4, %3\n").empty());
  CHECK(findings("  %5: i32[] = constant 99\n  %6: state f32[8] = update %1, %4, %5\n").empty());
}
