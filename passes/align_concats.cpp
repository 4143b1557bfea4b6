#include "passes/align_concats.hpp"

#include <utility>
#include <vector>

namespace braid {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

constexpr int64_t kVectorBytes = 16;
/// Rows or columns of the other operand, below which too few read an element again to pay for a
/// concat that gathers across rows.
constexpr int64_t kLeastReaders = 64;

class Aligner {
 public:
  explicit Aligner(ir::Graph& graph) : graph_(graph), transposed_(graph.ops().size(), false) {}

  void run() {
    const std::vector<std::vector<OpId>> users = graph_.users();
    std::vector<bool> is_output(graph_.values().size(), false);
    for (const ir::Output& o : graph_.outputs) is_output[o.value.index] = true;
    bool any = false;
    for (const ir::Op& op : graph_.ops()) {
      if (op.kind != OpKind::dot || op.outside || op.operands[0] == op.operands[1]) continue;
      for (const ValueId v : op.operands) {
        if (is_output[v.index] || users[v.index].size() != 1 || !gains(op, v)) continue;
        transposed_[graph_.value(v).def.index] = true;
        any = true;
      }
    }
    if (any) rebuild();
  }

 private:
  bool gains(const ir::Op& dot, ValueId v) const {
    const ir::Op& op = graph_.def(v);
    if (op.kind != OpKind::concat || op.outside) return false;
    const TensorType& type = graph_.type(v);
    const std::vector<int64_t> extents = type.shape.extents();
    const int64_t columns = extents.back(), rows = extents[extents.size() - 2];
    const int64_t bytes = size_of(type.dtype);
    if (columns * bytes % kVectorBytes == 0 || rows * bytes % kVectorBytes != 0) return false;
    const std::vector<int64_t> result = graph_.type(dot.result).shape.extents();
    return result[result.size() - (v == dot.operands[0] ? 1 : 2)] >= kLeastReaders;
  }

  void rebuild() {
    ir::Graph out(graph_.name);
    out.strings = graph_.strings;
    out.dims = graph_.dims;
    out.repeats = graph_.repeats;
    std::vector<ValueId> to(graph_.values().size());
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) {
      const ir::Op& op = graph_.ops()[i];
      std::vector<ValueId> operands;
      for (const ValueId v : op.operands) operands.push_back(to[v.index]);
      if (transposed_[i]) {
        to[op.result.index] = concat(out, op, operands);
      } else if (op.kind == OpKind::dot) {
        to[op.result.index] = dot(out, op, std::move(operands));
      } else {
        map_results(to, op, out.clone_op(graph_, OpId{i}, std::move(operands)));
      }
    }
    for (const ir::Output& o : graph_.outputs) {
      out.outputs.push_back({o.name, to[o.value.index], o.loc});
    }
    graph_ = std::move(out);
  }

  ValueId dot(ir::Graph& out, const ir::Op& op, std::vector<ValueId> operands) const {
    auto attr = std::get<ir::DotAttr>(op.attrs);
    attr.ta = attr.ta != transposed(op.operands[0]);
    attr.tb = attr.tb != transposed(op.operands[1]);
    ir::Graph::NewOp copy{op.kind, attr, std::move(operands), std::nullopt, op.name, op.loc};
    copy.take_types(graph_, op);
    copy.outside = op.outside;
    return out.add(std::move(copy));
  }

  bool transposed(ValueId v) const { return transposed_[graph_.value(v).def.index]; }

  static ValueId concat(ir::Graph& out, const ir::Op& op, const std::vector<ValueId>& operands) {
    std::vector<ValueId> turned;
    int rank = 0;
    for (const ValueId v : operands) {
      rank = out.type(v).shape.rank();
      const auto last = static_cast<size_t>(rank - 1);
      ir::ViewAttr view{ir::ViewKind::transpose};
      for (size_t k = 0; k <= last; ++k) view.a[k] = static_cast<int64_t>(k);
      std::swap(view.a[last], view.a[last - 1]);
      turned.push_back(out.add({OpKind::view, view, {v}, std::nullopt, op.name, op.loc}));
    }
    int axis = std::get<ir::AxisAttr>(op.attrs).axis;
    if (axis >= rank - 2) axis = axis == rank - 1 ? rank - 2 : rank - 1;
    return out.add(
        {OpKind::concat, ir::AxisAttr{axis}, std::move(turned), std::nullopt, op.name, op.loc});
  }

  ir::Graph& graph_;
  std::vector<bool> transposed_;  // by op: concats that are made transposed
};

}  // namespace

void align_concats(ir::Graph& graph) { Aligner(graph).run(); }

}  // namespace braid
