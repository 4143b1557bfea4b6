// The reference interpreter: the oracle for every pass, every kernel and the simulator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

/// What a `send` gives the host. A check is one only if its count is not 0.
struct Message {
  MessageKind kind = MessageKind::print;
  std::string text;
  std::string op;  // the name of the send
  Place place;
  uint32_t id = 0;  // SendAttr::id
  WideTensor value;
  std::vector<int64_t> iterations;  // of the loops around it, outermost first
};

/// What else a run of the interpreter gives, and what it may cost.
struct Observed {
  std::vector<Message> messages;  // in the order of the sends; a failed check ends nothing
  /// Evaluations of ops and beginnings of iterations that are left. Error E0807 where they end.
  uint64_t steps = UINT64_MAX;
};

/// Evaluates a static graph in op order. `params` must hold every param of the Store; on return it
/// holds the last version of each. Integers wrap to their dtype after every op; integer division or
/// remainder by zero gives 0; float to integer casts saturate and map NaN to 0; gather and update
/// clamp their indices. Throws Error when an input is missing or has another type.
///
/// Host ops call `functions` in op order, with arguments rounded to their dtypes; Error E0806 for a
/// function that is not there.
///
/// Branches and loops of either form: see region.hpp. A local without a value holds NaN or bytes of
/// 0xab, so that a read before the first assign is seen. Of the graph's own params that are none of
/// the Store's,
/// - a local that `params` holds is one of the Store's here: so a kernel's body gets it, and gives
///   its last version;
/// - a handle that is assigned, and decides no branch or loop here, is in `params` on return;
/// - a ring needs nothing in `params` and leaves nothing there: what is sent is in `observed`. A
///   check that holds is not, also where its send ends the launch.
TensorMap interpret(const Graph& graph, const TensorMap& inputs, TensorMap& params,
                    Rounding rounding = Rounding::wide, const HostFunctions& functions = {},
                    Observed* observed = nullptr);

/// The most bytes of tensors that interpret() holds at one time besides `inputs` and `params`, or
/// INT64_MAX if they are more than that. The graph must be static.
int64_t interpret_bytes(const Graph& graph);

}  // namespace braid::ir
