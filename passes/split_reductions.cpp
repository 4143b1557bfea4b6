#include "passes/split_reductions.hpp"

#include <bit>
#include <optional>
#include <vector>

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

/// One kernel more costs as much as a block takes for so many elements.
constexpr int64_t kLongRow = 1 << 15;
/// Blocks for each SM, and elements for each block.
constexpr int64_t kBlocksPerSm = 2;
constexpr int64_t kShortestPart = 1 << 10;

/// A reduction of [outer, length, inner] along the middle, in that many parts.
struct Split {
  int64_t outer, length, inner;
  int64_t parts;
};

/// The divisor of `length` that is nearest to `wanted` by their ratio; 1 if there is no other that
/// leaves parts long enough.
int64_t parts_of(int64_t length, int64_t wanted) {
  int64_t best = 1;
  const auto off = [&](int64_t d) {
    return d < wanted ? static_cast<double>(wanted) / static_cast<double>(d)
                      : static_cast<double>(d) / static_cast<double>(wanted);
  };
  for (int64_t d = 2; d <= 8 * wanted && length / d >= kShortestPart; ++d) {
    if (length % d == 0 && off(d) < off(best)) best = d;
  }
  return best;
}

std::optional<Split> split_of(const ir::Graph& graph, const ir::Op& op, const Target& target) {
  if (op.kind != OpKind::reduce || op.outside) return {};
  const uint32_t axes = std::get<ir::ReduceAttr>(op.attrs).axes;
  const std::vector<int64_t> extents = graph.type(op.operands[0]).shape.extents();
  if (axes == 0 || graph.type(op.operands[0]).shape.numel() == 0) return {};
  const auto first = static_cast<size_t>(std::countr_zero(axes));
  const auto end = static_cast<size_t>(std::bit_width(axes));
  if (static_cast<size_t>(std::popcount(axes)) != end - first) return {};  // others in between
  Split s{1, 1, 1, 1};
  for (size_t i = 0; i < extents.size(); ++i) {
    (i < first ? s.outer : i < end ? s.length : s.inner) *= extents[i];
  }
  const int64_t rows = s.outer * s.inner;
  if (s.length < kLongRow || 2 * rows > target.sms) return {};
  s.parts = parts_of(s.length, kBlocksPerSm * target.sms / rows);
  if (s.parts == 1) return {};
  return s;
}

/// Adds ops that stand for one of another graph.
class Parts {
 public:
  Parts(ir::Graph& to, const ir::Graph& from, const ir::Op& op) : to_(to), from_(from), op_(op) {}

  ValueId reduced(ValueId x, const Split& s) {
    const TensorType result = from_.type(op_.result);
    const bool narrow = result.dtype == DType::f16 || result.dtype == DType::bf16;
    const DType dtype = narrow ? DType::f32 : result.dtype;
    const Fn fn = std::get<ir::ReduceAttr>(op_.attrs).fn;
    x = add(OpKind::view, ir::ViewAttr{ir::ViewKind::reshape}, x,
            {result.dtype, Shape{s.outer, s.parts, s.length / s.parts, s.inner}});
    if (narrow) {
      x = add(OpKind::map, ir::MapAttr{Fn::cast}, x, {dtype, to_.type(x).shape});
    }
    x = add(OpKind::reduce, ir::ReduceAttr{fn, 0b100}, x,
            {dtype, Shape{s.outer, s.parts, s.inner}});
    x = add(OpKind::reduce, ir::ReduceAttr{fn, 0b10}, x, {dtype, Shape{s.outer, s.inner}});
    if (narrow) x = add(OpKind::map, ir::MapAttr{Fn::cast}, x, {result.dtype, to_.type(x).shape});
    return add(OpKind::view, ir::ViewAttr{ir::ViewKind::reshape}, x, result);
  }

 private:
  ValueId add(OpKind kind, ir::Attrs attrs, ValueId x, TensorType type) {
    return to_.add({kind, std::move(attrs), {x}, std::move(type), op_.name, op_.loc});
  }

  ir::Graph& to_;
  const ir::Graph& from_;
  const ir::Op& op_;
};

}  // namespace

void split_reductions(ir::Graph& graph, const Target& target) {
  bool any = false;
  for (const ir::Op& op : graph.ops()) any = any || split_of(graph, op, target);
  if (!any) return;
  ir::Graph split(graph.name);
  split.strings = graph.strings;
  split.dims = graph.dims;
  split.repeats = graph.repeats;
  std::vector<ValueId> to(graph.values().size());
  for (uint32_t i = 0; i < graph.ops().size(); ++i) {
    const ir::Op& op = graph.ops()[i];
    if (const std::optional<Split> s = split_of(graph, op, target)) {
      to[op.result.index] = Parts(split, graph, op).reduced(to[op.operands[0].index], *s);
      continue;
    }
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(to[v.index]);
    map_results(to, op, split.clone_op(graph, ir::OpId{i}, std::move(operands)));
  }
  for (const ir::Output& o : graph.outputs) {
    split.outputs.push_back({o.name, to[o.value.index], o.loc});
  }
  graph = std::move(split);
}

}  // namespace braid
