// Inputs that change from launch to launch, kept on the device. This header does not include
// cuda.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.hpp"
#include "runtime/executable.hpp"

namespace braid::runtime {

/// How a launch gets its inputs.
enum class Feed : uint8_t {
  same,  // what is bound stays
  bind,  // Executable::bind to memory that holds them: no copy
  copy,  // a copy on the device into the memory that was bound when the sets were made
};

/// Several values for all inputs of an executable. It must outlive this, and launches that were
/// given any must be done before this goes. Then, and where values are copied, the inputs are bound
/// as they were when it was made.
class InputSets {
 public:
  /// Copies the sets to the device: one at least, each with every input in the program's type.
  /// Throws CudaError, and InternalError for other sets.
  InputSets(Executable& executable, const std::vector<std::map<std::string, HostTensor>>& sets);
  ~InputSets();
  InputSets(const InputSets&) = delete;
  InputSets& operator=(const InputSets&) = delete;

  size_t size() const;
  /// Gives the next launch on `stream`, which is no nullptr, the inputs of `set`, modulo the number
  /// of sets. Copies are enqueued on the stream; with Feed::same nothing is done.
  void give(size_t set, Feed how, Stream stream);
  /// Poisons, gives, launches, waits; the outputs.
  std::map<std::string, HostTensor> run(size_t set, Feed how, LaunchMode mode = LaunchMode::graph);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid::runtime
