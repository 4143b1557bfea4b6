// How long each kernel of a program takes by itself. This header does not include cuda.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executable.hpp"

namespace braid::runtime {

/// One kernel of a program.
struct KernelTime {
  uint32_t kernel = 0;    // of Program::kernels
  uint32_t uses = 0;      // nodes that are this kernel
  uint32_t launches = 0;  // in the chain; 0 if it is left out
  double us = 0;          // of a launch in the chain, with its edge; 0 on the simulator
  std::string left_out;   // why it has no time: a clause
};

/// The program with one body for each kernel that can be timed, in place of its own: a chain by
/// full edges of at least `launches` launches, which go through the nodes that are this kernel, in
/// turn and each as often, on the memory of these nodes. So weights are no warmer in the caches
/// than where a model uses the kernel again and again. For each body its entry in `times`, which
/// becomes one for each kernel that has nodes, in the program's order; left out are kernels with a
/// guard, those that send messages, set a handle or call the host, host nodes, libraries, and code
/// of the user's whose arguments do not keep what it expects: memory of temporaries is shared.
Program chains_of(const Program& program, uint32_t launches, std::vector<KernelTime>& times);

/// Launches `executable` once, then each chain again and again, `seconds` in all. On the simulator
/// each chain runs once, with every node in it once. The program's state moves on, and nobody else
/// may use the store or the executable meanwhile. Throws CudaError, and what Ticket::wait throws.
std::vector<KernelTime> time_kernels(Executable& executable, double seconds);

}  // namespace braid::runtime
