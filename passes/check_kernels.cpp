// The checker's first part: kernels.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ir/code_op.hpp"
#include "ir/matmul_body.hpp"
#include "ir/region.hpp"
#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

using ir::OpKind;

/// No target gives a block more shared memory (sm_90), and none has blocks of other shapes.
constexpr uint32_t kMostSharedBytes = 227 * 1024;
constexpr std::array<uint32_t, 3> kMostThreads{1024, 1024, 64};
constexpr std::array<uint32_t, 3> kMostBlocks{INT32_MAX, 65535, 65535};
/// 4096 bytes of pointers, which every device and driver takes.
constexpr size_t kMostArguments = 512;

struct Slot {
  ArgSlot arg;
  ir::ValueId value;  // of the body: an input, a param's first version, or an output
};

/// The slots that a body implies: inputs and params in op order, then outputs.
std::vector<Slot> slots_of(const ir::Graph& body) {
  std::vector<Slot> slots;
  std::map<uint32_t, size_t> param_slot;  // by value of any version
  for (const ir::Op& op : body.ops()) {
    const TensorType& type = body.type(op.result);
    const std::string name(body.strings[op.name]);
    switch (op.kind) {
      case OpKind::input:
        slots.push_back({{name, Role::in, type}, op.result});
        break;
      case OpKind::param:
        param_slot[op.result.index] = slots.size();
        slots.push_back({{name, Role::out, type}, op.result});
        break;
      case OpKind::read:
      case OpKind::update:
      case OpKind::send: {
        const auto it = param_slot.find(op.operands[0].index);
        if (it != param_slot.end()) {
          slots[it->second].arg.role = Role::inout;
          param_slot[op.result.index] = it->second;
        }
        break;
      }
      case OpKind::assign: {
        const auto it = param_slot.find(op.operands[0].index);
        if (it != param_slot.end()) param_slot[op.result.index] = it->second;
        break;
      }
      default:
        // What runs code reads and writes its state.
        if (!ir::runs_code(op.kind)) break;
        for (auto [before, after] : ir::versions_made(body, op)) {
          const auto it = param_slot.find(before.index);
          if (it == param_slot.end()) continue;
          slots[it->second].arg.role = Role::inout;
          param_slot[after.index] = it->second;
        }
        break;
    }
  }
  for (const ir::Output& o : body.outputs) {
    slots.push_back({{o.name, Role::out, body.type(o.value)}, o.value});
  }
  return slots;
}

/// Which outputs of a body may be in place of an input: each element of the input is read only by
/// the thread that writes the same element of the output, before it does. A kernel computes all
/// values of an element before it stores any.
///
/// The input must be used at its own row-major index alone: what depends on it is a map, a reshape,
/// a read, an assign, the tensor of an update whose result nobody reads, a message of one element
/// where there is one thread, or, in a kernel of rows, a reduction over the last axes. Then:
/// - The output is such a value, and the body has no reduction: the thread that needs the element
///   writes it, whichever that is.
/// - Or the body has no dot and no transposed result: a kernel walks its domain in row-major order,
///   with one thread for an element in every pass. All reductions fold the domain, which has as
///   many elements as the input, into fewer rows.
class Pointwise {
 public:
  Pointwise(const ir::Graph& body, ir::ValueId input)
      : on_(body.values().size(), false), stored_(on_) {
    const int64_t elements = body.type(input).shape.numel();
    std::vector<bool> computed(body.values().size(), false);
    on_[input.index] = true;
    for (const ir::Op& op : body.ops()) {
      const auto* view = std::get_if<ir::ViewAttr>(&op.attrs);
      const auto* reduce = std::get_if<ir::ReduceAttr>(&op.attrs);
      const auto any_of = [&](const std::vector<bool>& set) {
        return std::any_of(op.operands.begin(), op.operands.end(),
                           [&](ir::ValueId v) { return set[v.index]; });
      };
      const bool free = view || op.kind == OpKind::read;
      const bool memory = free || op.operands.empty();
      computed[op.result.index] = memory ? any_of(computed) : true;
      if (op.kind == OpKind::dot ||
          (view && view->kind == ir::ViewKind::transpose && computed[op.result.index])) {
        walks_ = false;
      }
      if (reduce) {
        reduces_ = true;
        const Shape& from = body.type(op.operands[0]).shape;
        // The axes that stay are the first ones.
        const uint32_t kept = ((uint32_t{1} << from.rank()) - 1) & ~reduce->axes;
        walks_ = walks_ && (kept & (kept + 1)) == 0 && from.numel() == elements &&
                 body.type(op.result).shape.numel() < elements;
      }
      if (any_of(stored_)) elsewhere_ = true;
      if (reduce || !any_of(on_)) continue;
      if (op.kind == OpKind::update && stores_own(body, op, elements)) {
        stored_[op.result.index] = true;
      } else if (op.kind == OpKind::send && elements == 1 && one_element(body, op)) {
        continue;  // by the one thread
      } else if (op.kind == OpKind::map || op.kind == OpKind::read || op.kind == OpKind::assign ||
                 (view && view->kind == ir::ViewKind::reshape)) {
        on_[op.result.index] = true;
      } else {
        elsewhere_ = true;
      }
    }
  }

  bool allows(ir::ValueId output) const {
    return !elsewhere_ && (walks_ || (!reduces_ && on_[output.index]));
  }

 private:
  static bool one_element(const ir::Graph& body, const ir::Op& send) {
    return std::all_of(send.operands.begin() + 1, send.operands.end(),
                       [&](ir::ValueId v) { return body.type(v).shape.numel() == 1; });
  }
  /// Whether only the update's tensor depends on the input, so that a thread stores what comes of
  /// its own element; or the starts too, where there is one element and one thread.
  bool stores_own(const ir::Graph& body, const ir::Op& update, int64_t elements) const {
    if (on_[update.operands[0].index]) return false;
    if (elements == 1 && body.type(update.operands[1]).shape.numel() == 1) return true;
    return std::none_of(update.operands.begin() + 2, update.operands.end(),
                        [&](ir::ValueId v) { return on_[v.index]; });
  }

  std::vector<bool> on_;      // by value: depends on the input at its own index
  std::vector<bool> stored_;  // by value: of a param, elements of which come from on_ values
  bool elsewhere_ = false, reduces_ = false, walks_ = true;
};

void in_place(const Kernel& k, const std::vector<Slot>& slots, Findings& out) {
  std::map<uint32_t, Pointwise> proofs;  // by input slot
  for (const InPlace& pair : k.in_place) {
    if (pair.out >= slots.size() || pair.in >= slots.size()) {
      out.add("kernel {} has slot {} in place of slot {}, but {} slots", k.symbol, pair.out,
              pair.in, slots.size());
      continue;
    }
    const Slot &to = slots[pair.out], &from = slots[pair.in];
    const TensorType &a = to.arg.type, &b = from.arg.type;
    if (to.arg.role != Role::out || k.body.value(to.value).state || from.arg.role != Role::in ||
        size_of(a.dtype) != size_of(b.dtype) || a.shape.numel() != b.shape.numel()) {
      out.add("kernel {} cannot have {} '{}' {} in place of {} '{}' {}", k.symbol,
              name_of(to.arg.role), to.arg.name, to_string(a), name_of(from.arg.role),
              from.arg.name, to_string(b));
      continue;
    }
    const auto [proof, added] = proofs.try_emplace(pair.in, k.body, from.value);
    if (!proof->second.allows(to.value)) {
      out.add(
          "kernel {} says that '{}' may be in place of '{}', but other threads may need "
          "elements of '{}'",
          k.symbol, to.arg.name, from.arg.name, from.arg.name);
    }
  }
}

/// What decides whether a guarded kernel does anything stands behind the body's arguments.
void guard(const Kernel& k, Findings& out) {
  const ArgSlot& asked = k.args.back();
  const bool fits = asked.type.shape.rank() == 0 &&
                    (asked.type.dtype == DType::b1 || asked.type.dtype == DType::i32);
  if (!fits || asked.role != Role::in) {
    out.add("the guard of kernel {} is {} {}", k.symbol, name_of(asked.role),
            to_string(asked.type));
  }
  if (k.parts != 1) out.add("kernel {} has a guard and {} parts", k.symbol, k.parts);
}

/// A library kernel is one library op, or a product that cuBLASLt computes, with memory for the
/// call alone behind the body's arguments; nothing but such a kernel is either.
void library(const Kernel& k, Findings& out) {
  const ir::LibraryAttr* op = nullptr;
  for (const ir::Op& o : k.body.ops()) {
    if (const auto* attr = std::get_if<ir::LibraryAttr>(&o.attrs)) op = attr;
    if (o.kind == OpKind::library && k.code != Code::library) {
      out.add("kernel {} has a library op in its body, but is {}", k.symbol, name_of(k.code));
    }
  }
  if (k.code != Code::library) {
    if (k.workspace != 0) {
      out.add("kernel {} has a workspace of {} bytes, but is {}", k.symbol, k.workspace,
              name_of(k.code));
    }
    return;
  }
  if (k.guard || k.parts != 1 || k.waits || !k.in_place.empty()) {
    out.add("library kernel {} has a guard, parts, a wait or results in place", k.symbol);
  }
  if (op) {
    const auto others =
        std::count_if(k.body.ops().begin(), k.body.ops().end(), [](const ir::Op& o) {
          return o.kind != OpKind::input && o.kind != OpKind::param && o.kind != OpKind::read &&
                 o.kind != OpKind::view;
        });
    if (others != 1 || k.body.strings[op->function] != k.function ||
        op->workspace != Dim(k.workspace)) {
      out.add("library kernel {} calls '{}' with {} bytes, but that is not its body's one op",
              k.symbol, k.function, k.workspace);
    }
  } else if (k.function != kCublasLtMatmul || !matmul_body(k.body)) {
    out.add("library kernel {} calls '{}', which does not compute its body", k.symbol, k.function);
  }
  if (k.workspace == 0) return;
  const ArgSlot& slot = k.args.back();
  if (slot.role != Role::out || slot.type.dtype != DType::u8 || slot.type.shape.rank() != 1 ||
      slot.type.bytes() != k.workspace) {
    out.add("the workspace of library kernel {} is {} {}, not {} bytes", k.symbol,
            name_of(slot.role), to_string(slot.type), k.workspace);
  }
}

/// Kernels hold no work of the host and no bodies; what they send is known.
void work(const Program& p, const Kernel& k, Findings& out) {
  if (!k.body.bodies.empty()) out.add("the body of kernel {} has bodies", k.symbol);
  for (const ir::Op& op : k.body.ops()) {
    if ((op.kind == OpKind::host && !k.exchanges) || ir::is_region(op.kind)) {
      out.add("kernel {} has a {} in its body", k.symbol, ir::info(op.kind).name);
    }
    const auto* send = std::get_if<ir::SendAttr>(&op.attrs);
    if (!send) continue;
    if (send->id >= p.messages.size()) {
      out.add("kernel {} sends message {}, which does not exist", k.symbol, send->id);
      continue;
    }
    const MessageSource& m = p.messages[send->id];
    if (m.kind != send->kind || m.type != k.body.type(op.operands[1]) ||
        m.loops != op.operands.size() - 2) {
      out.add("kernel {} sends {} {} from within {} loops as message {}, which is {} {} within {}",
              k.symbol, ir::name_of(send->kind), to_string(k.body.type(op.operands[1])),
              op.operands.size() - 2, send->id, ir::name_of(m.kind), to_string(m.type), m.loops);
    }
  }
}

void launch_shape(const Program& p, const Kernel& k, Findings& out) {
  const auto &g = k.launch.grid, &b = k.launch.block;
  bool legal = k.launch.shared_bytes <= kMostSharedBytes;
  for (size_t i = 0; i < 3; ++i) {
    legal = legal && g[i] > 0 && g[i] <= kMostBlocks[i] && b[i] > 0 && b[i] <= kMostThreads[i];
  }
  // Grids are known once the kernels are written.
  if (!p.modules.empty() && k.parts > 1 && g[1] != k.parts) {
    out.add("kernel {} computes {} parts, but its grid has {} along y", k.symbol, k.parts, g[1]);
  }
  const int64_t most = std::min<int64_t>(p.target.max_threads_per_block, kMostThreads[0]);
  if (!legal || int64_t{b[0]} * b[1] * b[2] > most) {
    out.add("kernel {} cannot be launched: grid ({}, {}, {}), block ({}, {}, {}), {} bytes shared",
            k.symbol, g[0], g[1], g[2], b[0], b[1], b[2], k.launch.shared_bytes);
  }
}

/// What a kernel may read before it waits it must only read, in all parts alike.
void early_reads(const Program& p, const Kernel& k, size_t extra, Findings& out) {
  if (k.waits && !has_programmatic_edges(p.target)) {
    out.add("kernel {} waits by itself, which {} cannot", k.symbol, p.target.arch);
  }
  const size_t own = k.args.size() - extra, each = std::max<size_t>(own / k.parts, 1);
  for (size_t s = 0; s < k.args.size(); ++s) {
    const ArgSlot& slot = k.args[s];
    if (slot.fixed && (!k.waits || s >= own || slot.role != Role::in)) {
      out.add("argument {} of kernel {} is fixed, but not an operand of a kernel that waits", s,
              k.symbol);
    } else if (s < own && slot.fixed != k.args[s % each].fixed) {
      out.add("argument {} of kernel {} is fixed in some parts alone", s, k.symbol);
    }
  }
}

}  // namespace

void check_kernels(const Program& p, Findings& out) {
  for (const Kernel& k : p.kernels) {
    const auto& values = k.body.values();
    if (!std::all_of(values.begin(), values.end(),
                     [](const ir::Value& v) { return v.type.shape.is_static(); })) {
      out.add("the body of kernel {} has symbolic shapes", k.symbol);
      continue;
    }
    if (k.args.size() > kMostArguments) {
      out.add("kernel {} has {} arguments, more than {}", k.symbol, k.args.size(), kMostArguments);
      continue;
    }
    const std::vector<Slot> slots = slots_of(k.body);
    if (k.workspace < 0) {
      out.add("kernel {} has a workspace of {} bytes", k.symbol, k.workspace);
      continue;
    }
    const size_t extra = extra_arguments(k);
    if (k.parts == 0 || k.parts > std::max<size_t>(k.args.size(), 1) ||
        slots.size() * k.parts + extra != k.args.size()) {
      out.add("kernel {} has {} arguments, but its body needs {} for each of {} parts", k.symbol,
              k.args.size(), slots.size(), k.parts);
      continue;
    }
    if (k.guard) guard(k, out);
    library(k, out);
    work(p, k, out);
    check_user_kernel(p, k, out);
    for (size_t s = 0; s + extra < k.args.size(); ++s) {
      const ArgSlot &is = k.args[s], &needed = slots[s % slots.size()].arg;
      if (is.role != needed.role || is.type != needed.type || is.name != needed.name) {
        out.add("argument {} of kernel {} is {} '{}' {}, but its body needs {} '{}' {}", s,
                k.symbol, name_of(is.role), is.name, to_string(is.type), name_of(needed.role),
                needed.name, to_string(needed.type));
      }
    }
    early_reads(p, k, extra, out);
    if (!p.modules.empty() && k.code != Code::library && k.module >= p.modules.size()) {
      out.add("kernel {} is in module {}, which does not exist", k.symbol, k.module);
    }
    launch_shape(p, k, out);
    in_place(k, slots, out);
  }
  check_user_modules(p, out);
}

}  // namespace braid::checking
