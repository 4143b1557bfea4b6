// A device and what is allocated on it. This header does not include cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.hpp"
#include "ir/tensor.hpp"

struct CUstream_st;

namespace braid {

namespace runtime {
class Driver;
struct Context;  // driver + primary context + device facts, reference counted
}  // namespace runtime

using DevicePtr = unsigned long long;
using Stream = CUstream_st*;  // CUDA's own stream; nullptr is the executable's own stream

/// A GPU, or the simulator. Cheap to copy.
class Device {
 public:
  /// "auto" (a GPU if there is one, else the simulator), "sim", or a device number "0".
  /// Throws NoDevice if a number is asked for and cannot be had.
  static Device open(std::string_view which = "auto");
  /// A device behind any driver table; for tests.
  static Device on(std::shared_ptr<runtime::Driver> driver, int ordinal = 0);

  bool simulated() const;
  std::string name() const;
  /// What to compile for; the default Target for the simulator.
  Target target() const;
  /// Why "auto" chose the simulator; empty otherwise.
  std::string note() const;
  const std::shared_ptr<runtime::Context>& context() const { return context_; }

 private:
  std::shared_ptr<runtime::Context> context_;
};

/// Weights and state on one device, shared by executables. Copies share the same tensors.
class Store {
 public:
  explicit Store(const Device& device);
  /// Allocates what the program needs and is not there yet; a param that another program declared
  /// with another type is an Error. On failure the store is as before. New params are filled by
  /// their init, `seed` and name.
  void declare(const Program& program, uint64_t seed = 1);
  /// Replaces or reads a param's value. Throws Error for an unknown name or another type.
  void set(std::string_view name, const HostTensor& value);
  HostTensor get(std::string_view name) const;
  std::vector<std::string> names() const;
  const Device& device() const;
  /// Where a param lives. Throws Error for an unknown name.
  DevicePtr address(std::string_view name) const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace braid
