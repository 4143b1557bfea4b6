// A CUDA driver without a GPU: same calls and rules, memory on the host and poisoned, graphs run
// node by node in a random order that their edges allow, kernels evaluated by the interpreter.
// What it proves is wiring and plan: kernel text is tested on a GPU alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "runtime/driver.hpp"

namespace braid::runtime {

struct SimOptions {
  uint64_t seed = 1;         // of the order in which ready nodes run; advances with every launch
  bool report_races = true;  // conflicting accesses that no path of edges orders fail the launch
  /// What tensors and the interpreter may take. 0: what the machine has free, at most 64 GiB.
  uint64_t memory_bytes = 0;
  /// A WHILE that runs its body more often fails the launch: it would never end.
  uint64_t most_iterations = 10'000'000;
};

class Simulator : public Driver {
 public:
  /// What went wrong inside launches since the last call: races, out-of-bounds accesses, reads of
  /// poison. Each also made a stream call return an error.
  virtual std::vector<std::string> take_reports() = 0;
  /// Allocations, contexts, libraries, graphs, executables, streams and events not given back.
  virtual int64_t live_objects() const = 0;
  virtual void set_options(const SimOptions& options) = 0;
};

std::shared_ptr<Simulator> make_simulator(const SimOptions& options = {});

/// The simulator's "cubin": the module's kernels as records. cuLibraryLoadData of the simulator
/// takes nothing else.
std::vector<std::byte> simulator_image(const Program& program, uint32_t module);

/// The same of all library kernels, which belong to no module: to the simulator each is a kernel
/// that evaluates its body.
std::vector<std::byte> simulator_library_image(const Program& program);

}  // namespace braid::runtime
