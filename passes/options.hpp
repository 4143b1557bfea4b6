// What can be set from outside, and the one record that a compilation passes from pass to pass.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.hpp"

namespace braid {

/// One step of long work: "kernels", 3 of 17. Return false to cancel.
using Progress = std::function<bool(std::string_view phase, int64_t step, int64_t total)>;

/// How f32 matrix products are computed.
enum class Math : uint8_t {
  strict,  // in f32
  tf32,    // by tensor cores, operands rounded to 10 bits of mantissa, sums in f32
};
std::string_view name_of(Math m);

/// Who computes matrix products.
enum class Dots : uint8_t {
  automatic,  // cuBLASLt where the measured table of sizes says that it is faster
  braid,      // our kernels alone
  cublaslt,   // cuBLASLt wherever it can
};
std::string_view name_of(Dots d);

/// What compile does where an op stands outside graphs.
enum class OnBreak : uint8_t { allow, warn, error };
std::string_view name_of(OnBreak b);

struct Options {
  Target target{};
  Math math = Math::strict;
  DimTable::Bindings dims{};
  int streams = 8;     // upper bound on concurrently running nodes
  bool fuse = true;    // off: one kernel per op
  bool chain = true;   // off: a kernel has one matrix product, and no reduction beside it
  bool group = true;   // off: like kernels that are ready together are launched one by one
  bool reuse = true;   // off: no two temporaries share bytes
  bool reduce = true;  // off: keep edges that others imply
  bool split = true;   // off: a row of a reduction is one block's, however long it is
  bool pdl = true;     // off: every kernel starts when those before it have ended
  bool simplify = true;
  // What becomes of branches (select, predicate, node, host) and loops (unroll, node, host) that
  // ask for nothing themselves. One that cannot be lowered so is lowered as `automatic` would.
  ir::Lowering branches = ir::Lowering::automatic;
  ir::Lowering loops = ir::Lowering::automatic;
  /// How host functions are called that ask for nothing themselves.
  ir::HostWay host = ir::HostWay::automatic;
  Dots dots = Dots::automatic;
  int unroll = 0;               // copies of the body in one iteration of a WHILE node; 0: by price
  int64_t unroll_limit = 4096;  // kernels that a loop may become when it is unrolled by price
  // Keep what `streams` allows even where fewer are predicted to be as fast: for measurements.
  bool force_lanes = false;
  OnBreak on_break = OnBreak::allow;
  bool require_single_graph = false;  // throw Error unless one graph holds everything
  int64_t memory_limit = 0;           // bytes of the arena; 0: none
  bool verify = false;  // run the verifier after every pass and the checker at the end
  std::string dump_dir{};
  Progress progress{};
};
/// The settings that shape a plan, one line, for Program::options and cache keys.
std::string to_string(const Options& o);

}  // namespace braid
