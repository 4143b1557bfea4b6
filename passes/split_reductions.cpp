#include "passes/split_reductions.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

/// A block that reads so many elements takes clearly longer than one kernel more.
constexpr int64_t kMuchForABlock = 1 << 16;
/// Where rows lie apart in memory a block takes so many neighbouring ones (row_reduce.cpp).
constexpr int64_t kRowsApart = 32;
/// What users of the result read besides may keep so many SMs busy as it is.
constexpr int64_t kIdleShare = 4;
constexpr int64_t kBlocksPerSm = 2;
constexpr int64_t kLeastForABlock = 1 << 10;

/// A reduction of [outer, length, inner] along the middle, in that many parts.
struct Split {
  int64_t outer, length, inner;
  int64_t parts;
};

/// The divisor of `length` that is nearest to `wanted` by their ratio; 1 if there is no other that
/// leaves parts of `shortest` elements.
int64_t parts_of(int64_t length, int64_t wanted, int64_t shortest) {
  int64_t best = 1;
  const auto off = [&](int64_t d) {
    return d < wanted ? static_cast<double>(wanted) / static_cast<double>(d)
                      : static_cast<double>(d) / static_cast<double>(wanted);
  };
  for (int64_t d = 2; d <= 8 * wanted && length / d >= shortest; ++d) {
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
  const int64_t rows = s.outer * s.inner, of_block = s.inner == 1 ? 1 : kRowsApart;
  if (kIdleShare * ((rows + of_block - 1) / of_block) > target.sms) return {};
  if (s.length < kMuchForABlock / std::min(rows, of_block)) return {};
  s.parts =
      parts_of(s.length, kBlocksPerSm * target.sms * of_block / rows, kLeastForABlock / of_block);
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
