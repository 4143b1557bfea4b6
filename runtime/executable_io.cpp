#include <fmt/format.h>

#include <algorithm>

#include "ir/diagnostic.hpp"
#include "runtime/executable_impl.hpp"

namespace braid {
namespace {

using runtime::Current;

template <class T>
const T* find(const std::vector<T>& bindings, std::string_view name) {
  for (const T& b : bindings) {
    if (b.name == name) return &b;
  }
  return nullptr;
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& bindings) {
  std::vector<std::string> names;
  for (const T& b : bindings) names.push_back(b.name);
  return names;
}

/// Scalars are neither bound nor given to run.
void refuse_scalar(const Program& program, std::string_view name) {
  if (!find(program.scalars, name)) return;
  throw_error("E0820",
              fmt::format("'{}' of program '{}' is a runtime scalar: use set", name, program.name));
}

void check_type(std::string_view name, const TensorType& expected, const HostTensor& value) {
  if (value.type != expected) {
    throw_error("E0825", fmt::format("'{}' is {}, the given value is {}", name, to_string(expected),
                                     to_string(value.type)));
  }
  if (static_cast<int64_t>(value.bytes.size()) != expected.bytes()) {
    throw_error("E0825", fmt::format("'{}' has {} bytes, the given value holds {}", name,
                                     expected.bytes(), value.bytes.size()));
  }
}

}  // namespace

uint32_t Executable::Impl::buffer_named(std::string_view name, bool input_first) const {
  const auto& first = input_first ? program.inputs : program.outputs;
  const auto& second = input_first ? program.outputs : program.inputs;
  if (const Binding* b = find(first, name)) return b->buffer;
  if (const Binding* b = find(second, name)) return b->buffer;
  refuse_scalar(program, name);
  std::vector<std::string> known = names_of(program.inputs);
  for (std::string& output : names_of(program.outputs)) known.push_back(std::move(output));
  throw_error("E0820", fmt::format("program '{}' has no input or output '{}'", program.name, name),
              suggest(name, known));
}

void Executable::Impl::check_binding(std::string_view name, uint32_t buffer, DevicePtr address,
                                     int64_t bytes) const {
  constexpr DevicePtr kAlignment = 16;
  const Buffer& b = program.buffers[buffer];
  if (bytes != b.bytes) {
    throw_error("E0821", fmt::format("'{}' is {} and takes {} bytes, {} are bound", name,
                                     to_string(b.type), b.bytes, bytes));
  }
  if (address == 0) throw_error("E0822", fmt::format("the address bound to '{}' is null", name));
  if (address % kAlignment != 0) {
    throw_error("E0823", fmt::format("the address {:#x} bound to '{}' is not a multiple of {}",
                                     address, name, kAlignment));
  }
  const auto refuse_overlap = [&](DevicePtr start, int64_t size, const std::string& what) {
    const auto end = start + static_cast<DevicePtr>(size);
    if (address < end && start < address + static_cast<DevicePtr>(bytes)) {
      throw_error("E0824", fmt::format("the {} bytes at {:#x} bound to '{}' overlap {} at {:#x}",
                                       bytes, address, name, what, start));
    }
  };
  refuse_overlap(arena.get(), program.arena_bytes, "the executable's arena");
  refuse_overlap(scalars.get(), program.scalar_bytes, "the executable's scalars");
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& other = program.buffers[i];
    const bool bound = other.segment == Segment::input || other.segment == Segment::output;
    if (i != buffer && bound) {
      refuse_overlap(bases[i], other.bytes,
                     fmt::format("{} '{}'", name_of(other.segment), other.name));
    }
  }
  const std::lock_guard lock(store.impl()->mutex);
  for (const auto& [param_name, param] : store.impl()->params) {
    refuse_overlap(param.memory->get(), param.type.bytes(),
                   fmt::format("param '{}' of the store", param_name));
  }
  if (placement.constants) {
    refuse_overlap(placement.constants->get(), static_cast<int64_t>(program.constants.size()),
                   "the program's constants");
  }
}

void Executable::Impl::copy_in(uint32_t buffer, const HostTensor& value) {
  if (value.bytes.empty()) return;
  context->check(context->driver->cuMemcpyHtoDAsync(bases[buffer], value.bytes.data(),
                                                    value.bytes.size(), stream.get()),
                 "cuMemcpyHtoDAsync", program.buffers[buffer].name);
}

HostTensor Executable::Impl::copy_out(uint32_t buffer) const {
  HostTensor value(program.buffers[buffer].type);
  if (value.bytes.empty()) return value;
  context->check(context->driver->cuMemcpyDtoHAsync(value.bytes.data(), bases[buffer],
                                                    value.bytes.size(), stream.get()),
                 "cuMemcpyDtoHAsync", program.buffers[buffer].name);
  return value;
}

void Executable::bind(std::string_view name, DevicePtr address, int64_t bytes) {
  const Current current(impl_->context);
  const auto lock = impl_->enter();
  const uint32_t buffer = impl_->buffer_named(name, true);
  impl_->check_binding(name, buffer, address, bytes);
  impl_->rebind(buffer, address);
}

void Executable::set(std::string_view name, ScalarValue value) {
  const Program& program = impl_->program;
  const ScalarBinding* scalar = find(program.scalars, name);
  if (!scalar) {
    throw_error("E0820", fmt::format("program '{}' has no runtime scalar '{}'", program.name, name),
                suggest_or_list(name, names_of(program.scalars)));
  }
  HostTensor t(program.buffers[scalar->buffer].type);
  const bool is_double = std::holds_alternative<double>(value.value);
  bool exact = true;
  if (is_double) {
    const double x = std::get<double>(value.value);
    t.set(0, x);
    // As a double, the largest i64 is 2^63, which it is not.
    exact = is_float(t.type.dtype) || (t.at(0) == x && x < 0x1p63);
  } else {
    const int64_t x = std::get<int64_t>(value.value);
    if (is_float(t.type.dtype)) {
      t.set(0, static_cast<double>(x));
    } else {
      t.set_int(0, x);
      exact = t.int_at(0) == x;
    }
  }
  if (!exact) {
    throw_error("E0827",
                fmt::format("the runtime scalar '{}' is {}, which cannot hold {}", name,
                            name_of(t.type.dtype),
                            std::visit([](auto x) { return fmt::format("{}", x); }, value.value)));
  }
  runtime::InHostCall::refuse();
  const auto lock = impl_->enter();
  impl_->put_scalar(scalar->buffer, t);
}

TensorType Executable::type(std::string_view name) const {
  if (const ScalarBinding* s = find(impl_->program.scalars, name)) {
    return impl_->program.buffers[s->buffer].type;
  }
  return impl_->program.buffers[impl_->buffer_named(name, true)].type;
}

DevicePtr Executable::address(std::string_view name) const {
  runtime::InHostCall::refuse();
  const auto lock = impl_->enter();
  return impl_->bases[impl_->buffer_named(name, true)];
}

std::map<std::string, HostTensor> Executable::run(const std::map<std::string, HostTensor>& inputs,
                                                  LaunchMode mode) {
  const Program& program = impl_->program;
  for (const auto& [name, value] : inputs) {
    if (!find(program.inputs, name)) {
      refuse_scalar(program, name);
      throw_error("E0820", fmt::format("program '{}' has no input '{}'", program.name, name),
                  suggest_or_list(name, names_of(program.inputs)));
    }
  }
  for (const Binding& input : program.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) {
      throw_error("E0826",
                  fmt::format("input '{}' of program '{}' is not given", input.name, program.name));
    }
    check_type(input.name, program.buffers[input.buffer].type, given->second);
  }
  std::map<std::string, HostTensor> outputs;
  runtime::Ring::LaunchPtr launch;
  runtime::Mailbox::LaunchPtr exchanged;
  {
    const Current current(impl_->context);
    const auto lock = impl_->enter();
    impl_->on_own_stream([&] {
      for (const Binding& input : program.inputs) {
        impl_->copy_in(input.buffer, inputs.at(input.name));
      }
      impl_->enqueue(impl_->stream.get(), mode);
      for (const Binding& output : program.outputs) {
        outputs.emplace(output.name, impl_->copy_out(output.buffer));
      }
    });
    launch = impl_->launched;
    exchanged = impl_->exchanged;
    impl_->context->drain();
  }
  if (impl_->mailbox) impl_->mailbox->finish(*exchanged);
  if (impl_->ring) impl_->ring->finish(*launch);
  if (impl_->mailbox) impl_->mailbox->rethrow(*exchanged);
  if (impl_->ring) impl_->ring->rethrow(*launch);
  return outputs;
}

void Executable::write(std::string_view name, const HostTensor& value) {
  const Current current(impl_->context);
  const auto lock = impl_->enter();
  const uint32_t buffer = impl_->buffer_named(name, true);
  check_type(name, impl_->program.buffers[buffer].type, value);
  impl_->on_own_stream([&] { impl_->copy_in(buffer, value); });
}

HostTensor Executable::read(std::string_view name) const {
  const Current current(impl_->context);
  const auto lock = impl_->enter();
  const uint32_t buffer = impl_->buffer_named(name, false);
  HostTensor value;
  impl_->on_own_stream([&] { value = impl_->copy_out(buffer); });
  return value;
}

void Executable::poison() {
  const Current current(impl_->context);
  const auto lock = impl_->enter();
  const auto fill = [&](CUdeviceptr at, int64_t bytes) {
    if (bytes == 0) return;
    impl_->context->check(impl_->context->driver->cuMemsetD8Async(
                              at, 0xFF, static_cast<size_t>(bytes), impl_->stream.get()),
                          "cuMemsetD8Async", "poison");
  };
  impl_->on_own_stream([&] {
    fill(impl_->arena.get(), impl_->program.arena_bytes);
    for (const Binding& output : impl_->program.outputs) {
      fill(impl_->bases[output.buffer], impl_->program.buffers[output.buffer].bytes);
    }
  });
}

std::vector<Message> Executable::take_messages() {
  if (!impl_->ring) return {};
  impl_->ring->drain();
  return impl_->ring->take_messages();
}

uint64_t Executable::dropped_messages() const {
  if (!impl_->ring) return 0;
  RingControl control;
  {
    const Current current(impl_->context);
    const auto lock = impl_->enter();
    impl_->on_own_stream([&] {
      impl_->context->check(
          impl_->context->driver->cuMemcpyDtoHAsync(&control, impl_->ring->control(),
                                                    sizeof control, impl_->stream.get()),
          "cuMemcpyDtoHAsync", "ring of " + impl_->program.name);
    });
  }
  impl_->ring->drain();
  return impl_->ring->dropped() + control.dropped;
}

}  // namespace braid
