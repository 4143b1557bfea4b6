// One evaluation per op kind, on wide tensors of static types.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "ir/tensor.hpp"

namespace braid::ir {

WideTensor interpret_literal(const Literal& literal);
WideTensor interpret_iota(const TensorType& type, int axis);
WideTensor interpret_map(Fn fn, const std::vector<const WideTensor*>& operands,
                         const TensorType& type);
/// Folds as a balanced tree, so that the reference's own rounding stays far below any dtype's.
WideTensor interpret_reduce(Fn fn, const WideTensor& x, uint32_t axes, const TensorType& type);
/// Operands as they are: whether a tf32 dot's are rounded is the caller's choice.
WideTensor interpret_dot(const WideTensor& a, const WideTensor& b, const DotAttr& attr,
                         const TensorType& type);
WideTensor interpret_view(const WideTensor& x, const ViewAttr& attr, const TensorType& type);
WideTensor interpret_concat(const std::vector<const WideTensor*>& xs, int axis,
                            const TensorType& type);
WideTensor interpret_gather(const WideTensor& x, const WideTensor& indices, int axis,
                            const TensorType& type);
WideTensor interpret_scatter(const WideTensor& x, const WideTensor& indices,
                             const WideTensor& updates, const ScatterAttr& attr);
/// The rows where the b1 mask holds, in order, then rows of zeros; and how many hold, i32[].
std::pair<WideTensor, WideTensor> interpret_compact(const WideTensor& mask, const WideTensor& rows);
/// The state with `value` written at the clamped starts.
WideTensor interpret_update(const WideTensor& state, const WideTensor& value,
                            std::vector<int64_t> starts);
/// Rounds floats to the dtype's values. Integers are within their dtype at all times.
void round_to_dtype(WideTensor& t);
/// The f32 values as a tf32 product reads them.
WideTensor rounded_to_tf32(WideTensor t);

}  // namespace braid::ir
