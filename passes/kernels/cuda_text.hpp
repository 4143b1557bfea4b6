// CUDA spelling of types, literals, casts and kernel heads.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "passes/kernels/family.hpp"

namespace braid::kernels {

/// Thrown while a kernel is being written: the family cannot compute this body. Family::refuses
/// catches it; out of Family::emit it is an error of whoever asked for the kernel.
struct Refusal : InternalError {
  explicit Refusal(const std::string& why)
      : InternalError("a kernel cannot be written: " + why), reason(why) {}
  std::string reason;  // one sentence
};

/// Thrown while a kernel is being written: no launch can be that large. The model's fault, not
/// ours.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;  // one clause: "it would take ..."
};

/// The type of an element in memory ("braid_bf16") and in a register ("float").
std::string_view storage_type(DType t);
std::string_view register_type(DType t);
/// "int" if all of [0, extent) and a block more fits, else "long long".
std::string_view index_type(int64_t extent);

/// The register value of a memory element, and what to assign to a memory element.
std::string load_text(DType t, std::string_view memory);
std::string store_text(DType t, std::string_view value);
/// A literal of the register type; `f` counts for floats, `i` for the rest.
std::string literal_text(DType t, double f, int64_t i);
std::string literal_text(const ir::Literal& splat);
std::string cast_text(DType from, DType to, std::string_view x);
/// The table's text for `fn` on operands of dtype `t` (for select, the dtype of its choices).
std::string function_text(Fn fn, DType t, const std::vector<std::string>& operands);

/// A lambda that combines two register values of the dtype by `fn`.
std::string combine_text(Fn fn, DType t);

struct Argument {
  enum class Sort : uint8_t { memory, handle, ring };
  std::string name;   // a0.. inputs, s0.. params, r0.. outputs
  ir::ValueId value;  // the input's, the param's first state, or the output
  TensorType type;
  Sort sort = Sort::memory;
  bool in_place = false;  // may have the bytes of another argument
  bool fixed = false;     // may be read before the kernel waits
};

/// The kernel's arguments in the order of Family::emit. The text is written for one part,
/// in terms of `args`; kernel_text has the block pick its part's.
struct Signature {
  explicit Signature(const ir::Graph& body, const Use& use = {});
  /// What the family allows.
  void set_in_place(const std::vector<InPlace>& pairs);
  /// The argument that an input or param stands for.
  size_t arg_of(ir::ValueId v) const;

  std::vector<Argument> args;    // of one part
  uint32_t parts = 1;            // that share the device
  size_t leading = 0;            // inputs and params; the rest are outputs
  bool writes_in_place = false;  // a param in memory
  std::optional<Guard> guard;
  bool waits = false;
  std::vector<std::string> trailing{};  // declarations of more arguments, behind all others
};

/// The whole function: the body's .bir as a comment, the head, `lines` indented by their depth.
/// With several parts it takes "p0_a0", "p0_r0", "p1_a0", ... and begins by choosing among them by
/// a branch that is the same for all threads of a block; an array of pointers would be local
/// memory. A guarded one begins by leaving. `bounds` is its __launch_bounds__: the block's threads,
/// and perhaps the least blocks per SM; `cluster` how many blocks in a row form one.
std::string kernel_text(const ir::Graph& body, const Signature& signature, std::string_view symbol,
                        std::string_view bounds, const std::vector<std::string>& lines,
                        int64_t cluster = 1);

/// Where the kernel waits for those before it, if it waits: once, all threads of all blocks. What
/// stands before reads fixed arguments alone. A guarded kernel has waited already. From there on
/// those behind it may start: earlier, they and those behind them in turn would take room from
/// what runs. An encoder took 77 us a step in place of 89, a decoder 188 in place of 227.
std::string_view wait_line();

/// A launch of `blocks` blocks of `threads` for each part. Throws TooLarge beyond the hardware's
/// limit.
LaunchShape launch_of(const Signature& signature, int64_t blocks, uint32_t threads);
/// The kernel for a body that has nothing to write.
Emitted empty_kernel(const ir::Graph& body, const Signature& signature, std::string_view symbol);

}  // namespace braid::kernels
