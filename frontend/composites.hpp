// What the composites share: places, widening, checks of operands.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "frontend/builder_impl.hpp"

namespace braid::composites {

/// Operands at the place of the op that they stand in for: `const At at{w}; at(x) + at(1.0)`.
struct At {
  const Where& where;
  In operator()(Tensor t) const { return In(t, where); }
  In operator()(double x) const { return In(x, where); }
};

inline bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }
inline bool is_index(DType t) { return t == DType::i32 || t == DType::i64; }
inline Tensor widened(Tensor x, const At& at) { return is_half(x.dtype()) ? cast(at(x), f32) : x; }

/// Whether x is a tensor of floats; an error otherwise.
bool need_floats(const In& x, std::string_view op);
/// A poison tensor of the operand's graph.
Tensor poison(const In& x);
/// `row` is x without `axis`: the same values along it again. A broadcast view straight from the
/// reduced shape, so that fusion sees one domain.
Tensor along(Tensor row, Tensor x, int axis, const At& at);
/// b1 of that shape: whether the index along the axis is below the count. Poison after an error,
/// which speaks of `op`.
Tensor within(Tensor count, const Shape& shape, int axis, std::string_view op, const At& at);
/// A reduction with ReduceOpts::count.
Tensor counted_reduce(Fn combiner, const In& x, ReduceOpts o, std::string_view op);

}  // namespace braid::composites
