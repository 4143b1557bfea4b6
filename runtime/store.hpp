// Inside the runtime: what a Store holds, and how launches that use it are ordered.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/context.hpp"
#include "runtime/device.hpp"

namespace braid {

/// Every member function expects `mutex` to be held and the context to be current.
struct Store::Impl {
  struct Param {
    TensorType type;
    std::shared_ptr<runtime::OwnedMemory> memory;
  };
  /// Size and 128-bit hash of a program's constants.
  using ContentKey = std::pair<size_t, std::pair<uint64_t, uint64_t>>;

  explicit Impl(Device on);

  /// Makes `stream` wait for the launches that must come first: the last writer of params, and for
  /// a writer also the readers since. `own` is a stream that lives as long as the caller; what the
  /// caller recorded there needs no wait.
  void order(CUstream stream, bool writes, CUstream own);
  /// Remembers a launch after it was enqueued; `reader` tells executables apart.
  void launched(const void* reader, bool writes, const runtime::MarkPtr& mark);
  /// Forgets a reader that has no launch in flight.
  void forget(const void* reader) { readers.erase(reader); }
  /// Gives back those of `names` that nobody else holds: what a failed build had declared.
  void undeclare(const std::vector<std::string>& names);
  Param& find(std::string_view name);

  Device device;
  runtime::ContextPtr context;
  std::mutex mutex;
  std::shared_ptr<runtime::EventPool> events;
  runtime::OwnedStream stream;
  std::map<std::string, Param, std::less<>> params;
  /// By content, so that programs with equal constants share them.
  std::map<ContentKey, std::weak_ptr<runtime::OwnedMemory>> constants;
  runtime::MarkPtr writer;
  std::map<const void*, runtime::MarkPtr> readers;
};

/// Where a program finds its params and constants; holding it keeps them alive.
struct Placement {
  std::vector<std::shared_ptr<runtime::OwnedMemory>> params;  // in Program::params' order
  std::shared_ptr<runtime::OwnedMemory> constants;            // null if the program has none
  std::vector<std::string> declared;                          // names that are new in the store
};
/// Store::declare, with the places. On failure the store is as before.
Placement declare(Store::Impl& store, const Program& program, uint64_t seed);

}  // namespace braid
