// The type rules that the op table points at.
#pragma once

#include "ir/op.hpp"

namespace braid::ir {

TypeAnswer type_input(const TypeQuery& q);
TypeAnswer type_param(const TypeQuery& q);
TypeAnswer type_read(const TypeQuery& q);
TypeAnswer type_assign(const TypeQuery& q);
TypeAnswer type_update(const TypeQuery& q);
TypeAnswer type_constant(const TypeQuery& q);
TypeAnswer type_iota(const TypeQuery& q);
TypeAnswer type_map(const TypeQuery& q);
TypeAnswer type_reduce(const TypeQuery& q);
TypeAnswer type_dot(const TypeQuery& q);
TypeAnswer type_view(const TypeQuery& q);
TypeAnswer type_concat(const TypeQuery& q);
TypeAnswer type_gather(const TypeQuery& q);
TypeAnswer type_scatter(const TypeQuery& q);
TypeAnswer type_host(const TypeQuery& q);
/// Branches and loops follow from their bodies: see region.hpp.
TypeAnswer type_region(const TypeQuery& q);
TypeAnswer type_send(const TypeQuery& q);
/// Those of kernels and library calls are declared: see code_op.hpp.
TypeAnswer type_code(const TypeQuery& q);
TypeAnswer type_compact(const TypeQuery& q);

}  // namespace braid::ir
