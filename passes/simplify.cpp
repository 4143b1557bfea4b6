#include <algorithm>
#include <bit>
#include <utility>

#include "ir/code_op.hpp"
#include "passes/plan.hpp"
#include "passes/simplify_live.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdULL;
}

uint64_t hash_of(const ir::Attrs& attrs) {
  uint64_t h = attrs.index();
  if (const auto* m = std::get_if<ir::MapAttr>(&attrs)) return mix(h, static_cast<uint64_t>(m->fn));
  if (const auto* r = std::get_if<ir::ReduceAttr>(&attrs)) {
    return mix(mix(h, static_cast<uint64_t>(r->fn)), r->axes);
  }
  if (const auto* d = std::get_if<ir::DotAttr>(&attrs)) {
    return mix(h, (d->tf32 ? 4U : 0U) + (d->ta ? 2U : 0U) + d->tb);
  }
  if (const auto* a = std::get_if<ir::AxisAttr>(&attrs)) {
    return mix(h, static_cast<uint64_t>(a->axis));
  }
  if (const auto* s = std::get_if<ir::ScatterAttr>(&attrs)) {
    return mix(mix(h, static_cast<uint64_t>(s->axis)), s->fn ? static_cast<uint64_t>(*s->fn) : 999);
  }
  if (const auto* c = std::get_if<ir::ConstAttr>(&attrs)) return mix(h, c->literal);
  if (const auto* v = std::get_if<ir::ViewAttr>(&attrs)) {
    h = mix(h, static_cast<uint64_t>(v->kind));
    for (int64_t x : v->a) h = mix(h, static_cast<uint64_t>(x));
    for (int64_t x : v->b) h = mix(h, static_cast<uint64_t>(x));
  }
  return h;
}

/// Ops that may be merged with an equal one, and the table that finds it.
class EqualOps {
 public:
  explicit EqualOps(const Rewriter& rewriter)
      : rewriter_(rewriter), slots_(std::bit_ceil(2 * rewriter.ops.size() + 2), UINT32_MAX) {}

  /// The first op equal to op `i`: `i` itself if there was none.
  uint32_t find_or_add(uint32_t i) {
    size_t slot = hash(i) & (slots_.size() - 1);
    while (slots_[slot] != UINT32_MAX) {
      if (equal(slots_[slot], i)) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slots_[slot] = i;
  }

 private:
  uint64_t hash(uint32_t i) const {
    const ir::Op& op = rewriter_.ops[i];
    const TensorType& type = rewriter_.type(op.result);
    uint64_t h = mix(hash_of(op.attrs), static_cast<uint64_t>(op.kind));
    for (ValueId v : op.operands) h = mix(h, v.index);
    h = mix(h, static_cast<uint64_t>(type.dtype));
    for (Dim d : type.shape) h = mix(h, d.is_const() ? static_cast<uint64_t>(d.value()) : 77);
    return h ^ (h >> 32);
  }
  bool equal(uint32_t i, uint32_t j) const {
    const ir::Op& a = rewriter_.ops[i];
    const ir::Op& b = rewriter_.ops[j];
    return a.kind == b.kind && a.operands == b.operands && a.attrs == b.attrs &&
           a.outside == b.outside && rewriter_.type(a.result) == rewriter_.type(b.result);
  }

  const Rewriter& rewriter_;
  std::vector<uint32_t> slots_;
};

bool may_merge(OpKind kind) {
  return kind != OpKind::input && kind != OpKind::param && kind != OpKind::assign &&
         kind != OpKind::update && kind != OpKind::host && kind != OpKind::branch &&
         kind != OpKind::loop && kind != OpKind::send && !ir::runs_code(kind);
}

size_t arguments_of_bodies(const ir::Op& op) {
  return op.operands.size() - ir::first_argument(op) + ir::first_operand_argument(op);
}

ir::Graph emit(const ir::Graph& graph, Rewriter& rewriter, size_t arguments) {
  const Liveness found = find_live(graph, rewriter, arguments);
  ir::Graph out(graph.name);
  out.dims = graph.dims;
  out.repeats = graph.repeats;
  const auto carry = [&](ir::StrId s) {
    return s.valid() ? out.strings.intern(graph.strings[s]) : ir::StrId{};
  };
  const auto carry_loc = [&](ir::Loc loc) {
    loc.file = carry(loc.file);
    return loc;
  };
  std::vector<ValueId> to(graph.values().size());
  for (size_t i = 0; i < rewriter.ops.size(); ++i) {
    ir::Op& op = rewriter.ops[i];
    if (!found.live[i]) {
      for (uint32_t r = 0; r < op.results; ++r) {
        const ValueId before = found.through[op.result.index + r];
        if (before.valid()) to[op.result.index + r] = to[rewriter.now(before).index];
      }
      continue;
    }
    for (ValueId& v : op.operands) v = to[v.index];
    if (op.kind == OpKind::constant) {
      const uint32_t literal = std::get<ir::ConstAttr>(op.attrs).literal;
      op.attrs = ir::ConstAttr{out.add_literal(rewriter.literals[literal])};
    }
    if (auto* host = std::get_if<ir::HostAttr>(&op.attrs)) {
      host->function = carry(host->function);
      host->why = carry(host->why);
    }
    ir::replace_strings(op.attrs, carry);
    if (auto* send = std::get_if<ir::SendAttr>(&op.attrs)) send->text = carry(send->text);
    const auto body = [&](uint32_t& b) {
      out.bodies.push_back(graph.bodies[b]);
      b = static_cast<uint32_t>(out.bodies.size() - 1);
    };
    if (auto* branch = std::get_if<ir::BranchAttr>(&op.attrs)) {
      branch->why = carry(branch->why);
      for (uint32_t& b : branch->bodies) body(b);
    }
    if (auto* loop = std::get_if<ir::LoopAttr>(&op.attrs)) {
      loop->why = carry(loop->why);
      body(loop->body);
      if (loop->condition != ir::kNoBody) body(loop->condition);
    }
    ir::Graph::NewOp copy{op.kind, op.attrs,       std::move(op.operands),
                          {},      carry(op.name), carry_loc(op.loc),
                          {},      op.outside};
    copy.take_types(graph, op);
    map_results(to, op, out.add(std::move(copy)));
  }
  for (const ir::Output& output : graph.outputs) {
    out.outputs.push_back(
        {output.name, to[rewriter.now(output.value).index], carry_loc(output.loc)});
  }
  return out;
}

/// All but what is in bodies.
ir::Graph simplify_outermost(const ir::Graph& graph, size_t arguments) {
  Rewriter rewriter(graph);
  EqualOps equal_ops(rewriter);
  for (uint32_t i = 0; i < rewriter.ops.size(); ++i) {
    ir::Op& op = rewriter.ops[i];
    for (ValueId& v : op.operands) v = rewriter.now(v);
    // What its author keeps out of graphs stays as it is written.
    if ((!op.outside && rewriter.rewrite(i)) || !may_merge(op.kind)) continue;
    if (op.kind == OpKind::constant) rewriter.intern_literal(op);
    const uint32_t first = equal_ops.find_or_add(i);
    if (first == i) continue;
    for (uint32_t r = 0; r < op.results; ++r) {
      rewriter.replace(op.result_at(r), rewriter.ops[first].result_at(r));
    }
  }
  return emit(graph, rewriter, arguments);
}

ir::Graph sweep_outermost(const ir::Graph& graph, size_t arguments) {
  Rewriter rewriter(graph);
  return emit(graph, rewriter, arguments);
}

/// Bodies before what is around them.
template <class Rewrite>
ir::Graph innermost_first(const ir::Graph& graph, size_t arguments, const Rewrite& rewrite) {
  if (graph.bodies.empty()) return rewrite(graph, arguments);
  ir::Graph inner = graph;
  for (const ir::Op& op : graph.ops()) {
    for (uint32_t b : ir::bodies_of(op)) {
      inner.bodies[b] = innermost_first(graph.bodies[b], arguments_of_bodies(op), rewrite);
    }
  }
  return rewrite(inner, arguments);
}

}  // namespace

ir::Graph simplify(const ir::Graph& graph, size_t arguments) {
  return innermost_first(graph, arguments, simplify_outermost);
}

ir::Graph sweep(const ir::Graph& graph, size_t arguments) {
  return innermost_first(graph, arguments, sweep_outermost);
}

}  // namespace braid
