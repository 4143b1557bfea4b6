#include "passes/fuse_paths.hpp"

#include <fmt/format.h>

#include <cstring>

#include "passes/kernels/index.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

bool is_path(const ir::Op& op) { return op.kind == OpKind::view || op.kind == OpKind::read; }

void append(std::string& key, int64_t x) {
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  key.append(bytes, sizeof x);
}

void append(std::string& key, const Shape& shape) {
  append(key, shape.rank());
  for (Dim d : shape) append(key, d.value());
}

}  // namespace

Domain Domain::of(const Shape& shape, uint32_t axes) {
  Domain domain{1, 1, {}, shape};
  bool any = false;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t extent = shape[i].value();
    const bool reduced = axes >> i & 1;
    domain.full *= extent;
    if (!reduced) domain.rows *= extent;
    if (extent == 1) continue;
    any = any || reduced;
    if (!domain.axes.empty() && domain.axes.back().reduced == reduced) {
      domain.axes.back().extent *= extent;
    } else {
      domain.axes.push_back({extent, reduced});
    }
  }
  if (!any) domain.axes.clear();
  return domain;
}

bool Paths::is_identity(ValueId v) {
  const int64_t elements = graph_.type(v).shape.numel();
  bool only_reshapes = true;
  ValueId at = v;
  for (; is_path(graph_.def(at)); at = graph_.def(at).operands[0]) {
    const auto* view = std::get_if<ir::ViewAttr>(&graph_.def(at).attrs);
    only_reshapes = only_reshapes && (!view || view->kind == ir::ViewKind::reshape);
  }
  if (only_reshapes) return true;
  return graph_.type(at).shape.numel() == elements && remembered(v, nullptr);
}

bool Paths::is_row_broadcast(ValueId v, const Domain& domain) {
  ValueId at = v;
  while (is_path(graph_.def(at))) at = graph_.def(at).operands[0];
  return at != v && domain.reduced() && graph_.type(at).shape.numel() == domain.rows &&
         graph_.type(v).shape.numel() == domain.full && remembered(v, &domain);
}

bool Paths::remembered(ValueId v, const Domain* rows) {
  key_.clear();
  append(key_, graph_.type(v).shape);
  for (ValueId at = v; is_path(graph_.def(at)); at = graph_.def(at).operands[0]) {
    const ir::Op& op = graph_.def(at);
    if (op.kind == OpKind::read) break;
    const ir::ViewAttr& view = std::get<ir::ViewAttr>(op.attrs);
    append(key_, static_cast<int64_t>(view.kind));
    append(key_, graph_.type(op.operands[0]).shape);
    for (int64_t x : view.a) append(key_, x);
    for (int64_t x : view.b) append(key_, x);
  }
  if (rows) {
    for (const Domain::Axis& axis : rows->axes)
      append(key_, axis.reduced ? -axis.extent : axis.extent);
  }
  key_.push_back(rows ? 'r' : 'i');
  const auto known = known_.find(key_);
  if (known != known_.end()) return known->second;
  const bool answer = evaluate(v, rows);
  known_.emplace(key_, answer);
  return answer;
}

bool Paths::evaluate(ValueId v, const Domain* rows) const {
  kernels::IndexPool pool;
  std::vector<int64_t> extents = graph_.type(v).shape.extents();
  kernels::At at;
  for (size_t i = 0; i < extents.size(); ++i) {
    at.push_back(pool.variable(fmt::format("i{}", i), extents[i]));
  }
  kernels::Index wanted = kernels::linearize(pool, at, extents);
  for (; is_path(graph_.def(v)); v = graph_.def(v).operands[0]) {
    const ir::Op& op = graph_.def(v);
    if (op.kind == OpKind::read) continue;
    at = kernels::through_view(pool, std::get<ir::ViewAttr>(op.attrs), graph_.type(op.operands[0]),
                               graph_.type(v), at);
  }
  const kernels::Index found = kernels::linearize(pool, at, graph_.type(v).shape.extents());
  if (rows) {
    std::vector<int64_t> domain_extents, row_extents;
    for (const Domain::Axis& axis : rows->axes) {
      domain_extents.push_back(axis.extent);
      if (!axis.reduced) row_extents.push_back(axis.extent);
    }
    const kernels::At in_domain = kernels::delinearize(pool, wanted, domain_extents);
    kernels::At in_row;
    for (size_t i = 0; i < in_domain.size(); ++i) {
      if (!rows->axes[i].reduced) in_row.push_back(in_domain[i]);
    }
    wanted = kernels::linearize(pool, in_row, row_extents);
  }
  return found == wanted;
}

}  // namespace braid
