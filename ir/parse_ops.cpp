#include "ir/parse_ops.hpp"

namespace braid::ir {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpInfo& i : op_table()) {
    if (i.kind != OpKind::map && i.kind != OpKind::reduce && i.kind != OpKind::view) {
      names.emplace_back(i.name);
    }
  }
  for (int k = 0; k < 4; ++k) names.emplace_back(name_of(static_cast<ViewKind>(k)));
  for (const ScalarInfo& f : scalar_functions()) {
    names.emplace_back(f.name);
    if (!f.combiner) continue;
    names.push_back("reduce_" + std::string(f.name));
    names.push_back("scatter_" + std::string(f.name));
  }
  return names;
}

bool find_op(std::string_view name, Graph::NewOp& op) {
  for (int k = 0; k < 4; ++k) {
    if (name == name_of(static_cast<ViewKind>(k))) {
      op.kind = OpKind::view;
      op.attrs = ViewAttr{static_cast<ViewKind>(k), {}, {}};
      return true;
    }
  }
  if (const auto fn = fn_from_name(name)) {
    op.kind = OpKind::map;
    op.attrs = MapAttr{*fn};
    return true;
  }
  if (name.starts_with("reduce_")) {
    const auto fn = fn_from_name(name.substr(7));
    if (!fn) return false;
    op.kind = OpKind::reduce;
    op.attrs = ReduceAttr{*fn, 0};
    return true;
  }
  if (name.starts_with("scatter_")) {
    const auto fn = fn_from_name(name.substr(8));
    if (!fn) return false;
    op.kind = OpKind::scatter;
    op.attrs = ScatterAttr{0, fn};
    return true;
  }
  const auto kind = op_kind_from_name(name);
  if (!kind || *kind == OpKind::map || *kind == OpKind::reduce || *kind == OpKind::view) {
    return false;
  }
  op.kind = *kind;
  if (op.kind == OpKind::dot) op.attrs = DotAttr{};
  if (op.kind == OpKind::param) op.attrs = ParamAttr{};
  if (op.kind == OpKind::iota || op.kind == OpKind::concat || op.kind == OpKind::gather) {
    op.attrs = AxisAttr{};
  }
  if (op.kind == OpKind::scatter) op.attrs = ScatterAttr{};
  if (op.kind == OpKind::host) op.attrs = HostAttr{};
  if (op.kind == OpKind::branch) op.attrs = BranchAttr{};
  if (op.kind == OpKind::loop) op.attrs = LoopAttr{.body = kNoBody};
  if (op.kind == OpKind::send) op.attrs = SendAttr{};
  if (op.kind == OpKind::kernel) op.attrs = KernelAttr{};
  if (op.kind == OpKind::library) op.attrs = LibraryAttr{};
  return true;
}

}  // namespace braid::ir
