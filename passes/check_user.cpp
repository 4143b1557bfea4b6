// The checker's part on kernels of the user's: the record says of code and launch what the op in
// the body does.
#include <algorithm>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

using ir::CodeParameter;
using ir::OpKind;

/// The slot that an operand of the body's kernel has, or that of a result.
class SlotOf {
 public:
  explicit SlotOf(const ir::Graph& body) : of_(body.values().size(), UINT32_MAX) {
    uint32_t next = 0;
    for (const ir::Op& op : body.ops()) {
      if (op.kind == OpKind::input || op.kind == OpKind::param) of_[op.result.index] = next++;
      if (op.kind == OpKind::view || op.kind == OpKind::read) {
        const auto* view = std::get_if<ir::ViewAttr>(&op.attrs);
        // Only as it lies in memory.
        if (!view || view->kind == ir::ViewKind::reshape) {
          of_[op.result.index] = of_[op.operands[0].index];
        }
      }
    }
    for (const ir::Output& o : body.outputs) of_[o.value.index] = next++;
  }
  uint32_t operator()(ir::ValueId v) const { return of_[v.index]; }

 private:
  std::vector<uint32_t> of_;
};

void parameters(const Kernel& k, const ir::Op& op, const ir::KernelAttr& a, Findings& out) {
  if (k.parameters.size() != a.parameters.size()) {
    out.add("kernel {} passes {} parameters, but its function takes {}", k.symbol,
            k.parameters.size(), a.parameters.size());
    return;
  }
  const SlotOf slot_of(k.body);
  std::vector<int> named(k.args.size());
  for (size_t i = 0; i < k.parameters.size(); ++i) {
    const Parameter& is = k.parameters[i];
    const CodeParameter& p = a.parameters[i];
    if (p.kind == CodeParameter::Kind::scalar) {
      const auto number = p.extent ? static_cast<double>(p.extent->value().value_or(-1)) : p.number;
      if (is.slot != UINT32_MAX || is.dtype != p.dtype || is.number != number) {
        out.add("parameter {} of kernel {} is not the scalar {} {}", i, k.symbol, name_of(p.dtype),
                number);
      }
      continue;
    }
    const bool operand = p.kind == CodeParameter::Kind::operand;
    const bool there = operand ? p.index < op.operands.size() : p.index < op.results;
    const uint32_t slot =
        !there ? UINT32_MAX : slot_of(operand ? op.operands[p.index] : op.result_at(p.index));
    if (slot >= k.args.size() || is.slot != slot) {
      out.add("parameter {} of kernel {} is slot {}, not the one of {} {}", i, k.symbol, is.slot,
              operand ? "operand" : "result", p.index);
      continue;
    }
    ++named[slot];
  }
  for (size_t s = 0; s < named.size(); ++s) {
    // A value may stand for several operands.
    if (named[s] == 1 || (named[s] > 1 && k.args[s].role == Role::in)) continue;
    out.add("argument '{}' of kernel {} is {} of its parameters", k.args[s].name, k.symbol,
            named[s]);
  }
}

}  // namespace

void check_user_kernel(const Program& p, const Kernel& k, Findings& out) {
  const auto& ops = k.body.ops();
  const auto is_kernel = [](const ir::Op& op) { return op.kind == OpKind::kernel; };
  const auto op = std::find_if(ops.begin(), ops.end(), is_kernel);
  if (k.code != Code::user) {
    if (op != ops.end() || k.family == "user" || !k.parameters.empty()) {
      out.add("kernel {} has code of the user's, but says it has not", k.symbol);
    }
    return;
  }
  if (op == ops.end() || std::count_if(ops.begin(), ops.end(), is_kernel) != 1 ||
      k.family != "user") {
    out.add("kernel {} should have one kernel of the user's in its body", k.symbol);
    return;
  }
  for (const ir::Op& other : ops) {
    const bool free = other.kind == OpKind::input || other.kind == OpKind::param ||
                      other.kind == OpKind::view || other.kind == OpKind::read;
    if (!free && other.kind != OpKind::kernel) {
      out.add("kernel {} is the user's, and cannot compute a {}", k.symbol,
              ir::info(other.kind).name);
    }
  }
  const auto& a = std::get<ir::KernelAttr>(op->attrs);
  if (k.function.empty() || k.function != k.body.strings[a.function]) {
    out.add("kernel {} calls the function '{}', not '{}'", k.symbol, k.function,
            k.body.strings[a.function]);
  }
  if (k.guard || k.parts != 1 || k.waits || !k.in_place.empty()) {
    out.add("kernel {} is the user's: it has no guard, one part, and does not wait", k.symbol);
  }
  const auto differs = [](const ir::Extent& e, uint32_t n) { return e.value() != int64_t{n}; };
  for (size_t i = 0; i < 3; ++i) {
    if (differs(a.grid[i], k.launch.grid[i]) || differs(a.block[i], k.launch.block[i])) {
      out.add("kernel {} is not launched as its op says", k.symbol);
      break;
    }
  }
  if (differs(a.shared_bytes, k.launch.shared_bytes)) {
    out.add("kernel {} has {} bytes of shared memory, which its op does not say", k.symbol,
            k.launch.shared_bytes);
  }
  parameters(k, *op, a, out);
  if (p.modules.empty() || k.module >= p.modules.size()) return;
  if (p.modules[k.module].file.empty()) {
    out.add("kernel {} is the user's, but module {} is not", k.symbol, k.module);
  }
}

void check_user_modules(const Program& p, Findings& out) {
  for (const Kernel& k : p.kernels) {
    if (k.code != Code::generated || k.module >= p.modules.size()) continue;
    if (!p.modules[k.module].file.empty()) {
      out.add("kernel {} is in module {}, which is code of the user's", k.symbol, k.module);
    }
  }
}

}  // namespace braid::checking
