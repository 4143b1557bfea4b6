// Runs of graphs with branches, loops and messages, as texts that tell all bits apart.
#pragma once

#include <bit>
#include <string>

#include "ir/interpret.hpp"
#include "ir/region.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"
#include "passes/control.hpp"
#include "passes/plan.hpp"

namespace braid::test {

/// What a run on random inputs and params gives: outputs, the Store's params, and messages but for
/// their numbers.
inline std::string run_text(const ir::Graph& g, uint64_t seed,
                            const HostFunctions& functions = {}) {
  ir::TensorMap inputs, params;
  for (const ir::Op& op : g.ops()) {
    const std::string name(g.strings[op.name]);
    if (op.kind == ir::OpKind::input && !std::holds_alternative<ir::ScalarAttr>(op.attrs)) {
      inputs[name] = widen(random_tensor(g.type(op.result), seed, name));
    }
    if (std::holds_alternative<ir::ParamAttr>(op.attrs)) {
      params[name] = widen(random_tensor(g.type(op.result), seed, name));
    }
  }
  ir::Observed seen;
  seen.steps = 5'000'000;
  const ir::TensorMap outputs =
      ir::interpret(g, inputs, params, ir::Rounding::dtype, functions, &seen);
  std::string all;
  const auto add = [&](const std::string& name, const WideTensor& t) {
    all += name + " " + to_string(t.type);
    for (double x : t.f) all += " " + (x != x ? "nan" : std::to_string(std::bit_cast<uint64_t>(x)));
    for (int64_t x : t.i) all += " " + std::to_string(x);
    all += "\n";
  };
  for (const auto& [name, t] : outputs) add(name, t);
  for (const auto& [name, t] : params) {
    if (!name.empty()) add(name, t);
  }
  for (const ir::Message& m : seen.messages) {
    all += std::string(name_of(m.kind)) + " " + m.text + " " + m.op + " at";
    for (int64_t i : m.iterations) all += " " + std::to_string(i);
    add(":", m.value);
  }
  return all;
}

/// The settings of a control pass, by number.
inline Options control_options(uint64_t n) {
  using enum ir::Lowering;
  constexpr ir::Lowering kBranches[] = {automatic, select, predicate, node, host};
  constexpr ir::Lowering kLoops[] = {automatic, unroll, node, host};
  constexpr int kCopies[] = {0, 1, 2, 3};
  Options o;
  o.branches = kBranches[n % 5];
  o.loops = kLoops[n / 5 % 4];
  o.unroll = kCopies[n / 20 % 4];
  o.simplify = n / 80 % 4 != 3;
  if (n / 320 % 3 == 1) o.unroll_limit = 2;
  return o;
}

}  // namespace braid::test
