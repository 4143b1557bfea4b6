#include "runtime/store.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/diagnostic.hpp"
#include "runtime/check_program.hpp"

namespace braid {
namespace {

using runtime::Current;
using runtime::MarkPtr;
using runtime::OwnedMemory;

/// What a param holds before anybody sets it.
HostTensor initial_value(const ParamBinding& param, const TensorType& type, uint64_t seed) {
  switch (param.init) {
    case ir::Init::normal:
      return random_tensor(type, seed, param.name, param.scale);
    case ir::Init::zeros:
      return HostTensor(type);
    case ir::Init::ones: {
      HostTensor ones(type);
      for (int64_t i = 0; i < ones.numel(); ++i) ones.set(i, 1.0);
      return ones;
    }
  }
  throw InternalError("a param has an unknown init");
}

/// Allocates and fills; done when it returns. The bytes are asked for when the device has room for
/// them. The context must be current.
template <class Bytes>
std::shared_ptr<OwnedMemory> make_filled(Store::Impl& store, int64_t size, const Bytes& make_bytes,
                                         const std::string& what) {
  auto memory = std::make_shared<OwnedMemory>(runtime::allocate(store.context, size, what));
  const std::vector<std::byte>& bytes = make_bytes();
  if (!bytes.empty()) {
    store.context->check(store.context->driver->cuMemcpyHtoDAsync(memory->get(), bytes.data(),
                                                                  bytes.size(), store.stream.get()),
                         "cuMemcpyHtoDAsync", what);
    store.context->check(store.context->driver->cuStreamSynchronize(store.stream.get()),
                         "cuStreamSynchronize", what);
  }
  return memory;
}

std::vector<std::string> param_names(const Store::Impl& store) {
  std::vector<std::string> names;
  for (const auto& [name, param] : store.params) names.push_back(name);
  return names;
}

}  // namespace

Store::Impl::Impl(Device on)
    : device(std::move(on)),
      context(device.context()),
      events(std::make_shared<runtime::EventPool>(context)) {
  const Current current(context);
  stream = runtime::make_stream(context);
}

void Store::Impl::order(CUstream on, bool writes, CUstream own) {
  const auto wait = [&](const MarkPtr& mark) {
    if (!mark || (own && on == own && mark->stream == own)) return;
    context->check(context->driver->cuStreamWaitEvent(on, mark->event(), 0), "cuStreamWaitEvent");
  };
  wait(writer);
  if (!writes) return;
  for (const auto& [reader, mark] : readers) wait(mark);
}

void Store::Impl::launched(const void* reader, bool writes, const MarkPtr& mark) {
  if (writes) {
    writer = mark;
    readers.clear();
  } else {
    readers[reader] = mark;
  }
}

void Store::Impl::undeclare(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = params.find(name);
    if (found != params.end() && found->second.memory.use_count() == 1) params.erase(found);
  }
}

Store::Impl::Param& Store::Impl::find(std::string_view name) {
  const auto found = params.find(name);
  if (found == params.end()) {
    throw_error("E0810", fmt::format("the store has no param '{}'", name),
                suggest(name, param_names(*this)));
  }
  return found->second;
}

Placement declare(Store::Impl& store, const Program& program, uint64_t seed) {
  Placement placement;
  try {
    for (const ParamBinding& param : program.params) {
      const TensorType& type = program.buffers.at(param.buffer).type;
      auto found = store.params.find(param.name);
      if (found == store.params.end()) {
        auto memory = make_filled(
            store, type.bytes(), [&] { return initial_value(param, type, seed).bytes; },
            "param " + param.name);
        found = store.params.emplace(param.name, Store::Impl::Param{type, memory}).first;
        placement.declared.push_back(param.name);
      } else if (found->second.type != type) {
        throw_error(
            "E0811",
            fmt::format("program '{}' declares param '{}' as {}, the store holds it as {}",
                        program.name, param.name, to_string(type), to_string(found->second.type)));
      }
      placement.params.push_back(found->second.memory);
    }
    if (!program.constants.empty()) {
      const XXH128_hash_t hash = XXH3_128bits(program.constants.data(), program.constants.size());
      auto& held = store.constants[{program.constants.size(), {hash.high64, hash.low64}}];
      placement.constants = held.lock();
      if (!placement.constants) {
        placement.constants = make_filled(
            store, static_cast<int64_t>(program.constants.size()),
            [&]() -> const std::vector<std::byte>& { return program.constants; },
            "constants of " + program.name);
        held = placement.constants;
      }
    }
  } catch (...) {
    placement.params.clear();
    store.undeclare(placement.declared);
    throw;
  }
  return placement;
}

Store::Store(const Device& device) : impl_(std::make_shared<Impl>(device)) {}

void Store::declare(const Program& program, uint64_t seed) {
  runtime::check_program(program);
  const Current current(impl_->context);
  const std::lock_guard lock(impl_->mutex);
  braid::declare(*impl_, program, seed);
}

void Store::set(std::string_view name, const HostTensor& value) {
  const Current current(impl_->context);
  const std::lock_guard lock(impl_->mutex);
  const Impl::Param& param = impl_->find(name);
  if (value.type != param.type) {
    throw_error("E0812", fmt::format("param '{}' is {}, the given value is {}", name,
                                     to_string(param.type), to_string(value.type)));
  }
  if (value.bytes.empty()) return;
  const std::string what = fmt::format("param {}", name);
  impl_->order(impl_->stream.get(), true, nullptr);
  impl_->context->check(
      impl_->context->driver->cuMemcpyHtoDAsync(param.memory->get(), value.bytes.data(),
                                                value.bytes.size(), impl_->stream.get()),
      "cuMemcpyHtoDAsync", what);
  impl_->context->check(impl_->context->driver->cuStreamSynchronize(impl_->stream.get()),
                        "cuStreamSynchronize", what);
}

HostTensor Store::get(std::string_view name) const {
  const Current current(impl_->context);
  const std::lock_guard lock(impl_->mutex);
  const Impl::Param& param = impl_->find(name);
  HostTensor value(param.type);
  if (value.bytes.empty()) return value;
  const std::string what = fmt::format("param {}", name);
  impl_->order(impl_->stream.get(), false, nullptr);
  impl_->context->check(
      impl_->context->driver->cuMemcpyDtoHAsync(value.bytes.data(), param.memory->get(),
                                                value.bytes.size(), impl_->stream.get()),
      "cuMemcpyDtoHAsync", what);
  impl_->context->check(impl_->context->driver->cuStreamSynchronize(impl_->stream.get()),
                        "cuStreamSynchronize", what);
  return value;
}

std::vector<std::string> Store::names() const {
  runtime::InHostCall::refuse();
  const std::lock_guard lock(impl_->mutex);
  return param_names(*impl_);
}

const Device& Store::device() const { return impl_->device; }

DevicePtr Store::address(std::string_view name) const {
  runtime::InHostCall::refuse();
  const std::lock_guard lock(impl_->mutex);
  return impl_->find(name).memory->get();
}

}  // namespace braid
