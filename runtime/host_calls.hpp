// Inside the runtime: the host functions that an executable's script calls.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ir/host.hpp"
#include "ir/program.hpp"
#include "runtime/context.hpp"

namespace braid::runtime {

/// Owns page-locked memory for the arguments and results of every call, so that copies do not block
/// the host, and events for both. A call may be made again and again, by a loop or by launches that
/// follow one another: its memory is used again when the copies before are over. Used by one thread
/// at a time.
class HostCalls {
 public:
  using AddressOf = std::function<CUdeviceptr(uint32_t view)>;

  HostCalls() = default;
  /// Throws Error E0806 for a function that is not there. The context must be current, here and
  /// below, and `program` must outlive the object.
  HostCalls(const ContextPtr& context, const Program& program, const HostFunctions& functions);

  /// Step::read .. Step::write of one call. `call` throws Error E0850 with what the function threw,
  /// or if it changed the number, a type or the size of its results.
  void read(uint32_t call, CUstream stream, const AddressOf& address_of);
  void wait(uint32_t call);
  void call(uint32_t call);
  void write(uint32_t call, CUstream stream, const AddressOf& address_of);

 private:
  struct Place {
    std::vector<size_t> arguments, results;  // offsets in memory_
    OwnedEvent there;                        // the arguments
    OwnedEvent taken;                        // the results
    std::shared_ptr<HostFunction> function;  // one for all its calls: it may have a state
    std::vector<TensorType> types;           // of the results
    std::vector<HostTensor> given, made;     // what the function gets; new memory costs page faults
  };
  std::byte* at(size_t offset) const { return static_cast<std::byte*>(memory_.get()) + offset; }

  ContextPtr context_;
  const Program* program_ = nullptr;
  OwnedHostMemory memory_;
  std::vector<Place> places_;  // by call
};

}  // namespace braid::runtime
