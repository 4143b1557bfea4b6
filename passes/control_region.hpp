// A branch or loop on its way through the control pass, and what it becomes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/control_inline.hpp"
#include "passes/control_price.hpp"

namespace braid {

/// A branch or loop of the value form whose operands are in the draft and whose bodies are lowered.
struct ValueRegion {
  std::string name;               // scoped, or the op's kind
  ir::Loc loc;                    // in the draft's terms
  std::vector<ir::ValueId> args;  // the operands that are arguments; a loop's carried values first
  std::vector<ir::Graph> bodies;  // a loop: the body, then the condition if it has one
  size_t lead = 0;                // arguments of the bodies before those: a loop's number
  size_t carried = 0;             // of a loop: leading args, and leading outputs of the body
  std::vector<bool> wanted;       // by output of the first body: whether somebody takes the result
  std::vector<bool> written;      // by argument: state of which a body makes a version
  // By what was there before clean_region(): what stays, and under which number.
  std::vector<uint32_t> argument_of;  // the argument that stands for it now, or kNone
  std::vector<uint32_t> output_of;    // the output that gives it now, or kNone
  std::vector<ir::ValueId> same;      // by output: the value outside that it always is

  static constexpr uint32_t kNone = UINT32_MAX;
  size_t arguments() const { return lead + args.size(); }
  /// An empty graph for a body that does what body `b` does, whose ops stand for the region.
  Draft draft(const Draft& outer, size_t b) const;
};

/// Makes it as small as can be without knowing how it is lowered: results that nobody wants or that
/// are what they were outside go; captured numbers, iotas and views are computed in the bodies,
/// tables in them outside; arguments are used, and each value is one; state that no body writes is
/// read outside.
void clean_region(Draft& to, ValueRegion& region, const Options& options);

/// What a region becomes: by output, and by argument its newest version.
struct Lowered {
  std::vector<ir::ValueId> outputs, versions;
};

/// All bodies, and of each result and version that of the one which `index`, in range, selects.
Lowered select_branch(Draft& to, const ValueRegion& region, ir::ValueId index);
/// Body `taken` alone.
Lowered take_branch(Draft& to, const ValueRegion& region, size_t taken);
/// An op of the effect form.
Lowered keep_branch(Draft& to, const ValueRegion& region, ir::ValueId index, ir::Lowering lowering,
                    std::string_view why);

struct LoopPlan {
  ir::Lowering lowering = ir::Lowering::node;
  std::optional<int64_t> limit{};
  int64_t copies = 1;  // of the body in one run of what repeats
  std::string why;
};
/// The loop as copies of its body in a row, each behind a predicate if it has a condition; or as an
/// op of the effect form.
Lowered lower_loop(Draft& to, const ValueRegion& region, const LoopPlan& plan);

/// The lowering of a branch, and why: by price, or `asked` where that can be.
std::pair<ir::Lowering, std::string> choose_branch(const ValueRegion& region, bool two_way,
                                                   ir::Lowering asked, const Draft& to,
                                                   const Options& options);
/// The same for a loop. `copies`: of the body in one run of a WHILE; 0 for as many as pay.
LoopPlan choose_loop(const ValueRegion& region, std::optional<int64_t> limit, ir::Lowering asked,
                     int64_t copies, const Options& options);

}  // namespace braid
