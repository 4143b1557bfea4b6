#include "passes/kernels/in_place.hpp"

#include <optional>

#include "passes/kernels/cuda_text.hpp"
#include "passes/kernels/row.hpp"
#include "passes/kernels/sinks.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

bool is_view(const ir::Op& op, ir::ViewKind kind) {
  const auto* view = std::get_if<ir::ViewAttr>(&op.attrs);
  return view && view->kind == kind;
}

/// Not read from memory through views alone.
bool computed(const ir::Graph& body, ir::ValueId v) {
  while (body.def(v).kind == OpKind::view || body.def(v).kind == OpKind::read) {
    v = body.def(v).operands[0];
  }
  const OpKind kind = body.def(v).kind;
  return kind != OpKind::input && kind != OpKind::param && kind != OpKind::constant &&
         kind != OpKind::iota;
}

bool folds_last_axes(const ir::Graph& body, const ir::Op& reduce) {
  const uint32_t axes = std::get<ir::ReduceAttr>(reduce.attrs).axes;
  const uint32_t all = (uint32_t{1} << body.type(reduce.operands[0]).shape.rank()) - 1;
  const uint32_t kept = all & ~axes;
  return (kept & (kept + 1)) == 0;  // they are the first ones
}

struct Domain {
  int64_t numel = 0;
  bool reduces = false;
};

/// The domain, if threads stand at one row-major index in everything that has as many elements;
/// else nothing.
std::optional<Domain> domain_of(const ir::Graph& body, const std::vector<Sink>& sinks,
                                const std::vector<bool>& needed, const Target& target) {
  if (sinks.empty()) return std::nullopt;
  Domain domain{body.type(walked(sinks)).shape.numel(), false};
  for (const ir::Op& op : body.ops()) {
    if (!needed[op.result.index]) continue;
    if (op.kind == OpKind::dot) return std::nullopt;
    if (is_view(op, ir::ViewKind::transpose) && computed(body, op.operands[0])) return std::nullopt;
    if (op.kind != OpKind::reduce) continue;
    domain = {body.type(op.operands[0]).shape.numel(), true};
    // With one element a row nothing tells results per element from results per row.
    const int64_t rows = body.type(op.result).shape.numel();
    if (domain.numel <= rows || !folds_last_axes(body, op)) return std::nullopt;
    if (!keeps_rows(rows, domain.numel / rows, target)) return std::nullopt;
  }
  return domain;
}

/// By value: whether threads that compute the sinks and reductions read it at their own elements
/// alone, given that they stand at own elements there.
std::vector<bool> own_elements(const ir::Graph& body, const std::vector<bool>& needed) {
  std::vector<bool> own(body.values().size(), true);
  for (auto op = body.ops().rbegin(); op != body.ops().rend(); ++op) {
    if (!needed[op->result.index] || op->kind == OpKind::reduce) continue;
    const bool element_by_element = op->kind == OpKind::map || op->kind == OpKind::read ||
                                    op->kind == OpKind::assign ||
                                    is_view(*op, ir::ViewKind::reshape);
    for (const ir::ValueId v : op->operands) {
      own[v.index] = own[v.index] && element_by_element && own[op->result.index];
    }
  }
  return own;
}

/// By value: whether maps and reshapes of it are reduced.
std::vector<bool> reduced(const ir::Graph& body, const std::vector<bool>& needed) {
  std::vector<bool> found(body.values().size(), false);
  for (auto op = body.ops().rbegin(); op != body.ops().rend(); ++op) {
    if (!needed[op->result.index]) continue;
    const bool passes = op->kind == OpKind::map || is_view(*op, ir::ViewKind::reshape);
    if (op->kind != OpKind::reduce && !(passes && found[op->result.index])) continue;
    for (const ir::ValueId v : op->operands) found[v.index] = true;
  }
  return found;
}

}  // namespace

std::vector<InPlace> in_place_slots(const ir::Graph& body, const Target& target) {
  const Signature signature(body);
  const std::vector<Sink> sinks = sinks_of(body, signature);
  const std::vector<bool> needed = needed_by(body, sinks);
  const std::optional<Domain> domain = domain_of(body, sinks, needed, target);
  if (!domain) return {};
  const std::vector<bool> own = own_elements(body, needed);
  const std::vector<bool> kept = reduced(body, needed);
  std::vector<InPlace> pairs;
  for (size_t o = signature.leading; o < signature.args.size(); ++o) {
    const TensorType& out = signature.args[o].type;
    if (out.shape.numel() != domain->numel) continue;
    for (size_t i = 0; i < signature.leading; ++i) {
      const Argument& in = signature.args[i];
      if (body.def(in.value).kind != OpKind::input || !needed[in.value.index]) continue;
      if (in.type.shape.numel() != domain->numel || !own[in.value.index]) continue;
      if (domain->reduces && !kept[in.value.index]) continue;
      if (size_of(in.type.dtype) != size_of(out.dtype)) continue;
      pairs.push_back({static_cast<uint32_t>(o), static_cast<uint32_t>(i)});
    }
  }
  return pairs;
}

}  // namespace braid::kernels
