// The reference interpreter: the oracle for every pass, every kernel and the simulator.
#pragma once

#include <map>
#include <string>

#include "ir/graph.hpp"
#include "ir/host.hpp"
#include "ir/tensor.hpp"

namespace braid::ir {

enum class Rounding : uint8_t {
  wide,   // floats stay double between ops, but for cast and iota, which round to their dtype:
          // the reference that results are compared with
  dtype,  // every op's result is rounded to its dtype
};

/// Named tensors. For `interpret`: inputs by name in, params in and out, outputs out.
using TensorMap = std::map<std::string, WideTensor>;

/// Evaluates a static graph in op order. `params` must hold every param; on return it holds the
/// last version of each. Integers wrap to their dtype after every op; integer division or
/// remainder by zero gives 0; float to integer casts saturate and map NaN to 0; gather and update
/// clamp their indices. Throws Error when an input is missing or has another type.
///
/// Host ops call `functions` in op order, with arguments rounded to their dtypes; Error E0806 for a
/// function that is not there.
TensorMap interpret(const Graph& graph, const TensorMap& inputs, TensorMap& params,
                    Rounding rounding = Rounding::wide, const HostFunctions& functions = {});

/// The most bytes of tensors that interpret() holds at one time besides `inputs` and `params`, or
/// INT64_MAX if they are more than that. The graph must be static.
int64_t interpret_bytes(const Graph& graph);

}  // namespace braid::ir
