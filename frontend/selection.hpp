// Ops whose size the device decides: buffers with room for everything, and counts of what is in
// them. Nothing here breaks a graph: the host learns a count by Graph::item, or in a host function.
#pragma once

#include "frontend/builder.hpp"

namespace braid {

/// What the device decides the size of: the first `count` (i32[]) rows are those that were chosen,
/// in order, and zeros stand behind them.
struct Selected {
  Tensor values, count;
};
/// The rows x[i] where mask[i] holds: b1[n] and T[n, ..] give T[n, ..].
Selected compact(In mask, In x);
/// Indices of the elements that are not 0, row-major: i32[elements of x, rank of x].
Selected nonzero(In x);
/// The same, of x as one axis: i32[elements of x].
Selected flatnonzero(In x);
/// The elements of x where the mask holds, row-major; both broadcast. T[elements].
Selected masked_select(In x, In mask);
struct Unique {
  Tensor values;   // [elements of x], sorted, zeros behind the first `count`
  Tensor count;    // i32[]
  Tensor inverse;  // i32[elements of x]: where in `values` each element of x stands
};
/// Each element is compared with each, without memory for it: n * n for at most kMaxUnique elements
/// (where n is a symbol, that is up to its user). -0.0 equals 0.0, and the first of both stays.
/// NaNs come last, each a value of its own.
Unique unique(In x);
inline constexpr int64_t kMaxUnique = 16384;
/// b1 of that shape: whether the index along the axis is below the count, an i32 or i64 of shape
/// [].
Tensor valid(In count, std::vector<DimArg> shape, int axis = 0);
/// Over the first `count` (i32 or i64 of shape []) elements along the axis; the others are 0, as is
/// everything where there is none, or none but -inf.
Tensor softmax(In x, int axis, In count);
// Sums, means and so on over the first elements of an axis: ReduceOpts::count. What gathers by
// indices of nonzero needs no count: behind it they are 0, which every axis has.

}  // namespace braid
