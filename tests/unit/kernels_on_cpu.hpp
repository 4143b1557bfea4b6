// Runs emitted CUDA text on the CPU: the C++ compiler builds it behind a small shim, every block
// runs its threads as fibers, and barriers and shuffles are real. It proves the text's arithmetic,
// indices and barriers; the GPU's memory order and speed it does not show.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/tensor.hpp"
#include "kernels_kit.hpp"
#include "passes/kernels/family.hpp"

namespace braid::test {

class OnCpu {
 public:
  /// Emits and compiles all cases as one library. Throws std::runtime_error with the compiler's
  /// output if that fails.
  explicit OnCpu(const std::vector<KernelCase>& cases);
  ~OnCpu();
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

  /// One launch over the arguments in the order of Family::emit, written in place. Every argument
  /// lies against a page that traps. Throws std::runtime_error for a barrier that not all threads
  /// reach. Where `in_place` says so a result has the bytes of an operand.
  /// For a handle the argument is the place of its value, and for a guarded kernel the last one is
  /// the guard's. Of a kernel that calls a host function the last two are parts of the mailbox.
  void run(const KernelCase& c, std::vector<HostTensor>& args,
           const std::vector<InPlace>& in_place = {}) const;
  /// How often handles were set since the last time.
  unsigned take_sets() const;

 private:
  void* library_ = nullptr;
  std::map<std::string, LaunchShape> launches_;
  std::set<std::string> of_clusters_;  // kernels
};

}  // namespace braid::test
